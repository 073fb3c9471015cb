// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Headline claims of papers whose servers move the parameters element by element, tried on logistic regression over
// synthetic data, in virtual time. Each protocol has the rate that is best for it.

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/best_rate.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/ground.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/async_diloco.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/dc_asgd.hpp"
#include "rubato/protocol/diloco.hpp"
#include "rubato/protocol/easgd.hpp"
#include "rubato/protocol/fed_adam.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/nesterov.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/slow_mo.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;

std::vector<std::string> row(std::string name, finish const& f) {
  return {std::move(name), fmt::format("{:.3g}", f.run.learning_rate),
          f.arrived() ? show_seconds(f.seconds()) : "-", fmt::format("{}", f.run.counted_updates()),
          fmt::format("{:.3g} MB", f.bytes() / 1e6), fmt::format("{:.5f}", f.run.final_loss)};
}

text_table empty_table() { return {.head = {"", "rate", "time", "updates", "bytes", "loss in the end"}, .rows = {}}; }

}  // namespace

void reproduce_diloco(reproduce_options const& options) {
  ground const g(options, {.link = {.latency = 20ms, .bandwidth = 12'500'000}});
  text_table table = empty_table();
  finish const bulk = g.run([](double) { return bsp{}; }, 1);
  table.rows.push_back(row("BSP", bulk));
  claims said;
  for (std::int64_t const steps : {50, 100, 200}) {
    finish const f = g.run([steps](double) { return diloco{.steps = steps}; }, steps);
    table.rows.push_back(row(fmt::format("DiLoCo, H = {}", steps), f));
    double const fewer = bulk.bytes() / f.bytes();
    if (steps == 200)
      said.add(bulk.arrived() && f.arrived() && fewer >= 50,
               "On 8 workers, \"DiLoCo [...] performs as well as fully synchronous optimization while communicating "
               "500 times less\" (abstract, language models).",
               fmt::format("it reaches BSP's target with {:.0f} times fewer bytes, and {:.0f} times sooner.", fewer,
                           bulk.seconds() / f.seconds()));
  }
  fmt::print("Links of 20 ms and 100 Mbit/s.\n\n{}", table.to_string());
  said.print();
}

void reproduce_dc_asgd(reproduce_options const& options) {
  ground const g(options, {});
  text_table table = empty_table();
  finish const plain = g.run([](double) { return asp{}; }, 1);
  table.rows.push_back(row("ASGD", plain));
  finish best = plain;
  std::string name = "none";
  auto const add = [&](std::string const& label, finish f) {
    table.rows.push_back(row(label, f));
    if (f.seconds() < best.seconds()) {
      best = std::move(f);
      name = label;
    }
  };
  for (double const lambda : {0.04, 0.4, 4.0, 40.0})
    add(fmt::format("DC-ASGD-c, λ = {}", lambda),
        g.run([lambda](double rate) { return dc_asgd{.fold = {.lambda = lambda, .rate = rate}}; }, 1));
  for (double const lambda : {0.2, 2.0})
    add(fmt::format("DC-ASGD-a, λ = {}", lambda), g.run([lambda](double rate) {
          return with(dc_asgd{}, compensate_adaptive{.lambda = lambda, .rate = rate});
        }, 1));
  fmt::print("{}", table.to_string());
  claims said;
  said.add(best.seconds() < 0.95 * plain.seconds(),
           "With 8 workers DC-ASGD converges faster than ASGD, and almost as sequential SGD (§6, ResNet on CIFAR-10).",
           name == "none" ? "no λ is better than ASGD."
                          : fmt::format("the best, {}, needs {:.2f} of ASGD's time.", name,
                                        best.seconds() / plain.seconds()));
  said.print();
}

