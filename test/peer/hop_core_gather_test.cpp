// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What a peer of Hop waits for and reduces: backup workers and bounded staleness.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "peer/hop_hand.hpp"
#include "rubato/peer/hop.hpp"

using namespace rubato;
using namespace rubato::test;

TEST_CASE("hop_core: backup workers: all but some, the own one counted", "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{4}), among({1, 2, 3}));
  p.start(3);
  p.send_and_compute();
  CHECK(p.poll() == "wait");
  CHECK(p.update(3, 0));
  CHECK(p.poll() == "wait");
  CHECK(p.update(3, 1));  // of another iteration: does not count
  CHECK(p.poll() == "wait");
  CHECK(p.update(1, 0));  // with the own one 3 of 4
  SECTION("just those") {
    auto const all = p.reduce();
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 0)}, {3, value(3, 0)}});
    CHECK(all.weights == std::vector<double>(3, 1.0 / 3));
    SECTION("the late one is dropped") {
      std::size_t const held = p.core.held();
      CHECK(p.update(2, 0));
      CHECK(p.core.held() == held);
      CHECK(p.core.counters().updates_late == 1);
    }
  }
  SECTION("the one that is there before the reduce is used") {
    CHECK(p.update(2, 0));
    auto const all = p.reduce();
    CHECK(all.parts ==
          std::vector<part>{{0, {}}, {1, value(1, 0)}, {2, value(2, 0)}, {3, value(3, 0)}});
    CHECK(all.weights == std::vector<double>(4, 0.25));
  }
  SECTION("and the one that comes when the reduce is due") {
    CHECK(p.poll() == "reduce");
    CHECK(p.update(2, 0));
    CHECK(p.gather().parts.size() == 4);
  }
  SECTION("what comes during the reduce is not carried into the next") {
    CHECK(p.poll() == "reduce");
    CHECK(p.gather().parts.size() == 3);
    CHECK(p.update(2, 0));
    p.core.reduced(p.out);
    CHECK(p.core.held() == 1);  // 3's of iteration 1
  }
}

TEST_CASE("hop_core: backup workers: several, and so many that no update is needed",
          "[peer][hop_core]") {
  hand two(hop(gather_all_but{.backups = 2}, token_queues{2}), among({1, 2, 3}));
  two.start(2);
  two.send_and_compute();
  CHECK(two.poll() == "wait");
  CHECK(two.update(2, 0));
  CHECK(two.reduce().weights == std::vector<double>{0.5, 0.5});

  hand three(hop(gather_all_but{.backups = 3}, token_queues{2}), among({1, 2, 3}));
  three.start(2);
  three.send_and_compute();
  CHECK(three.reduce().weights == std::vector<double>{1});
}

TEST_CASE("hop_core: weights that are not uniform are taken as they are, or divided by their sum",
          "[peer][hop_core]") {
  peer_site s = among({1, 2});
  s.self_weight = 0.5;
  s.weights = {0.375, 0.125};
  hand p(hop(gather_all_but{.backups = 1}, token_queues{4}), s);
  p.start(4);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  CHECK(p.iterate().weights == std::vector<double>{0.5, 0.375, 0.125});
  CHECK(p.update(2, 1));
  CHECK(p.iterate().weights == std::vector<double>{0.8, 0.2});

  hand plain(hop(gather_all_but{.backups = 1}, reduce_plainly{}, token_queues{4}), s);
  plain.start(4);
  CHECK(plain.update(1, 0));
  CHECK(plain.iterate().weights == std::vector<double>{0.5, 0.5});
}

