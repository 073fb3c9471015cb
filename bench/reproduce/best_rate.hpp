// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "bench/compare/tune.hpp"
#include "bench/train/run.hpp"

namespace rubato::bench {

/// A run of `protocol(rate)`, which commits after each `steps` local steps, at the rate that is best, up to the target.
template <class Protocol>
[[nodiscard]] run_result run_at_best_rate(training const& job, Protocol protocol, std::int64_t steps,
                                          tune_options const& grid = {}) {
  auto const at = [&](double rate, stop_rule const& stop) {
    training once = job;
    once.learning_rate = rate;
    once.stop = stop;
    return run_every(protocol(rate), steps, once);
  };
  return at(tune(grid, at).learning_rate, {.at_target = true});
}

}  // namespace rubato::bench
