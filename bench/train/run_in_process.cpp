// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <utility>

#include "bench/train/measure.hpp"
#include "bench/train/timing.hpp"
#include "rubato/transport/in_process.hpp"

namespace rubato::bench {

run_result run_in_process(server_run const& what, run_result r) {
  training const& job = what.job;
  return measure_on(in_process{.workers = job.workers,
                               .servers = job.servers,
                               .slowness = slowness_of(job),
                               .seed = job.seed},
                    what, std::move(r));
}

}  // namespace rubato::bench
