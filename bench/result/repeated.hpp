// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/result/run_result.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {

/// The runs of one protocol, equal but for what the machine or the seed made of them.
struct repeated {
  std::vector<run_result> rounds;  ///< in their order; at least one

  [[nodiscard]] std::string const& label() const { return rounds.front().label; }
  /// The run in place `share` of the way from the best to the worst, 0 to 1: always one of them, so that its curve
  /// goes with its time. The median is the one at 0.5, of an even number the better one in the middle.
  [[nodiscard]] run_result const& at(double share) const;
  [[nodiscard]] run_result const& middle() const { return at(0.5); }
  /// Whether there is more than one run and all came out alike: nothing in them was drawn.
  [[nodiscard]] bool is_always_the_same() const;
};

/// How often one protocol was ahead of another, round by round, for in a round both met the same state of the machine,
/// or the same data.
struct lead {
  std::size_t wins = 0;
  std::size_t losses = 0;
  /// Of a two-sided sign test on the rounds that one of them won, which asks nothing of how times are distributed;
  /// 1 where `a` won no more than `b`, and 0 where no round of either differs from the others: then chance has no part.
  double p_value = 1;
};
[[nodiscard]] lead lead_of(repeated const& a, repeated const& b);

/// From here on a lead may be chance: the level of the tests.
constexpr double p_value_max = 0.05;
/// With fewer rounds no lead is decisive, for of five won out of five the test says 0.06.
constexpr std::size_t rounds_min = 6;

/// By their middle runs, best first.
[[nodiscard]] std::vector<repeated> ranked(std::vector<repeated> protocols);
/// Their middle runs, in order.
[[nodiscard]] std::vector<run_result> middle_runs(std::span<repeated const> protocols);
/// All their runs, one protocol after the other.
[[nodiscard]] std::vector<run_result> all_rounds(std::span<repeated const> protocols);

/// The table of the middle runs, and where there are several rounds, the quartiles of the time to the target and how
/// often each was behind the first, with the test's p-value.
[[nodiscard]] text_table comparison_table(std::span<repeated const> best_first);

/// Which protocol wins, how sure that is, and why. It wins where the lead on each other is decisive; else the sentence
/// is that there is no difference between these. That it had to be chosen from all needs no correction: were they all
/// alike, some one of n would win every round with probability n^(1 - rounds), no more than what the test of two says.
[[nodiscard]] std::string verdict(std::span<repeated const> best_first);

}  // namespace rubato::bench
