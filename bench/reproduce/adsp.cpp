// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/adsp.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "bench/setup/scenario_file.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench::aaai20 {
namespace {

constexpr std::size_t images_used = 6'000;
constexpr std::size_t rows_evaluated = 2'000;
constexpr double rows_in_a_batch = 32;
constexpr double target_share = 1.0 / 40;

/// What the paper says, and what it leaves open.
setting defaults(sim::scenario scenario, std::uint32_t workers, double step_seconds) {
  setting s;
  s.step_seconds = step_seconds;
  s.job.workers = workers;
  s.job.servers = 1;
  s.job.scenario = std::move(scenario);
  s.job.steps_per_commit = 1;
  s.job.clocks = 4'000;
  s.job.look_every = minute / 12;
  s.with.check_period = seconds(minute);
  s.with.epoch = seconds(20 * minute);
  s.with.probe_period = seconds(2 * minute);
  s.with.local_steps = 16;
  return s;
}

double infinite_if_none(std::optional<double> const& seconds) {
  return seconds.value_or(std::numeric_limits<double>::infinity());
}

}  // namespace

// ---- data

material material::images(reproduce_options const& options) {
  return {load_digits(options, images_used),
          {.model = model_kind::mlp, .evaluated_rows = rows_evaluated}};
}

material material::chillers(reproduce_options const& options) {
  return {load_data({.labels = label_use::numbers}, options.seed), {.model = model_kind::svr}};
}

// ---- settings

setting ec2(std::uint32_t workers) {
  // As long as that scenario takes for 128 images; those here have 32, to save wall time.
  return defaults(load_scenario("ec2-edge", workers), workers, 0.0128);
}

setting one_one_three() {
  constexpr double step = 0.01;
  setting s = defaults({}, 3, step);
  s.job.scenario.speed.slowness = {1, 1, 3};
  s.job.scenario.speed.jitter = sim::lognormal{.sigma = 0.1};
  s.job.scenario.network.worker_link = {.latency = seconds(step / 2),
                                        .jitter = sim::lognormal{.sigma = 0.1}};
  return s;
}

// ---- runs

double outcome::seconds() const { return infinite_if_none(median().seconds_to_target); }
double outcome::share_of_sending() const {
  time_split const& s = median().counted_split;
  return s.share(s.send);
}
double outcome::share_of_waiting() const {
  time_split const& s = median().counted_split;
  return s.share(s.wait);
}

experiment::experiment(material& data, setting s, reproduce_options const& options)
    : here(std::move(s)), data_(data), seed_(options.seed) {
  if (options.clocks) here.job.clocks = *options.clocks;
  workload const& work = data.with_seed(seed_);
  auto const rows = static_cast<double>(work.train().size());
  here.job.batch = std::min(1.0, rows_in_a_batch * here.job.workers / rows);
  double const values = static_cast<double>(work.train().nonzeros()) / rows;
  here.job.scenario.speed.work_cost = seconds(here.step_seconds / (values * rows_in_a_batch));
  here.job.target = target_share * work.objective(work.initial());
}

protocol_choice experiment::choice(std::string const& name) const {
  std::array<std::string, 1> const names = {name};
  return parse_protocols(names, here.with).front();
}

training experiment::job_of(double rate, std::uint64_t seed, stop_rule const& stop) {
  training job = here.job;
  job.work = &data_.with_seed(seed);
  job.learning_rate = rate;
  job.seed = job.scenario.seed = seed;
  job.stop = stop;
  return job;
}

run_result experiment::run(protocol_choice const& p, double rate, std::uint64_t seed,
                           stop_rule const& stop) {
  return p.run(job_of(rate, seed, stop));
}

double experiment::tuned_rate(protocol_choice const& p) {
  tune_options const grid{.least = 1.0 / 8, .greatest = 2, .factor = 2, .refinements = 0};
  return tune(grid,
              [&](double rate, stop_rule const& stop) {
                std::vector<run_result> runs;
                for (std::uint64_t i = 0; i < tuning_seeds; ++i)
                  runs.push_back(run(p, rate, seed_ + 1000 * i, stop));
                return outcome_of(p.label(), rate, std::move(runs)).median();
              })
      .learning_rate;
}

outcome experiment::measure(protocol_choice const& p, double rate) {
  std::vector<run_result> runs;
  for (std::uint64_t i = 1; i <= seeds; ++i) runs.push_back(run(p, rate, seed_ + i));
  return outcome_of(p.label(), rate, std::move(runs));
}

outcome experiment::best_steps(std::string const& name, std::vector<std::int64_t> const& steps) {
  std::optional<outcome> best;
  for (std::int64_t const n : steps) {
    outcome o = tuned(choice(name + ':' + std::to_string(n)));
    if (!best || o.seconds() < best->seconds()) best = std::move(o);
  }
  return std::move(*best);
}

outcome outcome_of(std::string label, double rate, std::vector<run_result> runs) {
  std::ranges::sort(runs, {}, [](run_result const& r) {
    return std::pair(infinite_if_none(r.seconds_to_target), r.final_loss);
  });
  return {std::move(label), rate, std::move(runs)};
}

// ---- text

std::string show_time(outcome const& o) {
  run_result const& r = o.median();
  if (r.seconds_to_target) return show_seconds(*r.seconds_to_target);
  return "not in " + show_seconds(r.seconds);
}

std::string show_gain(double fast, double slow) {
  if (!std::isfinite(fast)) return "-";
  return std::isfinite(slow) ? fmt::format("{:+.0f}%", 100 * (fast / slow - 1)) : "-100%";
}

text_table table_of(std::vector<outcome> const& all, std::vector<std::string> const& more_heads,
                    std::vector<std::vector<std::string>> const& more) {
  text_table t{.head = {"", "rate", "time", "local steps", "commits", "sending", "waiting"},
               .rows = {}};
  t.head.insert(t.head.end(), more_heads.begin(), more_heads.end());
  for (std::size_t i = 0; i < all.size(); ++i) {
    outcome const& o = all[i];
    std::vector<std::string> row = {o.label,
                                    show_number(o.rate),
                                    show_time(o),
                                    fmt::format("{:.0f}", o.steps()),
                                    std::to_string(o.median().counted_updates()),
                                    show_share(o.share_of_sending()),
                                    show_share(o.share_of_waiting())};
    if (i < more.size()) std::ranges::copy(more[i], std::back_inserter(row));
    t.rows.push_back(std::move(row));
  }
  return t;
}

void introduce(char const* figure, material const& data, setting const& s) {
  fmt::print(
      "{} of \"Distributed Machine Learning through Heterogeneous Edge Systems\", AAAI 2020.\n"
      "{} rows of {}, {} workers, 1 server. A mini-batch takes a mean worker {}. Virtual time, a "
      "hundredth of the paper's: the check period is {}, an epoch {}, a probe {}. Rates are tuned "
      "for each protocol and do not decay. Time to a fortieth of the initial objective; "
      "medians.\n\n",
      figure, data.rows(), data.name(), s.job.workers, show_seconds(s.step_seconds),
      show_seconds(to_seconds(*s.with.check_period)), show_seconds(to_seconds(*s.with.epoch)),
      show_seconds(to_seconds(*s.with.probe_period)));
}

}  // namespace rubato::bench::aaai20
