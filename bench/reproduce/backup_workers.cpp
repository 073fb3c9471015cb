// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Synchronous SGD with backup workers, tried on logistic regression over synthetic data, in virtual time.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "bench/compare/reference.hpp"
#include "bench/reproduce/best_rate.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/workloads.hpp"
#include "bench/result/text.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/k_sync.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;

constexpr std::uint32_t hundred = 100;

/// The problem, on workers of which one in a hundred steps takes six times as long, without a network's time.
class stragglers {
 public:
  explicit stragglers(reproduce_options const& options)
      : data_(load_data({.rows = 20'000, .features = 500, .nonzeros = 10}, options.seed),
              {.model = model_kind::lr, .l2 = 1e-4}) {
    job_.work = &data_.with_seed(options.seed);
    job_.workers = hundred;
    job_.servers = 1;
    job_.scenario.speed = {.work_cost = 10us,
                           .random_slowdown = sim::random_slowdown::hop(hundred),
                           .jitter = sim::lognormal{.sigma = 0.1}};
    job_.scenario.network.worker_link.latency = 0us;
    job_.scenario.seed = job_.seed = options.seed;
    job_.batch = 0.05;
    job_.steps_per_commit = 1;
    job_.clocks = options.clocks.value_or(1'000);
    job_.points = 1'000;
    job_.target = find_reach(job_).at(0.98);
    best_ = run_at_best_rate(job_, [](double) { return k_sync{.k = hundred}; }, 1).learning_rate;
  }

  [[nodiscard]] std::string description() const {
    return fmt::format("LR on {}, {} workers; a step is a mini-batch of {:.0f}% of a worker's rows, and takes six "
                       "times as long once in a hundred times.\nThe target, {:.4g}, is 98% of the way to what serial "
                       "SGD finds. The rate is in proportion to K, as in the paper: the best of "
                       "all {}, {:.3g}, for these.",
                       data_.name(), hundred, 100 * job_.batch, *job_.target, hundred, best_);
  }
  [[nodiscard]] run_result run(rules const& protocol, std::uint32_t k) const {
    training once = job_;
    once.learning_rate = best_ * k / hundred;
    once.stop.at_target = true;
    return run_protocol(protocol, once);
  }

 private:
  workloads_by_seed data_;
  training job_;
  double best_ = 0;
};

/// Runs that came to the target, or did not, one a row.
class backup_table {
 public:
  double add(std::string name, std::uint32_t k, run_result const& r) {
    double const versions = static_cast<double>(r.counted_updates()) / k;
    table_.rows.push_back({std::move(name), fmt::format("{:.3g}", r.learning_rate),
                           r.seconds_to_target ? show_seconds(*r.seconds_to_target) : "-",
                           fmt::format("{:.0f}", versions), show_seconds(r.counted_seconds() / versions)});
    return r.seconds_to_target.value_or(std::numeric_limits<double>::infinity());
  }
  [[nodiscard]] std::string to_string() const { return table_.to_string(); }

 private:
  text_table table_{.head = {"", "rate", "time", "versions", "a version"}, .rows = {}};
};

}  // namespace

void reproduce_backup_workers(reproduce_options const& options) {
  fmt::print("Chen, Pan, Monga, Bengio, Jozefowicz, \"Revisiting Distributed Synchronous SGD\", 2016.\n");
  stragglers const g(options);
  fmt::print("{}\n\n", g.description());
  backup_table table;
  double best = std::numeric_limits<double>::infinity(), none = best;
  std::uint32_t backups = 0;
  for (std::uint32_t const b : {0U, 1U, 2U, 4U, 6U, 8U, 10U, 15U, 20U, 30U, 50U}) {
    std::uint32_t const k = hundred - b;
    double const time = table.add(fmt::format("{} + {}", k, b), k, g.run(k_sync{.k = k}, k));
    if (b == 0) none = time;
    if (time >= best) continue;
    best = time;
    backups = b;
  }
  double const async = table.add("asynchronous", 1, g.run(asp{}, 1));
  fmt::print("{}", table.to_string());
  claims said;
  if (std::isinf(best)) return fmt::print("\nNone came to the target.\n");
  said.add(backups != 0 && best < async, "With backup workers synchronous SGD is faster than without, and than "
                                         "asynchronous SGD.",
           fmt::format("{} + {} is {} as fast as without, and {} as asynchronous.", hundred - backups, backups,
                       show_ratio(none / best), show_ratio(async / best)));
  said.add(backups == 4, "Of 100 workers 96 + 4 are best (Inception on 100 machines).",
           fmt::format("{} + {}.", hundred - backups, backups));
  said.print();
}

}  // namespace rubato::bench
