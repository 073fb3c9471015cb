// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers without a server, each a process of its own. They find each other through a coordinator, which
// rubato-launch starts beside them; -s 0, since there are no servers.
//   rubato-launch -n 4 -s 0 -- 075_peers_across_processes
// Or by hand, in as many terminals; then all need the same RUBATO_COORDINATOR, on any machine they reach:
//   RUBATO_ROLE=coordinator RUBATO_SERVERS=0 WORLD_SIZE=2
//       RUBATO_COORDINATOR=127.0.0.1:29511 075_peers_across_processes
//   RANK=0 RUBATO_ROLE=worker RUBATO_SERVERS=0 WORLD_SIZE=2
//       RUBATO_COORDINATOR=127.0.0.1:29511 075_peers_across_processes
//   RANK=1 RUBATO_ROLE=worker RUBATO_SERVERS=0 WORLD_SIZE=2
//       RUBATO_COORDINATOR=127.0.0.1:29511 075_peers_across_processes
// Each peer fits a line to points that only it has. Kill one of them with kill -9 (and rubato-launch
// --on-loss go-on): the others go on without it, as the gather allows.
#include <cstddef>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/transport/tcp.hpp>
#include <span>
#include <vector>

namespace rb = rubato;

/// Of the squared errors at a hundred points of y = 3x + 1, of which this peer has those of its part.
void gradient(std::uint32_t rank, std::uint32_t peers, std::span<double const> line, std::span<double> out) {
  out[0] = out[1] = 0;
  for (unsigned i = rank; i < 100; i += peers) {
    double const x = i / 100.0;
    double const error = line[0] * x + line[1] - (3 * x + 1);
    out[0] += error * x * peers / 100;
    out[1] += error * peers / 100;
  }
}

int main() try {
  auto const across = rb::tcp::from_environment();
  // Every process makes the same group, and has the node of its own rank only.
  rb::peer_group group{across, rb::ring(across.place.workers),
                       rb::hop(rb::gather_all_but{.backups = 1}, rb::token_queues{4}),
                       rb::sgd{.rate = 0.3, .momentum = 0.8}, std::vector<double>(2)};
  rb::peer_report const report = group.run([](auto& peer) {
    std::vector<double> g(2);
    for ([[maybe_unused]] auto k : peer.iterations(500)) {
      gradient(peer.rank(), peer.count(), peer.parameters(), g);
      peer.step(g);
    }
  });
  if (!group.runtime().has_peers()) return 0;  // it has coordinated those that train
  // After the run every process has the average of all peers' parameters, and what all have counted.
  auto const line = group.parameters();
  if (group.runtime().rank() == 0)
    std::printf("y = %.2f x + %.2f, after %llu iterations of %zu peers\n", line[0], line[1],
                static_cast<unsigned long long>(report.iterations()), report.peers.size());
} catch (rb::error const& e) {
  std::fprintf(stderr, "075_peers_across_processes: %s\n", e.what());
  return 1;
}