void reproduce_easgd(reproduce_options const& options) {
  ground const g(options, {});
  text_table table = empty_table();
  std::vector<std::pair<finish, finish>> all;
  for (std::int64_t const steps : {1, 4, 16, 64}) {
    all.emplace_back(g.run([steps](double) { return easgd{.steps = steps}; }, steps),
                     g.run([steps](double) { return with(asp{}, every{steps}); }, steps));
    table.rows.push_back(row(fmt::format("EASGD, τ = {}", steps), all.back().first));
    table.rows.push_back(row(fmt::format("DOWNPOUR, τ = {}", steps), all.back().second));
  }
  fmt::print("DOWNPOUR is ASP that commits after τ local steps.\n\n{}", table.to_string());
  auto const& [elastic_64, downpour_64] = all.back();
  claims said;
  said.add(elastic_64.seconds() < all.front().first.seconds() && elastic_64.seconds() < downpour_64.seconds(),
           "EASGD bears τ = 16 and 64, where DOWNPOUR becomes slow or unstable (§5, CIFAR-10).",
           fmt::format("with τ = 64 EASGD needs {} and DOWNPOUR {}, at rates of {:.3g} and {:.3g}; with τ = 1 {} and "
                       "{}.",
                       elastic_64.arrived() ? show_seconds(elastic_64.seconds()) : "for ever",
                       downpour_64.arrived() ? show_seconds(downpour_64.seconds()) : "for ever",
                       elastic_64.run.learning_rate, downpour_64.run.learning_rate,
                       show_seconds(all.front().first.seconds()), show_seconds(all.front().second.seconds())));
  said.print();
}

void reproduce_eamsgd(reproduce_options const& options) {
  ground const g(options, {});
  text_table table = empty_table();
  auto const run = [&](std::string name, rules const& p, double momentum) {
    training job = g.job();
    job.momentum = momentum;
    finish f{run_at_best_rate(job, [&](double) { return p; }, 10)};
    table.rows.push_back(row(std::move(name), f));
    return f;
  };
  finish const plain = run("EASGD, τ = 10", easgd{.steps = 10}, 0), alone = run("DOWNPOUR, τ = 10", asp{}, 0);
  for (double const delta : {0.5, 0.9, 0.99}) {
    run(fmt::format("EAMSGD, δ = {}", delta), easgd{.steps = 10}, delta);
    run(fmt::format("DOWNPOUR, δ = {}", delta), asp{}, delta);
  }
  fmt::print("{}", table.to_string());
}

void reproduce_slow_mo(reproduce_options const& options) {
  ground const g(options, {});
  text_table table = empty_table();
  for (std::int64_t const steps : {12, 48}) {
    finish const plain = g.run([](double) { return with(slow_mo{}, average{}); }, steps);
    table.rows.push_back(row(fmt::format("local SGD, τ = {}", steps), plain));
    for (double const beta : {0.2, 0.4, 0.6, 0.8}) {
      finish const f = g.run([&](double) { return slow_mo{.steps = steps, .optimizer = {.beta = beta}}; }, steps);
      table.rows.push_back(row(fmt::format("SlowMo, β = {}", beta), f));
    }
  }
  fmt::print("{}", table.to_string());
}

void reproduce_async_diloco(reproduce_options const& options) {
  ground const g(options, {});
  text_table table = empty_table();
  constexpr std::int64_t steps = 50;
  training job = g.job();
  job.scenario.speed.slowness = {1, 1, 2, 2, 3, 3, 4, 4};
  auto const run = [&](std::string name, rules const& p) {
    finish f{run_at_best_rate(job, [&](double) { return p; }, steps)};
    table.rows.push_back(row(std::move(name), f));
    return f;
  };
  run("DiLoCo", diloco{.steps = steps});
  run("async, no momentum", with(async_diloco{.steps = steps}, average{}));
  run("async, Nesterov", async_diloco{.steps = steps, .optimizer = {.buffer = 1}});
  run("async, delayed, c = 0", async_diloco{.steps = steps});
  run("async, delayed, c = 1/N", async_diloco{.steps = steps, .optimizer = {.activation = 1.0 / 8}});
  fmt::print("{}", table.to_string());
}

void reproduce_fed_adam(reproduce_options const& options) {
  ground const g(options, {});
  text_table table = empty_table();
  constexpr std::int64_t steps = 10;
  auto const run = [&](std::string name, rules const& p) {
    finish f = g.run([&](double) { return p; }, steps);
    table.rows.push_back(row(std::move(name), f));
    return f;
  };
  run("FedAvg", with(fed_adam{}, average{}));
  run("FedAvgM, β = 0.9", with(fed_adam{}, nesterov{.rate = 1, .mu = 0.9}));
  for (double const eta : {0.01, 0.03, 0.1, 0.3, 1.0}) {
    run(fmt::format("FedAdagrad, η = {}", eta), with(fed_adam{}, adagrad{.rate = eta, .beta1 = 0}));
    run(fmt::format("FedAdam, η = {}", eta), with(fed_adam{}, adam{.rate = eta}));
    run(fmt::format("FedYogi, η = {}", eta), with(fed_adam{}, yogi{.rate = eta}));
  }
  fmt::print("{}", table.to_string());
}

}  // namespace rubato::bench
