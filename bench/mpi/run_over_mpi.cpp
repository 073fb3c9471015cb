// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/mpi/run_over_mpi.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/compare/command.hpp"
#include "bench/compare/subject.hpp"
#include "bench/mpi/crew.hpp"
#include "bench/processes/peer_trainer.hpp"
#include "bench/processes/shared_progress.hpp"
#include "bench/processes/worker_process.hpp"
#include "bench/result/json.hpp"
#include "bench/train/run.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/transport/mpi.hpp"

namespace rubato::bench {
namespace {

/// Of the workers in other processes worker 0 knows what they say.
class progress_of_ranks final : public run_progress {
 public:
  progress_of_ranks(crew& all, std::uint32_t workers, std::uint32_t run) : crew_(all), run_(run), known_(workers) {}

  void note(std::uint32_t rank, std::uint64_t steps, time_split const& spent) override {
    if (crew_.is_first_worker()) return known_.note(rank, steps, spent);
    crew_.tell({.worker = rank, .run = run_, .steps = steps, .spent = spent});
  }
  void note_done(std::uint32_t rank) override {
    if (crew_.is_first_worker()) return known_.note_done(rank);
    if (!std::exchange(said_done_, true)) crew_.tell({.worker = rank, .run = run_, .is_done = true});
  }
  void refresh() override {
    crew_.hear([this](heard_note const& heard) {
      progress_note const& n = heard.note;
      if (n.run != run_) return;
      if (n.is_done) known_.note_done(n.worker);
      else known_.note(n.worker, n.steps, n.spent);
    });
  }
  [[nodiscard]] std::uint64_t commits() const noexcept override { return known_.commits(); }
  /// It is worker 0 that then ends the run.
  [[nodiscard]] bool all_done() const noexcept override { return crew_.is_first_worker() && known_.all_done(); }
  [[nodiscard]] std::uint64_t steps(std::uint32_t rank) const noexcept override { return known_.steps(rank); }
  [[nodiscard]] time_split spent(std::uint32_t rank) const noexcept override { return known_.spent(rank); }

 private:
  crew& crew_;
  std::uint32_t run_;
  shared_progress known_;
  bool said_done_ = false;
};

template <class Table>
run_result train_between_ranks(crew& all, std::uint32_t number, server_run const& what, Table const& table,
                               run_result r) {
  training const& job = what.job;
  mpi const ranks{.place = {.servers = job.servers}, .seed = job.seed};
  progress_of_ranks progress(all, job.workers, number);
  cluster group{ranks, what.protocol, table};
  if (group.runtime().has_workers()) {
    std::string const found = train_here(group, group.runtime().rank(), job, what.length, progress, r);
    if (all.is_first_worker()) all.report(found);
  } else {
    group.run([](training_worker&) {});
  }
  return all.leads() ? from_json(nlohmann::ordered_json::parse(all.result())) : r;
}

/// Of the peers of other ranks the first worker's knows what they say.
class peers_of_ranks final : public seen_by_all {
 public:
  peers_of_ranks(crew& all, training const& job, std::uint32_t run, std::span<float const> start)
      : seen_by_all(job.workers, start), crew_(all), run_(run), period_(period_of(job)) {}

  void note(std::uint32_t rank, std::uint64_t steps, time_split const& spent, std::span<float const> x) override {
    if (crew_.is_first_worker()) return seen_by_all::note(rank, steps, spent, x);
    crew_.tell({.worker = rank, .run = run_, .steps = steps, .spent = spent},
               steps % period_ == 0 ? x : std::span<float const>());
  }
  void refresh() override {
    crew_.hear([this](heard_note const& heard) {
      if (heard.note.run != run_) return;
      progress.note(heard.note.worker, heard.note.steps, heard.note.spent);
      if (!heard.parameters.empty()) parameters.note(heard.note.worker, heard.parameters);
    });
  }

 private:
  /// Parameters are sent as often as the curve has points.
  static std::uint64_t period_of(training const& job) {
    auto const points = static_cast<std::int64_t>(std::max<std::size_t>(1, job.points));
    return static_cast<std::uint64_t>(std::max<std::int64_t>(1, job.local_steps() / points));
  }

  crew& crew_;
  std::uint32_t run_;
  std::uint64_t period_;
};

run_result train_peers_between_ranks(crew& all, std::uint32_t number, peer_rules const& p, graph const& among,
                                     training const& job, run_result r) {
  std::vector<float> const start(job.start().begin(), job.start().end());
  peer_group group{mpi{.place = {.servers = 0}, .seed = job.seed}, among, p, plain_step{}, start};
  if (!group.runtime().has_peers()) {
    group.run([](peer<float>&) {});
    return from_json(nlohmann::ordered_json::parse(all.result()));
  }
  peers_of_ranks seen(all, job, number, start);
  run_result found = peer_trainer(job, seen, all.is_first_worker()).run(group, std::move(r));
  if (all.is_first_worker()) all.report(to_json(found).dump());
  return found;
}

/// A protocol by its label, and its rate.
std::string order_of(std::string const& label, training const& job) {
  return nlohmann::json{{"protocol", label}, {"rate", job.learning_rate}}.dump();
}

/// Until rank 0 leaves.
void follow(crew& all, compare_settings& settings) {
  subject const what(settings);
  what.put_into(settings.job);
  while (auto const text = all.next_order()) {
    auto const order = nlohmann::json::parse(*text);
    auto const label = order.at("protocol").get<std::string>();
    auto const p = std::ranges::find(settings.protocols, label, &protocol_choice::label);
    settings.job.learning_rate = order.at("rate").get<double>();
    (void)p->run(settings.job);
  }
}

}  // namespace

void run_compare_over_mpi(compare_options const& options) {
  over_mpi().ranks = net::this_mpi_rank().count;
  compare_settings settings = interpret(options);
  crew all(settings.job.servers);
  std::uint32_t runs = 0;
  over_mpi().begin = [&](std::string const& label, training const& job) {
    if (all.leads()) all.order(order_of(label, job));
  };
  over_mpi().run = [&](server_run const& what, run_result r) {
    ++runs;
    if (what.storage == storage_kind::multi_version)
      return train_between_ranks(all, runs, what, multi_version{dense_table(what.job)}, std::move(r));
    return train_between_ranks(all, runs, what, dense_table(what.job), std::move(r));
  };
  over_mpi().run_peers = [&](peer_rules const& p, graph const& among, training const& job, run_result r) {
    return train_peers_between_ranks(all, ++runs, p, among, job, std::move(r));
  };
  if (all.leads()) run_compare(options);
  else follow(all, settings);
  over_mpi() = {};
}

}  // namespace rubato::bench
