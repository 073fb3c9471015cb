// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 13 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017): what DynSGD's
// versions take on the servers, by staleness (§7.5). The paper measures processes; here it is bytes
// of parameters, versions and held-back commits.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"
#include "bench/setup/scenario_file.hpp"
#include "bench/train/body.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/random.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/server/server_group.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {
namespace {

constexpr std::array<std::int64_t, 4> stalenesses = {3, 10, 20, 40};
constexpr double paper_at_40 = 0.0302;
constexpr double aim = 0.25;

// ---- memory over a run

/// Of all servers together.
struct memory_use {
  double mean = 0;  ///< bytes, over virtual time
  double peak = 0;
  std::size_t versions = 0;  ///< most that were live on one server
  bool in_bound = true;      ///< no server ever held more than (live versions + 1) x parameters
};

/// Looks at the servers after every event: nothing changes in between.
class memory_watch {
 public:
  explicit memory_watch(server_group const& servers) : servers_(servers) {
    for (std::uint32_t s = 0; s < servers.size(); ++s) parameters_.push_back(of(s).parameters);
  }

  void look(time_point now) {
    integral_ += held_ * to_seconds(now - last_);
    last_ = now;
    held_ = 0;
    for (std::uint32_t s = 0; s < parameters_.size(); ++s) add(s, of(s));
    use_.peak = std::max(use_.peak, held_);
  }

  [[nodiscard]] memory_use result() const {
    memory_use use = use_;
    use.mean = integral_ / to_seconds(last_.since_start());
    return use;
  }

 private:
  [[nodiscard]] shard_memory of(std::uint32_t s) const {
    return servers_.server(server_id{s}).memory();
  }
  void add(std::uint32_t s, shard_memory const& m) {
    held_ += static_cast<double>(m.parameters + m.log);
    use_.versions = std::max(use_.versions, m.versions);
    use_.in_bound &= m.parameters + m.log <= (m.versions + 1) * parameters_[s];
  }

