// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/ssp.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "bench/train/protocols.hpp"
#include "rubato/sim/distribution.hpp"
#include "rubato/sim/network.hpp"

namespace rubato::bench::nips13 {
namespace {

using namespace std::chrono_literals;

constexpr double gigabit = 125'000'000;  // bytes per second
constexpr double card = 10 * gigabit;    // §5
/// At which a core copies within its machine, a round figure.
constexpr double memory = 40 * gigabit;
constexpr double header_bytes = 64;

}  // namespace

double distinct_of_zipf(double kinds, double draws) {
  double harmonic = 0, distinct = 0;
  for (double rank = 1; rank <= kinds; ++rank) harmonic += 1 / rank;
  for (double rank = 1; rank <= kinds; ++rank) distinct -= std::expm1(-draws / (rank * harmonic));
  return distinct;
}

// ---- problems

namespace {

constexpr double rank_of_the_paper = 100;  // topics, and factors

/// A worker asks for rows of 100 numbers by their numbers, and sends as many rows with theirs.
double bytes_of_rows(double rows) { return rows * (2 * (8 + 4 * rank_of_the_paper)); }

/// New York Times: 100 million tokens of 100,000 words. A unit is a token and a topic.
clock_size of_new_york_times(double share) {
  double const tokens = 100e6 * share;
  return {.units = tokens * rank_of_the_paper, .bytes = bytes_of_rows(distinct_of_zipf(100e3, tokens))};
}

/// Netflix: 100 million ratings of 18,000 items. A unit is a multiplication, five for a rating and a factor.
clock_size of_netflix(double share) {
  double const ratings = 100e6 * share;
  return {.units = 5 * ratings * rank_of_the_paper, .bytes = bytes_of_rows(distinct_of_zipf(18e3, ratings))};
}

constexpr std::size_t lasso_rows = 500;

/// 500 samples with 400,000 features, none of them zero. A unit is a stored value; what moves is the residual, there
/// and back.
clock_size of_synthetic_lasso(double share) {
  return {.units = 400e3 * lasso_rows * share, .bytes = 2 * lasso_rows * sizeof(double)};
}

/// What is there of the real data, else what is made in its place.
data_source data_or_synthetic(reproduce_options const& options, std::string const& file) {
  data_source from;
  if (auto const found = options.data_file(file)) from.file = *found;
  return from;
}

}  // namespace

problem topic_modeling(reproduce_options const& options) {
  return {.name = "LDA",
          .paper_data = "New York Times, 100M tokens of 100k words, 100 topics",
          .options = {.kind = application_kind::lda, .topics = 20, .seed = options.seed},
          .from = data_or_synthetic(options, "docword.kos.txt.gz"),
          .seconds_per_unit = 3e-9,
          .of_the_paper = of_new_york_times};
}

problem matrix_factorization(reproduce_options const& options) {
  data_source from;
  from.rows = 2560;
  from.features = 1682;
  from.nonzeros = 40;
  return {.name = "MF",
          .paper_data = "Netflix, 100M ratings of 18k items by 480k users, rank 100",
          .options = {.kind = application_kind::mf, .rank = 10, .seed = options.seed},
          .from = std::move(from),
          .seconds_per_unit = 0.3e-9,
          .of_the_paper = of_netflix,
          .rates = {1.0 / 16, 1.0 / 8, 1.0 / 4}};
}

problem uneven_factorization(reproduce_options const& options) {
  problem p = matrix_factorization(options);
  p.name = "MF on ML-100K";
  p.from = data_or_synthetic(options, "ml-100k/u.data");
  return p;
}

problem lasso_regression(reproduce_options const& options) {
  data_source from;
  from.synthetic = "url";
  from.rows = lasso_rows * 5 / 4;
  from.features = 4000;
  from.nonzeros = 400;
  return {.name = "Lasso",
          .paper_data = "synthetic, 500 samples of 400k features",
          .options = {.kind = application_kind::lasso, .seed = options.seed},
          .from = std::move(from),
          .seconds_per_unit = 1e-9,
          .of_the_paper = of_synthetic_lasso,
          .rates = {1.0 / 128, 1.0 / 64, 1.0 / 32, 1.0 / 16},
          .has_asp = false};
}

// ---- one run

std::string outcome::label() const {
  if (bound == staleness::infinite()) return "asp";
  return bound == staleness{0} ? "bsp" : fmt::format("ssp({})", bound.clocks());
}

namespace {

double clocks_of(outcome const& o) { return static_cast<double>(o.result.updates) / o.workers; }

}  // namespace

double outcome::compute() const { return result.compute_seconds / static_cast<double>(result.updates); }
double outcome::transfer() const { return result.send_seconds / static_cast<double>(result.updates); }
double outcome::wait() const { return result.wait_seconds / static_cast<double>(result.updates); }
double outcome::ratio() const { return (transfer() + wait()) / compute(); }
double outcome::clocks_per_second() const { return clocks_of(*this) / result.seconds; }

double outcome::share_from_process() const {
  double const all = static_cast<double>(result.requests + result.process_hits);
  return all == 0 ? 0 : static_cast<double>(result.process_hits) / all;
}

double outcome::objective_after(double clocks) const {
  double found = result.curve.front().loss;
  for (curve_point const& p : result.curve)
    if (static_cast<double>(p.updates) <= clocks * workers) found = p.loss;
  return found;
}

double outcome::objective_at(double seconds) const {
  double found = result.curve.front().loss;
  for (curve_point const& p : result.curve)
    if (p.seconds <= seconds) found = p.loss;
  return found;
}

std::optional<double> outcome::seconds_to(double target) const {
  auto const there = reaches(result.curve, target, workers);
  return there ? std::optional(there->seconds) : std::nullopt;
}

// ---- experiments

namespace {

std::vector<std::unique_ptr<application const>> applications_of(problem const& p) {
  std::vector<std::unique_ptr<application const>> all;
  if (p.options.kind != application_kind::lasso) {
    all.push_back(make_application(p.options, p.from));
    return all;
  }
  for (double const damping : p.rates) {
    application_options o = p.options;
    o.damping = damping;
    all.push_back(make_application(o, p.from));
  }
  return all;
}

std::uint64_t rounded(double x) { return static_cast<std::uint64_t>(std::llround(std::max(1.0, x))); }

}  // namespace

experiment::experiment(problem p, double batch, std::uint64_t seed)
    : problem_(std::move(p)), batch_(batch), seed_(seed), applications_(applications_of(problem_)) {}

std::int64_t experiment::clocks_of_sweep() const { return std::llround(1 / batch_); }

run_result experiment::pilot(std::uint32_t workers, std::int64_t sweeps) const {
  training t{.app = applications_.front().get(),
             .workers = workers,
             .servers = 1,
             .learning_rate = problem_.rates.front(),
             .batch = batch_,
             .steps_per_commit = 1,
             .clocks = sweeps * clocks_of_sweep(),
             .points = 1,
             .seed = seed_};
  t.scenario.speed.work_cost = 1us;
  return run_bsp(t, {});
}

clock_size experiment::measured(std::uint32_t workers) const {
  run_result const one = pilot(workers, 1), two = pilot(workers, 2);
  auto const clocks = static_cast<double>(workers) * static_cast<double>(clocks_of_sweep());
  auto const bytes = [](run_result const& r) { return static_cast<double>(r.bytes_sent + r.bytes_received); };
  return {.units = (two.compute_seconds - one.compute_seconds) / 1e-6 / clocks,
          .bytes = (bytes(two) - bytes(one)) / clocks};
}

training experiment::job(conditions const& c, std::int64_t clocks) const {
  clock_size const here = measured(c.workers());
  clock_size const there = problem_.of_the_paper(batch_ / c.workers());
  double const scale = here.bytes / there.bytes;
  training t{.workers = c.workers(),
             .servers = c.machines,
             .batch = batch_,
             .steps_per_commit = 1,
             .clocks = clocks,
             .points = 50,
             .seed = seed_};
  sim::scenario& s = t.scenario;
  double const seconds = problem_.seconds_per_unit * there.units / here.units / c.core_speed;
  s.speed.work_cost = duration(std::llround(seconds * 1e9));
  s.speed.jitter = sim::lognormal{.sigma = c.jitter};
  if (c.slowdown) s.speed.random_slowdown = {.probability = 1 / *c.slowdown, .factor = 6};
  s.network.worker_link = {.latency = duration(std::llround(c.latency * 1e5)),
                           .jitter = sim::lognormal{.sigma = 0.2},
                           .bandwidth = rounded(card * c.bandwidth * scale)};
  s.network.local_link.bandwidth = rounded(memory * scale);
  s.network.header_bytes = rounded(header_bytes * scale);
  s.machine_of = sim::blocks(c.workers(), c.machines);
  for (std::uint32_t m = 0; m < c.machines; ++m) s.server_machine_of.push_back(m);
  s.one_process_per_machine = c.has_process_cache;
  s.seed = seed_;
  return t;
}

outcome experiment::run(staleness bound, std::size_t rate, training job) const {
  bool const is_lasso = problem_.options.kind == application_kind::lasso;
  job.app = applications_[is_lasso ? rate : 0].get();
  job.learning_rate = problem_.rates[rate];
  protocol_parameters with;
  if (!bound.is_infinite()) with.staleness = bound.clocks();
  auto const run = bound.is_infinite() ? run_asp : bound == staleness{0} ? run_bsp : run_ssp;
  return {.bound = bound, .rate = job.learning_rate, .result = run(job, with), .workers = job.workers};
}

// ---- panels

namespace {

double lowest_of(std::vector<outcome> const& all) {
  double lowest = std::numeric_limits<double>::infinity();
  for (outcome const& o : all)
    for (curve_point const& p : o.result.curve)
      if (std::isfinite(p.loss)) lowest = std::min(lowest, p.loss);
  return lowest;
}

/// Whether it gets to the target sooner, or ends lower where neither gets there.
bool is_better(outcome const& a, outcome const& b, double target) {
  constexpr double never = std::numeric_limits<double>::infinity();
  double const time_a = a.seconds_to(target).value_or(never), time_b = b.seconds_to(target).value_or(never);
  if (time_a != time_b) return time_a < time_b;
  auto const end = [&](outcome const& o) {
    return std::isfinite(o.result.final_loss) ? o.result.final_loss : never;
  };
  return end(a) < end(b);
}

}  // namespace

outcome const* panel::asp() const { return runs.back().bound.is_infinite() ? &runs.back() : nullptr; }

outcome const& panel::best_ssp() const {
  outcome const* best = nullptr;
  for (outcome const& o : runs)
    if (o.bound != staleness{0} && !o.bound.is_infinite() && (best == nullptr || is_better(o, *best, at(target_share))))
      best = &o;
  return *best;
}

panel run_panel(experiment const& e, conditions const& c, std::int64_t clocks,
                std::vector<std::int64_t> const& stalenesses) {
  training job = e.job(c, clocks);
  std::vector<staleness> bounds(stalenesses.begin(), stalenesses.end());
  if (e.of().has_asp) bounds.push_back(staleness::infinite());
  std::size_t const rates = e.of().rates.size();
  std::vector<outcome> all;
  for (std::size_t r = 0; r < rates; ++r) all.push_back(e.run(bounds.front(), r, job));
  panel p{.runs = {}, .start = all.front().result.curve.front().loss, .lowest = lowest_of(all)};
  job.clocks *= clocks_most;
  job.stop.deadline = all.front().result.seconds;
  for (std::size_t i = 1; i < bounds.size(); ++i)
    for (std::size_t r = 0; r < rates; ++r) all.push_back(e.run(bounds[i], r, job));
  for (std::size_t i = 0; i < all.size(); i += rates) {
    auto const first = all.begin() + static_cast<std::ptrdiff_t>(i);
    p.runs.push_back(*std::min_element(first, first + static_cast<std::ptrdiff_t>(rates), [&](auto& a, auto& b) {
      return is_better(a, b, p.at(target_share));
    }));
  }
  return p;
}

}  // namespace rubato::bench::nips13
