// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 3 of the SSP paper (NIPS 2013): convergence of topic modeling, matrix factorization and Lasso under BSP, SSP
// and the asynchronous model; where time goes, and the quantity and quality of iterations, by staleness (§5).

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/ssp.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

using namespace nips13;

/// Of each worker, with mini-batches of 10%.
constexpr std::int64_t clocks_by_default = 80;

/// A panel with the setting that it was run in.
struct shown_panel {
  std::string name;
  conditions where;
  double batch = 0;
  std::int64_t clocks = 0;
  bool is_exception = false;  ///< §5: "In all cases except Topic Modeling with 8 VMs"
  panel found;
};

// ---- tables

std::string show_rate(outcome const& o) { return o.rate == 0 ? "-" : show_number(o.rate); }

/// Computation against waiting, and quantity.
text_table times_of(panel const& p) {
  text_table t{.head = {"", "compute", "transfer", "wait", "network : compute", "clocks/s", "from process"},
               .rows = {}};
  for (outcome const& o : p.runs)
    t.rows.push_back({o.label(), show_seconds(o.compute()), show_seconds(o.transfer()), show_seconds(o.wait()),
                      fmt::format("{:.2f} : 1", o.ratio()), fmt::format("{:.1f}", o.clocks_per_second()),
                      show_share(o.share_from_process())});
  return t;
}

constexpr std::array parts = {0.125, 0.25, 0.5, 1.0};

/// Quality, and convergence.
text_table objectives_of(shown_panel const& s) {
  panel const& p = s.found;
  double const all = p.bsp().result.seconds;
  text_table t{.head = {"", "rate"}, .rows = {}};
  for (double const part : parts)
    t.head.push_back(fmt::format("{} clocks", std::llround(part * static_cast<double>(s.clocks))));
  for (double const part : parts) t.head.push_back(show_seconds(part * all));
  t.head.insert(t.head.end(), {"to 80%", fmt::format("to {:.0f}%", 100 * target_share)});
  for (outcome const& o : p.runs) {
    std::vector<std::string> row = {o.label(), show_rate(o)};
    for (double const part : parts)
      row.push_back(fmt::format("{:.4f}", o.objective_after(part * static_cast<double>(s.clocks))));
    for (double const part : parts) row.push_back(fmt::format("{:.4f}", o.objective_at(part * all)));
    for (double const share : {0.8, target_share}) {
      auto const seconds = o.seconds_to(p.at(share));
      row.push_back(seconds ? show_seconds(*seconds) : "-");
    }
    t.rows.push_back(std::move(row));
  }
  return t;
}

shown_panel show_panel(experiment const& e, conditions const& c, std::int64_t clocks,
                       std::vector<std::int64_t> const& stalenesses) {
  std::string const batches =
      e.batch() == 1 ? "full batches" : fmt::format("{:.0f}% mini-batches", 100 * e.batch());
  shown_panel s{.name = fmt::format("{}, {} machines, {}", e.of().name, c.machines, batches),
                .where = c,
                .batch = e.batch(),
                .clocks = clocks,
                .is_exception = e.of().options.kind == application_kind::lda && c.machines == 8,
                .found = run_panel(e, c, clocks, stalenesses)};
  fmt::print("{}: {} clocks of BSP, in which the objective falls from {:.4f} to {:.4f}\n{}{}\n", s.name, clocks,
             s.found.start, s.found.lowest, times_of(s.found).to_string(), objectives_of(s).to_string());
  return s;
}

// ---- what the paper says

std::string show_time(outcome const& o, panel const& p) {
  auto const seconds = o.seconds_to(p.at(target_share));
  return o.label() + (seconds ? " " + show_seconds(*seconds) : " not in this run");
}

void judge_convergence(claims& said, shown_panel const& s) {
  panel const& p = s.found;
  outcome const& best = p.best_ssp();
  double const target = p.at(target_share);
  auto const beats = [&](outcome const& other) {
    auto const ours = best.seconds_to(target), theirs = other.seconds_to(target);
    return ours && (!theirs || *ours < *theirs);
  };
  std::string ours = show_time(best, p) + ", " + show_time(p.bsp(), p);
  if (p.asp() != nullptr) ours += ", " + show_time(*p.asp(), p);
  bool const beats_both = beats(p.bsp()) && (p.asp() == nullptr || beats(*p.asp()));
  if (s.is_exception)
    return said.add(!beats_both, s.name + ": the exception, where SSP is not the soonest.", ours + ".");
  said.add(beats_both,
           s.name + ": the best staleness is sooner there than BSP" + (p.asp() == nullptr ? "." : " and Async."),
           ours + ".");
}

