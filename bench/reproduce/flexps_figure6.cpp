// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 6 and Table 3 of the FlexPS paper, logistic regression with SVRG, and Figure 7 and Table 4, an SVM
// with SGD in three phases: degrees by stage, the best and those found while the task runs, beside one degree
// for all stages (§7.2).

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/reproduce/flexps_schemes.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

using namespace pvldb18;

/// What the paper has of a set.
struct published {
  double shorter;                        ///< FlexPS-Opt's time than FlexPS-'s
  std::array<double, 3> worker_seconds;  ///< of FlexPS-Opt, -Auto and FlexPS-
  std::string others;
  double less_worker_time;  ///< FlexPS-Opt's than FlexPS-'s, times; the aim
};

std::string to_string(std::vector<choice> const& all) {
  std::vector<std::string> each;
  for (choice const& c : all) each.push_back(std::to_string(c.workers) + (c.local ? " on one machine" : ""));
  return fmt::format("{}", fmt::join(each, ", "));
}

void show(experiment const& e, dynamic_workload const& w, double runs, published const& paper, claims& said) {
  std::string const name(e.of().name);
  fmt::print("{}\n", e.of().description());
  text_table t{.head = {name, "workers by stage", "time", "of FlexPS-", "worker time", "of FlexPS-", "paper"},
               .rows = {}};
  auto const row = [&](std::string const& scheme, std::string const& workers, cost const& c, double theirs) {
    t.rows.push_back(
        {scheme, workers, show_seconds(c.seconds / runs), show_ratio(c.seconds / w.constant_cost.seconds),
         fmt::format("{:.0f} s", c.worker_seconds),
         show_ratio(c.worker_seconds / w.constant_cost.worker_seconds), fmt::format("{:.0f} s", theirs)});
  };
  row("FlexPS-Opt", to_string(w.best), w.optimal, paper.worker_seconds[0]);
  row("FlexPS-Auto", to_string(w.found), w.automatic, paper.worker_seconds[1]);
  row("Opt over all machines", "", w.spread, 0);
  t.rows.back().back() = "";
  row("FlexPS-", std::to_string(w.constant), w.constant_cost, paper.worker_seconds[2]);
  fmt::print(
      "{}On one machine: single-machine mode (§5.3), the model in chunks on demand. The paper's others:\n"
      "{}.\n\n",
      t.to_string(), paper.others);
  double const opt = 1 - w.optimal.seconds / w.constant_cost.seconds;
  double const found = 1 - w.automatic.seconds / w.constant_cost.seconds;
  double const workers = w.constant_cost.worker_seconds / w.automatic.worker_seconds;
  said.add(opt >= paper.shorter - 0.05,
           fmt::format("{}: Opt takes {:.0f}% less time than one degree.", name, 100 * paper.shorter),
           fmt::format("{:.0f}%.", 100 * opt));
  said.add(w.automatic.seconds <= 1.12 * w.optimal.seconds,
           name + ": Auto about as long as Opt (aim: 12% longer at most).",
           fmt::format("{:.1f}% longer, {:.0f}% less than one degree.",
                       100 * (w.automatic.seconds / w.optimal.seconds - 1), 100 * found));
  said.add(workers >= paper.less_worker_time,
           fmt::format("{}: {:.1f} times the worker time with one degree (aim: {:.0f}).", name,
                       paper.worker_seconds[2] / paper.worker_seconds[1], paper.less_worker_time),
           fmt::format("{:.1f} times Auto's.", workers));
}

}  // namespace

void reproduce_flexps_figure6(reproduce_options const& options) {
  introduce("Figure 6 and Table 3");
  fmt::print(
      "Logistic regression with SVRG, ten epochs of two scans; the stages are the full gradient and the\n"
      "small steps. Time is an epoch's, worker time all ten's. 60 small steps of an epoch are made, and\n"
      "tell the pace of the others; in single-machine mode the last of 150 on webspam, and of 1000 on kdd,\n"
      "where chunks come in the first 400.\n\n");
  claims said;
  experiment const w(webspam(), options);
  show(w, measure_svrg(w, 0.001, {75, 150}), 10,
       {0.41, {8855, 8862, 43020}, "Petuum 61840 s, Multiverso 38680 s", 2}, said);
  experiment const k(kdd(), options);
  show(k, measure_svrg(k, 0.00001, {500, 1000}), 10,
       {0.44, {25761, 25838, 111000}, "Petuum and Multiverso had not ended after 10,000 s", 2}, said);
  said.print();
}

void reproduce_flexps_figure7(reproduce_options const& options) {
  introduce("Figure 7 and Table 4");
  fmt::print(
      "An SVM with SGD, a scan in each of three phases with batches ten times as large. 4 iterations tell\n"
      "what a degree takes; of a phase with a search, or in single-machine mode, 150 at most are made, and\n"
      "the last of them tell the pace of the others.\n\n");
  claims said;
  experiment const w(webspam(), options);
  show(w, measure_phases(w, {0.001, 0.01, 0.1}), 1,
       {0.57, {3877, 3449, 33376}, "Petuum 94540 s, Multiverso 14676 s", 2}, said);
  experiment const k(kdd(), options);
  show(k, measure_phases(k, {0.0001, 0.001, 0.01}), 1,
       {0.34, {31852, 31275, 70770}, "Petuum had not ended after 10,000 s, Multiverso 36540 s", 2}, said);
  said.print();
}

}  // namespace rubato::bench
