// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <utility>

#include "bench/train/measure.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {

run_result run_simulated(server_run const& what, run_result r) {
  training const& job = what.job;
  return measure_on(
      simulated{.workers = job.workers, .servers = job.servers, .scenario = job.scenario}, what,
      std::move(r));
}

}  // namespace rubato::bench