  server_group const& servers_;
  std::vector<std::size_t> parameters_;  ///< by server, without versions
  memory_use use_;
  double integral_ = 0;
  double held_ = 0;
  time_point last_{};
};

template <table_spec Table>
memory_use watch(rules const& p, Table const& table, sim::scenario const& scenario,
                 std::function<void(training_worker&)> const& body) {
  cluster c{simulated{.workers = 30, .servers = 10, .scenario = scenario}, p, table};
  memory_watch of_servers(c.servers());
  c.runtime().on_event([&] { of_servers.look(c.now()); });
  c.run(body);
  return of_servers.result();
}

std::string show_bytes(double bytes) {
  if (bytes < 1e3) return fmt::format("{:.0f} B", bytes);
  return bytes < 1e6 ? fmt::format("{:.3g} kB", bytes / 1e3)
                     : fmt::format("{:.3g} MB", bytes / 1e6);
}

std::string show_overhead(double bytes, double base) {
  return fmt::format("{:+.3g}%", 100 * (bytes / base - 1));
}

// ---- (a) updates that touch all features

template <table_spec Table>
memory_use watch_training(rules const& p, Table const& table, training const& job) {
  return watch(with(p, every{job.steps_per_commit}), table, job.scenario, [&](training_worker& worker) {
    auto const go_on = [&] { return worker.clock().value() < job.clocks; };
    train(
        worker, job, go_on, [](auto const&) {}, [](auto const&) {});
  });
}

void run_dense(reproduce_options const& options) {
  loaded_data const data = sigmod17::load(options);
  workload const work(model_kind::lr, 1e-4, data.train, data.test);
  training job = sigmod17::job(work, 0, options.clocks.value_or(100), options);
  job.scenario.speed.heterogeneity.level = 2;
  fmt::print(
      "(a) LR on {}: each update touches all of the {} features, so each live version takes as "
      "much as the parameters.\n\n",
      data.name, work.features());
  text_table t{.head = {"s", "SSP", "ConSGD", "DynSGD mean", "over SSP", "peak", "over SSP",
                        "live versions", "bound"},
               .rows = {}};
  bool in_bound = true;
  for (std::int64_t const s : stalenesses) {
    auto const table = dense_table(job);
    memory_use const ssp_use = watch_training(ssp{.staleness = staleness{s}}, table, job);
    memory_use const con = watch_training(con_sgd{.staleness = staleness{s}}, table, job);
    memory_use const dyn =
        watch_training(dyn_sgd{.staleness = staleness{s}}, multi_version{table}, job);
    in_bound &= dyn.in_bound;
    t.rows.push_back({std::to_string(s), show_bytes(ssp_use.mean), show_bytes(con.mean),
                      show_bytes(dyn.mean), show_overhead(dyn.mean, ssp_use.mean),
                      show_bytes(dyn.peak), show_overhead(dyn.peak, ssp_use.peak),
                      std::to_string(dyn.versions),
                      show_bytes(static_cast<double>(dyn.versions + 1) * ssp_use.peak)});
  }
  fmt::print("{}\n", t.to_string());
  fmt::print("bound: (most live versions on a server + 1) x parameters. {}\n\n",
             in_bound ? "No server exceeded its own at any time."
                      : "SOME SERVER EXCEEDED ITS OWN, which it should not.");
}

// ---- (b) updates that touch some features

constexpr std::size_t features = 1'000'000;
constexpr double values_per_example = 100;
constexpr double exponent = 1.0;
constexpr double threshold = 1e-6;
/// A commit's entry of a feature that every example has: ten steps of the paper's best rate, 3e-4,
/// down a gradient of 1/2.
constexpr double entry_of_all = 10 * 3e-4 * 0.5;
/// What a worker's commit goes through in the paper's CTR, for each feature of the model.
constexpr double paper_examples_per_feature = 300e6 / 30 / 58e6;

struct sparse_commit {
  std::vector<key> keys;
  std::vector<float> values;
};

struct commit_pool {
  std::vector<sparse_commit> commits;
  double touched = 0;  ///< share of the features, on average
  double sent = 0;     ///< of these, what is left by the filter
};

/// A number with the given mean, Poisson's law.
std::uint64_t draw_count(double mean, random_stream& random) {
  if (mean > 30)
    return static_cast<std::uint64_t>(
        std::max(0.0, mean + std::sqrt(mean) * random.normal() + 0.5));
  double const u = random.uniform();
  double p = std::exp(-mean);
  double sum = p;
  std::uint64_t k = 0;
  while (u >= sum && k < 200) sum += p *= mean / static_cast<double>(++k);
  return k;
}

/// What the filter would not send is left out beforehand: it would only take time.
commit_pool make_commits(double examples, std::uint64_t seed) {
  constexpr std::size_t different = 40;
  double all = 0;
  for (std::size_t r = 1; r <= features; ++r) all += std::pow(static_cast<double>(r), -exponent);
  random_stream random(seed);
  commit_pool pool;
  for (std::size_t i = 0; i < different; ++i) {
    sparse_commit& c = pool.commits.emplace_back();
    for (std::size_t r = 1; r <= features; ++r) {
      double const share = std::pow(static_cast<double>(r), -exponent) / all;
      auto const count =
          static_cast<double>(draw_count(examples * values_per_example * share, random));
      if (count == 0) continue;
      pool.touched += 1.0 / (different * features);
      double const entry = entry_of_all * std::min(1.0, count / examples);
      if (entry < threshold) continue;
      c.keys.push_back(key{r * 618'033 % features});  // popular ones are all over the range
      c.values.push_back(static_cast<float>(-entry));
    }
    pool.sent += static_cast<double>(c.keys.size()) / (different * features);
  }
  return pool;
}

template <table_spec Table>
memory_use watch_commits(rules const& p, Table const& table, commit_pool const& pool,
                         double examples, reproduce_options const& options) {
  sim::scenario scenario = load_scenario("paper-cluster", 30);
  scenario.speed.heterogeneity.level = 2;
  scenario.seed = options.seed;
  std::int64_t const clocks = options.clocks.value_or(100);
  // One row of a thousand: all servers are read from, and which rows these are makes no difference
  // to what they hold.
  std::vector<key> some;
  for (std::uint64_t k = 0; k < features; k += 1'000) some.push_back(key{k});
  return watch(p, table, scenario, [&](training_worker& worker) {
    std::vector<float> w(some.size());
    for (std::int64_t i = 0; i < clocks; ++i) {
      auto const turn = static_cast<std::size_t>(i) * 7 + worker.rank() * 11;
      sparse_commit const& c = pool.commits[turn % pool.commits.size()];
      worker.pull(some, w);
      worker.push(c.keys, c.values);
      worker.step(examples * values_per_example);
    }
  });
}

/// The greatest mean overhead that was seen, by how many examples a commit has.
struct extremes {
  double paper_ratio = 0;  ///< at s = 40, for the paper's examples per feature
  double greatest = 0;
  double examples = 0;  ///< where that was
  std::int64_t s = 0;
};

void print_finding(extremes const& seen) {
  fmt::print(
      "\nAt s = 40 and the paper's own ratio of examples to features, versions take {:.2g}% on "
      "average (paper: {:.3g}%); the most of the table is {:.3g}%, for {:.0f} examples at s = {}, "
      "{} the {:.0f}% that we aim for.\n",
      100 * seen.paper_ratio, 100 * paper_at_40, 100 * seen.greatest, seen.examples, seen.s,
      seen.greatest <= aim ? "within" : "MORE than", 100 * aim);
}

void run_sparse(reproduce_options const& options) {
  double const paper_examples = std::round(paper_examples_per_feature * features);
  fmt::print(
      "(b) Sparse updates of 1M features: {:.0f} values 1 per example, features by Zipf's law with "
      "exponent {:.1f}, ten steps of 3e-4 (the paper's best rate) down a gradient of 1/2 at worst, "
      "entries below {:.0e} not sent. A version holds what its commits touch, so it depends on the "
      "examples in a commit; {:.0f} is the paper's: 300M examples, 30 workers, a commit after each "
      "pass, for each of 58M features.\n\n",
      values_per_example, exponent, threshold, paper_examples);
  dense<float> const table{.rows = features};
  commit_pool const some = make_commits(100, options.seed);
  double const base = watch_commits(ssp{}, table, some, 100, options).mean;
  text_table t{.head = {"examples per commit", "features touched", "sent"}, .rows = {}};
  for (std::int64_t const s : stalenesses) t.head.push_back(fmt::format("s = {}: mean (peak)", s));
  extremes seen;
  for (double const examples : {100.0, 1'000.0, 10'000.0, paper_examples}) {
    commit_pool const pool = make_commits(examples, options.seed);
    std::vector<std::string> row = {fmt::format("{:.0f}", examples),
                                    fmt::format("{:.2g}%", 100 * pool.touched),
                                    fmt::format("{:.2g}%", 100 * pool.sent)};
    for (std::int64_t const s : stalenesses) {
      memory_use const use = watch_commits(dyn_sgd{.staleness = staleness{s}}, multi_version{table},
                                           pool, examples, options);
      double const over = use.mean / base - 1;
      if (over > seen.greatest)
        std::tie(seen.greatest, seen.examples, seen.s) = std::tuple(over, examples, s);
      if (examples == paper_examples && s == 40) seen.paper_ratio = over;
      row.push_back(
          fmt::format("{} ({})", show_overhead(use.mean, base), show_overhead(use.peak, base)));
    }
    t.rows.push_back(std::move(row));
  }
  fmt::print("memory over SSP's {}; the paper: imperceptible at s = 3, {:+.3g}% at s = 40\n{}",
             show_bytes(base), 100 * paper_at_40, t.to_string());
  print_finding(seen);
}

}  // namespace

void reproduce_sigmod17_figure13(reproduce_options const& options) {
  fmt::print(
      "Figure 13 of \"Heterogeneity-aware Distributed Parameter Servers\", SIGMOD 2017: memory of "
      "the servers, 30 workers, HL 2. Ours are bytes of parameters, versions and held-back commits "
      "on 10 servers, over virtual time; the paper's are of whole processes.\n\n");
  run_dense(options);
  run_sparse(options);
}

}  // namespace rubato::bench
