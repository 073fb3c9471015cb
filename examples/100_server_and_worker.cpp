// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Logistic regression whose parameters live in another process. In one terminal a server, which also
// coordinates:
//   rubato-server --with-coordinator --coordinator unix:meeting --workers 2
//                 --protocol ssp --staleness 2 --rows 50
// and in two others, in the same folder, a worker each:
//   RUBATO_COORDINATOR=unix:meeting RUBATO_ROLE=worker WORLD_SIZE=2 RANK=0 100_server_and_worker
//   RUBATO_COORDINATOR=unix:meeting RUBATO_ROLE=worker WORLD_SIZE=2 RANK=1 100_server_and_worker
// On several machines they meet at a HOST:PORT of the server's, which then needs --beyond-loopback;
// and all need a token, RUBATO_TOKEN_FILE.
// Or all at once:
//   rubato-launch -n 2 -s 2 --server-command 'rubato-server --protocol ssp --staleness 2 --rows 50' --
//                 100_server_and_worker
#include <cstdio>
#include <rubato/data/synthetic.hpp>
#include <rubato/model/linear.hpp>
#include <rubato/rubato.hpp>
#include <rubato/transport/tcp.hpp>
#include <vector>

namespace rb = rubato;

int main() try {
  auto const data = rb::data::make_synthetic({.rows = 4'000, .features = 50});  // the same everywhere
  rb::model::logistic_regression<float> const model{.l2 = 1e-4};

  rb::cluster cluster{rb::tcp::from_environment(), rb::ssp{.staleness = 2},
                      rb::dense<float>{.rows = data.features()}};

  cluster.run([&](auto& worker) {
    auto const batches = data.shard(worker.rank(), worker.count()).batches(rb::data::fraction{0.05});
    std::vector<float> w(data.features()), delta(data.features());
    for (std::size_t step = 0; step < 10 * batches.size(); ++step) {
      worker.pull(w);  // from the servers, when the own copy has become too stale
      model.local_step(batches.at_step(step), 0.1, w, delta);
      worker.push(delta);
      worker.step();  // sends it, and goes on
    }
  });

  auto const& w = cluster.parameters();
  std::printf("worker %u: accuracy %.1f%%\n", cluster.runtime().rank(), 100 * model.accuracy(data, w));
} catch (rb::error const& e) {
  std::fprintf(stderr, "100_server_and_worker: %s\n", e.what());
  return 1;
}
