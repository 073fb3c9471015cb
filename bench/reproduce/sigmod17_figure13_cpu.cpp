// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// The CPU half of Figure 13 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017, §7.5): what servers
// and workers compute, as processes of this machine, by protocol and staleness.

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "bench/processes/run_processes.hpp"
#include "bench/processes/shared_progress.hpp"
#include "bench/processes/worker_process.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "bench/train/body.hpp"
#include "bench/train/load_data.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

/// Three workers to a server, as in the paper.
constexpr std::uint32_t workers = 6, servers = 2;
constexpr std::size_t rows = 60'000, features = 20'000, nonzeros = 20;
constexpr int repeats = 5;

/// Of one run, in seconds.
struct usage {
  double worker = 0;  ///< CPU time of one, on average
  double server = 0;
  double wall = 0;  ///< of the whole run, as worker 0 saw it
  double bytes = 0;  ///< that all workers sent and received
};

/// CPU time of this process so far.
double cpu_seconds() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto const seconds_of = [](timeval const& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds_of(used.ru_utime) + seconds_of(used.ru_stime);
}

template <class Table>
usage run_once(rules const& p, Table const& table, training const& job) {
  // What each process has used, workers first: the only thing that they tell besides worker 0's time.
  shared_progress cpu(workers + servers);
  std::vector<double> const slowness = slowness_of(job);
  auto const play = [&](net::deployment const& place, auto const& listens) -> std::string {
    double const before = cpu_seconds();
    auto const tell = [&](std::uint32_t at) { cpu.note(at, 0, {.compute = cpu_seconds() - before}); };
    cluster group{tcp{.place = place, .seed = job.seed}, with(p, every{job.steps_per_commit}), table};
    if (place.as != net::role::worker) {
      listens(group.runtime().bound());
      group.run([](training_worker&) {});
      if (place.as == net::role::server) tell(workers + *place.rank);
      return "";
    }
    run_report const report = group.run([&](training_worker& w) {
      slowed_worker worker(w, slowness[w.rank()]);
      train(
          worker, job, [&] { return worker.clock().value() < job.clocks; }, [](auto const&) {}, [](auto const&) {});
    });
    tell(*place.rank);
    worker_metrics const all = report.total();
    auto const bytes = static_cast<double>(all.bytes_sent + all.bytes_received);
    return nlohmann::json({to_seconds(report.elapsed), bytes}).dump();
  };
  auto const said = nlohmann::json::parse(run_processes({.workers = workers, .servers = servers}, play));
  usage u{.wall = said.at(0), .bytes = said.at(1)};
  for (std::uint32_t i = 0; i < workers; ++i) u.worker += cpu.spent(i).compute / workers;
  for (std::uint32_t i = 0; i < servers; ++i) u.server += cpu.spent(workers + i).compute / servers;
  return u;
}

struct subject_of_usage {
  char const* name;
  rules protocol;
  bool versions;
};

usage run_once(subject_of_usage const& s, training const& job) {
  auto const table = dense_table(job);
  return s.versions ? run_once(s.protocol, multi_version{table}, job) : run_once(s.protocol, table, job);
}

