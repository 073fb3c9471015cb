// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <cmath>

#include "bench/setup/scenario_file.hpp"
#include "bench/setup/settings.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

void require(bool ok, std::string const& sentence) {
  if (!ok) throw option_error(sentence);
}

model_kind model_of(std::string const& name) {
  if (name == "lr") return model_kind::lr;
  require(name == "svm", "--workload: there is no workload \"" + name + "\", expected lr or svm");
  return model_kind::svm;
}

transport_kind transport_of(std::string const& name) {
  require(name != "tcp", "--transport: tcp is not available in this build");
  if (name == "simulated") return transport_kind::simulated;
  require(name == "in-process",
          "--transport: there is no transport \"" + name + "\", expected simulated or in-process");
  return transport_kind::in_process;
}

versions versions_of(std::string const& name) {
  if (name == "exact") return versions::exact;
  require(name == "capped",
          "--versions: there is no rule \"" + name + "\", expected exact or capped");
  return versions::capped;
}

/// A positive number, or nothing where the text is `word`.
std::optional<double> number_or(std::string const& option, std::string const& text,
                                std::string const& word) {
  if (text == word) return std::nullopt;
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (std::exception const&) {
  }
  require(used == text.size() && used > 0 && std::isfinite(value) && value > 0,
          option + ": \"" + text + "\" is neither a number above 0 nor " + word);
  return value;
}

sim::scenario scenario_of(compare_options const& o) {
  sim::scenario s = load_scenario(o.scenario);
  if (o.heterogeneity) s.speed.heterogeneity.level = *o.heterogeneity;
  if (o.seed) s.seed = *o.seed;
  return s;
}

/// As many local steps as make a pass over the worker's data.
std::int64_t steps_of_a_pass(double batch) {
  return static_cast<std::int64_t>(std::ceil(1 / batch - 1e-9));
}

training job_of(compare_options const& o) {
  training job;
  job.transport = transport_of(o.transport);
  bool const simulating = job.transport == transport_kind::simulated;
  job.workers = o.workers.value_or(simulating ? 30 : 4);
  job.servers = o.servers.value_or(simulating ? 10 : 1);
  require(job.workers >= 1, "--workers: must be 1 or more");
  require(job.servers >= 1, "--servers: must be 1 or more");
  job.scenario = scenario_of(o);
  job.scenario.validate(job.workers, job.servers);
  job.seed = job.scenario.seed;
  job.decay = o.decay;
  job.batch = o.batch;
  job.steps_per_commit = o.steps_per_commit.value_or(steps_of_a_pass(o.batch));
  job.clocks = o.clocks;
  job.points = o.points;
  job.stop.at_target = o.stop_at_target;
  return job;
}

void check_numbers(compare_options const& o) {
  require(o.staleness >= 0, "--staleness: must be 0 or more");
  require(!o.heterogeneity || *o.heterogeneity >= 1, "--heterogeneity: must be 1 or more");
  require(o.decay >= 0, "--decay: must be 0 or more");
  require(o.l2 >= 0, "--l2: must be 0 or more");
  require(o.batch > 0 && o.batch <= 1, "--batch: must be a fraction above 0 and at most 1");
  require(!o.steps_per_commit || *o.steps_per_commit >= 1, "--steps-per-commit: must be 1 or more");
  require(o.clocks >= 1, "--clocks: must be 1 or more");
  require(o.points >= 1, "--points: must be 1 or more");
  require(!o.tune_budget || *o.tune_budget > 0, "--tune-budget: must be above 0 seconds");
  require(!o.protocols.empty(), "--protocols: names at least one protocol, or all");
}

}  // namespace

compare_settings interpret(compare_options const& o) {
  check_numbers(o);
  compare_settings s;
  s.protocols = parse_protocols(o.protocols, {.staleness = o.staleness,
                                              .partition_sync = o.partition_sync,
                                              .kept = versions_of(o.versions)});
  s.job = job_of(o);
  s.model = model_of(o.workload);
  s.l2 = o.l2;
  s.data = o.data;
  s.scenario_name = o.scenario;
  s.learning_rate = number_or("--learning-rate", o.learning_rate, "tune");
  if (o.target == "none") {
    s.target = compare_settings::target_kind::none;
  } else if (auto const loss = number_or("--target", o.target, "auto")) {
    s.target = compare_settings::target_kind::given;
    s.job.target = loss;
  }
  bool const simulating = s.job.transport == transport_kind::simulated;
  require(simulating || !o.stop_at_target,
          "--stop-at-target: needs --transport simulated, for elsewhere evaluation takes time");
  require(!o.stop_at_target || s.target != compare_settings::target_kind::none,
          "--stop-at-target: needs a --target");
  if (o.tune_budget)
    s.tuning.budget_seconds = *o.tune_budget;
  else if (!simulating)
    s.tuning.budget_seconds = 60;
  s.json_file = o.json_file;
  s.report_dir = o.report_dir;
  return s;
}

}  // namespace rubato::bench
