// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "bench/reproduce/flexps.hpp"

/// How the FlexPS paper's experiments set degrees: at the best by trying, while the task runs, at random, and
/// at one degree for all stages.
namespace rubato::bench::pvldb18 {

/// What Figure 5 compares: a stage whose batches are of one size.
struct constant_batch {
  double iterations = 0;             ///< of one scan
  std::uint32_t best = 0;            ///< of the multiples of 20
  std::uint32_t found = 0;           ///< by the search
  std::uint32_t found_from_one = 0;  ///< by one that begins with one worker
  cost optimal, automatic, from_one, random;
};

/// An SVM by SGD with batches of this share of the samples, one scan.
/// @param measured iterations that tell the pace of all others at a degree
[[nodiscard]] constant_batch measure_constant_batch(experiment const& e, double batch,
                                                    search_options const& search, std::uint64_t seed,
                                                    std::int64_t measured = 10);

/// A stage's degree, and whether it is in single-machine mode.
struct choice {
  std::uint32_t workers = 0;
  bool local = false;
};

/// What a stage takes in all of its runs together, by degree, over all machines or in single-machine mode.
/// Without the latter where it is out of the question.
struct stage_cost {
  std::function<cost(std::uint32_t)> spread;
  std::function<cost(std::uint32_t)> local{};
};

/// So many iterations of a stage are made in two tasks, to tell what an iteration takes from what is done
/// once.
struct lengths {
  std::int64_t shorter;  ///< by then nothing comes any more that comes once
  std::int64_t longer;
};

/// What Figures 6 and 7 compare: a task of several stages.
struct dynamic_workload {
  std::vector<choice> best;    ///< by stage: of the multiples of 10, or of 2 on a single machine
  std::vector<choice> found;   ///< by stage: the degrees by the searches
  std::uint32_t constant = 0;  ///< the best that all stages can have: they are one stage, over all machines
  cost optimal, automatic, constant_cost;
  cost spread;  ///< at the best multiples of 10, none in single-machine mode
};

/// Finds the best degrees.
[[nodiscard]] dynamic_workload try_degrees(std::vector<stage_cost> const& stages);

/// An SVM by SGD in three phases of a scan each, with batches of so many of the samples.
[[nodiscard]] dynamic_workload measure_phases(experiment const& e, std::array<double, 3> const& batches);

/// Logistic regression by SVRG, ten epochs, with batches of this share of the samples, two scans in each.
[[nodiscard]] dynamic_workload measure_svrg(experiment const& e, double batch, lengths const& made);

}  // namespace rubato::bench::pvldb18