TEST_CASE("hop_core: an update is spared once its receiver has left the iteration, and no earlier",
          "[peer][hop_core]") {
  // On entering iteration 0 the neighbor's tokens make max_ig; each one more is an iteration more.
  auto const sends = [](std::int64_t entered, std::int64_t k) {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), site(0, {1, 2}, {1, 3}));
    p.start(10);
    p.in_step_until(k);
    if (entered > k) CHECK(p.tokens(1, entered - k));
    p.send();
    lines const said = p.said();
    bool const spared = said == lines{"update " + std::to_string(k) + " to 3"};
    if (!spared)
      CHECK(said == lines{"update " + std::to_string(k) + " to 1",
                          "update " + std::to_string(k) + " to 3"});
    CHECK(p.core.counters().updates_spared == (spared ? 1 : 0));
    CHECK(p.core.counters().updates_sent == static_cast<std::uint64_t>(2 * k + (spared ? 1 : 2)));
    return !spared;
  };
  for (std::int64_t const k : {0, 1, 4}) {
    INFO("sender in iteration " << k);
    CHECK(sends(k, k));
    CHECK_FALSE(sends(k + 1, k));
    CHECK_FALSE(sends(k + 2, k));
  }
  // Before the neighbor has entered iteration 0.
  hand early(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1}));
  early.start(1);
  early.send();
  CHECK(early.core.counters().updates_sent == 1);
}

TEST_CASE("hop_core: under bounded staleness an update is spared when it is too old for its receiver",
          "[peer][hop_core]") {
  for (std::int64_t const s : {0, 1, 3}) {
    auto const sends = [s](std::int64_t ahead) {
      hand p(hop(gather_newest{.staleness = s}, token_queues{5}), among({1}));
      p.start(10);
      p.in_step_until(2);
      if (ahead > 0) CHECK(p.tokens(1, ahead));
      p.send();
      return p.core.counters().updates_spared == 0;
    };
    INFO("staleness " << s);
    CHECK(sends(0));
    CHECK(sends(s));             // in iteration k + s an update of k is just new enough
    CHECK_FALSE(sends(s + 1));
  }
}

TEST_CASE("hop_core: bounded staleness waits exactly while the newest received is older than k - s",
          "[peer][hop_core]") {
  for (std::int64_t const s : {0, 1, 2, 4}) {
    INFO("staleness " << s);
    hand p(hop(gather_newest{.staleness = s}), among({1, 2}));
    p.start(20);
    CHECK(p.update(1, 0));
    CHECK(p.update(2, 0));
    for (std::int64_t k = 0; k <= s; ++k) {  // the update of iteration 0 will do until k = s
      INFO("iteration " << k);
      CHECK(p.update(1, k + 1));
      p.iterate();
      CHECK(p.iteration() == k);
    }
    p.send_and_compute();  // in iteration s + 1
    CHECK(p.iteration() == s + 1);
    CHECK(p.poll() == "wait");
    CHECK(p.core.gathering());
    CHECK(p.update(1, s + 5));  // is not the neighbor that is missing
    CHECK(p.poll() == "wait");
    CHECK(p.update(2, 1));
    CHECK(p.core.can_go_on());
    p.reduce();
    CHECK(p.core.counters().updates_late == 0);
  }
}

TEST_CASE("hop_core: bounded staleness: s iterations without a word of a neighbor", "[peer][hop_core]") {
  // 002 Fig. 9: iter_rcv, the newest ever received, is -1 before the first. So the first update is
  // missed in iteration s, where 0 is needed, and not before.
  for (std::int64_t const s : {0, 1, 3}) {
    INFO("staleness " << s);
    hand p(hop(gather_newest{.staleness = s}), among({1}));
    p.start(10);
    std::int64_t made = 0;
    for (; made < 10; ++made) {
      p.send_and_compute();
      if (p.poll() == "wait") break;
      CHECK(p.reduce().parts == std::vector<part>{{0, {}}});
    }
    CHECK(made == s);
    CHECK(p.update(1, 0));
    CHECK(p.poll() == "reduce");
  }
}

TEST_CASE("hop_core: bounded staleness reduces what is fresh, and nothing twice", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 2}), among({1, 2, 3}));
  p.start(20);
  for (std::uint32_t const j : {1u, 2u, 3u}) CHECK(p.update(j, 0));
  CHECK(p.update(2, 1));  // overwrites 0
  // k = 0: Iter(u) − (0 − 2) + 1
  auto const first = p.iterate();
  CHECK(first.parts ==
        std::vector<part>{{0, {}}, {1, value(1, 0)}, {2, value(2, 1)}, {3, value(3, 0)}});
  CHECK(first.weights == std::vector<double>{3.0 / 13, 3.0 / 13, 4.0 / 13, 3.0 / 13});
  // k = 1: nobody has sent anything since
  auto const second = p.iterate();
  CHECK(second.parts == std::vector<part>{{0, {}}});
  CHECK(second.weights == std::vector<double>{1});
  // k = 2: one is fresh
  CHECK(p.update(1, 1));
  CHECK(p.update(1, 2));
  auto const third = p.iterate();
  CHECK(third.parts == std::vector<part>{{0, {}}, {1, value(1, 2)}});
  CHECK(third.weights == std::vector<double>{0.5, 0.5});
  CHECK(p.core.counters().updates_reduced == 4);
}

