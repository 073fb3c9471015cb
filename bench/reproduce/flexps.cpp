// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/flexps.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "rubato/data/synthetic.hpp"
#include "rubato/sim/distribution.hpp"
#include "rubato/sim/network.hpp"
#include "rubato/task/engine.hpp"

namespace rubato::bench::pvldb18 {

namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t gigabit = 125'000'000;  // bytes per second

/// What a machine takes to handle a message, whatever is in it. §7.4: a change of stage with 200 workers
/// takes 20 ms, in which each tells all 20 servers how many workers there are; so a machine sends 200
/// messages and receives 200, one after the other.
constexpr duration per_message = duration(20ms) / 200;

/// At which a core copies within its machine, a round figure.
constexpr std::uint64_t memory_bandwidth = 40 * gigabit;

/// Of one value in one gradient: what `paper-cluster` takes for a machine of these years.
constexpr duration per_value = 100ns;

/// Workers by machine, and a server on each.
simulated cluster_of(std::vector<std::uint32_t> machine_of) {
  simulated s{.workers = static_cast<std::uint32_t>(machine_of.size()), .servers = machines};
  s.scenario.speed = {.work_cost = static_cast<std::int64_t>(values_in_one) * per_value,
                      .jitter = sim::lognormal{.sigma = 0.05}};
  auto const bandwidth = static_cast<std::uint64_t>(static_cast<double>(gigabit) / values_in_one);
  s.scenario.network.worker_link = {.latency = 100us, .bandwidth = bandwidth};
  s.scenario.network.local_link.bandwidth =
      static_cast<std::uint64_t>(static_cast<double>(memory_bandwidth) / values_in_one);
  s.scenario.network.header_bytes =
      static_cast<std::uint64_t>(to_seconds(per_message) * static_cast<double>(bandwidth));
  s.scenario.machine_of = std::move(machine_of);
  for (std::uint32_t m = 0; m < machines; ++m) s.scenario.server_machine_of.push_back(m);
  s.scenario.one_process_per_machine = true;
  return s;
}

}  // namespace

simulated machines_of_the_paper() { return cluster_of(sim::blocks(most_workers, machines)); }

simulated workers_on_one_machine(std::uint32_t workers) {
  return cluster_of(std::vector<std::uint32_t>(workers));
}

// ---- data

shape webspam() {
  return {.name = "webspam",
          .samples = 350'000,
          .features = 16'609'143,
          .values = 2.24e-4 * 16'609'143,
          .samples_in_one = 1};
}

shape kdd() {
  return {.name = "kdd",
          .samples = 149'639'105,
          .features = 54'686'452,
          .values = 2.01e-7 * 54'686'452,
          .samples_in_one = values_in_one};
}

std::size_t shape::rows_for(double n) const {
  return std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(n / samples_in_one)));
}

data::dataset shape::make(std::uint64_t seed) const {
  // What a sample here does not stand for, each of its values does.
  double const here = values / (values_in_one / samples_in_one);
  return data::make_synthetic({.rows = rows_for(share * samples),
                               .features = static_cast<std::size_t>(features / values_in_one),
                               .nonzeros_per_row = static_cast<std::size_t>(std::lround(here)),
                               .binary_values = samples_in_one != 1,
                               .seed = seed});
}

std::string shape::description() const {
  return fmt::format(
      "{}: {:.0f} samples, {:.0f} features, {:.0f} values in each; here {}, {:.0f} and {:.0f}.", name,
      samples, features, values, rows_for(share * samples), features / values_in_one,
      values / (values_in_one / samples_in_one));
}

// ---- training

namespace {

model::logistic_regression<float> const logistic{.l2 = 1e-6};
model::support_vector_machine<float> const svm{.l2 = 1e-6};
}  // namespace

task_report experiment::sgd(learner what, std::vector<algorithm::sgd_phase> const& phases) const {
  engine e{where_};
  auto t = algorithm::make_sgd_task(rows_.features());
  if (what == learner::logistic)
    algorithm::sgd(t, logistic, rows_, phases, algorithm::exchange::by_key);
  else
    algorithm::sgd(t, svm, rows_, phases, algorithm::exchange::by_key);
  return e.submit(t).wait();
}

task_report experiment::svrg(algorithm::svrg_options const& options) const {
  engine e{where_};
  auto t = algorithm::make_svrg_task(rows_.features());
  algorithm::svrg(t, logistic, rows_, options);
  return e.submit(t).wait();
}

