// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/psp.hpp"

#include <cstddef>
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
#include "rubato/protocol/psp.hpp"
#include "rubato/protocol/ssp.hpp"

namespace rubato::bench {
namespace {

using namespace psp17;

constexpr std::int64_t stale = 4;   ///< of SSP and pSSP, as in the paper
constexpr std::uint32_t some = 10;  ///< β: a twentieth of the workers

using named_rules = std::vector<std::pair<std::string, rules>>;

/// The five ways to wait.
named_rules five(std::uint32_t workers, std::uint32_t count, std::uint64_t seed) {
  auto const sampled = [&](std::int64_t s) {
    return psp{.staleness = s, .sample = count, .of = workers, .seed = seed};
  };
  return {{"BSP", bsp{}}, {"pBSP", sampled(0)}, {"SSP(4)", ssp{.staleness = stale}}, {"pSSP(4)", sampled(stale)},
          {"ASP", asp{}}};
}

std::string show(spread const& s) {
  return fmt::format("{:.0f} ({:.0f} to {:.0f})", s.median, s.fifth, s.ninety_fifth);
}

/// Progress of the five, those with a sample of ten.
std::vector<spread> progress(progress_setting const& how, claims& said) {
  text_table table{.head = {fmt::format("steps in {:.0f} s", how.seconds), "median (5% to 95%)", "paper"}, .rows = {}};
  std::vector<spread> all;
  for (auto const& [name, p] : five(how.workers, some, how.seed)) {
    all.push_back(spread_of(progress_of(p, how)));
    std::string const theirs = name == "BSP" ? "about 30" : name == "ASP" ? "about 100" : "between";
    table.rows.push_back({name, show(all.back()), theirs});
  }
  fmt::print("{}\n", table.to_string());
  said.add(all[1].median > 1.2 * all[0].median && all[1].width() < 0.25 * all[4].width(),
           "With a sample of 5% of 200 workers pBSP is almost as tightly bound as BSP and much faster.",
           fmt::format("{} steps for {}; ASP's are {}.", show(all[1]), show(all[0]), show(all[4])));
  said.add(all[3].median > all[2].median && all[3].width() < all[4].width(), "The same is true of pSSP and SSP.",
           fmt::format("{} for {}.", show(all[3]), show(all[2])));
  return all;
}

/// pBSP by the size of its sample, and what a model makes of it that draws again while a worker waits.
void sizes(progress_setting const& how, std::vector<spread> const& five, claims& said) {
  text_table table{.head = {"pBSP, sample", "here", "modelled", "drawn anew each second", "each 0.1 s"}, .rows = {}};
  std::vector<spread> all;
  double of_4 = 0, again_4 = 0, often_4 = 0;
  for (std::uint32_t const count : {0U, 1U, 2U, 4U, 8U, 16U, 32U, 64U}) {
    psp const p{.staleness = 0, .sample = count, .of = how.workers, .seed = how.seed};
    all.push_back(spread_of(progress_of(p, how)));
    auto const modelled = [&](double again) { return spread_of(modelled_progress(0, count, again, how)); };
    spread const own = modelled(0), again = modelled(1), often = modelled(0.1);
    table.rows.push_back({std::to_string(count), show(all.back()), show(own), show(again), show(often)});
    if (count != 4) continue;
    of_4 = all.back().median;
    again_4 = again.median;
    often_4 = often.median;
  }
  fmt::print("{}\n", table.to_string());
  bool falls = all.front().median == five[4].median;
  for (std::size_t i = 1; i < all.size(); ++i)
    falls = falls && all[i].median < all[i - 1].median && all[i].width() <= all[i - 1].width() + 1;
  said.add(falls, "With no sample pBSP is ASP; from 1 to 64 it moves towards BSP, more and more tightly bound.",
           fmt::format("from {} to {}.", show(all.front()), show(all.back())));
  said.add(all[1].width() < 0.5 * all[0].width(), "A sample of one or two already synchronizes most of the nodes.",
           fmt::format("with one of the others {}.", show(all[1])));
  said.add(of_4 > 0.9 * five[2].median && of_4 < 1.1 * five[2].median,
           "pBSP with a sample of 4 is very close to SSP(4).",
           fmt::format("{:.0f} steps for {:.0f}; by a model whose workers draw anew each second that they wait {:.0f}, "
                       "each 0.1 s {:.0f}.",
                       of_4, five[2].median, again_4, often_4));
}

/// What is left of the progress where some are slow.
void stragglers(progress_setting how, claims& said) {
  text_table table{
      .head = {"slow workers", "BSP", "pBSP", "SSP(4)", "pSSP(4)", "ASP", "pBSP modelled, drawn anew"}, .rows = {}};
  std::vector<double> none, most;
  for (double const slow : {0.0, 0.05, 0.1, 0.2}) {
    how.slow = slow;
    std::vector<double> now;
    for (auto const& [name, p] : five(how.workers, some, how.seed))
      now.push_back(spread_of(progress_of(p, how)).median);
    now.push_back(spread_of(modelled_progress(0, some, 1, how)).median);
    if (none.empty()) none = now;
    if (slow == 0.05) most = now;
    std::vector<std::string> cells = {show_share(slow)};
    for (std::size_t i = 0; i < now.size(); ++i) cells.push_back(fmt::format("{:.0f}", now[i]));
    table.rows.push_back(std::move(cells));
  }
  fmt::print("The median of the steps where some take {} times as long:\n{}\n", how.slower, table.to_string());
  auto const left = [&](std::size_t i) { return most[i] / none[i]; };
  said.add(left(1) > 1.2 * left(0) && left(3) > 1.2 * left(2), "Progress is robust against stragglers.",
           fmt::format("where 5% are {} times as slow {} is left under pBSP and {} under BSP, {} under pSSP and {} "
                       "under SSP; of the model that draws anew each second {}.",
                       how.slower, show_share(left(1)), show_share(left(0)), show_share(left(3)), show_share(left(2)),
                       show_share(left(5))));
}

/// The error beside the time, where a quarter of the workers take twice as long.
void race(reproduce_options const& options, claims& said) {
  constexpr std::uint32_t workers = 32;
  ground const g(options, {.workers = workers});
  training job = g.job();
  job.scenario.speed.heterogeneity = {.level = 2, .slow_fraction = 0.25};
  job.scenario.speed.jitter = sim::exponential{};
  text_table table{.head = {"", "rate", "time", "updates", "waiting"}, .rows = {}};
  std::vector<double> all;
  for (auto const& [name, p] : five(workers, 2, options.seed)) {
    run_result const r = run_at_best_rate(job, [&p = p](double) { return p; }, 1);
    all.push_back(finish{r}.seconds());
    table.rows.push_back({name, fmt::format("{:.3g}", r.learning_rate),
                          r.seconds_to_target ? show_seconds(all.back()) : "-", std::to_string(r.counted_updates()),
                          show_share(r.wait_seconds / (r.compute_seconds + r.send_seconds + r.wait_seconds))});
  }
  fmt::print("Steps take exponential times, of a quarter of the workers twice as long; samples are of 2.\n{}",
             table.to_string());
  said.add(all[1] < all[0] && all[3] < all[2] && std::min(all[1], all[3]) < all[4],
           "It converges faster than BSP, SSP and ASP (abstract).",
           fmt::format("pBSP {} and pSSP {}; BSP {}, SSP {}, ASP {}.", show_seconds(all[1]), show_seconds(all[3]),
                       show_seconds(all[0]), show_seconds(all[2]), show_seconds(all[4])));
}

}  // namespace

void reproduce_psp(reproduce_options const& options) {
  progress_setting const how{.seconds = static_cast<double>(options.clocks.value_or(200)), .seed = options.seed};
  fmt::print("Wang, Catterall, Mortier, \"Probabilistic Synchronous Parallel\", 2017: {} workers, {:.0f} simulated "
             "seconds. A step takes 1 s and an exponential time of mean 1 s, chosen since so both BSP and ASP come as "
             "far as in the paper.\n\n",
             how.workers, how.seconds);
  claims said;
  auto const all = progress(how, said);
  sizes(how, all, said);
  stragglers(how, said);
  race(options, said);
  said.print();
}

}  // namespace rubato::bench
