// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/regret.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <utility>

#include "rubato/cluster/cluster.hpp"
#include "rubato/core/error.hpp"
#include "rubato/protocol/revise.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;
using versioned_worker = worker<table_handle<double, true>>;

/// Which update it is, numbered as 001 does but from 0.
struct update_number {
  std::uint32_t worker;
  std::int64_t clock;
  std::uint32_t workers;

  [[nodiscard]] std::size_t value() const noexcept {
    return static_cast<std::size_t>(clock) * workers + worker;
  }
};

/// η_t, by t − 1.
double step_size(regret_setting const& s, std::size_t number) {
  return s.bound.step_size(static_cast<double>(number + 1));
}

/// The smallest box around points: its diagonal is no shorter than the distance of any two.
class bounding_box {
 public:
  explicit bounding_box(std::size_t dimensions) : low_(dimensions), high_(dimensions) {}  // with the start, 0

  void add(std::span<double const> x) {
    for (std::size_t i = 0; i < low_.size(); ++i) {
      low_[i] = std::min(low_[i], x[i]);
      high_[i] = std::max(high_[i], x[i]);
    }
  }
  [[nodiscard]] double half_squared_diagonal() const {
    double sum = 0;
    for (std::size_t i = 0; i < low_.size(); ++i) sum += (high_[i] - low_[i]) * (high_[i] - low_[i]);
    return sum / 2;
  }

 private:
  std::vector<double> low_, high_;
};

/// Counts by how many updates views differ from the reference sequence. Commits of one worker arrive in their order
/// at the one server, so the number of them in a view says which they are.
class view_count {
 public:
  /// @param seen by worker: how many of its updates are in the view that update t is computed from
  void add(update_number t, std::span<double const> seen) {
    std::int64_t differing = 0;
    std::int64_t least = t.clock;
    for (std::uint32_t q = 0; q < t.workers; ++q) {
      auto const has = static_cast<std::int64_t>(seen[q]);
      std::int64_t const due = t.clock + (q < t.worker ? 1 : 0);
      differing += std::abs(has - due);
      if (has < due) errors_.oldest_missing = std::max(errors_.oldest_missing, t.clock - has);
      if (has > due) errors_.newest_extra = std::max(errors_.newest_extra, has - 1 - t.clock);
      least = std::min(least, has);
    }
    errors_.most = std::max(errors_.most, differing);
    sum_ += static_cast<double>(differing);
    lag_ += static_cast<double>(t.clock - least);
    errors_.most_lag = std::max(errors_.most_lag, t.clock - least);
    ++views_;
  }
  [[nodiscard]] view_errors result() const {
    view_errors e = errors_;
    e.mean = sum_ / views_;
    e.mean_lag = lag_ / views_;
    return e;
  }

 private:
  view_errors errors_;
  double sum_ = 0, lag_ = 0, views_ = 0;
};

/// What is kept of a run, by the number of the update. Workers of the simulator take turns, so nothing guards it.
struct run_record {
  run_record(std::size_t updates, std::size_t features)
      : value(updates), slope(updates), version(updates), visited(features) {}

  std::vector<double> value;          ///< f_t(x̃_t)
  std::vector<double> slope;          ///< of f_t at x̃_t, along its row
  std::vector<std::int64_t> version;  ///< that a server put it into, if it keeps versions
  bounding_box visited;
  view_count views;
};

/// DynSGD's merge, which writes down the version of each update.
struct recorded_revise : revise {
  run_record* record = nullptr;
  std::uint32_t workers = 1;

  [[nodiscard]] version_index map(commit_info const& c) const noexcept {
    update_number const t{static_cast<std::uint32_t>(c.from.index()), c.stamp.value(), workers};
    record->version[t.value()] = c.version.value();
    return revise::map(c);
  }
};
static_assert(versioned_merge<recorded_revise>);

/// The training body. Rows of the table beyond the features count the updates by worker.
void train(versioned_worker& worker, regret_setting const& s, std::int64_t clocks, bool counts, run_record& record) {
  std::size_t const features = s.problem.features();
  std::vector<double> view(features + s.bound.workers), update(view.size());
  std::span<double const> const x(view.data(), features);
  for (update_number t{worker.rank(), 0, s.bound.workers}; t.clock < clocks; ++t.clock) {
    worker.pull(view);
    record.visited.add(x);
    if (counts) record.views.add(t, std::span(view).subspan(features));
    double const slope = s.problem.slope(t.value(), x);
    record.value[t.value()] = s.problem.value(t.value(), x);
    record.slope[t.value()] = slope;
    auto const a = s.problem.row(t.value());
    for (std::size_t k = 0; k < features; ++k) update[k] = -step_size(s, t.value()) * slope * a[k];
    update[features + t.worker] = 1;
    worker.push(update);
    worker.step();
  }
}

/// What each update counts in the reference sequence.
std::vector<double> weights_of(run_record const& record, update_weight weight, std::uint32_t workers) {
  std::vector<double> weights(record.slope.size(), weight == update_weight::one ? 1.0 : 1.0 / workers);
  if (weight != update_weight::by_version) return weights;
  std::map<std::int64_t, double> sharing;
  for (std::int64_t const v : record.version) ++sharing[v];
  for (std::size_t t = 0; t < weights.size(); ++t) weights[t] = 1 / sharing[record.version[t]];
  return weights;
}

