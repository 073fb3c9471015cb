// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include <rubato/core/rare.hpp>
#include <rubato/testing/trial.hpp>

#include "seeds.hpp"

/// What searches through seeds under faults say of themselves.
namespace rubato::test {

/// What has happened in all trials of a search.
class search_tally {
 public:
  void add(testing::trial_result const& r) {
    ++trials_;
    harmful_ += r.harmful ? 1 : 0;
    well_ += std::ranges::all_of(r.ends, [](auto const& e) { return e.failure.empty(); }) ? 1 : 0;
    for (std::size_t f = 0; f < testing::fault_kinds; ++f) {
      times_[f] += r.faults[f];
      in_[f] += r.faults[f] != 0 ? 1 : 0;
    }
  }
  /// Trials in which something happened that may cost a process.
  [[nodiscard]] std::uint64_t harmful() const noexcept { return harmful_; }
  /// Those in which all ended well.
  [[nodiscard]] std::uint64_t well() const noexcept { return well_; }
  [[nodiscard]] std::uint64_t times(testing::fault f) const { return times_[static_cast<std::size_t>(f)]; }

  /// A line for each kind of fault: how often, and in how many trials.
  [[nodiscard]] std::string text(std::string_view what) const {
    std::string all = fmt::format("{}: {} trials, {} of them with harm; all ended well in {}\n", what, trials_,
                                  harmful_, well_);
    for (std::size_t f = 0; f < testing::fault_kinds; ++f)
      all += fmt::format("{:<12} {:>9} in {:>8} trials\n", testing::to_string(static_cast<testing::fault>(f)),
                         times_[f], in_[f]);
    return all;
  }
  /// Prints this where --faults asks for it.
  void tell(std::string_view what) const {
    if (!options().faults) return;
    std::fputs(text(what).c_str(), stdout);
    std::fflush(stdout);
  }

 private:
  std::uint64_t trials_ = 0;
  std::uint64_t harmful_ = 0;
  std::uint64_t well_ = 0;
  std::array<std::uint64_t, testing::fault_kinds> times_{};
  std::array<std::uint64_t, testing::fault_kinds> in_{};
};

/// Whose rare paths a search is for.
enum class paths_of { peers, others };

/// Of these marks those that the search should have reached and has not, by name.
[[nodiscard]] inline std::vector<std::string> never_reached(std::vector<rare_count> const& marks, paths_of whose) {
  std::vector<std::string> missing;
  for (rare_count const& mark : marks)
    if (mark.what.starts_with("peers: ") == (whose == paths_of::peers) && mark.times == 0)
      missing.emplace_back(mark.what);
  return missing;
}

}  // namespace rubato::test
