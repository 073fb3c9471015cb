// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Sixteen peers on a ring-based graph, no server. Each sends its parameters to three neighbors, averages
// what it gets and applies its own gradient. One of them is four times slower than the others: under the
// standard protocol all are, soon; with backup workers and jumps they hardly notice. Same body.
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <span>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

constexpr std::uint32_t peers = 16;
constexpr std::size_t dimensions = 20;

/// Each peer sees only its own data: those of peer r pull every parameter towards r.
void gradient(std::uint32_t rank, std::span<float const> x, std::span<float> out) {
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] - static_cast<float>(rank);
}

template <class Protocol>
void train(char const* name, Protocol protocol) {
  rb::simulated const cluster{
      .scenario = {.speed = {.work_cost = 10ms, .slowness = {4}},  // the first peer; 1 for the others
                   .network = {.worker_link = {.latency = 1ms}}}};
  rb::peer_group group{cluster, rb::ring_based(peers), protocol,
                       rb::sgd{.rate = 0.05, .momentum = 0.5}, std::vector<float>(dimensions)};
  rb::peer_report const report = group.run([](auto& peer) {
    std::vector<float> g(dimensions);
    for ([[maybe_unused]] auto k : peer.iterations(200)) {
      gradient(peer.rank(), peer.parameters(), g);
      peer.step(g);
    }
  });

  rb::peer_metrics const& slow = report.peers[0];
  std::printf("%-24s %5.2f s; the slow peer made %3llu iterations and jumped over %3llu; average %.2f\n",
              name, rb::to_seconds(report.elapsed), static_cast<unsigned long long>(slow.iterations),
              static_cast<unsigned long long>(slow.jumped_over), group.parameters()[0]);
}

int main() {
  train("standard", rb::hop());
  train("one backup worker", rb::hop(rb::gather_all_but{.backups = 1}, rb::token_queues{8}));
  train("staleness of 5", rb::hop(rb::gather_newest{.staleness = 5}, rb::token_queues{8}));
  train("backup worker, jumps",
        rb::hop(rb::gather_all_but{.backups = 1}, rb::token_queues{8}, rb::bounded_jump{}));
  train("all-reduce", rb::all_reduce{});
}
