// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/k_sync.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/compare/reference.hpp"
#include "bench/compare/tune.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/workloads.hpp"
#include "bench/result/text.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/bsp.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;
using namespace aistats18;

constexpr std::uint32_t many = 8;  ///< workers, as in the paper's figures

std::string name_of(waiting how, std::uint32_t k) {
  constexpr std::array names = {"sync", "batch-sync", "async", "batch-async"};
  return fmt::format("{}-{}", k, names[static_cast<std::size_t>(how)]);
}

std::string show_time(double t) { return fmt::format("{:.3f}", t); }

/// What was measured and is expected of one way to wait.
struct version_time {
  double paper, measured, ours;  ///< `ours`: by the model with our rules

  [[nodiscard]] double off() const { return std::abs(measured / ours - 1); }
};

/// A version's time, in each way to wait.
class times_of_versions {
 public:
  times_of_versions(std::int64_t versions, std::uint64_t seed) : versions_(versions), seed_(seed) {
    for (std::uint32_t const k : {1U, 4U, 8U})
      for (waiting const how : {waiting::k_sync, waiting::k_batch_sync, waiting::k_async, waiting::k_batch_async})
        add(how, k);
  }
  [[nodiscard]] version_time const& of(waiting how, std::uint32_t k) const {
    return std::ranges::find(all_, std::pair(how, k), &row::first)->second;
  }
  [[nodiscard]] std::string to_string() const { return table_.to_string(); }
  /// The most that a measured time is off the model's with our rules.
  [[nodiscard]] double most_off() const {
    double most = 0;
    for (row const& r : all_) most = std::max(most, r.second.off());
    return most;
  }

 private:
  using row = std::pair<std::pair<waiting, std::uint32_t>, version_time>;

  void add(waiting how, std::uint32_t k) {
    auto const model = [&](model_rules by) { return modelled_time(how, k, many, by, 10 * versions_, seed_); };
    version_time const t{.paper = expected_time(how, k, many),
                   .measured = measured_time(protocol_of(how, k), many, sim::exponential{}, versions_, seed_),
                   .ours = model(rules_of_ours)};
    all_.push_back({{how, k}, t});
    table_.rows.push_back({name_of(how, k), show_time(t.paper), show_time(t.measured), show_time(t.ours),
                           show_time(model(rules_of_paper))});
  }

  std::int64_t versions_;
  std::uint64_t seed_;
  std::vector<row> all_;
  text_table table_{.head = {"", "paper", "here", "modelled", "by the paper's rules"}, .rows = {}};
};

