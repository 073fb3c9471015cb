// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/problem.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "bench/advise/runs.hpp"
#include "bench/compare/compare.hpp"
#include "bench/train/timing.hpp"

namespace rubato::bench {

problem::problem(advise_settings settings) : settings_(std::move(settings)) {
  compare_settings& base = settings_.base;
  if (base.app) {
    app_ = make_application(*base.app, base.data);
    description_ = app_->description();
    base.job.app = app_.get();
  } else {
    loaded_data data = load_data(base.data, base.job.seed);
    std::string const name = data.name;
    work_ = std::make_unique<shuffled_workloads>(base.model, std::move(data), base.data.shards);
    workload const& work = work_->first();
    description_ = fmt::format("{} on {}: {} rows, {} parameters", work.name(), name, work.train().size(),
                               work.parameters());
    base.job.work = &work;
  }
  set_target(base);
  for (protocol_choice const& p : settings_.base.protocols)
    candidates_.push_back({p.label(), [this, &p](double rate, std::size_t seed, stop_rule const& stop) {
                             return run(p, rate, seed, stop);
                           }});
}

run_result problem::run(protocol_choice const& protocol, double learning_rate, std::size_t seed,
                        stop_rule const& stop) {
  std::shared_ptr<workload const> const work = work_ ? work_->at(seed) : nullptr;
  training job = settings_.base.job;
  job.work = work.get();
  job.seed += seed;
  job.scenario.seed += seed;
  job.learning_rate = learning_rate;
  job.stop = stop;
  return protocol.run(job);
}

search_options problem::search_settings() const {
  constexpr double first_clocks = 2;
  training const& job = settings_.base.job;
  timing const t = timing_of(job);
  double const clock =
      static_cast<double>(job.steps_per_commit) * t.slowest_step() + t.exchange_seconds;
  return {.rates = settings_.rates,
          .seeds = settings_.seeds,
          .first_deadline = std::max(1e-9, first_clocks * clock),
          .lanes = usual_lanes()};
}

}  // namespace rubato::bench
