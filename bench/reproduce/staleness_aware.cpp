// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Rates divided by staleness, tried with n-softsync on a network, in virtual time.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/reproduce/best_rate.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/federated.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/discount.hpp"
#include "rubato/protocol/k_async.hpp"
#include "rubato/protocol/protocol.hpp"

namespace rubato::bench {
namespace {

constexpr std::uint32_t learners = 30;

/// n-softsync: the mean of every λ/n updates makes a version, and nobody waits.
rules softsync(std::uint32_t n, bool aware) {
  rules const p = with(k_async{.k = learners / n}, unbounded{});
  return aware ? with(p, discount{.power = 1, .averaged = true}) : p;
}

/// Whether it came to the target and is there in the end, too: one may pass it and diverge.
bool converges(run_result const& r) { return r.seconds_to_target && r.final_loss <= *r.target; }

/// Which of the runs at a rate converge.
struct softsyncs {
  bool plain_1 = false, plain_30 = false;
  std::vector<std::uint32_t> aware_lost{};  ///< n of those with their rate divided that do not
};

softsyncs run_all(training const& job) {
  text_table table{.head = {fmt::format("rate {:.3g}", job.learning_rate), "time to a tenth", "of synchronous",
                            "objective in the end"},
                   .rows = {}};
  double beside = 0;
  auto const run = [&](std::string name, rules const& p) {
    run_result const r = run_protocol(p, job);
    if (beside == 0) beside = r.counted_seconds();
    table.rows.push_back({std::move(name), r.seconds_to_target ? show_seconds(*r.seconds_to_target) : "-",
                          r.seconds_to_target ? show_ratio(*r.seconds_to_target / beside) : "-",
                          fmt::format("{:.4f}", r.final_loss)});
    return converges(r);
  };
  (void)run("synchronous", bsp{});
  softsyncs found;
  for (std::uint32_t const n : {1U, 5U, 15U, 30U}) {
    bool const plain = run(fmt::format("{}-softsync", n), softsync(n, false));
    if (n == 1) found.plain_1 = plain;
    if (n == 30) found.plain_30 = plain;
    if (!run(fmt::format("{}-softsync, aware", n), softsync(n, true))) found.aware_lost.push_back(n);
  }
  fmt::print("\n{}", table.to_string());
  return found;
}

void say(softsyncs const& found, std::string const& at, claims& said) {
  said.add(found.plain_1 && !found.plain_30,
           at + ": with the synchronous rate 30-softsync does not converge, 1-softsync does.",
           fmt::format("1-softsync {}, 30-softsync {}.", found.plain_1 ? "does" : "does not",
                       found.plain_30 ? "does" : "does not"));
  said.add(found.aware_lost.empty(),
           at + ": with the rate divided by the staleness all converge, as synchronous SGD does.",
           found.aware_lost.empty() ? "all do."
                                    : fmt::format("n = {} do not.", fmt::join(found.aware_lost, ", ")));
}

}  // namespace

void reproduce_staleness_aware(reproduce_options const& options) {
  fmt::print("Zhang, Gupta, Lian, Liu, \"Staleness-aware Async-SGD for Distributed Deep Learning\", IJCAI 2016: {} "
             "learners, CIFAR10 and ImageNet. In n-softsync an update is n versions old.\n",
             learners);
  clients const from(options, learners, 0);
  training job = from.job(0.1);
  job.scenario.speed.jitter = sim::lognormal{.sigma = 0.2};
  std::int64_t const clocks = job.clocks = options.clocks.value_or(600);
  double const rate = run_at_best_rate(job, [](double) { return bsp{}; }, 1,
                                       {.least = 0.1, .greatest = 1.6, .factor = 4}).learning_rate;
  fmt::print("Here a network of 32 hidden units on {}, a mini-batch of 10 of a learner's 100 images, {} of them each; "
             "the rates are the best of synchronous SGD to a tenth of the initial objective, and a quarter of it for "
             "four times as many.\n",
             from.name(), clocks);
  claims said;
  for (auto const& [share, name] : {std::pair{1.0, "The best rate"}, {0.25, "A quarter of it"}}) {
    job.learning_rate = share * rate;
    job.clocks = static_cast<std::int64_t>(static_cast<double>(clocks) / share);
    say(run_all(job), name, said);
  }
  said.print();
}

}  // namespace rubato::bench
