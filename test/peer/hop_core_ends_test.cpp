// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A peer of Hop that ends or leaves, and neighbors that do.
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "peer/hop_hand.hpp"
#include "rubato/peer/hop.hpp"

using namespace rubato;
using namespace rubato::test;

TEST_CASE("hop_core: a neighbor that has finished blocks nobody, and is no loss when it dies",
          "[peer][hop_core]") {
  SECTION("standard, with tokens") {
    hand p(hop(token_queues{2}), among({1}));
    p.start(3);
    CHECK(p.tokens(1, 1));
    for (std::int64_t k = 0; k < 2; ++k) {
      CHECK(p.update(1, k));
      CHECK(p.tokens(1, 1));
    }
    p.iterate();
    CHECK(p.poll() == "send");
    CHECK(p.update(1, 2));
    CHECK(p.bye(1, 3));
    p.lose(1);
    CHECK_FALSE(p.core.lost());
    CHECK(p.core.is_live_in(0));
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 1)}});
    CHECK(p.poll() == "send");
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 2)}});
    CHECK(p.poll() == "end");
  }
  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 3}), among({1}));
    p.start(6);
    CHECK(p.update(1, 5));
    CHECK(p.bye(1, 6));
    p.lose(1);
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 5)}});
    for (int k = 1; k < 6; ++k) CHECK(p.iterate().parts == std::vector<part>{{0, {}}});
    CHECK(p.poll() == "end");
  }
  SECTION("notify_ack") {
    hand p(hop(notify_ack{}), among({1}));
    p.start(2);
    CHECK(p.update(1, 0));
    p.iterate();
    CHECK(p.ack(1, 0));
    CHECK(p.update(1, 1));
    p.send();
    CHECK(p.ack(1, 1));
    CHECK(p.bye(1, 2));
    p.lose(1);
    p.compute();
    CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 1)}});
    CHECK(p.poll() == "end");
  }
  SECTION("one that makes more iterations") {
    hand p(hop(), among({1}));
    p.start(1);
    CHECK(p.update(1, 0));
    CHECK(p.bye(1, 5));
    p.lose(1);
    p.iterate();
    CHECK(p.poll() == "end");
  }
}

TEST_CASE("hop_core: a neighbor that leaves early is a loss to who needs it still", "[peer][hop_core]") {
  hand p(hop(), among({1, 2}));
  p.start(3);
  CHECK(p.bye(1, 3));
  CHECK_FALSE(p.core.lost());
  CHECK(p.bye(2, 2));
  CHECK(p.core.lost() == id(2));
  CHECK(p.poll() == "stop");

  hand backed(hop(gather_all_but{.backups = 1}, token_queues{2}), among({1, 2}));
  backed.start(3);
  CHECK(backed.update(1, 0));
  CHECK(backed.bye(2, 2));
  CHECK_FALSE(backed.core.lost());
  CHECK_FALSE(backed.core.is_live_in(1));
  CHECK_FALSE(backed.core.is_live_out(1));
  CHECK(backed.core.is_live_in(0));
  CHECK(backed.iterate().weights == std::vector<double>{0.5, 0.5});
}

TEST_CASE("hop_core: a goodbye before the start is judged when the iterations are known",
          "[peer][hop_core]") {
  auto const after_start = [](std::int64_t goodbye, std::int64_t iterations) {
    hand p(hop(), among({1}));
    CHECK(p.update(1, 0));
    CHECK(p.bye(1, goodbye));
    CHECK_FALSE(p.core.lost());
    CHECK(p.poll() == "wait");
    p.start(iterations);
    return p.poll();
  };
  CHECK(after_start(1, 1) == "send");
  CHECK(after_start(2, 1) == "send");
  CHECK(after_start(1, 2) == "stop");
  CHECK(after_start(0, 1) == "stop");
  CHECK(after_start(0, 0) == "end");
}

TEST_CASE("hop_core: a neighbor that has finished and died before the start is no loss",
          "[peer][hop_core]") {
  // As on a directed ring, where the one before it needs nothing of it to end the first iteration.
  SECTION("standard") {
    hand p(hop(), site(0, {2}, {1}, 2, 2));
    CHECK(p.update(2, 0));
    CHECK(p.bye(2, 1));
    p.lose(2);
    p.start(1);
    CHECK_FALSE(p.core.lost());
    CHECK(p.poll() == "send");
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
    CHECK(p.poll() == "end");
  }
  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 0}), site(0, {2}, {1}, 2, 2));
    CHECK(p.update(2, 0));
    CHECK(p.bye(2, 1));
    p.lose(2);
    p.start(1);
    CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {2, value(2, 0)}});
    CHECK(p.poll() == "end");
  }
  SECTION("but one that had not finished is") {
    hand p(hop(), site(0, {2}, {1}, 2, 2));
    CHECK(p.update(2, 0));
    CHECK(p.bye(2, 1));
    p.lose(2);
    p.start(2);
    CHECK(p.core.lost() == id(2));
    CHECK(p.poll() == "stop");
  }
}

TEST_CASE("hop_core: who leaves says after how many iterations", "[peer][hop_core]") {
  SECTION("before it has begun") {
    hand p(hop(), among({1, 2}));
    p.core.leave(p.out);
    CHECK(p.said() == lines{"bye 0 to 1", "bye 0 to 2"});
    CHECK(p.core.ended());
    CHECK(p.poll() == "end");
  }
  SECTION("in the middle") {
    hand p(hop(token_queues{3}), site(0, {1}, {2}));
    p.start(9);
    p.in_step_until(2);
    p.send();
    p.said();
    p.core.leave(p.out);
    CHECK(p.said() == lines{"bye 2 to 1", "bye 2 to 2"});
    CHECK(p.core.ended());
    p.core.leave(p.out);  // once is enough
    CHECK(p.said().empty());
    CHECK(p.poll() == "end");
  }
  SECTION("after the end") {
    hand p(hop(), among({1}));
    p.start(1);
    CHECK(p.update(1, 0));
    p.iterate();
    CHECK(p.poll() == "end");
    CHECK(p.said() == lines{"update 0 to 1", "bye 1 to 1"});
    p.core.leave(p.out);
    CHECK(p.said().empty());
  }
}

TEST_CASE("hop_core: after its end it takes what slower neighbors say, and nothing happens",
          "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2}));
  p.start(1);
  CHECK(p.update(1, 0));
  p.iterate();
  CHECK(p.poll() == "end");
  p.said();
  ignored(p, 2, kind::update, 0);
  ignored(p, 1, kind::update, 1);
  CHECK(p.tokens(2, 1));
  CHECK(p.tokens(1, 2));
  CHECK(p.bye(2, 0));
  CHECK(p.bye(1, 7));
  p.lose(1);
  CHECK(p.poll() == "end");
  CHECK(p.core.ended());
  CHECK(p.said().empty());
}
