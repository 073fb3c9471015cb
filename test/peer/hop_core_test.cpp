// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How a peer of Hop goes through its iterations, by hand.
#include "rubato/peer/hop_core.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

#include "peer/hop_hand.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/topologies.hpp"

using namespace rubato;
using namespace rubato::test;

TEST_CASE("hop_core: parallel order sends, computes, gathers and reduces", "[peer][hop_core]") {
  hand p(hop(), among({1, 2}));
  CHECK_FALSE(p.core.started());
  CHECK(p.poll() == "wait");
  CHECK_FALSE(p.core.can_go_on());
  p.start(2);
  CHECK(p.core.started());
  CHECK(p.said().empty());  // no tokens, nothing else to say
  for (std::int64_t k = 0; k < 2; ++k) {
    CHECK(p.poll() == "send");
    CHECK(p.poll() == "send");  // until it is done
    CHECK(p.iteration() == k);
    p.core.send(p.own(), p.out);
    std::string const number = std::to_string(k);
    CHECK(p.said() == lines{"update " + number + " to 1", "update " + number + " to 2"});
    CHECK(p.poll() == "compute");
    p.core.computed();
    CHECK(p.poll() == "wait");
    CHECK(p.core.gathering());
    CHECK(p.update(2, k));
    CHECK_FALSE(p.core.can_go_on());
    CHECK(p.poll() == "wait");
    CHECK(p.update(1, k));
    CHECK(p.core.can_go_on());
    CHECK(p.poll() == "reduce");
    CHECK_FALSE(p.core.gathering());
    CHECK(p.poll() == "reduce");
    auto const all = p.gather();
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, k)}, {2, value(2, k)}});
    CHECK(all.weights == std::vector<double>(3, 1.0 / 3));
    p.core.reduced(p.out);
    CHECK(p.said().empty());
  }
  CHECK_FALSE(p.core.ended());
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 2 to 1", "bye 2 to 2"});
  CHECK(p.core.ended());
  CHECK(p.poll() == "end");
  CHECK(p.said().empty());
  CHECK(p.iteration() == 1);  // the last one
  auto const n = p.core.counters();
  CHECK(n.iterations == 2);
  CHECK(n.updates_sent == 4);
  CHECK(n.updates_reduced == 4);
  CHECK(n.updates_spared + n.updates_late + n.jumps + n.jumped_over == 0);
  CHECK(n.queue_peak == 2);
}

TEST_CASE("hop_core: serial order computes before it sends", "[peer][hop_core]") {
  hand p(hop(iteration_order::serial), among({1}));
  p.start(2);
  for (std::int64_t k = 0; k < 2; ++k) {
    CHECK(p.update(1, k));  // is no reason to leave something out
    CHECK(p.poll() == "compute");
    p.core.computed();
    CHECK(p.poll() == "send");
    CHECK(p.said().empty());
    p.core.send(p.own(), p.out);
    CHECK(p.said() == lines{"update " + std::to_string(k) + " to 1"});
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, k)}});
  }
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 2 to 1"});
}

TEST_CASE("hop_core: standard: updates of later iterations wait for theirs", "[peer][hop_core]") {
  hand p(hop(), site(0, {1, 2}, {1, 2}, 1, 2));  // 1 may be two iterations ahead
  CHECK(p.update(1, 0));                         // before it has begun
  p.start(3);
  CHECK(p.update(1, 1));
  CHECK(p.update(1, 2));
  p.send_and_compute();
  CHECK(p.poll() == "wait");
  CHECK(p.update(2, 0));
  CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 0)}, {2, value(2, 0)}});
  CHECK(p.update(2, 1));  // while it has not yet entered iteration 1
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 1)}, {2, value(2, 1)}});
  p.send_and_compute();
  CHECK(p.update(2, 2));
  CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 2)}, {2, value(2, 2)}});
  CHECK(p.poll() == "end");
  CHECK(p.core.counters().queue_peak == 4);
}

TEST_CASE("hop_core: a directed edge is sent along in its direction only", "[peer][hop_core]") {
  hand p(hop(token_queues{2}), site(0, {2}, {1}));
  p.start(1);
  CHECK(p.said() == lines{"tokens 1 to 2"});  // tokens go to who sends, updates the other way
  p.send();
  CHECK(p.said() == lines{"update 0 to 1"});
  p.compute();
  CHECK(p.update(2, 0));
  p.reduce();
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 1 to 2", "bye 1 to 1"});
}

TEST_CASE("hop_core: no iteration, nothing but a goodbye", "[peer][hop_core]") {
  hand p(hop(token_queues{3}), site(0, {1, 2}, {1, 3}));
  p.start(0);
  CHECK(p.said() == lines{"bye 0 to 1", "bye 0 to 2", "bye 0 to 3"});
  CHECK(p.core.started());
  CHECK(p.core.ended());
  CHECK(p.poll() == "end");
  CHECK(p.said().empty());
}

