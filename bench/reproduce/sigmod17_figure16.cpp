// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figure 16 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017): DynSGD with and
// without partition synchronization (App. E). The paper's partitions differ by what its production
// cluster does to them; here some servers' messages take longer.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/compare/compare.hpp"
#include "bench/compare/reference.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"

namespace rubato::bench {
namespace {

// ---- the paper

/// With synchronization over without it. The text has the first two; the third follows.
constexpr double paper_updates = 1 / 1.11;
constexpr double paper_time = 1 - 0.089;
constexpr double paper_per_update = paper_time / paper_updates;

// ---- ours

/// Some servers are delayed, each way, by a share of a usual worker's clock.
struct delayed {
  std::size_t servers;
  double clocks;
};
constexpr std::array settings = {delayed{0, 0},    delayed{1, 0.25}, delayed{1, 1}, delayed{1, 3},
                                 delayed{3, 0.25}, delayed{3, 1},    delayed{3, 3}};

/// Runs of the same setting that differ in what is drawn.
constexpr std::uint64_t draws = 5;

/// Means over the draws, on the way to the target.
struct figures {
  double rate = 0;
  double seconds = 0;
  double updates = 0;
  double deviation = 0;  ///< of the seconds, as a share of them
  std::uint64_t arrived = 0;

  [[nodiscard]] double per_update() const { return seconds / updates; }
};

/// Seconds that a usual worker computes from commit to commit.
double clock_seconds(training const& job) {
  double const values = static_cast<double>(job.work->train().nonzeros());
  return values / job.workers * to_seconds(job.scenario.speed.work_cost);
}

void add(figures& sum, std::vector<double>& all, run_result const& r) {
  all.push_back(r.counted_seconds());
  sum.arrived += r.seconds_to_target ? 1 : 0;
  sum.seconds += r.counted_seconds() / draws;
  sum.updates += static_cast<double>(r.counted_updates()) / draws;
}

/// The rate is tuned with one draw, and measured with others.
figures measure(protocol_choice const& protocol, training job) {
  progress_bar progress(draws + 1);
  figures f{.rate = run_tuned(protocol, job, std::nullopt, {}, progress).learning_rate};
  std::vector<double> all;
  for (std::uint64_t i = 1; i <= draws; ++i) {
    progress.advance();
    job.scenario.seed = job.seed + i;
    add(f, all, run_tuned(protocol, job, f.rate, {}, progress));
  }
  double squares = 0;
  for (double const s : all) squares += (s - f.seconds) * (s - f.seconds) / draws;
  f.deviation = std::sqrt(squares) / f.seconds;
  return f;
}

training job_with(training job, delayed const& d) {
  duration const delay = seconds(d.clocks * clock_seconds(job));
  job.scenario.server_delay.assign(d.servers, delay);
  return job;
}

struct pair_of_figures {
  figures without, with;
  [[nodiscard]] double time() const { return with.seconds / without.seconds; }
  [[nodiscard]] double updates() const { return with.updates / without.updates; }
  [[nodiscard]] double per_update() const { return with.per_update() / without.per_update(); }
};

std::vector<std::string> cells(delayed const& d, bool sync, figures const& f) {
  std::string const beyond = f.arrived == draws ? "" : ">";
  return {d.servers == 0 ? "no server" : fmt::format("{} by {} clocks", d.servers, d.clocks),
          sync ? "yes" : "no",
          show_number(f.rate),
          beyond + show_seconds(f.seconds),
          fmt::format("{:.1f}%", 100 * f.deviation),
          beyond + fmt::format("{:.0f}", f.updates),
          show_seconds(f.per_update())};
}

void add_rows(text_table& t, delayed const& d, pair_of_figures const& p) {
  auto without = cells(d, false, p.without);
  without.insert(without.end(), 3, "");
  auto with = cells(d, true, p.with);
  for (double const ratio : {p.time(), p.updates(), p.per_update()})
    with.push_back(fmt::format("{:.3f}", ratio));
  t.rows.push_back(std::move(without));
  t.rows.push_back(std::move(with));
}

std::string change(double ratio) { return fmt::format("{:+.1f}%", 100 * (ratio - 1)); }

/// What the paper says of one figure beside the range of ours where servers are delayed.
void compare_figure(sigmod17::claims& all, std::vector<pair_of_figures> const& found,
                    char const* what, double paper, double (pair_of_figures::*figure)() const) {
  double least = (found.front().*figure)();
  double greatest = least;
  for (pair_of_figures const& p : found) {
    least = std::min(least, (p.*figure)());
    greatest = std::max(greatest, (p.*figure)());
  }
  all.add(least <= paper && paper <= greatest,
          fmt::format("Synchronization changes the {} by {}.", what, change(paper)),
          fmt::format("{} to {}.", change(least), change(greatest)));
}

void run_target(training job, double share, double target) {
  job.target = target;
  protocol_choice const without = sigmod17::three().back();
  protocol_choice with = without;
  with.with.partition_sync = true;
  text_table t{.head = {"delayed", "synchronized", "rate", "run time", "+-", "updates",
                        "time/update", "run time ratio", "updates ratio", "time/update ratio"},
               .rows = {}};
  std::vector<pair_of_figures> found;
  for (delayed const& d : settings) {
    training const here = job_with(job, d);
    pair_of_figures const p{measure(without, here), measure(with, here)};
    add_rows(t, d, p);
    if (d.servers != 0) found.push_back(p);
  }
  t.rows.push_back({"paper", "", "", "", "", "", "", fmt::format("{:.3f}", paper_time),
                    fmt::format("{:.3f}", paper_updates), fmt::format("{:.3f}", paper_per_update)});
  fmt::print("Target {:.4g}, {:.1f}% of the way to what serial SGD finds\n{}", target, 100 * share,
             t.to_string());
  sigmod17::claims all;
  compare_figure(all, found, "number of updates", paper_updates, &pair_of_figures::updates);
  compare_figure(all, found, "time for each", paper_per_update, &pair_of_figures::per_update);
  compare_figure(all, found, "run time", paper_time, &pair_of_figures::time);
  all.print();
  fmt::print("\n");
}

}  // namespace

void reproduce_sigmod17_figure16(reproduce_options const& options) {
  loaded_data const data = sigmod17::load(options);
  workload const work(model_kind::lr, 1e-4, data.train, data.test);
  training job = sigmod17::job(work, 0, options.clocks.value_or(100), options);
  job.scenario.speed.heterogeneity.level = 2;
  job.decay = 0.2;
  job.stop.at_target = true;
  fmt::print(
      "Figure 16 of \"Heterogeneity-aware Distributed Parameter Servers\", SIGMOD 2017: DynSGD "
      "with "
      "and without partition synchronization. LR on {}, 30 workers, 10 servers, s = 3, HL 2; means "
      "of {} draws at a rate tuned with another. A clock is the {} that a usual worker computes "
      "between commits; delays are of each message between a worker and the server, each way.\n\n",
      data.name, draws, show_seconds(clock_seconds(job)));
  reach const found = find_reach(work, options.shards);
  // The usual target is reached in four clocks, before workers can be three apart.
  for (double const share : {0.98, 0.995}) run_target(job, share, found.at(share));
}

}  // namespace rubato::bench
