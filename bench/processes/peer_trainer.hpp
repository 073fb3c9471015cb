// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "bench/processes/shared_parameters.hpp"
#include "bench/processes/shared_progress.hpp"
#include "bench/processes/slow_down.hpp"
#include "bench/train/peer_body.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/timing.hpp"

// What a process with a peer does, however it came to be one.
namespace rubato::bench {

/// How far peers in other processes are, and their parameters, for a loss curve: in memory that a process shares with
/// the copies made of it afterwards, or filled by what others say.
class seen_by_all {
 public:
  seen_by_all(std::uint32_t peers, std::span<float const> start) : progress(peers), parameters(peers, start) {}
  virtual ~seen_by_all() = default;

  /// By that peer.
  virtual void note(std::uint32_t rank, std::uint64_t steps, time_split const& spent, std::span<float const> x) {
    progress.note(rank, steps, spent);
    parameters.note(rank, x);
  }
  /// Takes what others have said. By the peer that draws the curve.
  virtual void refresh() {}

  shared_progress progress;
  shared_parameters parameters;
};

/// One process of the run. One peer draws the curve, of what the others have let it see: so a look is some steps old,
/// where the last one of the run is not.
class peer_trainer {
 public:
  /// @param draws whether this one's peer does
  peer_trainer(training const& job, seen_by_all& all, bool draws)
      : job_(job), all_(all), draws_(draws), slowness_(slowness_of(job)) {}

  template <class Group>
  run_result run(Group& group, run_result r) {
    recorder curve(job_, peer_updates_in_clock(job_));
    remembered_objective objective(*job_.work);
    auto const look = [&] {
      all_.refresh();
      std::uint64_t made = 0;
      for (std::uint32_t i = 0; i < job_.workers; ++i) made += all_.progress.steps(i);
      double const now = to_seconds(group.now().since_start());
      if (!curve.due(now, made)) return;
      for (std::uint32_t i = 0; i < job_.workers; ++i) curve.note(i, all_.progress.steps(i), all_.progress.spent(i));
      if (curve.look(now, made, [&] { return objective.of(all_.parameters.average()); })) group.stop();
    };
    peer_report const report = group.run([&](peer<float>& self) { live(self, look); });
    auto const parameters = group.parameters();
    fill_in(r, job_, report, curve.finish(to_seconds(report.elapsed), report.iterations(), objective(parameters)));
    fill_in_parameters(r, job_, parameters);
    return r;
  }

 private:
  template <class Look>
  void live(peer<float>& self, Look look) {
    slow_motion slowed(slowness_[self.rank()]);
    auto began = std::chrono::steady_clock::now();
    train_peer(
        self, job_,
        [&](std::size_t steps) {
          all_.note(self.rank(), steps, split_of(self.metrics()), self.parameters());
          if (draws_) look();
          began = std::chrono::steady_clock::now();
        },
        [&] {
          slow_down(slowed, began);
        });
  }

  training const& job_;
  seen_by_all& all_;
  bool draws_;
  std::vector<double> slowness_;
};

}  // namespace rubato::bench
