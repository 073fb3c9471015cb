// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// One headline each of stochastic gradient push (Assran et al., ICML 2019), Prague (Luo et al., ASPLOS 2020) and GoSGD
// (Blot et al., 2016): protocols of peers whose partners change from iteration to iteration.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/hop.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/run_peers.hpp"
#include "rubato/peer/gossip.hpp"

namespace rubato::bench {
namespace {

using namespace asplos19;

/// Peers, what lies between them, and how slow the first one is.
struct pushed_setting {
  std::vector<std::uint32_t> machines;
  double sends_in_a_step;
  double straggler = 1;
  double slowed = 0;  ///< the probability of a step that takes six times as long
  std::string graph = "ring";
};

training pushed_job(task& t, pushed_setting const& s, std::uint64_t seed) {
  setting const plain{.graph = s.graph, .machines = s.machines, .sends_in_a_step = s.sends_in_a_step};
  training job = t.job_of(plain, seed);
  job.scenario.speed.slowness = {s.straggler};
  if (s.slowed > 0) job.scenario.speed.random_slowdown = {.probability = s.slowed, .factor = 6};
  // As much beside a message as 100 us are beside 100 MB at 10 Gbit/s: the parameters here are fewer.
  job.scenario.network.worker_link.latency = seconds(t.step_seconds(plain) / s.sends_in_a_step / 800);
  job.scenario.network.local_link.latency = job.scenario.network.worker_link.latency / 10;
  return job;
}

/// Three seeds.
template <class Run>
outcome three_runs(task& t, pushed_setting const& s, std::uint64_t seed, std::string label, Run run) {
  outcome o{std::move(label), {}};
  for (std::uint64_t i = 1; i <= 3; ++i) o.runs.push_back(run(pushed_job(t, s, seed + i)));
  std::ranges::sort(o.runs, {}, [](run_result const& r) {
    return std::pair(r.seconds_to_target.value_or(r.seconds * 1e6), r.final_loss);
  });
  return o;
}

outcome run_named(task& t, pushed_setting const& s, std::uint64_t seed, std::string const& protocol) {
  protocol_parameters with;
  with.peers.graph = s.graph;
  std::array<std::string, 1> const names = {protocol};
  protocol_choice const p = parse_protocols(names, with).front();
  return three_runs(t, s, seed, p.label(), [&](training const& job) { return p.run(job); });
}

column faster_than(std::vector<outcome> const& all, std::size_t reference) {
  return {"faster", [&all, reference](std::size_t row) { return show_speedup(all[row], all[reference]); }};
}

std::vector<outcome> run_all(task& t, pushed_setting const& s, std::uint64_t seed,
                             std::vector<std::string> const& protocols) {
  std::vector<outcome> all;
  for (std::string const& p : protocols) all.push_back(run_named(t, s, seed, p));
  fmt::print("\n{}", table_of(all, {faster_than(all, 0)}).to_string());
  return all;
}

std::string iterations_beside(outcome const& o, outcome const& than) {
  return fmt::format("{:.2f} times the iterations of {}", o.iterations() / than.iterations(), than.label);
}

}  // namespace

void reproduce_push_sum(reproduce_options const& options) {
  fmt::print(
      "Assran, Loizou, Ballas, Rabbat, \"Stochastic Gradient Push for Distributed Deep Learning\", ICML 2019: SGP and "
      "all-reduce on 4 to 32 nodes over 10 Gbit/s. A step takes as long as four messages of all parameters, and a "
      "message 800 times its latency (ResNet-50, 100 MB, 0.32 s, 100 us).\n");
  task t = task::network(options);
  fmt::print("\n{}", t.description());
  claims said;
  std::vector<double> own, all_reduced;
  outcome most, most_reduced;
  for (std::uint32_t const nodes : {4U, 8U, 16U, 32U}) {
    pushed_setting const s{.machines = std::vector(nodes, 1U), .sends_in_a_step = 4, .slowed = 1.0 / 32};
    fmt::print("\n{} nodes, a step in 32 takes six times as long:\n", nodes);
    auto const all = run_all(t, s, options.seed, {"all_reduce", "push_sum", "push_sum:1", "hop"});
    all_reduced.push_back(all[0].iteration_seconds());
    own.push_back(all[1].iteration_seconds());
    most = all[1];
    most_reduced = all[0];
    if (nodes != 32) continue;
    double const ratio = all_reduced.back() / own.back();
    said.add(ratio > 0.75 * 3.1, "32 nodes: 90 epochs in about 1.6 h, where all-reduce takes over 5 h (3.1x).",
             fmt::format("Iterations are {} as fast, with overlap {}; the target is reached {} and {} as fast.",
                         show_ratio(ratio), show_ratio(all_reduced.back() / all[2].iteration_seconds()),
                         show_speedup(all[1], all[0]), show_speedup(all[2], all[0])));
  }
  double const growth = own.back() / own.front(), reduced_growth = all_reduced.back() / all_reduced.front();
  said.add(growth < reduced_growth, "With more nodes SGP's iterations grow less than those of all-reduce.",
           fmt::format("From 4 to 32 nodes they take {} the time, with all-reduce {}.", show_ratio(growth),
                       show_ratio(reduced_growth)));
  said.add(most.iterations() < 1.1 * most_reduced.iterations(),
           "The accuracy after as many iterations is within 1.2% of all-reduce's.",
           fmt::format("It takes {}.", iterations_beside(most, most_reduced)));
  said.print();
}

void reproduce_prague(reproduce_options const& options) {
  fmt::print(
      "Luo, He, Zhuo, Qian, \"Prague: High-Performance Heterogeneity-Aware Asynchronous Decentralized Training\", "
      "ASPLOS 2020: 16 workers on 4 machines. Built is its static scheduling, which it has for homogeneous clusters; "
      "for stragglers it has a Group Generator, which is not. A step takes as long as a machine needs for six "
      "messages of all parameters.\n");
  task t = task::network(options);
  fmt::print("\n{}", t.description());
  claims said;
  for (double const straggler : {1.0, 2.0, 5.0}) {
    pushed_setting const s{.machines = {4, 4, 4, 4}, .sends_in_a_step = 6, .straggler = straggler};
    fmt::print("\n{}\n", straggler == 1 ? "All alike:" : fmt::format("One worker is {} times slower:", straggler));
    auto const all = run_all(t, s, options.seed, {"all_reduce", "prague:2", "prague:3", "prague:4", "ad_psgd"});
    auto const best = std::min({all[1].seconds(), all[2].seconds(), all[3].seconds()});
    double const over_reduce = all[0].seconds() / best, over_pairs = all[4].seconds() / best;
    if (straggler == 1) {
      said.add(over_reduce > 0.75 * 1.2 && over_reduce > 1, "In a homogeneous cluster 1.2x as fast as all-reduce.",
               show_ratio(over_reduce) + ".");
      said.add(over_pairs > 0.75 * 3.7, "There 3.7x as fast as AD-PSGD.", show_ratio(over_pairs) + ".");
    } else if (straggler == 5) {
      said.add(over_reduce > 0.75 * 4.4, "With stragglers 4.4x as fast as all-reduce (by its Group Generator).",
               fmt::format("With static groups {}, and {} as fast as AD-PSGD.", show_ratio(over_reduce),
                           show_ratio(over_pairs)));
    }
  }
  said.print();
}

void reproduce_gossip(reproduce_options const& options) {
  fmt::print(
      "Blot, Picard, Cord, Thome, \"Gossip training for deep learning\", 2016 (GoSGD): 8 workers that all may reach "
      "each other, of which each sends to a random one with probability p after a step. A step takes as long as four "
      "messages of all parameters; the first worker is four times slower.\n");
  task t = task::network(options);
  fmt::print("\n{}\n", t.description());
  pushed_setting const s{
      .machines = std::vector(8, 1U), .sends_in_a_step = 4, .straggler = 4, .graph = "complete"};
  std::vector<outcome> all = {run_named(t, s, options.seed, "all_reduce")};
  protocol_parameters with;
  with.peers.graph = s.graph;
  for (double const p : {0.01, 0.1, 0.4, 1.0})
    all.push_back(three_runs(t, s, options.seed, fmt::format("gossip, p = {}", p), [&](training const& job) {
      gossip const rule{.probability = p, .seed = job.seed};
      return run_peers(rule, "gossip", staleness::infinite(), job, with);
    }));
  std::vector<column> const more = {faster_than(all, 0), {"bytes", [&](std::size_t row) {
    return show_ratio(static_cast<double>(all[row].median().bytes_sent) /
                      static_cast<double>(all[0].median().bytes_sent));
  }}};
  fmt::print("{}", table_of(all, more).to_string());
  claims said;
  bool const nobody_waits =
      std::ranges::all_of(all.begin() + 1, all.end(), [](outcome const& o) { return o.median().wait_seconds == 0; });
  said.add(nobody_waits, "It is asynchronous: no worker ever waits.",
           fmt::format("Nobody waits; p = 0.1 reaches the target {} as fast as all_reduce.",
                       show_speedup(all[2], all[0])));
  said.add(all[1].median().seconds_to_target.has_value(),
           "It has good consensus properties (the abstract gives no figure).",
           fmt::format("Where a worker sends after one step in a hundred it takes {}, after each {}.",
                       show_time(all[1]), show_time(all[4])));
  said.print();
}

}  // namespace rubato::bench
