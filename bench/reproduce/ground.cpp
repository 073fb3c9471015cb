// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/ground.hpp"

#include <utility>

#include <fmt/format.h>

#include "bench/compare/reference.hpp"
#include "bench/compare/tune.hpp"
#include "bench/train/run.hpp"

namespace rubato::bench {

ground::ground(reproduce_options const& options, std::uint32_t workers, sim::scenario const& scenario)
    : data_(load_data({.rows = 8'000, .features = 500, .nonzeros = 10}, options.seed),
            {.model = model_kind::lr, .l2 = 1e-4}) {
  job_.work = &data_.with_seed(options.seed);
  job_.workers = workers;
  job_.servers = 2;
  job_.scenario = scenario;
  job_.scenario.seed = job_.seed = options.seed;
  job_.batch = 0.005;
  job_.steps_per_commit = 1;
  job_.clocks = options.clocks.value_or(6'000);
  job_.clocks_at_target = job_.steps_of_a_pass();
  job_.points = 2'000;
  job_.target = find_reach(job_).at(0.98);
  job_.stop.at_target = true;
  fmt::print("LR on {}: {} workers, {} servers; a local step is a mini-batch of 0.5% of a worker's rows, {} of them "
             "at most. The target is {:.4g}, 98% of the way to what serial SGD finds.\n\n",
             data_.name(), workers, job_.servers, job_.clocks, *job_.target);
}

finish ground::run(std::function<rules(double rate)> const& protocol, std::int64_t steps) const {
  auto const at = [&](double rate, stop_rule const& stop) {
    training once = job_;
    once.learning_rate = rate;
    once.stop = stop;
    return run_every(protocol(rate), steps, once);
  };
  return {at(tune({}, at).learning_rate, {.at_target = true})};
}

finish ground::run_at(double rate, rules const& protocol, std::int64_t clocks, std::uint32_t servers) const {
  training once = job_;
  once.learning_rate = rate;
  once.clocks = clocks;
  once.servers = servers;
  once.stop = {};
  return {run_every(protocol, 1, once)};
}

std::vector<std::string> row(std::string name, finish const& f) {
  return {std::move(name), fmt::format("{:.3g}", f.run.learning_rate),
          f.arrived() ? show_seconds(f.seconds()) : "-", fmt::format("{}", f.run.counted_updates()),
          fmt::format("{:.3g} MB", f.bytes() / 1e6), fmt::format("{:.5f}", f.run.final_loss)};
}

text_table empty_table() { return {.head = {"", "rate", "time", "updates", "bytes", "loss in the end"}, .rows = {}}; }

}  // namespace rubato::bench
