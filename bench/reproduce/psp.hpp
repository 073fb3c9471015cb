// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <vector>

#include "rubato/protocol/rules.hpp"

/// How far workers come in a while by whom they wait for: Wang, Catterall, Mortier, "Probabilistic Synchronous
/// Parallel", 2017. What its figures show is taken from the Owl tutorial by Wang, chapter "Distributed Computing".
namespace rubato::bench::psp17 {

/// Workers whose steps take a second and an exponential time of mean 1 s, some of them always longer.
struct progress_setting {
  std::uint32_t workers = 200;
  double seconds = 200;
  double slow = 0;       ///< the share of workers that
  double slower = 4;     ///< take so many times as long
  std::uint64_t seed = 1;
};

/// The steps that each worker has made by then, in ascending order; no network.
[[nodiscard]] std::vector<std::int64_t> progress_of(rules const& p, progress_setting const& how);

/// The same by a model of its own, which knows nothing of servers: who has made a step looks at `count` others, drawn
/// anew at each step, and goes on once none of them is more than `s` steps behind it.
/// @param again after so many seconds who waits looks at a new sample; 0: it waits for those that it has drawn
[[nodiscard]] std::vector<std::int64_t> modelled_progress(std::int64_t s, std::uint32_t count, double again,
                                                          progress_setting const& how);

/// Where the middle one is, and how far nine in ten are apart.
struct spread {
  double median = 0, fifth = 0, ninety_fifth = 0;
  [[nodiscard]] double width() const noexcept { return ninety_fifth - fifth; }
};
/// @param sorted not empty
[[nodiscard]] spread spread_of(std::vector<std::int64_t> const& sorted) noexcept;

}  // namespace rubato::bench::psp17
