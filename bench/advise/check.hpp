// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "bench/advise/exhaustive.hpp"
#include "bench/advise/problem.hpp"

namespace rubato::bench {

/// A search beside an exhaustive one of the same candidates, rates and seeds.
struct comparison_with_all {
  std::string scenario{};
  std::string advised{}, best{};  ///< labels; empty where nobody got there
  double advised_rate = 0, best_rate = 0;
  double excess = 0;    ///< the advised arm's median time over the best one's, less 1; infinite where only one is empty
  std::uint64_t cost = 0;
  std::uint64_t exhaustive_cost = 0;
  std::uint64_t exhaustive_cost_with_cuts = 0;
  /// Candidates whose best arm's median is within `tolerance` of the best one's: between these the choice is free.
  std::size_t equals = 0;

  static constexpr double tolerance = 0.02;
  /// Neither search found anything: that says nothing of either.
  [[nodiscard]] bool nobody() const { return advised.empty() && best.empty(); }
  [[nodiscard]] bool same_choice() const { return !nobody() && advised == best; }
  /// The same choice, or one that is as good: by the exhaustive search's medians within the tolerance.
  [[nodiscard]] bool agrees() const { return !nobody() && (same_choice() || excess <= tolerance); }
};

[[nodiscard]] comparison_with_all compare_with_all(problem& p);

/// Draws scenarios as `settings.check` says, from its seed on, and searches each both ways.
[[nodiscard]] std::vector<comparison_with_all> check_on_random_scenarios(advise_settings const& settings);

/// One row for each scenario, and counts.
[[nodiscard]] std::string check_text(std::vector<comparison_with_all> const& all);
[[nodiscard]] nlohmann::ordered_json check_json(std::vector<comparison_with_all> const& all);

}  // namespace rubato::bench
