// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/watch.hpp"

#include <algorithm>

#include "bench/train/timeline_recorder.hpp"

namespace rubato::bench {

timeline watch(protocol_choice const& protocol, training job, double learning_rate) {
  constexpr std::int64_t clocks_max = 12, iterations_max = 16;
  timeline_recorder recorder(job.workers);
  job.watcher = &recorder;
  job.learning_rate = learning_rate;
  job.stop = {};
  job.points = 1;
  job.clocks = std::min(job.clocks, clocks_max);
  // Peers exchange after every step.
  if (!protocol.has_servers()) job.clocks = std::max<std::int64_t>(1, iterations_max / job.steps_per_commit);
  run_result const r = protocol.run(job);
  return recorder.finish(r.label, r.staleness);
}

}  // namespace rubato::bench