/// Goes through the reference sequence, and returns its end.
std::vector<double> replay(regret_setting const& s, run_record& record, std::vector<double> const& weights) {
  std::vector<double> x(s.problem.features());
  for (std::size_t number = 0; number < weights.size(); ++number) {
    auto const a = s.problem.row(number);
    double const along = -weights[number] * step_size(s, number) * record.slope[number];
    for (std::size_t k = 0; k < x.size(); ++k) x[k] += along * a[k];
    record.visited.add(x);
  }
  return x;
}

std::vector<double> regrets_of(run_record const& record, std::span<optimum const> optima) {
  std::vector<double> out;
  double sum = 0;
  std::size_t t = 0;
  for (optimum const& o : optima) {
    for (; t < static_cast<std::size_t>(o.updates); ++t) sum += record.value[t];
    out.push_back(sum / static_cast<double>(t) - o.best.value);
  }
  return out;
}

void add_staleness(regret_run& out, worker_metrics const& m) {
  double reads = 0, sum = 0;
  for (std::size_t k = 0; k < m.staleness.size(); ++k) {
    auto const n = static_cast<double>(m.staleness[k]);
    reads += n;
    sum += n * static_cast<double>(k);
    if (n > 0) out.most_staleness = static_cast<std::int64_t>(k);
  }
  out.mean_staleness = sum / reads;
}

void add_sharing(regret_run& out, std::vector<double> const& weights) {
  double sharing = 0, share = 0;
  for (double const w : weights) {
    sharing += 1 / w;
    share += w;
  }
  out.mean_sharing = sharing / static_cast<double>(weights.size());
  out.mean_share = share / static_cast<double>(weights.size());
}

/// Steps take several times as long as messages, and both vary.
sim::scenario scenario_of(regret_setting const& s) {
  return {.speed = {.work_cost = 1ms,
                    .heterogeneity = {.level = s.heterogeneity},
                    .jitter = sim::lognormal{.sigma = 0.2}},
          .network = {.worker_link = {.latency = 100us, .jitter = sim::lognormal{.sigma = 0.2}}},
          .seed = s.seed};
}

void check(regret_setting const& s) {
  if (s.optima.empty() || s.bound.workers == 0)
    throw option_error("measure_regret: no optima or no workers, expected at least one of both");
  std::int64_t before = 0;
  for (optimum const& o : s.optima) {
    if (o.updates <= before)
      throw option_error("measure_regret: an optimum of " + std::to_string(o.updates) + " updates after one of " +
                         std::to_string(before) + ", expected more");
    before = o.updates;
  }
  auto const rows = static_cast<std::int64_t>(s.problem.size());
  if (before > rows || before % s.bound.workers != 0)
    throw option_error("measure_regret: " + std::to_string(before) + " updates by " + std::to_string(s.bound.workers) +
                       " workers, expected as many by each and at most " + std::to_string(rows));
}

}  // namespace

double regret_bound::delay() const noexcept { return static_cast<double>(staleness + 1) * workers; }

double regret_bound::step_size(double t) const noexcept {
  return diameter / (lipschitz * std::sqrt(2 * delay() * t));
}

double regret_bound::at(double updates, double factor) const noexcept {
  return factor * diameter * lipschitz * std::sqrt(2 * delay() / updates);
}

double regret_bound::proven_from() const noexcept {
  double const root = 2 * delay() * delay() / (2 * delay() - 1);
  return root * root;
}

regret_run measure_regret(regret_setting const& s, rules protocol, update_weight weight) {
  check(s);
  std::size_t const features = s.problem.features();
  std::int64_t const updates = s.optima.back().updates;
  run_record record(static_cast<std::size_t>(updates), features);
  for (optimum const& o : s.optima) record.visited.add(o.best.at);
  if (weight == update_weight::by_version) {
    recorded_revise merge;
    merge.record = &record;
    merge.workers = s.bound.workers;
    protocol = with(std::move(protocol), merge);
  }
  cluster c{simulated{.workers = s.bound.workers, .scenario = scenario_of(s)}, std::move(protocol),
            multi_version{dense<double>{.rows = features + s.bound.workers, .filter = {.threshold = 0.0}}}};
  run_report const report = c.run([&](versioned_worker& worker) {
    train(worker, s, updates / s.bound.workers, weight == update_weight::one, record);
  });
  auto const weights = weights_of(record, weight, s.bound.workers);
  auto const end = replay(s, record, weights);
  regret_run out;
  out.regrets = regrets_of(record, s.optima);
  out.region = record.visited.half_squared_diagonal();
  if (weight == update_weight::one) out.views = record.views.result();
  add_staleness(out, report.total());
  if (weight == update_weight::by_version) add_sharing(out, weights);
  auto const& parameters = c.parameters();
  for (std::size_t k = 0; k < features; ++k)
    out.unexplained = std::max(out.unexplained, std::abs(end[k] - parameters[k]));
  return out;
}

}  // namespace rubato::bench
