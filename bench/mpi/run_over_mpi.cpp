// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/mpi/run_over_mpi.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "bench/compare/command.hpp"
#include "bench/compare/subject.hpp"
#include "bench/mpi/crew.hpp"
#include "bench/processes/shared_progress.hpp"
#include "bench/processes/worker_process.hpp"
#include "bench/result/json.hpp"
#include "bench/train/run.hpp"
#include "rubato/cluster/cluster.hpp"
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
    crew_.hear([this](progress_note const& n) {
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
  if (all.leads()) run_compare(options);
  else follow(all, settings);
  over_mpi() = {};
}

}  // namespace rubato::bench
