// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/testing/text.hpp"

namespace rubato::testing {

/// What is wrong, a sentence each; empty: nothing was found.
using sentences = std::vector<std::string>;

namespace detail {

/// Collects sentences; the tenth is the last, for one mistake usually breaks a rule everywhere.
class findings {
 public:
  /// Returns whether it was good.
  template <class... Parts>
  bool expect(bool good, Parts const&... what) {
    if (!good && list_.size() < 10) list_.push_back(text(what...));
    return good;
  }
  [[nodiscard]] sentences take() { return std::move(list_); }

 private:
  sentences list_;
};

[[nodiscard]] inline std::vector<clock_index> sample_clocks() {
  std::vector<clock_index> clocks;
  for (std::int64_t c = 0; c <= 20; ++c) clocks.emplace_back(c);
  for (std::int64_t const c : {1'000LL, 1'000'000LL, 1LL << 40}) clocks.emplace_back(c);
  return clocks;
}

/// From little to much, up to a bound.
[[nodiscard]] inline std::vector<staleness> sample_staleness(staleness bound) {
  std::vector<staleness> all;
  for (std::int64_t const s : {0, 1, 2, 3, 5, 10, 100})
    if (staleness(s) < bound) all.emplace_back(s);
  all.push_back(bound);
  return all;
}

}  // namespace detail

}  // namespace rubato::testing