void judge_waiting(claims& said, shown_panel const& s) {
  panel const& p = s.found;
  double least = p.bsp().compute(), most = least, lowest = p.bsp().ratio();
  outcome const* calm = &p.bsp();
  for (outcome const& o : p.runs) {
    least = std::min(least, o.compute());
    most = std::max(most, o.compute());
    if (!o.bound.is_infinite() && o.ratio() < lowest) lowest = o.ratio(), calm = &o;
  }
  said.add(most < 1.05 * least, s.name + ": computation takes about as long whatever the staleness.",
           fmt::format("from {} to {}.", show_seconds(least), show_seconds(most)));
  said.add(p.bsp().ratio() > 3, s.name + ": BSP waits for the network for six times as long as it computes.",
           fmt::format("{:.2f} times.", p.bsp().ratio()));
  outcome const& best = p.best_ssp();
  said.add(best.ratio() < 1.5, s.name + ": the best staleness, 32, has a ratio of 1 : 1.",
           fmt::format("{:.2f} : 1 at {}, the best; the least is {:.2f} : 1, at {}.", best.ratio(), best.label(),
                       lowest, calm->label()));
  double const fallen = (p.bsp().ratio() - p.runs[1].ratio()) / (p.bsp().ratio() - lowest);
  said.add(fallen > 0.5, s.name + ": a small increase of staleness is enough for waiting to drop.",
           fmt::format("{} has {} of what it falls in all.", p.runs[1].label(), show_share(fallen)));
}

void judge_iterations(claims& said, shown_panel const& s) {
  panel const& p = s.found;
  auto const& fresh = p.runs[1];
  auto const& stale = *std::find_if(p.runs.rbegin(), p.runs.rend(), [](auto& o) { return !o.bound.is_infinite(); });
  said.add(stale.clocks_per_second() > p.bsp().clocks_per_second(),
           s.name + ": with more staleness there are more clocks in a second, with diminishing returns.",
           fmt::format("{:.1f} at bsp, {:.1f} at {}, {:.1f} at {}.", p.bsp().clocks_per_second(),
                       fresh.clocks_per_second(), fresh.label(), stale.clocks_per_second(), stale.label()));
  double const half = 0.5 * static_cast<double>(s.clocks);
  said.add(stale.objective_after(half) > p.bsp().objective_after(half),
           s.name + ": with more staleness a clock makes less progress.",
           fmt::format("after {:.0f} clocks {:.4f} at bsp, {:.4f} at {}, {:.4f} at {}.", half,
                       p.bsp().objective_after(half), fresh.objective_after(half), fresh.label(),
                       stale.objective_after(half), stale.label()));
}

/// By machines under BSP, as far as panels have this size of batches; and the two sizes at 32 machines.
void judge_growth(claims& said, std::vector<shown_panel> const& all) {
  std::vector<double> ratios;
  std::string ours;
  double full = 0, small = 0;
  for (shown_panel const& s : all) {
    double const ratio = s.found.bsp().ratio();
    (s.batch == 1 ? full : small) = ratio;
    if (s.batch == 1) continue;
    ratios.push_back(ratio);
    ours += fmt::format("{}{:.2f} at {}", ours.empty() ? "" : ", ", ratio, s.where.machines);
  }
  said.add(std::ranges::is_sorted(ratios), "LDA: network to compute time grows with the machines.", ours + ".");
  said.add(small > full, "LDA: it grows with smaller batches.",
           fmt::format("{:.2f} at 32 machines with 10%, {:.2f} with full batches.", small, full));
}

// ---- what it depends on

struct variation {
  std::string what;
  conditions where;
};

std::vector<variation> variations() {
  std::vector<variation> all = {{"as above", {}}};
  auto const add = [&](std::string what, auto change) {
    conditions c;
    change(c);
    all.push_back({std::move(what), c});
  };
  add("no process cache", [](conditions& c) { c.has_process_cache = false; });
  add("one step in 256 takes six times as long", [](conditions& c) { c.slowdown = 256; });
  add("10 times the latency", [](conditions& c) { c.latency = 10; });
  add("cores half as fast", [](conditions& c) { c.core_speed = 0.5; });
  add("40 Gbit/s", [](conditions& c) { c.bandwidth = 4; });
  add("a machine's threads send their updates as one", [](conditions& c) { c.threads = 1, c.core_speed = 8; });
  return all;
}