task_report experiment::small_steps(algorithm::svrg_options const& options) const {
  engine e{where_};
  auto t = algorithm::make_svrg_task(rows_.features());
  stage_options stage = options.small_steps;
  stage.iterations = options.steps;
  algorithm::feature_rarity const rarity(rows_);
  t.repeat(options.epochs,
           t.stage(std::move(stage), algorithm::svrg_small_steps(logistic, rows_, options, rarity)));
  return e.submit(t).wait();
}

single_machine scaled_down(preparation prepare) {
  single_machine s{.prepare = prepare};
  s.chunk_bytes = static_cast<std::size_t>(std::lround(static_cast<double>(s.chunk_bytes) / values_in_one));
  return s;
}

stage_options with_workers(std::uint32_t workers, rules const& protocol) {
  return {.workers = workers, .protocol = protocol, .spread = true};
}

stage_options with_search(search_options const& search) {
  return {.workers = automatic, .spread = true, .search = search};
}

stage_options on_one_machine(degree workers, preparation prepare, search_options const& search) {
  return {.workers = workers, .local = scaled_down(prepare), .search = search};
}

// ---- costs

namespace {

double iterations_of(task_report const& r, std::size_t stage) {
  double sum = 0;
  for (stage_report const& s : r.stages)
    if (s.stage == stage) sum += static_cast<double>(s.iterations);
  return sum;
}

}  // namespace

cost& cost::operator+=(cost const& o) noexcept {
  seconds += o.seconds;
  worker_seconds += o.worker_seconds;
  return *this;
}

cost cost_of(task_report const& r, std::size_t stage, double iterations) {
  cost searched, rest;
  double others = 0, left = iterations;
  for (stage_report const& s : r.stages) {
    if (s.stage != stage) continue;
    double const seconds = to_seconds(s.ended - s.began);
    (s.probes ? searched : rest) += {seconds, seconds * workers_of(s.where)};
    if (s.probes)
      left -= static_cast<double>(s.iterations);
    else
      others += static_cast<double>(s.iterations);
  }
  if (others == 0) return searched;
  return searched += (left / others) * rest;
}

cost cost_of(task_report const& r, std::size_t stage) {
  cost sum;
  for (stage_report const& s : r.stages) {
    double const seconds = to_seconds(s.ended - s.began);
    if (s.stage == stage) sum += {seconds, seconds * workers_of(s.where)};
  }
  return sum;
}

cost cost_of(task_report const& shorter, task_report const& longer, std::size_t stage, double iterations) {
  double const few = iterations_of(shorter, stage), many = iterations_of(longer, stage);
  double const ahead = (iterations - many) / (many - few);
  cost sum = (1 + ahead) * cost_of(longer, stage);
  return sum += -ahead * cost_of(shorter, stage);
}

std::uint32_t degree_of(task_report const& r, std::size_t stage) {
  std::uint32_t degree = 0;
  for (stage_report const& s : r.stages)
    if (s.stage == stage) degree = workers_of(s.where);
  for (degree_report const& d : r.degrees)
    if (d.stage == stage) degree = d.workers;
  return degree;
}

cost by_degree::at(std::uint32_t workers) const {
  auto const at = known_.find(workers);
  return at != known_.end() ? at->second : known_.emplace(workers, measure_(workers)).first->second;
}

std::uint32_t by_degree::best(std::uint32_t step) const {
  std::uint32_t low = 1, high = most_workers / step;
  while (high - low > 2) {
    std::uint32_t const left = low + (high - low) / 3, right = high - (high - low) / 3;
    if (at(left * step).seconds < at(right * step).seconds)
      high = right;
    else
      low = left;
  }
  std::uint32_t best = low;
  for (std::uint32_t i = low + 1; i <= high; ++i)
    if (at(i * step).seconds < at(best * step).seconds) best = i;
  return best * step;
}

std::uint32_t by_degree::best_of_all(std::uint32_t step, std::uint32_t limit) const {
  std::uint32_t best = step;
  for (std::uint32_t k = step; k <= limit; k += step)
    if (at(k).seconds < at(best).seconds) best = k;
  return best;
}

void introduce(std::string_view figure) {
  fmt::print(
      "FlexPS (PVLDB 11(5), 2018), {}. In virtual time, on the paper's cluster: 20 machines of 12 cores\n"
      "and 1 Gbit/s, a server on each. One stored value stands for {:.0f} of the paper's: features and\n"
      "bandwidth are a hundredth, a value takes {} us in each gradient, a message {} us whatever is in\n"
      "it.\n\n",
      figure, values_in_one, values_in_one * to_seconds(per_value) * 1e6, to_seconds(per_message) * 1e6);
}

}  // namespace rubato::bench::pvldb18
