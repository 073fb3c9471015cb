// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Headline claims of papers whose workers make many local steps, of which the servers make one of an optimizer of their
// own, tried as in optimizers.cpp.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/best_rate.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/ground.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "rubato/protocol/async_diloco.hpp"
#include "rubato/protocol/diloco.hpp"
#include "rubato/protocol/fed_adam.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/nesterov.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/slow_mo.hpp"

namespace rubato::bench {

void reproduce_slow_mo(reproduce_options const& options) {
  ground const g(options, {});
  text_table table = empty_table();
  std::vector<double> gains;
  bool always = true;
  for (std::int64_t const steps : {12, 48}) {
    finish const plain = g.run([](double) { return with(slow_mo{}, average{}); }, steps);
    table.rows.push_back(row(fmt::format("local SGD, τ = {}", steps), plain));
    double best = std::numeric_limits<double>::infinity();
    for (double const beta : {0.2, 0.4, 0.6, 0.8}) {
      finish const f = g.run([&](double) { return slow_mo{.steps = steps, .optimizer = {.beta = beta}}; }, steps);
      table.rows.push_back(row(fmt::format("SlowMo, β = {}", beta), f));
      best = std::min(best, f.seconds());
      always = always && f.seconds() < plain.seconds();
    }
    gains.push_back(plain.seconds() / best);
  }
  fmt::print("{}", table.to_string());
  claims said;
  said.add(gains[0] > 1 && gains[1] > 1,
           "SlowMo consistently improves on the optimizer that it is put around (abstract; images, translation).",
           fmt::format("at its best β it is {} and {} as fast as local SGD with τ = 12 and 48, {}.",
                       show_ratio(gains[0]), show_ratio(gains[1]),
                       always ? "and faster at each" : "but not faster at each"));
  said.print();
}

namespace {

constexpr std::array<double, 8> slowness = {1, 1, 2, 2, 3, 3, 4, 4};

/// Workers make local steps in proportion to how fast they are, so that all end at a time. Source: as `async_diloco`,
/// "Dynamic Local Updates".
struct by_speed {
  std::int64_t steps = 1;  ///< of the fastest

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept {
    return {.steps = std::max<std::int64_t>(1, static_cast<std::int64_t>(
                                                   static_cast<double>(steps) / slowness[p.worker.index()]))};
  }
};
static_assert(pace_policy<by_speed>);

}  // namespace

void reproduce_async_diloco(reproduce_options const& options) {
  constexpr std::int64_t steps = 48;
  ground const g(options, {});
  training job = g.job();
  double const values = job.batch * static_cast<double>(job.work->train().nonzeros()) / job.workers;
  job.scenario.speed.work_cost = seconds(1e-3 / values);  // so that messages take little beside 48 steps
  job.scenario.speed.slowness.assign(slowness.begin(), slowness.end());
  text_table table = empty_table();
  table.head.emplace_back("local steps");
  auto const add = [&](std::string name, finish f) {
    table.rows.push_back(row(std::move(name), f));
    table.rows.back().push_back(fmt::format("{}", f.run.counted_steps()));
    return f;
  };
  auto const every_48 = [&](std::string name, rules const& p) {
    return add(std::move(name), {run_at_best_rate(job, [&](double) { return p; }, steps)});
  };
  auto const paced = [&](std::string name, rules const& p) {
    auto const at = [&](double rate, stop_rule const& stop) {
      training once = job;
      once.learning_rate = rate;
      once.stop = stop;
      return run_at_own_pace(with(p, by_speed{steps}), once);
    };
    return add(std::move(name), {at(tune({}, at).learning_rate, {.at_target = true})});
  };
  finish const waits = every_48("DiLoCo", diloco{});
  finish const plain = every_48("async, mean", with(async_diloco{}, average{}));
  finish const naive = every_48("async, Nesterov", async_diloco{.optimizer = {.buffer = 1}});
  finish const delayed = every_48("async, delayed", async_diloco{});
  every_48("async, delayed, c = 1/N", async_diloco{.optimizer = {.activation = 1.0 / 8}});
  finish const best = paced("async, delayed, steps by speed", async_diloco{});
  fmt::print("H = 48; a step takes 1, 2, 3 and 4 ms, on two workers each.\n\n{}", table.to_string());
  claims said;
  auto const local = [](finish const& f) { return static_cast<double>(f.run.counted_steps()); };
  said.add(local(naive) > 1.2 * local(waits) && local(naive) > 1.2 * local(plain),
           "Asynchronous local SGD takes more iterations than synchronous, and what is hard is momentum on stale "
           "updates (abstract; language models).",
           fmt::format("with Nesterov's momentum {} local steps, without {}, DiLoCo {}.", local(naive), local(plain),
                       local(waits)));
  said.add(local(best) < 1.1 * local(waits),
           "With Delayed Nesterov and local steps by speed it is as good as synchronous local SGD for each step.",
           fmt::format("{} local steps, with as many for all workers {}.", local(best), local(delayed)));
  said.add(best.seconds() < waits.seconds(), "It is much faster in time.",
           fmt::format("{} for {}; with as many local steps for all {}.", show_seconds(best.seconds()),
                       show_seconds(waits.seconds()), show_seconds(delayed.seconds())));
  said.print();
}

void reproduce_fed_adam(reproduce_options const& options) {
  constexpr std::int64_t steps = 10;
  ground const g(options, {});
  text_table table = empty_table();
  auto const run = [&](std::string name, rules const& p) {
    finish f = g.run([&](double) { return p; }, steps);
    table.rows.push_back(row(std::move(name), f));
    return f.seconds();
  };
  double const mean = run("FedAvg", with(fed_adam{}, average{}));
  run("FedAvgM, β = 0.9", with(fed_adam{}, nesterov{.rate = 1, .mu = 0.9}));
  std::array<double, 3> best;
  best.fill(std::numeric_limits<double>::infinity());
  for (double const eta : {0.03, 0.1, 0.3, 1.0, 3.0}) {
    adagrad const falling{.rate = eta, .beta1 = 0};
    best[0] = std::min(best[0], run(fmt::format("FedAdagrad, η = {}", eta), with(fed_adam{}, falling)));
    best[1] = std::min(best[1], run(fmt::format("FedAdam, η = {}", eta), with(fed_adam{}, adam{.rate = eta})));
    best[2] = std::min(best[2], run(fmt::format("FedYogi, η = {}", eta), with(fed_adam{}, yogi{.rate = eta})));
  }
  fmt::print("10 local steps in each round, all clients in each.\n\n{}", table.to_string());
  claims said;
  said.add(std::ranges::all_of(best, [&](double s) { return s < mean; }),
           "Adaptive server optimizers are much better than FedAvg where gradients are sparse (Stack Overflow).",
           fmt::format("FedAdagrad, FedAdam and FedYogi are {}, {} and {} as fast, on features that are as popular as "
                       "1/rank.",
                       show_ratio(mean / best[0]), show_ratio(mean / best[1]), show_ratio(mean / best[2])));
  said.print();
}

}  // namespace rubato::bench
