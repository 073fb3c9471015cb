// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What no correct peer of Hop sends is refused.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "peer/hop_hand.hpp"
#include "rubato/peer/hop.hpp"

using namespace rubato;
using namespace rubato::test;

namespace {

/// What nobody can say at any time, under any protocol, to peer 0 with `in` and `out`.
void refuses_strangers(hand& p, std::uint32_t only_in, std::uint32_t only_out) {
  for (std::uint32_t const stranger : {0u, 9u, 4'000'000'000u})
    for (kind const what : {kind::update, kind::tokens, kind::ack, kind::bye})
      for (std::int64_t const number : {0, 1}) refused(p, stranger, what, number);
  refused(p, only_out, kind::update, p.iteration());
  refused(p, only_out, kind::update, p.iteration() + 1);
  refused(p, only_in, kind::tokens, 1);
  refused(p, only_in, kind::ack, p.iteration());
  for (std::uint32_t const neighbor : {1u, only_in, only_out}) {
    for (std::int64_t const number : {std::int64_t{-1}, least})
      for (kind const what : {kind::update, kind::tokens, kind::ack, kind::bye})
        refused(p, neighbor, what, number);
    refused(p, neighbor, kind::tokens, 0);
    refused(p, neighbor, kind::tokens, most);
    refused(p, neighbor, kind::update, most);
    for (int const what : {4, 17, 255}) refused(p, neighbor, static_cast<kind>(what), 1);
    if (!p.core.protocol().gap_max) refused(p, neighbor, kind::tokens, 1);
    if (!p.core.protocol().acks)
      for (std::int64_t const k : {std::int64_t{0}, p.iteration(), p.iteration() + 1})
        refused(p, neighbor, kind::ack, k);
  }
}

/// Calls `check` at every point of two iterations: before the start, before each of its moves, and
/// while it waits for updates.
template <class Check>
void at_each_point(hop_rules const& protocol, peer_site const& place, Check check) {
  hand p(protocol, place);
  check(p);
  p.start(3);
  for (std::int64_t k = 0; k < 2; ++k) {
    if (protocol.gap_max)
      for (worker_id const j : place.out) REQUIRE(p.tokens(j.value(), 1));
    (void)p.poll();
    check(p);
    if (protocol.order == iteration_order::serial) p.compute(), check(p);
    p.send();
    check(p);
    if (protocol.order == iteration_order::parallel) p.compute(), check(p);
    for (worker_id const j : place.in) {
      REQUIRE(p.update(j.value(), k));
      check(p);
    }
    REQUIRE(p.poll() == "reduce");
    check(p);
    (void)p.gather();
    p.core.reduced(p.out);
    check(p);
    if (protocol.acks)
      for (worker_id const j : place.out) {
        REQUIRE(p.ack(j.value(), k));
        check(p);
      }
  }
  CHECK(p.iteration() == 1);
}

}  // namespace

TEST_CASE("hop_core: messages that no neighbor sends are refused at every point", "[peer][hop_core]") {
  peer_site const place = site(0, {1, 2}, {1, 3});
  auto const refuses = [&](hop_rules const& protocol) {
    at_each_point(protocol, place, [](hand& p) { refuses_strangers(p, 2, 3); });
  };
  SECTION("standard") { refuses(hop()); }
  SECTION("serial") { refuses(hop(iteration_order::serial)); }
  SECTION("notify_ack") { refuses(hop(notify_ack{})); }
  SECTION("tokens") { refuses(hop(token_queues{2})); }
  SECTION("backup workers") { refuses(hop(gather_all_but{.backups = 1}, token_queues{2})); }
  SECTION("bounded staleness") { refuses(hop(gather_newest{.staleness = 1})); }
  SECTION("bounded staleness with tokens") {
    refuses(hop(gather_newest{.staleness = 1}, token_queues{2}));
  }
  SECTION("hybrid") {
    refuses(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}, bounded_jump{}));
  }
}

TEST_CASE("hop_core: an update twice, or beyond the gap, is refused at every point",
          "[peer][hop_core]") {
  peer_site place = site(0, {1, 2}, {1, 3});
  place.lead_max = 2;
  // `lead`: by how much an in-neighbor can be ahead of who has started, and of who has not.
  auto const refuses = [&](hop_rules const& protocol, std::int64_t lead) {
    at_each_point(protocol, place, [&](hand& p) {
      for (std::uint32_t const j : {1u, 2u}) {
        // One that has reduced iteration k may be sent those of k + 1 + lead, but only from k + 1 on.
        for (std::int64_t const beyond : {2, 3, 10, 1000})
          refused(p, j, kind::update, p.iteration() + lead + beyond);
        for (std::int64_t k = 0; k < 10; ++k) {
          hand copy = p;
          if (!copy.update(j, k) || copy.state() == p.state()) continue;
          auto const late = copy.core.counters().updates_late;
          if (late != p.core.counters().updates_late) continue;  // dropped: it may come again
          INFO("after the first one");
          refused(copy, j, kind::update, k);
        }
      }
    });
  };
  SECTION("standard") { refuses(hop(), 2); }
  SECTION("serial") { refuses(hop(iteration_order::serial), 2); }
  SECTION("notify_ack") { refuses(hop(notify_ack{}), 0); }
  SECTION("tokens") { refuses(hop(token_queues{3}), 3); }
  SECTION("backup workers") { refuses(hop(gather_all_but{.backups = 1}, token_queues{3}), 3); }
  SECTION("bounded staleness with tokens") {
    refuses(hop(gather_newest{.staleness = 1}, token_queues{3}), 3);
  }
  SECTION("hybrid") {
    refuses(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{3}, bounded_jump{}), 3);
  }
}

