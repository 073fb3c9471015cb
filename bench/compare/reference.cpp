// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/reference.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "bench/application/application.hpp"
#include "bench/train/run.hpp"
#include "rubato/model/learning_rate.hpp"
#include "rubato/protocol/bsp.hpp"

namespace rubato::bench {
namespace {

double serial_sgd(workload const& work, data::dataset const& rows, double sigma) {
  constexpr int passes = 10;
  model::decayed_rate const rate{.sigma = sigma, .alpha = 0.5};
  std::vector<float> w(work.initial().begin(), work.initial().end()), delta(work.parameters());
  double lowest = work.objective(w);
  for (int pass = 0; pass < passes; ++pass) {
    double const eta = rate(clock_index(pass));
    for (data::dataset_view const batch : rows.rows().batches(data::fraction{0.01})) {
      work.local_step(batch, eta, w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus<>());
    }
    double const now = work.objective(w);
    if (!std::isfinite(now) || now > 10 * lowest) break;
    lowest = std::min(lowest, now);
  }
  return lowest;
}

double lowest_alone(training const& job, double rate) {
  training alone = job;
  alone.transport = transport_kind::simulated;
  alone.scenario = {};
  alone.workers = alone.servers = 1;
  alone.clocks = (job.clocks + 1) / 2;
  alone.points = 50;
  alone.learning_rate = rate;
  alone.target.reset();
  double lowest = std::numeric_limits<double>::infinity();
  for (curve_point const& p : run_protocol(bsp{}, alone).curve)
    if (std::isfinite(p.loss)) lowest = std::min(lowest, p.loss);
  return lowest;
}

reach reach_of(training const& job) {  // of an application
  reach found{job.app->first_objective(), std::numeric_limits<double>::infinity()};
  if (!job.app->has_rate()) return {found.start, lowest_alone(job, 0)};
  for (double rate = 1.0 / 1024; rate <= 1; rate *= 4) found.lowest = std::min(found.lowest, lowest_alone(job, rate));
  return found;
}

}  // namespace

reach find_reach(workload const& work, row_order const& shards) {
  using enum row_order::kind;
  bool const at_random = shards.how == shuffled || shards.how == all;
  data::dataset const rows = at_random ? work.train() : work.train().shuffled(1);
  double const start = work.objective(work.initial());
  double lowest = start;
  for (double sigma = 1.0 / 64; sigma <= 64; sigma *= 4)
    lowest = std::min(lowest, serial_sgd(work, rows, sigma));
  return {start, lowest};
}

reach find_reach(training const& job) { return job.app != nullptr ? reach_of(job) : find_reach(*job.work, job.shards); }

}  // namespace rubato::bench
