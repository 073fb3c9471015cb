// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rubato/core/time.hpp"

namespace rubato {

/// How a stage's degree is found while it runs.
struct search_options {
  std::int64_t probe = 10;      ///< m: iterations of a sub-stage; at least 1
  std::uint32_t first = 1;      ///< the least degree that is tried; at least 1
  std::uint32_t limit = 0;      ///< the greatest; 0: as many as there are
  double growth = 1.5;          ///< each degree is so many times the one before, rounded up; above 1

  /// @throws option_error naming the option and what was expected
  void check() const;
};

/// Finds the number of workers at which a stage takes the least time per iteration, by running parts of the
/// stage itself at growing degrees: the search ends when a part takes longer per iteration than the one
/// before it, and the rest runs at the best degree. No iteration is run twice or thrown away.
/// A state machine without I/O and clock. Source: 004 §5.4; rules §7.
class parallelism_search {
 public:
  /// A part of the stage.
  struct sub_stage {
    std::uint32_t workers;
    std::int64_t first;       ///< its first iteration, counted from 0 over the stage
    std::int64_t iterations;
    bool probes;              ///< for the search; else the rest
  };
  /// What a probe found.
  struct probe {
    std::uint32_t workers;
    std::int64_t iterations;
    duration per_iteration;
  };

  /// @param iterations of the stage @param limit the most workers that there are
  parallelism_search(search_options const& options, std::int64_t iterations, std::uint32_t limit);

  /// What is to run next; nothing when all iterations have been run. Stays the same until a call below.
  [[nodiscard]] std::optional<sub_stage> next() const;
  /// It has, and took so long.
  void ran(duration elapsed);
  /// It has, but how long it took says nothing of its degree, as where a node was lost meanwhile.
  void ran_unmeasured();
  /// It has, but workers crashed whose nodes are still there, or tables came to its node first: no measure of its degree
  /// either, unless the part before was none for such a reason at the same degree: what happens in each part must not
  /// keep the search for ever.
  void ran_disturbed(duration elapsed);
  /// There are no more than so many workers from now on, at least 1. A degree that has been tried is not tried again.
  void limit_to(std::uint32_t workers);
  /// The stage runs once more, with so many iterations: the search goes on where it has stopped.
  void run_again(std::int64_t iterations);
  /// Iterations that have been run, over all runs.
  [[nodiscard]] std::int64_t done() const noexcept { return done_; }
  /// What the probes took longer than they would have at the degree that was the fastest.
  [[nodiscard]] duration cost() const noexcept;

  /// The degree that took the least time per iteration so far, or as many as there are where these are fewer.
  [[nodiscard]] std::uint32_t best() const noexcept;
  [[nodiscard]] bool searching() const noexcept { return searching_; }
  [[nodiscard]] std::span<probe const> probes() const noexcept { return probes_; }

 private:
  search_options options_;
  std::int64_t iterations_;
  std::uint32_t limit_;
  std::int64_t done_ = 0;
  std::uint32_t degree_;   ///< of the probe that comes next
  bool searching_ = true;
  bool disturbed_ = false;  ///< the part before, of the same degree
  std::vector<probe> probes_;
};

}  // namespace rubato
