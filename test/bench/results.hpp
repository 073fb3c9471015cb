// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/result/run_result.hpp"

namespace rubato::bench {

/// A result as a run with a target of 0.3 would give it, with `wait` as the share of waiting.
[[nodiscard]] inline run_result reached(std::string const& label, double seconds,
                                        std::uint64_t updates, double wait = 0) {
  run_result r;
  r.label = r.protocol = label;
  r.transport = "simulated";
  r.storage = "dense";
  r.workload = "lr";
  r.time_kind = "virtual";
  r.workers = 10;
  r.servers = 2;
  r.learning_rate = 1;
  r.target = 0.3;
  r.seconds_to_target = r.seconds = seconds;
  r.updates_to_target = r.updates = updates;
  r.clocks_to_target = (updates + 9) / 10;
  r.seconds_per_update = seconds / static_cast<double>(updates);
  r.compute_seconds = 1 - wait;
  r.wait_seconds = wait;
  r.counted_split = {r.compute_seconds, 0, wait};
  r.final_loss = r.min_obj = 0.29;
  r.curve = {{.loss = 0.7}, {.seconds = seconds, .updates = updates, .loss = 0.29}};
  r.staleness_histogram = {8, 2};
  return r;
}

/// The same, but the run ended above the target.
[[nodiscard]] inline run_result missed(std::string const& label, double seconds,
                                       std::uint64_t updates, double final_loss) {
  run_result r = reached(label, seconds, updates);
  r.seconds_to_target.reset();
  r.updates_to_target.reset();
  r.clocks_to_target.reset();
  r.final_loss = r.min_obj = r.curve.back().loss = final_loss;
  return r;
}

}  // namespace rubato::bench
