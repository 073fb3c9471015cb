// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A schedule of one's own: eight peers in two racks push to the next one of their rack, and only in every fourth
// iteration to the other rack, over slow links. Edges are directed, and change; weights travel with the updates, so
// that all come to the average of all whoever sends to whom. Beside it, protocols that come with the library.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <rubato/rubato.hpp>
#include <rubato/testing/check_exchange.hpp>
#include <string>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

constexpr std::uint32_t peers = 8, in_a_rack = 4;

struct mostly_within_racks {
  std::vector<rb::worker_id> out(rb::graph const&, rb::worker_id i, rb::iteration_index k) const {
    return {neighbor(i, k, 1)};
  }
  std::vector<rb::worker_id> in(rb::graph const&, rb::worker_id j, rb::iteration_index k) const {
    return {neighbor(j, k, in_a_rack - 1)};
  }
  std::string text() const { return "mostly within racks"; }

 private:
  static rb::worker_id neighbor(rb::worker_id w, rb::iteration_index k, std::uint32_t step) {
    std::uint32_t const i = w.value();
    if (k.value() % 4 == 3) return rb::worker_id{(i + in_a_rack) % peers};
    return rb::worker_id{i / in_a_rack * in_a_rack + (i + step) % in_a_rack};
  }
};

/// A protocol of such exchanges; `push_rules` has what else can differ.
struct push_within_racks {
  std::unique_ptr<rb::peer_node> make_node(rb::node_setup const& setup) const {
    return rb::make_push_node({.name = "push_within_racks", .who = mostly_within_racks{}}, setup);
  }
};

template <class Protocol>
void train(char const* name, Protocol protocol) {
  rb::simulated const cluster{.scenario = {.speed = {.work_cost = 10ms, .slowness = {2}},
                                           .network = {.worker_link = {.latency = 4ms}, .local_link = {.latency = 1ms}},
                                           .machine_of = {0, 0, 0, 0, 1, 1, 1, 1}}};
  rb::peer_group group{cluster, rb::complete(peers), protocol, rb::sgd{.rate = 0.05}, std::vector<double>{10}};
  auto const report = group.run([](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(200))
      peer.step(std::vector{peer.parameters()[0] - peer.rank()});  // each pulls towards its rank
  });
  std::printf("%-18s %5.2f s; average %.2f, nobody is further than %.2f from it\n", name,
              rb::to_seconds(report.elapsed), group.parameters()[0], group.spread());
}

int main() {
  // Both ends must agree on who sends.
  for (std::string const& wrong : rb::testing::check_exchange(mostly_within_racks{}, rb::complete(peers))) {
    std::printf("%s\n", wrong.c_str());
    return 1;
  }
  train("push_within_racks", push_within_racks{});
  train("push_sum", rb::push_sum{});
  train("prague", rb::prague{.group = 4});
  train("gossip", rb::gossip{.probability = 1});
}