TEST_CASE("hop_core: bounded staleness: an update too old for this iteration is not reduced",
          "[peer][hop_core]") {
  // A hybrid goes on without it; waiting for all, it could not be there.
  hand p(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{9}), among({1, 2}));
  p.start(20);
  p.in_step_until(3);
  CHECK(p.update(1, 3));
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 3)}});
  CHECK(p.update(1, 4));
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 4)}});
  CHECK(p.update(1, 5));
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 5);
  CHECK(p.core.counters().updates_late == 0);
  CHECK(p.update(2, 3));  // k − s = 4
  CHECK(p.core.counters().updates_late == 1);
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {1, value(1, 5)}});
}

TEST_CASE("hop_core: bounded staleness weighs by age as in Eq. 2", "[peer][hop_core]") {
  // To iteration 5, with the newest of 1 from iteration 1; k − s = 2 from now on.
  auto const weights = [](auto const... reduce) {
    hand p(hop(gather_newest{.staleness = 3}, reduce...), among({1, 2, 3}));
    p.start(20);
    for (std::uint32_t const j : {1u, 2u, 3u}) CHECK(p.update(j, 1));
    for (int k = 0; k < 5; ++k) p.iterate();
    CHECK(p.update(1, 2));  // just new enough: 2 − 2 + 1
    CHECK(p.update(2, 5));  // as old as the peer: 4
    CHECK(p.update(3, 9));  // newer than the peer: 8
    auto const all = p.iterate();
    CHECK(p.iteration() == 5);
    CHECK(all.parts ==
          std::vector<part>{{0, {}}, {1, value(1, 2)}, {2, value(2, 5)}, {3, value(3, 9)}});
    return all.weights;
  };
  CHECK(weights() == std::vector<double>{4.0 / 17, 1.0 / 17, 4.0 / 17, 8.0 / 17});
  CHECK(weights(reduce_plainly{}) == std::vector<double>(4, 0.25));
  CHECK(weights(reduce_by_mixing{}) == std::vector<double>(4, 0.25));
}

TEST_CASE("hop_core: weights by age times those of the mixing matrix", "[peer][hop_core]") {
  peer_site s = among({1, 2});
  s.self_weight = 0.5;
  s.weights = {0.375, 0.125};
  hand p(hop(gather_newest{.staleness = 1}), s);
  p.start(20);
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 1));
  // k = 0: own 0.5·2, 1's 0.375·2, 2's 0.125·3
  CHECK(p.iterate().weights == std::vector<double>{1 / 2.125, 0.75 / 2.125, 0.375 / 2.125});
}

TEST_CASE("hop_core: the hybrid waits for all but some, of those that will do", "[peer][hop_core]") {
  hand p(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{20}), among({1, 2, 3}));
  p.start(20);
  p.in_step_until(2);  // the newest of all is 1
  CHECK(p.iterate().parts.size() == 1);  // k − s = 1: all will do, and nothing is fresh
  p.send_and_compute();                  // k − s = 2
  CHECK(p.poll() == "wait");
  CHECK(p.update(3, 2));
  CHECK(p.poll() == "wait");  // two of the four are not enough
  CHECK(p.update(1, 7));
  auto const all = p.reduce();
  CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 7)}, {3, value(3, 2)}});
  CHECK(all.weights == std::vector<double>{2.0 / 9, 6.0 / 9, 1.0 / 9});
  p.send_and_compute();  // k = 4: 3's update is too old now, too
  CHECK(p.poll() == "wait");
  CHECK(p.update(2, 3));
  CHECK(p.reduce().parts == std::vector<part>{{0, {}}, {2, value(2, 3)}});
}
