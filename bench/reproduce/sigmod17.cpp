// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/sigmod17.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "bench/compare/compare.hpp"
#include "bench/compare/reference.hpp"
#include "bench/setup/scenario_file.hpp"
#include "bench/train/reassignment.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/ssp.hpp"

namespace rubato::bench::sigmod17 {

loaded_data load(reproduce_options const& options) {
  data_source from{.shards = options.shards};
  if (auto const file = options.data_file("a9a"))
    from.file = *file;
  else
    fmt::print("a9a is not there (see --data-dir): synthetic data, shaped like the paper's URL.\n");
  return load_data(from, options.seed);
}

workload make_workload(model_kind model, loaded_data const& data) {
  return {{.model = model, .l2 = 1e-4, .evaluated_rows = 8'000}, data.train, data.test};
}

training job(workload const& work, double target, std::int64_t passes, reproduce_options const& options,
             clock_is clock) {
  training job;
  job.work = &work;
  job.scenario = load_scenario("paper-cluster", job.workers);
  job.scenario.seed = job.seed = options.seed;
  job.clocks = passes;
  job.points = static_cast<std::size_t>(4 * passes);
  job.shards = options.shards;
  if (clock == clock_is::batch) {
    job.steps_per_commit = 1;
    job.clocks = passes * job.steps_of_a_pass();
    job.clocks_at_target = job.steps_of_a_pass();
  }
  job.target = target;
  return job;
}

convergence converges(std::vector<double> const& objectives, double target) {
  std::vector<curve_point> curve;
  for (double const x : objectives) curve.push_back({.loss = x, .ends_clock = true});
  end_of_run const end = last_five_clocks(curve);
  convergence out{end.min_obj, std::sqrt(end.var_obj), std::nullopt};
  for (std::size_t i = 0; i < objectives.size() && !out.clocks; ++i)
    if (objectives[i] <= target && objectives[std::min(i + 1, objectives.size() - 1)] <= target)
      out.clocks = i + 1;
  return out;
}

// ---- §7.4

sensitivity::sensitivity(reproduce_options const& options) : sensitivity(options, load(options)) {}

sensitivity::sensitivity(reproduce_options const& options, loaded_data const& data)
    : work_(model_kind::lr, 1e-4, data.train, data.test) {
  reach const found = find_reach(work_, options.shards);
  lowest_ = found.lowest;
  target_ = found.at(0.98);
  job = sigmod17::job(work_, target_, options.clocks.value_or(50), options);
  job.scenario.speed.heterogeneity.level = 2;
  job.watch_reads = true;
  fmt::print(
      "LR on {}: {} workers, HL 2, {} clocks. The target is {:.4g}, 98% of the way from w = "
      "0 to the {:.4g} that serial SGD finds.\n",
      data.name, job.workers, job.clocks, target_, lowest_);
}

trial sensitivity::run(protocol_choice const& protocol, double rate) {
  training once = job;
  once.learning_rate = rate;
  auto const losses = protocol.run(once).read_losses;
  for (double const loss : losses) lowest_ = std::min(lowest_, loss);
  return {protocol.label(), rate, converges(losses, target_)};
}

double sensitivity::best_rate(protocol_choice const& protocol) const {
  training quiet = job;
  quiet.watch_reads = false;
  return tune({},
              [&](double rate, stop_rule const& stop) {
                quiet.learning_rate = rate;
                quiet.stop = stop;
                return protocol.run(quiet);
              })
      .learning_rate;
}

std::vector<std::string> sensitivity::cells(convergence const& c) const {
  if (!std::isfinite(c.min_obj)) return {"diverged", "-", "-", "-"};
  return {fmt::format("{:.5f}", c.min_obj), fmt::format("{:.5f}", c.min_obj - lowest_),
          fmt::format("{:.2g}", c.deviation), c.clocks ? std::to_string(*c.clocks) : "-"};
}

text_table sensitivity::table(std::string const& varied, std::vector<std::string> const& values,
                              std::vector<trial> const& trials) const {
  text_table t{.head = {"", varied, "rate", "min_obj", "above lowest", "deviation", "clocks"},
               .rows = {}};
  for (std::size_t i = 0; i < trials.size(); ++i) {
    std::vector<std::string> row = {trials[i].label, values[i], show_number(trials[i].rate)};
    std::ranges::copy(cells(trials[i].found), std::back_inserter(row));
    t.rows.push_back(std::move(row));
  }
  return t;
}

double sensitivity::moderate_rate(protocol_choice const& protocol) const {
  double const best = best_rate(protocol);
  return protocol.entry->name == "ssp" ? best : best / 3;
}

std::string show_clocks(convergence const& c, std::int64_t most) {
  return c.clocks ? fmt::format("{} clocks", *c.clocks) : fmt::format("more than {} clocks", most);
}

namespace {

run_result run_flex_rr(training const& job, protocol_parameters const& with) {
  reassignment rows(job);
  training once = job;
  once.reassigned = &rows;
  run_result r = run_protocol(ssp{.staleness = staleness{with.staleness}}, once);
  r.protocol = "flex_rr";
  return r;
}

constexpr protocol_entry flex_rr_entry{.name = "flex_rr", .number = protocol_number::staleness, .run = run_flex_rr};

}  // namespace

protocol_choice flex_rr(std::int64_t staleness) { return {.entry = &flex_rr_entry, .with = {.staleness = staleness}}; }

std::array<protocol_choice, 3> three(std::int64_t staleness) {
  std::array<std::string, 3> const names = {"ssp", "con_sgd", "dyn_sgd"};
  auto const chosen = parse_protocols(names, {.staleness = staleness});
  return {chosen[0], chosen[1], chosen[2]};
}

}  // namespace rubato::bench::sigmod17
