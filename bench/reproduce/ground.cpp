// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/ground.hpp"

#include <utility>

#include <fmt/format.h>

#include "bench/compare/reference.hpp"
#include "bench/setup/scenario_file.hpp"

namespace rubato::bench {

std::vector<std::string> row(std::string name, finish const& f) {
  return {std::move(name), fmt::format("{:.3g}", f.run.learning_rate),
          f.arrived() ? show_seconds(f.seconds()) : "-", fmt::format("{}", f.run.counted_updates()),
          fmt::format("{:.3g} MB", f.bytes() / 1e6), fmt::format("{:.5f}", f.run.final_loss)};
}

text_table empty_table() { return {.head = {"", "rate", "time", "updates", "bytes", "loss in the end"}, .rows = {}}; }

ground::ground(reproduce_options const& options, ground_options const& how)
    : data_(load_data({.rows = 8'000, .features = how.features, .nonzeros = 10}, options.seed),
            {.model = model_kind::lr, .l2 = 1e-4}, how.shards) {
  job_.work = &data_.with_seed(options.seed);
  job_.workers = how.workers;
  job_.servers = 2;
  job_.scenario = load_scenario("paper-cluster", how.workers);
  job_.scenario.network.worker_link.latency += how.link.latency;
  if (how.link.bandwidth != 0) job_.scenario.network.worker_link.bandwidth = how.link.bandwidth;
  job_.scenario.seed = job_.seed = options.seed;
  job_.batch = how.batch;
  job_.steps_per_commit = 1;
  job_.clocks = options.clocks.value_or(how.steps);
  job_.clocks_at_target = job_.steps_of_a_pass();
  job_.points = 2'000;
  job_.target = find_reach(job_).at(0.98);
  job_.stop.at_target = true;
  fmt::print("LR on {}: {} workers, {} servers; a local step is a mini-batch of {:g}% of a worker's rows, {} of them "
             "at most. The target is {:.4g}, 98% of the way to what serial SGD finds.\n\n",
             data_.name(), how.workers, job_.servers, 100 * how.batch, job_.clocks, *job_.target);
}

}  // namespace rubato::bench
