// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "bench/advise/candidate.hpp"

namespace rubato::bench {

/// How candidates are searched.
struct search_options {
  std::vector<double> rates;   ///< that each candidate is tried at
  std::size_t seeds = 5;       ///< that decide, and as many others that tell how sure the decision is
  double first_deadline = 1;   ///< seconds of the first round's runs; > 0
  double keep = 0.5;           ///< share of the arms that a round of the race keeps
  double slack = 1.5;          ///< an arm is too late after so many times the best one's time
  std::size_t lanes = 1;       ///< runs side by side
  std::function<void(std::string const&)> progress{};  ///< is told what is being done; may be empty
};

/// One round: arms that ran, and what became of them.
struct search_round {
  std::size_t seed = 0;   ///< the first
  std::size_t seeds = 1;  ///< from there on
  double deadline = 0;  ///< in seconds; infinite where there was none
  std::size_t runs = 0;
  std::uint64_t cost = 0;      ///< local steps
  std::size_t diverged = 0;    ///< arms dropped because the objective was no number any more
  std::size_t ended = 0;       ///< … because their runs ended above the target
  std::size_t behind = 0;      ///< … because others had come lower in the same time
  std::size_t late = 0;        ///< … because others had reached the target so much sooner
  std::size_t readmitted = 0;  ///< were behind, and got another chance as nobody, or no runner-up, was left
  std::size_t arrived = 0;     ///< reached the target
  std::vector<std::string> gone{};  ///< candidates that lost their last arm in it
};

/// An arm of the last rounds, and its runs: those of seeds 0, 1, … as far as it went.
struct finalist {
  arm what;
  std::vector<run_result> runs{};

  /// Of the times to the target; a run that was cut off as too late counts as infinite.
  [[nodiscard]] double median_seconds() const;
};

/// The winner and the runner-up on seeds that had no part in the choice, each to the target.
struct duel {
  std::vector<run_result> winner{};
  std::vector<run_result> runner_up{};
};

/// What came of a search.
struct search_result {
  /// The best arm of each candidate that reached the target in time: the winner first, by their median; of equals
  /// the one that comes first in the list. Those that went on over all seeds come before those that did not.
  std::vector<finalist> finalists{};
  std::vector<search_round> rounds{};
  duel last{};
  /// Where nobody reached the target: the run that came lowest.
  std::optional<run_result> lowest{};

  [[nodiscard]] std::uint64_t cost() const;  ///< in local steps
};

/// Finds the candidate and rate with the least time to the target, as the median over seeds: where rates are searched,
/// at a small part of what running everything costs. With one rate for each candidate there is little to save, and the
/// new seeds come on top.
///
/// 1. A race on seed 0, by successive halving (Jamieson and Talwalkar, AISTATS 2016): all arms run for a short
///    time, those that came lowest by then twice as long, and so on, until some reach the target. The best arm of
///    each candidate stays in, for a protocol may begin slowly. From then on the best time sets the deadline. With
///    one rate nothing is halved: the first in the list that reaches the target sets the deadline of all others.
/// 2. Those that came in time run on the other seeds, one seed after the other, and leave when their median lags
///    behind (racing: Maron and Moore, NIPS 1993).
/// 3. The two that are left run on as many new seeds.
///
/// Deterministic; deadlines follow from whole rounds, so the number of lanes changes nothing.
/// @throws option_error for no candidates, rates or seeds, and for a first deadline that is not above 0
[[nodiscard]] search_result search(std::span<candidate const> candidates,
                                   search_options const& options);

}  // namespace rubato::bench
