// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A peer of Hop whose neighbors die.
#include <Eigen/Core>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "peer/hop_hand.hpp"
#include "peer/setups.hpp"
#include "rubato/core/error.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/hop_node.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/topologies.hpp"

using namespace rubato;
using namespace rubato::test;

TEST_CASE("hop_core: standard: a lost in-neighbor stops it, wherever it is", "[peer][hop_core]") {
  // Each of the phases of an iteration, and before the first.
  std::string const where = GENERATE("idle", "sending", "computing", "gathering", "reducing",
                                     "reduced");
  INFO(where);
  hand p(hop(), among({1, 2}));
  if (where != "idle") p.start(2);
  if (where != "idle" && where != "sending") p.send();
  if (where != "idle" && where != "sending" && where != "computing") p.compute();
  if (where == "reducing" || where == "reduced") {
    CHECK(p.update(1, 0));
    CHECK(p.update(2, 0));
    CHECK(p.poll() == "reduce");
    if (where == "reduced") p.reduce();
  }
  CHECK_FALSE(p.core.lost());
  p.lose(2);
  CHECK(p.core.lost() == id(2));
  CHECK_FALSE(p.core.is_live_in(1));
  CHECK_FALSE(p.core.is_live_out(1));
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "stop");
  p.lose(1);
  CHECK(p.core.lost() == id(2));  // the first one
  if (where == "idle") {
    p.start(2);
    CHECK(p.poll() == "stop");
  }
  p.said();
  p.core.leave(p.out);
  CHECK(p.core.ended());
  CHECK(p.poll() == "end");
}

TEST_CASE("hop_core: standard: a loss that comes after the last reduce is none", "[peer][hop_core]") {
  // `stop` says that it cannot go on, and it has nothing to do any more.
  hand p(hop(), among({1, 2}));
  p.start(1);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.iterate();
  p.said();
  p.lose(1);
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 1 to 2"});  // a goodbye that is no loss to who needs it still
}

TEST_CASE("hop_core: standard: no reduce without a neighbor that is lost just before it",
          "[peer][hop_core]") {
  // Between the decision to reduce and the reduce, in the last iteration too: HOP-3 knows no average
  // of some only. To use the update, which is there, or to stop are both right.
  std::int64_t const iterations = GENERATE(1, 2);
  INFO(iterations << " iterations");
  hand p(hop(), among({1, 2}));
  p.start(iterations);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.send_and_compute();
  CHECK(p.poll() == "reduce");
  p.lose(1);
  std::size_t const reduced = p.gather().parts.size();
  p.core.reduced(p.out);
  std::string const then = p.poll();
  CHECK((reduced == 3 || then == "stop"));
  if (iterations > 1) CHECK(then == "stop");
}

TEST_CASE("hop_core: standard: who only receives is no loss", "[peer][hop_core]") {
  hand p(hop(token_queues{2}), site(0, {1}, {2, 3}));
  p.start(9);
  CHECK(p.update(1, 0));
  CHECK(p.tokens(2, 1));
  p.iterate();
  CHECK(p.poll() == "send");
  p.lose(3);
  CHECK_FALSE(p.core.lost());
  CHECK(p.core.is_live_out(0));
  CHECK_FALSE(p.core.is_live_out(1));
  p.said();
  CHECK(p.update(1, 1));
  p.iterate();
  CHECK(p.said() == lines{"update 1 to 2"});
  CHECK(p.poll() == "send");  // without a token of 3
  CHECK(p.said() == lines{"tokens 1 to 1"});
  CHECK(p.iteration() == 2);
}

TEST_CASE("hop_core: a loss while it waits for that neighbor's token wakes it", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 5}, token_queues{1}), among({1, 2}));
  p.start(9);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.iterate();
  CHECK(p.tokens(1, 2));
  CHECK(p.poll() == "wait");
  p.lose(1);  // not the one that it waits for
  CHECK_FALSE(p.core.can_go_on());
  CHECK(p.poll() == "wait");
  p.lose(2);
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 1);
}