TEST_CASE("hop_core: a peer without neighbors", "[peer][hop_core]") {
  auto const alone = [](hop_rules const& protocol) {
    hand p(protocol, site_of(mixing_matrix::uniform(complete(1)), id(0)));
    p.start(3);
    for (int k = 0; k < 3; ++k) {
      bool sent = false;
      for (std::string what = p.poll(); what != "reduce"; what = p.poll()) {
        if (what == "send" && !sent) p.send(), sent = true;
        else p.compute();
      }
      auto const all = p.reduce();
      CHECK(all.parts == std::vector<part>{{0, {}}});
      CHECK(all.weights == std::vector<double>{1});
      CHECK(p.iteration() == k);
    }
    CHECK(p.poll() == "end");
    CHECK(p.said().empty());
    CHECK(p.core.counters().iterations == 3);
  };
  alone(hop());
  alone(hop(iteration_order::serial));
  alone(hop(notify_ack{}));
  alone(hop(token_queues{1}));
  alone(hop(gather_newest{.staleness = 0}));
  alone(hop(gather_newest{.staleness = 2}, token_queues{1}, bounded_jump{}));
}

TEST_CASE("hop_core: two peers on one edge", "[peer][hop_core]") {
  mixing_matrix const pair = mixing_matrix::uniform(ring(2));
  hand a(hop(token_queues{1}), site_of(pair, id(0)));
  hand b(hop(token_queues{1}), site_of(pair, id(1)));
  std::deque<peer_message> to_a, to_b;
  auto const post = [&] {
    for (auto& [to, m] : std::exchange(a.out, {})) to_b.push_back(m);
    for (auto& [to, m] : std::exchange(b.out, {})) to_a.push_back(m);
  };
  auto const deliver = [](auto& to, std::uint32_t from, auto& channel) {
    CHECK(to.core.deliver(id(from), channel.front()));
    channel.pop_front();
  };
  a.start(2);
  b.start(2);
  post();
  a.send_and_compute();
  post();
  while (!to_b.empty()) deliver(b, 0, to_b);
  CHECK(b.iterate().weights == std::vector<double>{0.5, 0.5});
  CHECK(b.poll() == "send");  // a is in iteration 0, and there may be one iteration between them
  post();
  b.send_and_compute();
  post();
  CHECK(a.poll() == "wait");
  CHECK(a.core.tokens(0) == 0);
  while (!to_a.empty()) deliver(a, 1, to_a);
  CHECK(a.core.tokens(0) == 2);
  CHECK(a.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 0)}});
  CHECK(a.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 1)}});
  CHECK(a.poll() == "end");
  post();
  while (!to_b.empty()) deliver(b, 0, to_b);
  b.reduce();
  CHECK(b.poll() == "end");
}

TEST_CASE("hop_core: notify_ack: the next send waits for all acknowledgements", "[peer][hop_core]") {
  hand p(hop(notify_ack{}), among({1, 2}));
  p.start(3);
  p.send_and_compute();  // the first one needs none
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.said();
  p.reduce();
  CHECK(p.said() == lines{"ack 0 to 1", "ack 0 to 2"});
  CHECK(p.poll() == "wait");
  CHECK(p.iteration() == 1);  // it has entered the iteration, and cannot send
  CHECK_FALSE(p.core.gathering());
  CHECK(p.ack(2, 0));
  CHECK(p.poll() == "wait");
  CHECK_FALSE(p.core.can_go_on());
  CHECK(p.update(2, 1));  // is no acknowledgement
  CHECK(p.poll() == "wait");
  CHECK(p.ack(1, 0));
  CHECK(p.core.can_go_on());
  p.send();
  CHECK(p.said() == lines{"update 1 to 1", "update 1 to 2"});
  p.compute();
  CHECK(p.ack(1, 1));  // in the same iteration
  CHECK(p.update(1, 1));
  p.reduce();
  CHECK(p.said() == lines{"ack 1 to 1", "ack 1 to 2"});
  CHECK(p.poll() == "wait");
  CHECK(p.ack(2, 1));
  p.send_and_compute();
  CHECK(p.update(1, 2));
  CHECK(p.update(2, 2));
  p.said();
  p.reduce();
  CHECK(p.said() == lines{"ack 2 to 1", "ack 2 to 2"});
  CHECK(p.poll() == "end");  // the acknowledgements of the last update are not waited for
  CHECK(p.said() == lines{"bye 3 to 1", "bye 3 to 2"});
  CHECK(p.ack(1, 2));  // and may come late
  CHECK(p.core.counters().queue_peak == 2);
}

TEST_CASE("hop_core: notify_ack in serial order computes while it waits", "[peer][hop_core]") {
  hand p(hop(notify_ack{}, iteration_order::serial), among({1}));
  p.start(2);
  p.compute();
  p.send();
  CHECK(p.update(1, 0));
  p.reduce();
  p.compute();
  CHECK(p.poll() == "wait");
  CHECK(p.ack(1, 0));
  CHECK(p.poll() == "send");
}

TEST_CASE("hop_core: notify_ack along directed edges", "[peer][hop_core]") {
  hand p(hop(notify_ack{}), site(0, {2}, {1}));
  p.start(2);
  p.send_and_compute();
  CHECK(p.said() == lines{"update 0 to 1"});
  CHECK(p.update(2, 0));
  p.reduce();
  CHECK(p.said() == lines{"ack 0 to 2"});
  CHECK(p.poll() == "wait");
  CHECK_FALSE(p.ack(2, 0));  // it was not sent anything
  CHECK(p.poll() == "wait");
  CHECK(p.ack(1, 0));
  CHECK(p.poll() == "send");
}
