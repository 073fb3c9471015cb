// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/hop.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "bench/compare/reference.hpp"
#include "bench/compare/tune.hpp"
#include "bench/setup/scenario_file.hpp"
#include "bench/train/protocols.hpp"

namespace rubato::bench::asplos19 {
namespace {

constexpr std::size_t images_used = 16'384;
constexpr std::size_t rows_evaluated = 2'000;
constexpr double rows_in_a_batch = 128;
constexpr int seeds = 3;

double infinite_if_none(std::optional<double> const& seconds) {
  return seconds.value_or(std::numeric_limits<double>::infinity());
}

protocol_choice choice_of(setting const& s) {
  protocol_parameters with;
  with.peers.graph = s.graph;
  with.peers.gap_max = s.gap_max;
  with.peers.plainly = s.plainly;
  std::array<std::string, 1> const names = {s.protocol};
  return parse_protocols(names, with).front();
}

void slow_down(sim::speed_options& speed, setting const& s) {
  if (s.slow == slowdown::random)
    speed.random_slowdown = sim::random_slowdown::hop(s.workers());
  if (s.slow == slowdown::straggler) speed.slowness = {4};
}

/// Of a worker's mini-batch: its shard may not come to 128, or not in even parts.
double rows_of_a_step(training const& job) {
  double const parts = std::ceil(1 / job.batch - 1e-9);
  return static_cast<double>(job.work->train().size()) / job.workers / parts;
}

loaded_data load_census(reproduce_options const& options) {
  data_source from{.rows = 32'000, .features = 123, .nonzeros = 14, .shards = options.shards};
  if (auto const file = options.data_file("a9a"))
    from.file = *file;
  else
    fmt::print("a9a is not there (see --data-dir): synthetic rows.\n");
  return load_data(from, options.seed);
}

loaded_data load_text(reproduce_options const& options) {
  data_source from{.rows = 4'000, .features = 50'000, .nonzeros = 200, .shards = options.shards};
  if (auto const file = options.data_file("farm-ads.libsvm.gz"))
    from.file = *file;
  else
    fmt::print("Farm ads are not there (see --data-dir): synthetic text.\n");
  loaded_data data = load_data(from, options.seed);
  if (!from.file.empty()) data.name = "farm ads";
  return data;
}

}  // namespace

std::uint32_t setting::workers() const {
  return std::accumulate(machines.begin(), machines.end(), std::uint32_t{0});
}

// ---- what is trained

task task::network(reproduce_options const& options) {
  workload_options const model{
      .model = model_kind::mlp, .l2 = 1e-4, .evaluated_rows = rows_evaluated};
  task t{"network", {load_digits(options, images_used), model, options.shards}, options};
  t.to_share(0.1);
  return t;
}

task task::classifier(reproduce_options const& options) {
  constexpr double six_latencies = 6 * 100e-6;  // a9a's 123 parameters leave a machine in far less
  task t{"SVM", {load_census(options), {.model = model_kind::lr, .l2 = 1e-7}, options.shards}, options};
  t.least_step_seconds_ = six_latencies;
  t.to_part_of_the_way(0.98);
  t.tune_rate();
  return t;
}

task task::text_classifier(reproduce_options const& options) {
  task t{"SVM on text", {load_text(options), {.model = model_kind::lr, .l2 = 1e-7}, options.shards}, options};
  t.iterations_max_ = options.clocks.value_or(500);  // the standard protocol needs some 60
  if (t.shards_.how == row_order::kind::all) t.name_ += ", all rows for all";
  t.to_share(0.1);
  t.tune_rate();
  return t;
}

std::vector<task> task::classifiers(reproduce_options const& options) {
  std::vector<task> all;
  all.push_back(classifier(options));
  all.push_back(text_classifier(options));
  if (options.shards != row_order{}) return all;
  reproduce_options everywhere = options;
  everywhere.shards.how = row_order::kind::all;
  all.push_back(text_classifier(everywhere));
  return all;
}

task::task(std::string name, workloads_by_seed data, reproduce_options const& options)
    : name_(std::move(name)),
      data_(std::move(data)),
      seed_(options.seed),
      iterations_max_(options.clocks.value_or(1'500)),
      shards_(options.shards) {}

void task::to_share(double of_start) {
  workload const& work = data_.with_seed(seed_);
  target_ = of_start * work.objective(work.initial());
}

void task::to_part_of_the_way(double part) { target_ = find_reach(data_.with_seed(seed_), shards_).at(part); }

/// The paper's rate for its SVM, 10, is for rows of another length.
void task::tune_rate() {
  tune_options const grid{.least = 1.0 / 64, .greatest = 4, .factor = 2, .refinements = 0};
  rate_ = tune(grid, [&](double rate, stop_rule const& stop) {
            training job = job_of({}, seed_);
            job.learning_rate = rate;
            job.stop = stop;
            return choice_of({}).run(job);
          }).learning_rate;
  tuned_ = true;
}

std::string task::description() const {
  return fmt::format("{}: {} rows of {}, rate {} ({}), to an objective of {:.3g}.\n", name_,
                     data_.rows(), data_.name(), show_number(rate_),
                     tuned_ ? "the best of the standard protocol without slowdown, for all"
                            : "the paper's",
                     target_);
}

double task::step_seconds(setting const& s) {
  constexpr double gigabit = 125e6;
  auto const bytes = static_cast<double>(data_.with_seed(seed_).parameters() * sizeof(float));
  return std::max(least_step_seconds_, s.sends_in_a_step * bytes / gigabit);
}

training task::job_of(setting const& s, std::uint64_t seed) {
  training job;
  job.work = &data_.with_seed(seed);
  auto const rows = static_cast<double>(job.work->train().size());
  job.workers = s.workers();
  job.servers = 1;
  job.batch = std::min(1.0, rows_in_a_batch * job.workers / rows);
  job.steps_per_commit = 1;
  job.clocks = iterations_max_;
  job.learning_rate = rate_;
  job.momentum = 0.9;
  job.shards = shards_;
  job.seed = seed;
  job.target = target_;
  job.stop.at_target = true;
  job.look_every = step_seconds(s);
  job.scenario = load_scenario("hop-cluster", job.workers);
  job.scenario.seed = seed;
  job.scenario.machine_of.clear();
  for (std::uint32_t m = 0; m < s.machines.size(); ++m)
    job.scenario.machine_of.insert(job.scenario.machine_of.end(), s.machines[m], m);
  double const values = static_cast<double>(job.work->train().nonzeros()) / rows;
  job.scenario.speed.work_cost = seconds(step_seconds(s) / (values * rows_of_a_step(job)));
  slow_down(job.scenario.speed, s);
  return job;
}

run_result task::run(setting const& s, std::uint64_t seed) { return choice_of(s).run(job_of(s, seed)); }

outcome task::measure(setting const& s, std::string label) {
  outcome o{label.empty() ? choice_of(s).label() : std::move(label), {}};
  for (std::uint64_t i = 1; i <= seeds; ++i) o.runs.push_back(run(s, seed_ + i));
  std::ranges::sort(o.runs, {}, [](run_result const& r) {
    return std::pair(infinite_if_none(r.seconds_to_target), r.final_loss);
  });
  return o;
}

// ---- what came out

double outcome::seconds() const { return infinite_if_none(median().seconds_to_target); }

double outcome::iterations() const {
  return static_cast<double>(median().counted_steps()) / median().workers;
}

double outcome::iteration_seconds() const {
  std::vector<double> each;
  for (run_result const& r : runs) each.push_back(r.seconds_per_iteration());
  std::ranges::sort(each);
  return each[each.size() / 2];
}

// ---- text

std::string show_time(outcome const& o) {
  run_result const& r = o.median();
  if (r.seconds_to_target) return show_seconds(*r.seconds_to_target);
  return "not in " + show_seconds(r.seconds);
}

std::string show_speedup(outcome const& o, outcome const& than) {
  if (!std::isfinite(o.seconds())) return "never";
  return show_ratio(than.seconds() / o.seconds());
}

std::string show_slowdown(slowdown s) {
  if (s == slowdown::none) return "none";
  return s == slowdown::random ? "6x at random" : "4x, one worker";
}

text_table table_of(std::vector<outcome> const& all, std::vector<column> const& more) {
  text_table t{.head = {"", "time", "iterations", "time/iteration", "waiting"}, .rows = {}};
  for (column const& c : more) t.head.push_back(c.head);
  for (std::size_t i = 0; i < all.size(); ++i) {
    outcome const& o = all[i];
    time_split const& spent = o.median().counted_split;
    t.rows.push_back({o.label, show_time(o), fmt::format("{:.0f}", o.iterations()),
                      show_seconds(o.iteration_seconds()), show_share(spent.share(spent.wait))});
    for (column const& c : more) t.rows.back().push_back(c.cell(i));
  }
  return t;
}

namespace {

/// The objective at the last point of which `where` says that it is not beyond `end`.
template <class Where>
std::string loss_at(run_result const& r, double end, Where where) {
  double loss = r.curve.front().loss;
  for (curve_point const& p : r.curve)
    if (where(p) <= end) loss = p.loss;
  return fmt::format("{:.3f}", loss);
}

template <class Where>
std::vector<column> curves(std::vector<outcome> const& all, double end, Where where,
                           std::function<std::string(double)> const& show) {
  std::vector<column> columns;
  for (double const part : {0.25, 0.5, 1.0})
    columns.push_back({"loss at " + show(part * end), [&all, end, part, where](std::size_t row) {
                         return loss_at(all[row].median(), part * end, where);
                       }});
  return columns;
}

}  // namespace

std::vector<column> curves_by_time(std::vector<outcome> const& all, outcome const& reference) {
  return curves(
      all, reference.median().counted_seconds(), [](curve_point const& p) { return p.seconds; },
      show_seconds);
}

std::vector<column> curves_by_steps(std::vector<outcome> const& all, outcome const& reference) {
  double const workers = reference.median().workers;
  return curves(
      all, reference.iterations(),
      [workers](curve_point const& p) { return static_cast<double>(p.updates) / workers; },
      [](double k) { return fmt::format("{:.0f}", k); });
}

void introduce(char const* figure) {
  fmt::print(
      "{} of \"Hop: Heterogeneity-Aware Decentralized Training\", ASPLOS 2019.\n"
      "16 workers on 4 machines unless said otherwise, whose cards have 1 Gbit/s; a mini-batch "
      "takes as long as the six updates that leave a machine in an iteration on the ring-based "
      "graph. "
      "Batches of 128, momentum 0.9, fixed rates. Virtual time until the objective of the peers' "
      "average is a tenth of the initial one; medians of {} seeds.\n",
      figure, seeds);
}

// ---- the model without communication

namespace {

/// One row for each worker, with a value of its own: a mini-batch is a unit of work.
data::dataset one_row_each(std::uint32_t workers) {
  data::dataset_builder rows(workers);
  for (std::uint32_t i = 0; i < workers; ++i) {
    std::array<std::uint32_t, 1> const index = {i};
    std::array<float, 1> const value = {1};
    rows.add(1, index, value);
  }
  return rows.build();
}

double part_of_upper_half(std::vector<float> made) {
  std::ranges::sort(made, std::ranges::greater());
  auto const half = made.begin() + static_cast<std::ptrdiff_t>(made.size() / 2);
  return std::accumulate(made.begin(), half, 0.0) / std::accumulate(made.begin(), made.end(), 0.0);
}

}  // namespace

model_result timing_model(setting const& s, std::uint64_t seed) {
  constexpr double unit = 1e-3;
  constexpr std::uint64_t draws = 5;
  data::dataset const all = one_row_each(s.workers());
  workload const work(model_kind::lr, 0, all, all);
  training job;
  job.work = &work;
  job.workers = s.workers();
  job.learning_rate = 1e-6;  // gradients stay what they are
  job.batch = 1;
  job.steps_per_commit = 1;
  job.clocks = 200;
  job.points = 1;
  job.scenario.speed.work_cost = seconds(unit);
  job.scenario.network.worker_link.latency = duration::zero();
  slow_down(job.scenario.speed, s);
  model_result mean;
  for (std::uint64_t i = 0; i < draws; ++i) {
    job.seed = job.scenario.seed = seed + i;
    run_result const r = choice_of(s).run(job);
    mean.iteration += r.seconds_per_iteration() / unit / draws;
    mean.upper_half += part_of_upper_half(r.parameters) / draws;
  }
  return mean;
}

void print_timing_model(std::vector<modelled> const& rows, std::uint64_t seed) {
  fmt::print(
      "\nThe timing model: the ring-based graph, a unit of work in each iteration, messages take "
      "no time; the mean time of 200 iterations, and the part of the consensus that the 8 most "
      "influential workers of the 16 have made.\n\n");
  text_table t{.head = {"", "ours", "an independent model", "made by 8"}, .rows = {}};
  for (modelled const& m : rows) {
    model_result const r = timing_model(m.where, seed);
    t.rows.push_back({m.name, fmt::format("{:.2f}", r.iteration),
                      fmt::format("{:.2f} to {:.2f}", m.least_elsewhere, m.greatest_elsewhere),
                      show_share(r.upper_half)});
  }
  fmt::print("{}", t.to_string());
}

}  // namespace rubato::bench::asplos19