double median(std::vector<usage> const& all, double (*of)(usage const&)) {
  std::vector<double> values;
  for (usage const& u : all) values.push_back(of(u));
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<subject_of_usage> subjects() {
  std::vector<subject_of_usage> all = {{"SSP(3)", ssp{.staleness = staleness{3}}, false},
                                       {"ConSGD(3)", con_sgd{.staleness = staleness{3}}, false},
                                       {"DynSGD(3)", dyn_sgd{.staleness = staleness{3}}, true},
                                       {"SSP(40)", ssp{.staleness = staleness{40}}, false},
                                       {"DynSGD(40)", dyn_sgd{.staleness = staleness{40}}, true}};
  return all;
}

/// Runs all in turn, prints them, and returns what a server uses at most, of what a worker does.
double run_all(training const& job) {
  std::vector<subject_of_usage> const all = subjects();
  std::vector<std::vector<usage>> found(all.size());
  for (int k = 0; k < repeats; ++k)
    for (std::size_t i = 0; i < all.size(); ++i) found[i].push_back(run_once(all[i], job));
  text_table t{.head = {"", "a worker", "a server", "server / worker", "per update: a server", "of SSP's", "a worker",
                        "of SSP's", "bytes", "of SSP's"},
               .rows = {}};
  auto const server_time = [](usage const& u) { return u.server; };
  auto const worker_time = [](usage const& u) { return u.worker; };
  auto const bytes = [](usage const& u) { return u.bytes; };
  auto const clocks = static_cast<double>(job.clocks);
  double most = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    std::vector<usage> const &f = found[i], &base = found[i < 3 ? 0 : 3];  // SSP of the same staleness
    double const beside = median(f, [](usage const& u) { return u.server / u.worker; });
    auto const of_ssp = [&](double (*of)(usage const&)) {
      return fmt::format("{:.2f}", median(f, of) / median(base, of));
    };
    most = std::max(most, beside);
    t.rows.push_back({all[i].name, show_share(median(f, [](usage const& u) { return u.worker / u.wall; })),
                      show_share(median(f, [](usage const& u) { return u.server / u.wall; })),
                      fmt::format("{:.2f}", beside), show_seconds(median(f, server_time) / clocks / workers),
                      of_ssp(server_time), show_seconds(median(f, worker_time) / clocks), of_ssp(worker_time),
                      fmt::format("{:.0f} kB", median(f, bytes) / clocks / workers / 1e3), of_ssp(bytes)});
  }
  fmt::print("{}", t.to_string());
  return most;
}

/// What DynSGD costs goes by how large the entries of a commit are, for it does not send those that are too small to
/// matter.
void print_rates(training job) {
  fmt::print("\nDynSGD(3) in units of SSP(3)'s, {} clocks of a mini-batch, by the learning rate\n", job.clocks);
  subject_of_usage const plain = subjects()[0], dyn = subjects()[2];
  text_table t{.head = {"rate", "a server's CPU", "a worker's", "bytes"}, .rows = {}};
  for (double const rate : {0.0, 0.001, 0.1, 3.0}) {
    job.learning_rate = rate;
    std::vector<usage> base, ours;
    for (int k = 0; k < repeats; ++k) {
      base.push_back(run_once(plain, job));
      ours.push_back(run_once(dyn, job));
    }
    std::vector<std::string> row = {show_number(rate)};
    for (auto* const of : {+[](usage const& u) { return u.server; }, +[](usage const& u) { return u.worker; },
                           +[](usage const& u) { return u.bytes; }})
      row.push_back(fmt::format("{:.2f}", median(ours, of) / median(base, of)));
    t.rows.push_back(std::move(row));
  }
  fmt::print("{}", t.to_string());
}

}  // namespace

void reproduce_sigmod17_figure13_cpu(reproduce_options const& options) {
  loaded_data const data = load_data(
      {.synthetic = "ctr", .rows = rows * 5 / 4, .features = features, .nonzeros = nonzeros}, options.seed);
  workload const work({.model = model_kind::lr, .l2 = 1e-4, .evaluated_rows = 1'000}, data.train, data.test);
  training job;
  job.work = &work;
  job.transport = transport_kind::tcp;
  job.workers = workers;
  job.servers = servers;
  job.scenario.speed.heterogeneity.level = 2;
  job.seed = options.seed;
  fmt::print(
      "Figure 13, CPU, of \"Heterogeneity-aware Distributed Parameter Servers\", SIGMOD 2017: {} workers and {} "
      "servers as processes of this machine, HL 2 by sleeping, LR on {} of {} rows and {} features. CPU time, user and "
      "system, medians of {} runs in turn. A core is 100%.\n",
      workers, servers, data.name, data.train.size(), features, repeats);
  claims said;
  for (bool const pass : {false, true}) {
    job.steps_per_commit = pass ? 10 : 1;
    job.clocks = std::max<std::int64_t>(1, options.clocks.value_or(400) / (pass ? 4 : 1));
    fmt::print("\n{} clocks of a {}\n", job.clocks, pass ? "pass, in ten mini-batches" : "mini-batch");
    double const most = run_all(job);
    said.add(most < 0.5,
             fmt::format("Servers use much less of the CPU than workers ({}).", pass ? "pass" : "mini-batch"),
             fmt::format("{:.0f}% of a worker's at most.", 100 * most));
  }
  said.print();
  job.steps_per_commit = 1;
  job.clocks = options.clocks.value_or(400);
  print_rates(job);
}

}  // namespace rubato::bench
