// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Logistic regression between the ranks of an MPI job: rank 0 coordinates, rank 1 is a server, the others are workers.
//   mpirun -n 5 145_mpi
//   srun --mpi=pmix -n 5 145_mpi
// RUBATO_SERVERS=2 makes two of them servers.
#include <cstdio>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/rubato.hpp>
#include <rubato/transport/mpi.hpp>
#include <vector>

namespace rb = rubato;

int main() try {
  auto const data = rb::data::make_synthetic({.rows = 4'000, .features = 50});  // the same everywhere
  rb::model::logistic_regression<float> const model{.l2 = 1e-4};

  auto const ranks = rb::mpi::from_environment();
  float best_rate = 0;
  double best = 0;
  for (float const rate : {0.02F, 0.1F, 0.5F}) {  // a cluster each, one after the other
    rb::cluster cluster{ranks, rb::ssp{.staleness = 2}, rb::dense<float>{.rows = data.features()}};
    cluster.run([&](auto& worker) {
      auto const batches = data.shard(worker.rank(), worker.count()).batches(rb::data::fraction{0.05});
      std::vector<float> w(data.features()), delta(data.features());
      for (std::size_t step = 0; step < 5 * batches.size(); ++step) {
        worker.pull(w);
        model.local_step(batches.at_step(step), rate, w, delta);
        worker.push(delta);
        worker.step();
      }
    });
    if (!cluster.runtime().has_workers()) continue;  // the parameters are for those who trained them
    double const accuracy = model.accuracy(data, cluster.parameters());
    if (accuracy > best) best = accuracy, best_rate = rate;
  }
  if (ranks.place.as == rb::net::role::worker && ranks.place.rank == 0)
    std::printf("%u workers: accuracy %.1f%% at rate %g\n", ranks.place.workers, 100 * best, double{best_rate});
} catch (rb::error const& e) {  // of this process or another; mpirun hears of it, too
  std::fprintf(stderr, "145_mpi: %s\n", e.what());
  return 1;
}
