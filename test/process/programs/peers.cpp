// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// One process of a group of peers on a ring. What it came to is printed as lines of a name and values.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "process/program.hpp"
#include "rubato/cluster/peer_group.hpp"
#include "rubato/core/error.hpp"
#include "rubato/peer/ad_psgd.hpp"
#include "rubato/peer/all_reduce.hpp"
#include "rubato/peer/gossip.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/peer_rules.hpp"
#include "rubato/peer/prague.hpp"
#include "rubato/peer/push_sum.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/transport/tcp.hpp"

using namespace rubato;

namespace {

peer_rules protocol_of(std::string const& name) {
  if (name == "hop") return hop();
  if (name == "backup") return hop(gather_all_but{1}, token_queues{4});
  if (name == "newest") return hop(gather_newest{.staleness = 3}, token_queues{4});
  if (name == "ad_psgd") return ad_psgd{};
  if (name == "all_reduce") return all_reduce{};
  if (name == "push_sum") return push_sum{.delay = 1};
  if (name == "gossip") return gossip{};
  if (name == "prague") return prague{};
  throw option_error("no protocol " + name);
}

/// Breaks the connections to a neighbor now and then.
template <class Group>
void cut_some(Group& group, std::int64_t k) {
  std::uint32_t const rank = group.runtime().rank();
  if (k % 7 == 3) group.runtime().cut((rank + 1) % group.size());
}

void train(test::arguments const& given) {
  tcp transport = tcp::from_environment();
  transport.background = given.number("background", 0) != 0;
  auto const size = static_cast<std::size_t>(given.number("size", 1000));
  std::vector<float> const w0(size, static_cast<float>(given.number("first", 1)));
  peer_group group{transport, ring(transport.place.workers), protocol_of(given.text("protocol", "hop")),
                   sgd{.rate = 0.1, .momentum = 0.5}, w0};
  auto const pause = std::chrono::microseconds(given.number("pause", 0));
  bool const tells = !given.text("tells").empty();
  bool const cuts = !given.text("cuts").empty();
  for (std::int64_t run = given.number("runs", 1); run != 0; --run) {
    peer_report const report = group.run([&](auto& peer) {
      std::vector<float> g(size);
      test::hold const held(given.text("hold"));
      for (std::int64_t const k : peer.iterations(given.number("iterations", 20))) {
        if (tells) test::say("iteration", std::to_string(k));
        held.wait(k);
        if (cuts) cut_some(group, k);
        for (std::size_t i = 0; i < size; ++i)
          g[i] = peer.parameters()[i] - static_cast<float>(peer.rank() + i % 3);
        std::this_thread::sleep_for(pause);
        peer.step(g);
      }
    });
    if (!group.runtime().has_peers()) return;
    test::say("made", std::to_string(report.peers[group.runtime().rank()].iterations));
    test::say("crashes", std::to_string(report.crashes));
    test::say("own", test::hash_of(group.parameters(group.runtime().rank())));
    test::say("average", test::hash_of(group.parameters()));
    test::say("over");
  }
}

}  // namespace

int main(int count, char** texts) {
  return test::main_of(count, texts, [](test::arguments const& given) { train(given); });
}