/// Logistic regression whose updates take exponential times.
class race {
 public:
  explicit race(reproduce_options const& options)
      : data_(load_data({.rows = 8'000, .features = 500, .nonzeros = 10}, options.seed),
              {.model = model_kind::lr, .l2 = 1e-4}) {
    job_.work = &data_.with_seed(options.seed);
    job_.workers = many;
    job_.servers = 1;
    job_.scenario.speed = {.work_cost = 100us, .jitter = sim::exponential{}};
    job_.scenario.network.worker_link.latency = 0us;
    job_.scenario.seed = job_.seed = options.seed;
    job_.batch = 0.001;  // one row, which has 10 non-zeros: 1 ms
    job_.steps_per_commit = 1;
    job_.clocks = options.clocks.value_or(10'000);
    job_.points = 1'000;
    job_.target = find_reach(job_).at(0.8);
    job_.clocks_at_target = 100;
  }

  [[nodiscard]] std::string description() const {
    return fmt::format("LR on {}, an update is the gradient of one row; the target, {:.4g}, is 80% of the way to what "
                       "serial SGD finds", data_.name(), *job_.target);
  }
  [[nodiscard]] double best_rate_of_sync() const {
    return tune({}, [&](double rate, stop_rule const& stop) { return at(bsp{}, rate, stop); }).learning_rate;
  }
  /// Until all have settled.
  [[nodiscard]] run_result run(waiting how, std::uint32_t k, double rate) const {
    return at(protocol_of(how, k), rate, {});
  }

 private:
  [[nodiscard]] run_result at(rules const& p, double rate, stop_rule const& stop) const {
    training once = job_;
    once.learning_rate = rate;
    once.stop = stop;
    return run_protocol(p, once);
  }

  workloads_by_seed data_;
  training job_;
};

/// Of the last fifth of a curve's time.
double settled_loss(run_result const& r) {
  double sum = 0;
  int points = 0;
  for (curve_point const& p : r.curve) {
    if (p.seconds < 0.8 * r.curve.back().seconds) continue;
    sum += p.loss;
    ++points;
  }
  return sum / points;
}

/// A version's time beside the paper's.
void time_versions(reproduce_options const& options, claims& said) {
  times_of_versions const times(options.clocks.value_or(20'000), options.seed);
  fmt::print("The mean time of a version:\n\n{}\nmodelled: by a model of its own, with our rules: nobody is stopped "
             "whose update is late already, and in K-async one\nwhose late update is in goes on at once. They account "
             "for what is not as in the paper to {:.1f}%.\n",
             times.to_string(), 100 * times.most_off());
  double const ours = times.of(waiting::k_sync, many).measured / times.of(waiting::k_async, 1).measured;
  double const theirs = many * harmonic(many);
  said.add(std::abs(ours / theirs - 1) < 0.05,
           fmt::format("Async SGD makes versions P H_P = {:.1f} times as fast as sync SGD (exponential times).",
                       theirs),
           fmt::format("{:.1f} times.", ours));
  auto const beside = [&](waiting how, std::string const& paper, std::string const& why) {
    version_time const& t = times.of(how, 4);
    bool const holds = std::abs(t.measured / t.paper - 1) < 0.03;
    said.add(holds, paper, fmt::format("{:.3f} for {:.3f}{}.", t.measured, t.paper, holds ? "" : why));
  };
  beside(waiting::k_batch_async, "4-batch-async takes K/P.", "");
  beside(waiting::k_sync, "4-sync takes H_P - H_{P-K}, as updates are given up that nobody waits for.",
         ", since late ones are computed to their end");
  beside(waiting::k_batch_sync, "4-batch-sync takes K/P.", ", for the same reason");
  beside(waiting::k_async, "4-async takes H_P - H_{P-K}, as all wait who have sent.",
         ", since one that was late goes on");
}

/// The error beside the time.
void race_for_error(reproduce_options const& options, claims& said) {
  race const r(options);
  double const rate = r.best_rate_of_sync() / many;
  fmt::print("\n{}; the rate of all is the best of sync over P, {:.3g}.\n\n", r.description(), rate);
  text_table table{.head = {"", "target", "versions", "settles at"}, .rows = {}};
  std::vector<run_result> all;
  for (auto const& [how, k] : {std::pair{waiting::k_sync, many}, {waiting::k_sync, 4U}, {waiting::k_batch_sync, 4U},
                               {waiting::k_async, 4U}, {waiting::k_batch_async, 4U}, {waiting::k_async, 1U}}) {
    run_result const& now = all.emplace_back(r.run(how, k, rate));
    table.rows.push_back({name_of(how, k), now.seconds_to_target ? show_seconds(*now.seconds_to_target) : "-",
                          std::to_string(now.updates / k), fmt::format("{:.4f}", settled_loss(now))});
  }
  fmt::print("{}", table.to_string());
  auto const seconds = [&](std::size_t i) { return all[i].seconds_to_target.value_or(all[i].seconds); };
  auto const settled = [&](std::size_t i) { return settled_loss(all[i]); };
  said.add(seconds(5) < seconds(3) && seconds(3) < seconds(0) && settled(0) < settled(5) && settled(3) < settled(5),
           "Async SGD is the fastest at first and has the highest error floor; K-async lies between it and sync.",
           fmt::format("async, 4-async and sync reach the target in {}, {} and {}, and settle at {:.4f}, {:.4f} and "
                       "{:.4f}.",
                       show_seconds(seconds(5)), show_seconds(seconds(3)), show_seconds(seconds(0)), settled(5),
                       settled(3), settled(0)));
}

}  // namespace

void reproduce_k_sync(reproduce_options const& options) {
  fmt::print("Dutta, Joshi, Ghosh, Dube, Nagpurkar, \"Slow and Stale Gradients Can Win the Race\", AISTATS 2018: {} "
             "workers whose updates take exponential times of mean 1, no network. ", many);
  claims said;
  time_versions(options, said);
  race_for_error(options, said);
  said.print();
}

}  // namespace rubato::bench