TEST_CASE("hop_core: a loss while it waits for that neighbor's update wakes it", "[peer][hop_core]") {
  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 0}), among({1, 2}));
    p.start(9);
    p.send_and_compute();
    CHECK(p.update(1, 0));
    CHECK(p.poll() == "wait");
    p.lose(2);
    CHECK(p.core.can_go_on());
    auto const all = p.reduce();
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 0)}});
    CHECK(all.weights == std::vector<double>{0.5, 0.5});
  }
  SECTION("bounded staleness, in the middle of a jump") {
    hand p(hop(gather_newest{.staleness = 1}, token_queues{6}, bounded_jump{}),
           site(0, {3, 4}, {1, 2}, 3));
    p.start(100);
    p.in_step_until(2);
    p.iterate();
    CHECK(p.tokens(1, 4));
    CHECK(p.tokens(2, 4));
    CHECK(p.update(3, 5));
    CHECK(p.poll() == "wait");
    CHECK(p.core.jumping());
    p.lose(4);
    CHECK(p.core.can_go_on());
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {3, value(3, 5)}});
    CHECK(p.poll() == "send");
    CHECK(p.iteration() == 6);
  }
  SECTION("backup workers: of those that are left") {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2, 3}));
    p.start(9);
    p.send_and_compute();
    CHECK(p.update(1, 0));
    CHECK(p.poll() == "wait");  // 2 of 4
    p.lose(2);
    CHECK(p.core.can_go_on());  // 2 of 3
    auto const all = p.reduce();
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 0)}});
    CHECK(all.weights == std::vector<double>{0.5, 0.5});
  }
  SECTION("backup workers: its own update was among those there") {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2, 3}));
    p.start(9);
    p.send_and_compute();
    CHECK(p.update(1, 0));
    p.lose(1);  // now 1 of 3
    CHECK_FALSE(p.core.can_go_on());
    CHECK(p.update(3, 0));
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {3, value(3, 0)}});
  }
}

TEST_CASE("hop_core: a loss while it waits for that neighbor's acknowledgement wakes it",
          "[peer][hop_core]") {
  hand p(hop(notify_ack{}), site(0, {3}, {1, 2}));
  p.start(9);
  CHECK(p.update(3, 0));
  p.iterate();
  CHECK(p.ack(1, 0));
  CHECK(p.poll() == "wait");
  p.lose(1);  // has acknowledged
  CHECK_FALSE(p.core.can_go_on());
  p.lose(2);
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "send");
  p.said();
  p.send();
  CHECK(p.said().empty());  // nobody is left to send to
  p.compute();
  CHECK(p.update(3, 1));
  p.reduce();
  CHECK(p.poll() == "send");
}

TEST_CASE("hop_core: what a lost neighbor has sent counts no more", "[peer][hop_core]") {
  SECTION("backup workers") {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2, 3}));
    p.start(9);
    CHECK(p.update(1, 0));
    CHECK(p.update(1, 1));
    CHECK(p.update(2, 0));
    p.send_and_compute();
    CHECK(p.poll() == "reduce");
    p.lose(1);  // between the decision and the reduce
    CHECK(p.core.held() == 1);
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
  }
  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 1}), among({1, 2}));
    p.start(9);
    CHECK(p.update(1, 0));
    CHECK(p.update(2, 0));
    p.lose(1);
    CHECK(p.core.held() == 1);
    auto const all = p.iterate();
    CHECK(all.parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
    CHECK(all.weights == std::vector<double>{0.5, 0.5});
  }
}

TEST_CASE("hop_core: weights are computed anew without a lost neighbor", "[peer][hop_core]") {
  peer_site s = among({1, 2, 3});
  s.self_weight = 0.5;
  s.weights = {0.25, 0.125, 0.125};
  hand p(hop(gather_newest{.staleness = 0}, reduce_by_mixing{}), s);
  p.start(9);
  p.lose(2);
  CHECK(p.update(1, 0));
  CHECK(p.update(3, 0));
  CHECK(p.iterate().weights == std::vector<double>{0.5 / 0.875, 0.25 / 0.875, 0.125 / 0.875});
  p.lose(1);
  CHECK(p.update(3, 1));
  CHECK(p.iterate().weights == std::vector<double>{0.8, 0.2});
  p.lose(3);
  CHECK(p.iterate().weights == std::vector<double>{1});
}