TEST_CASE("hop_core: the last update that fits is taken, and the first that does not is refused",
          "[peer][hop_core]") {
  SECTION("the graph's distances") {
    hand p(hop(), site(0, {1}, {2}, 3, 3));
    CHECK(p.update(1, 3));
    refused(p, 1, kind::update, 4);
  }
  SECTION("max_ig") {
    hand p(hop(token_queues{2}), site(0, {1}, {2}, 3, 3));
    CHECK(p.update(1, 2));
    refused(p, 1, kind::update, 3);
  }
  SECTION("one at a time") {
    hand p(hop(notify_ack{}), site(0, {1}, {2}, 3, 3));
    refused(p, 1, kind::update, 1);
    CHECK(p.update(1, 0));
  }
}

TEST_CASE("hop_core: bounded staleness: updates of one sender come in order", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 3}), among({1, 2}));
  p.start(9);
  CHECK(p.update(1, 4));
  for (std::int64_t const k : {4, 3, 0}) refused(p, 1, kind::update, k);
  CHECK(p.update(2, 3));  // of another sender
  p.iterate();
  for (std::int64_t const k : {4, 3, 0}) refused(p, 1, kind::update, k);  // taken, not forgotten
  CHECK(p.update(1, 5));
}

TEST_CASE("hop_core: bounded staleness: a number that is none is no update", "[peer][hop_core]") {
  // k − s and Iter(u) − (k − s) + 1 must not overflow, whatever a message says.
  hand p(hop(gather_newest{.staleness = 3}), among({1, 2}));
  p.start(9);
  refused(p, 1, kind::update, most);
  refused(p, 1, kind::update, most - 1);
}

TEST_CASE("hop_core: more tokens than the gap allows are refused", "[peer][hop_core]") {
  hand p(hop(token_queues{3}), site(0, {1}, {1, 2}, 2));
  // max_ig·(d(j→i) + 1): 6 of 1, 9 of 2; two are there.
  refused(p, 1, kind::tokens, 5);
  CHECK(p.tokens(1, 4));
  refused(p, 1, kind::tokens, 1);
  refused(p, 2, kind::tokens, 8);
  CHECK(p.tokens(2, 7));
  refused(p, 2, kind::tokens, 1);
  CHECK(p.core.tokens(0) == 6);
  CHECK(p.core.tokens(1) == 9);
}

TEST_CASE("hop_core: no number of tokens overflows", "[peer][hop_core]") {
  // Where the way back may lose a peer, no length of a path bounds the tokens.
  hand p(hop(gather_all_but{.backups = 1}, token_queues{3}, bounded_jump{}), site(0, {1}, {2}));
  p.start(9);
  CHECK(p.update(1, 0));
  CHECK(p.tokens(2, 1'000'000));  // who lives may be far ahead
  p.iterate();
  CHECK(p.poll() == "reduce");
  CHECK(p.core.jumping());
  CHECK(p.iteration() == 7);
  refused(p, 2, kind::tokens, most);
  refused(p, 2, kind::tokens, most - p.core.tokens(0));  // iteration() + tokens overflow
  refused(p, 2, kind::tokens, most - p.core.tokens(0) + 1);
}

TEST_CASE("hop_core: an acknowledgement that was not asked for is refused", "[peer][hop_core]") {
  hand p(hop(notify_ack{}), among({1, 2}));
  refused(p, 1, kind::ack, 0);
  p.start(4);
  refused(p, 1, kind::ack, 0);  // nothing was sent
  p.send();
  refused(p, 1, kind::ack, 1);  // not yet
  CHECK(p.ack(1, 0));
  refused(p, 1, kind::ack, 0);  // a second time
  p.compute();
  CHECK(p.update(1, 0));
  CHECK(p.update(2, 0));
  p.reduce();
  CHECK(p.ack(2, 0));
  p.send();
  CHECK(p.iteration() == 1);
  refused(p, 1, kind::ack, 0);  // of the update before
  refused(p, 1, kind::ack, -1);
  refused(p, 1, kind::ack, 2);
  CHECK(p.ack(1, 1));
  refused(p, 1, kind::ack, 1);
  p.compute();
  CHECK(p.update(1, 1));
  CHECK(p.update(2, 1));
  p.reduce();
  CHECK(p.poll() == "wait");  // in iteration 2, where the update that counts is still that of 1
  refused(p, 2, kind::ack, 2);
  refused(p, 2, kind::ack, 0);
  CHECK(p.ack(2, 1));
  CHECK(p.poll() == "send");
}

TEST_CASE("hop_core: an old update under backup workers is late, and dropped", "[peer][hop_core]") {
  hand p(hop(gather_all_but{.backups = 1}, token_queues{3}), among({1, 2}));
  p.start(9);
  CHECK(p.update(1, 0));
  p.iterate();
  CHECK(p.core.counters().updates_late == 0);
  std::size_t const held = p.core.held();
  CHECK(p.update(2, 0));
  CHECK(p.core.held() == held);
  CHECK(p.core.counters().updates_late == 1);
  CHECK(p.poll() == "send");
  CHECK(p.update(2, 1));
  CHECK(p.iterate().parts == std::vector<part>{{0, {}}, {2, value(2, 1)}});
}
