// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/processes/run_processes.hpp"
#include "bench/processes/shared_parameters.hpp"
#include "bench/processes/shared_progress.hpp"
#include "bench/result/json.hpp"
#include "bench/train/peer_body.hpp"
#include "bench/train/recorder.hpp"
#include "bench/train/run_peers.hpp"
#include "bench/train/timing.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::bench {
namespace {

/// What the processes share beside messages.
struct seen_by_all {
  shared_progress progress;
  shared_parameters parameters;
};

/// One process of the run. Peer 0 draws the curve, of what the others have put into memory that all share: so the last
/// look is some steps old, where the last one of the run is not.
class peer_trainer {
 public:
  peer_trainer(training const& job, seen_by_all& all) : job_(job), all_(all), slowness_(slowness_of(job)) {}

  template <class Group>
  run_result run(Group& group, run_result r) {
    recorder curve(job_, peer_updates_in_clock(job_));
    remembered_objective objective(*job_.work);
    auto const look = [&] {
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
    double const slowness = slowness_[self.rank()];
    auto began = std::chrono::steady_clock::now();
    train_peer(
        self, job_,
        [&](std::size_t steps) {
          all_.progress.note(self.rank(), steps, split_of(self.metrics()));
          all_.parameters.note(self.rank(), self.parameters());
          if (self.rank() == 0) look();
          began = std::chrono::steady_clock::now();
        },
        [&] {
          std::chrono::duration<double> const busy = std::chrono::steady_clock::now() - began;
          if (slowness > 1) std::this_thread::sleep_for(busy * (slowness - 1));
        });
  }

  training const& job_;
  seen_by_all& all_;
  std::vector<double> slowness_;
};

}  // namespace

run_result run_peers_across_processes(peer_rules const& p, graph const& among, training const& job, run_result r) {
  std::vector<float> const start(job.start().begin(), job.start().end());
  seen_by_all all{.progress = shared_progress(job.workers), .parameters = shared_parameters(job.workers, start)};
  auto const play = [&](net::deployment const& place, auto const& listens) -> std::string {
    peer_group group{tcp{.place = place, .seed = job.seed}, among, p, plain_step{}, start};
    if (place.as != net::role::worker) {
      listens(group.runtime().bound());
      group.run([](peer<float>&) {});
      return "";
    }
    run_result const found = peer_trainer(job, all).run(group, std::move(r));
    return *place.rank == 0 ? to_json(found).dump() : "";
  };
  return from_json(nlohmann::ordered_json::parse(run_processes({.workers = job.workers, .servers = 0}, play)));
}

}  // namespace rubato::bench