void show_variations(experiment const& e, std::int64_t clocks) {
  text_table t{.head = {"network : compute (transfer alone)", "bsp", "ssp(32)"}, .rows = {}};
  for (variation const& v : variations()) {
    training const job = e.job(v.where, clocks);
    std::vector<std::string> row = {v.what};
    for (std::int64_t const s : {0, 32}) {
      outcome const o = e.run(s, 0, job);
      row.push_back(fmt::format("{:.2f} ({:.2f})", o.ratio(), o.transfer() / o.compute()));
    }
    t.rows.push_back(std::move(row));
  }
  fmt::print("LDA, 32 machines, 10% mini-batches, {} clocks, one thing changed at a time:\n{}\n", clocks,
             t.to_string());
}

// ---- the figure

void introduce(std::vector<problem> const& all) {
  fmt::print(
      "SSP paper, Figure 3. Simulated: machines of 8 threads, which are one process, with a server and a card of 10\n"
      "Gbit/s on each; 100 us of latency; steps vary by 5%, latency by 20%. Updates are added up. A worker's clock\n"
      "computes as long and moves as many bytes as it would on the paper's data: as many words or items as Zipf's law\n"
      "has among its tokens or ratings, in rows of 100 numbers; a unit of work takes what ours take on one core of\n"
      "this project's machine. BSP is SSP(0).\n");
  for (problem const& p : all)
    fmt::print("  {}: {} (paper: {}), {:.1f} ns a unit\n", p.name, experiment(p, 0.1, 1).description(), p.paper_data,
               1e9 * p.seconds_per_unit);
  fmt::print(
      "Network time is all that is not computing: transfer of updates and rows, and waiting, for which a protocol\n"
      "holds a worker up. From process: questions to servers that the process cache answered. Targets are 80% and\n"
      "{:.0f}% of the way that BSP makes; others have its time, in which they may make more clocks. Rates of MF and\n"
      "dampings of Lasso: for each protocol the one that is there the soonest, else ends lowest, of 1/16 to 1/4 and\n"
      "of 1/128 to 1/16 by twos. LDA's objective is minus the log-likelihood of a token.\n\n",
      100 * target_share);
}

std::vector<shown_panel> show_topics(reproduce_options const& options, std::int64_t clocks) {
  problem const p = topic_modeling(options);
  experiment const small(p, 0.1, options.seed), full(p, 1, options.seed);
  std::vector<shown_panel> all;
  for (std::uint32_t const machines : {8U, 16U, 32U}) {
    all.push_back(show_panel(small, {.machines = machines}, clocks, {0, 2, 8, 16, 32}));
    if (machines == 16) continue;
    all.push_back(show_panel(full, {.machines = machines}, std::max<std::int64_t>(1, clocks / 4), {0, 1, 2, 8}));
  }
  show_variations(small, std::min<std::int64_t>(clocks, 40));
  return all;
}

}  // namespace

void reproduce_ssp_figure3(reproduce_options const& options) {
  introduce({topic_modeling(options), matrix_factorization(options), uneven_factorization(options),
             lasso_regression(options)});
  std::int64_t const clocks = options.clocks.value_or(clocks_by_default);
  claims said;
  auto const topics = show_topics(options, clocks);
  for (shown_panel const& s : topics) judge_convergence(said, s);
  for (shown_panel const& s : topics)
    if (s.batch != 1 && s.where.machines == 32) judge_waiting(said, s), judge_iterations(said, s);
  judge_growth(said, topics);
  auto const show = [&](problem const& p, std::uint32_t machines, std::vector<std::int64_t> const& stalenesses) {
    experiment const e(p, 0.1, options.seed);
    std::int64_t const share = p.options.kind == application_kind::lasso ? 2 : 1;
    std::int64_t const some = std::max<std::int64_t>(1, clocks / share);
    judge_convergence(said, show_panel(e, {.machines = machines}, some, stalenesses));
  };
  show(uneven_factorization(options), 8, {0, 8, 32});
  for (std::uint32_t const machines : {8U, 32U}) {
    show(matrix_factorization(options), machines, {0, 8, 32});
    show(lasso_regression(options), machines, {0, 2, 8});
  }
  said.print();
}

}  // namespace rubato::bench
