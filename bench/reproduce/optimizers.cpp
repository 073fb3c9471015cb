// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Headline claims of papers whose servers move the parameters element by element, tried on logistic regression over
// synthetic data, in virtual time. Each protocol has the rate that is best for it.

#include <algorithm>
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
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/dc_asgd.hpp"
#include "rubato/protocol/diloco.hpp"
#include "rubato/protocol/easgd.hpp"
#include "rubato/protocol/protocol.hpp"

namespace rubato::bench {

using namespace std::chrono_literals;

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
           "With 8 workers DC-ASGD converges faster than ASGD, and almost as sequential SGD (ResNet on CIFAR-10).",
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
           "EASGD bears τ = 16 and 64, where DOWNPOUR becomes slow or unstable (CIFAR-10).",
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
  training job = g.job();
  auto const run = [&](std::string name, rules const& p, double momentum) {
    job.momentum = momentum;
    finish f{run_at_best_rate(job, [&](double) { return p; }, 10)};
    table.rows.push_back(row(std::move(name), f));
    return f.seconds();
  };
  double const plain = run("EASGD", easgd{.steps = 10}, 0);
  double downpour = run("DOWNPOUR", asp{}, 0), best = plain;
  for (double const delta : {0.5, 0.9, 0.99}) {
    best = std::min(best, run(fmt::format("EAMSGD, δ = {}", delta), easgd{.steps = 10}, delta));
    downpour = std::min(downpour, run(fmt::format("DOWNPOUR, δ = {}", delta), asp{}, delta));
  }
  fmt::print("τ = 10. The workers' momentum δ is a heavy ball's; the paper's is Nesterov's.\n\n{}", table.to_string());
  claims said;
  said.add(best < plain && best < downpour,
           "The algorithm, with and without momentum, is faster than DOWNPOUR and other common baselines (abstract; "
           "CIFAR, ImageNet).",
           fmt::format("the best δ takes {}, EASGD {}, DOWNPOUR with its best {}.", show_seconds(best),
                       show_seconds(plain), show_seconds(downpour)));
  said.print();
}

}  // namespace rubato::bench