TEST_CASE("hop_core: parameters that weigh nothing are never averaged alone", "[peer][hop_core]") {
  // A mixing matrix may give a peer's own parameters no weight; but those of the others may be missing.
  Eigen::MatrixXd weights(3, 3);
  weights << 0, 0.5, 0.5, 0.5, 0, 0.5, 0.5, 0.5, 0;
  mixing_matrix const mixing = mixing_matrix::given(complete(3), weights);
  auto const makes_sense = [&](hop_rules const& protocol) {
    std::vector<float> const initial(1);
    try {
      hop_node const node(protocol, setup_of(mixing, id(0), initial));
    } catch (option_error const& e) {
      CHECK(std::string(e.what()).find("node 0") != std::string::npos);
      return;  // refused
    }
    hand p(protocol, site_of(mixing, id(0)));
    p.start(9);
    p.send_and_compute();
    p.lose(1);
    p.lose(2);
    CHECK(p.reduce().weights == std::vector<double>{1});
  };
  makes_sense(hop(gather_newest{.staleness = 1}));
  makes_sense(hop(gather_newest{.staleness = 1}, reduce_by_mixing{}));
  makes_sense(hop(gather_all_but{.backups = 1}, token_queues{2}));
  makes_sense(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}));

  hand standard(hop(), site_of(mixing, id(0)));  // where nobody may be missing all is well
  standard.start(1);
  CHECK(standard.update(1, 0));
  CHECK(standard.update(2, 0));
  CHECK(standard.iterate().weights == std::vector<double>{0, 0.5, 0.5});
}

TEST_CASE("hop_core: a lost neighbor is told nothing, and what it said meanwhile changes nothing",
          "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2}));
  p.start(2);
  p.send();
  p.said();
  p.lose(1);
  p.lose(1);  // a second time
  ignored(p, 1, kind::update, 0);
  ignored(p, 1, kind::tokens, 1);
  ignored(p, 1, kind::bye, 0);
  ignored(p, 1, kind::bye, 2);
  p.compute();
  CHECK(p.update(2, 0));
  p.reduce();
  CHECK(p.poll() == "send");
  CHECK(p.said() == lines{"tokens 1 to 2"});
  p.send();
  CHECK(p.said() == lines{"update 1 to 2"});
  p.compute();
  CHECK(p.update(2, 1));
  p.reduce();
  CHECK(p.poll() == "end");
  CHECK(p.said() == lines{"bye 2 to 2"});
}

TEST_CASE("hop_core: who is no neighbor is no loss", "[peer][hop_core]") {
  hand p(hop(), among({1, 3}));
  p.start(2);
  std::string const before = p.state();
  for (std::uint32_t const w : {0u, 2u, 9u}) {
    p.lose(w);
    CHECK(p.state() == before);
  }
}

TEST_CASE("hop_core: losses before the start", "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{2}), among({1, 2, 3}));
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.lose(1);
  CHECK(p.poll() == "wait");  // until it is started
  p.start(9);
  CHECK(p.said() == lines{"tokens 1 to 2", "tokens 1 to 3"});
  CHECK(p.core.iteration() == iteration_index{0});
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
}

TEST_CASE("hop_core: all neighbors lost, it goes on alone", "[peer][hop_core]") {
  auto const alone = [](hop_rules const& protocol) {
    hand p(protocol, among({1, 2}));
    p.start(30);
    p.lose(1);
    p.lose(2);
    for (int k = 0; k < 30; ++k) {
      CHECK(p.iteration() == k);
      auto const all = p.iterate();
      CHECK(all.parts == std::vector<part>{{0, {}}});
      CHECK(all.weights == std::vector<double>{1});
      CHECK(p.poll() == (k < 29 ? "send" : "end"));
    }
    p.said();
  };
  alone(hop(gather_all_but{.backups = 1}, token_queues{1}));
  alone(hop(gather_all_but{.backups = 2}, token_queues{3}, bounded_jump{}));
  alone(hop(gather_newest{.staleness = 1}));
  alone(hop(gather_newest{.staleness = 1}, token_queues{1}, bounded_jump{}));
  alone(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{1}, bounded_jump{}));
}
