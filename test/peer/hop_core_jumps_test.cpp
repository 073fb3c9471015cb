// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How a peer of Hop that lags behind leaves iterations out.
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "peer/hop_hand.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/topologies.hpp"

using namespace rubato;
using namespace rubato::test;

namespace {

/// Three peers of a complete graph; what one says the others hear at once.
struct trio {
  std::vector<hand> peers;

  trio(hop_rules const& p, std::int64_t iterations) {
    mixing_matrix const mixing = mixing_matrix::uniform(complete(3));
    for (std::uint32_t i = 0; i < 3; ++i) peers.emplace_back(p, site_of(mixing, id(i)));
    for (std::uint32_t i = 0; i < 3; ++i) {
      peers[i].start(iterations);
      post(i);
    }
  }

  void post(std::uint32_t i) {
    for (auto& [to, m] : std::exchange(peers[i].out, {}))
      REQUIRE(peers[to.index()].core.deliver(id(i), m));
  }

  /// One thing that peer i does; false if it waits, has ended, or is to compute in iteration `until`.
  bool step(std::uint32_t i, std::int64_t until) {
    auto& p = peers[i];
    std::string const what = p.poll();
    bool done = true;
    if (what == "send") p.core.send(p.own(), p.out);
    else if (what == "compute" && p.iteration() < until) p.core.computed();
    else if (what == "reduce") (void)p.gather(), p.core.reduced(p.out);
    else done = false;
    post(i);
    return done;
  }

  /// These go on until they can no more; all in turn, so that nobody has a reason to jump.
  void run(std::vector<std::uint32_t> const& who, std::int64_t until) {
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::uint32_t const i : who) goes_on = step(i, until) || goes_on;
    }
  }

  std::vector<std::int64_t> iterations() const {
    std::vector<std::int64_t> all;
    for (auto const& p : peers) all.push_back(p.iteration());
    return all;
  }
};

using iteration_list = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("hop_core: V3, Fig. 10 (a): a jump to iteration 9 with staleness 4", "[peer][hop_core]") {
  trio t(hop(gather_newest{.staleness = 4}, token_queues{8}, bounded_jump{}), 100);
  auto& a = t.peers[0];
  bool const slow_in_computing = GENERATE(true, false);
  INFO("A is slow in computing: " << slow_in_computing);
  t.run({0, 1, 2}, 4);
  CHECK(t.iterations() == iteration_list{4, 4, 4});
  if (!slow_in_computing) {  // but after its reduce
    a.compute();
    CHECK(a.reduce().parts.size() == 3);
  }
  t.run({1, 2}, 100);
  CHECK(t.iterations() == iteration_list{4, 9, 9});  // A's newest is of iteration 4
  for (std::size_t const i : {1u, 2u}) {
    CHECK(t.peers[i].core.gathering());
    CHECK_FALSE(t.peers[i].core.can_go_on());
    CHECK(t.peers[i].core.tokens(0) == 3);  // it is not the tokens that hold them
  }
  if (slow_in_computing) {
    a.compute();
    auto const all = a.reduce();  // k = 4: 4 − 0 + 1, and 9 − 0 + 1 for what is newer
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 9)}, {2, value(2, 9)}});
    CHECK(all.weights == std::vector<double>{5.0 / 25, 10.0 / 25, 10.0 / 25});
  }
  CHECK(a.core.tokens(0) == 13);  // 9 − 4 + 8
  CHECK(a.core.tokens(1) == 13);
  CHECK_FALSE(a.core.jumping());

  CHECK(a.poll() == "reduce");
  CHECK(a.core.jumping());
  CHECK(a.iteration() == 8);
  CHECK(a.core.tokens(0) == 9);  // J − 1 = 4 taken of each
  CHECK(a.core.tokens(1) == 9);
  CHECK(a.said() == lines{"tokens 4 to 1", "tokens 4 to 2"});
  auto const all = a.gather();
  if (slow_in_computing) {  // it has reduced their newest already
    CHECK(all.parts == std::vector<part>{{0, {}}});
    CHECK(all.weights == std::vector<double>{1});
  } else {  // the own counts as one of iteration k − 1 = 8: 8 − 4 + 1; theirs: 9 − 4 + 1
    CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 9)}, {2, value(2, 9)}});
    CHECK(all.weights == std::vector<double>{5.0 / 17, 6.0 / 17, 6.0 / 17});
  }
  a.core.reduced(a.out);
  CHECK(a.said().empty());

  CHECK(a.poll() == "send");
  CHECK_FALSE(a.core.jumping());
  CHECK(a.iteration() == 9);
  CHECK(a.core.tokens(0) == 8);
  CHECK(a.core.tokens(1) == 8);
  CHECK(a.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(a.core.counters().jumps == 1);
  CHECK(a.core.counters().jumped_over == 4);  // 5, 6, 7 and 8
  for (std::uint32_t const i : {1u, 2u}) {
    CHECK(t.peers[i].tokens(0, 4));
    CHECK(t.peers[i].tokens(0, 1));
  }
  CHECK(t.step(0, 9));  // sends the update of iteration 9
  t.run({1, 2}, 100);
  CHECK(t.iterations() == iteration_list{9, 14, 14});  // as far ahead of A as before
}

TEST_CASE("hop_core: V3, Fig. 10 (b): a jump to iteration 10 with tokens 5", "[peer][hop_core]") {
  trio t(hop(gather_all_but{.backups = 1}, token_queues{5}, bounded_jump{}), 100);
  auto& a = t.peers[0];
  t.run({0, 1, 2}, 5);
  CHECK(t.iterations() == iteration_list{5, 5, 5});
  t.run({1, 2}, 100);
  CHECK(t.iterations() == iteration_list{5, 10, 10});
  for (std::size_t const i : {1u, 2u}) {
    CHECK_FALSE(t.peers[i].core.can_go_on());
    CHECK_FALSE(t.peers[i].core.gathering());
    CHECK(t.peers[i].core.tokens(0) == 0);
  }
  CHECK(a.core.tokens(0) == 10);
  CHECK(a.core.tokens(1) == 10);
  CHECK(a.core.held() == 12);  // (1 + max_ig) iterations of two neighbors
  CHECK(a.core.counters().queue_peak == 12);
  a.compute();
  CHECK(a.reduce().parts == std::vector<part>{{0, {}}, {1, value(1, 5)}, {2, value(2, 5)}});

  CHECK(a.poll() == "reduce");
  CHECK(a.core.jumping());
  CHECK(a.iteration() == 9);
  CHECK(a.core.tokens(0) == 6);
  CHECK(a.core.tokens(1) == 6);
  CHECK(a.core.held() == 4);  // of iterations 9 and 10
  CHECK(a.said() == lines{"tokens 4 to 1", "tokens 4 to 2"});
  auto const all = a.gather();
  CHECK(all.parts == std::vector<part>{{0, {}}, {1, value(1, 9)}, {2, value(2, 9)}});
  CHECK(all.weights == std::vector<double>(3, 1.0 / 3));
  a.core.reduced(a.out);

  CHECK(a.poll() == "send");
  CHECK(a.iteration() == 10);
  CHECK(a.core.tokens(0) == 5);
  CHECK(a.core.tokens(1) == 5);
  CHECK(a.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(a.core.counters().iterations == 6);  // 0 … 5
  for (std::uint32_t const i : {1u, 2u}) {
    CHECK(t.peers[i].tokens(0, 4));
    CHECK(t.peers[i].tokens(0, 1));
    CHECK(t.peers[i].core.tokens(0) == 5);
  }
  t.run({1, 2}, 100);
  CHECK(t.iterations() == iteration_list{10, 15, 15});
}

namespace {

/// Where a peer of `iterations` goes from iteration k0, when its two out-neighbors are that far ahead.
template <class Jump>
std::int64_t jumps_to(Jump const& jump, std::int64_t k0, std::int64_t ahead, std::int64_t other_ahead,
                      std::int64_t iterations = 1000) {
  hand p(hop(gather_newest{.staleness = 90}, token_queues{50}, jump), among({1, 2}));
  p.start(iterations);
  p.in_step_until(k0);
  CHECK(p.update(1, k0));
  CHECK(p.update(2, k0));
  p.iterate();
  if (ahead > 0) CHECK(p.tokens(1, ahead));
  if (other_ahead > 0) CHECK(p.tokens(2, other_ahead));
  std::string const what = p.poll();
  if (what == "end") return -1;
  bool const jumped = what == "reduce";
  if (jumped) {
    CHECK(p.core.jumping());
    p.reduce();
    CHECK(p.poll() == "send");
  }
  CHECK(p.core.counters().jumps == (jumped ? 1 : 0));
  CHECK(p.core.counters().jumped_over ==
        static_cast<std::uint64_t>(jumped ? p.iteration() - k0 - 1 : 0));
  CHECK(p.core.tokens(0) == 50 + ahead - (p.iteration() - k0));
  CHECK(p.core.tokens(1) == 50 + other_ahead - (p.iteration() - k0));
  return p.iteration();
}

/// A policy of the user's own that wants too much.
struct as_far_as_it_goes {
  static constexpr bool jumps = true;
  [[nodiscard]] std::int64_t jump(std::int64_t) const noexcept { return most; }
};
struct backwards {
  static constexpr bool jumps = true;
  [[nodiscard]] std::int64_t jump(std::int64_t) const noexcept { return least; }
};

}  // namespace

TEST_CASE("hop_core: a jump goes as far as the lag, and no further than iterations_max",
          "[peer][hop_core]") {
  CHECK(jumps_to(bounded_jump{}, 3, 0, 0) == 4);
  CHECK(jumps_to(bounded_jump{}, 3, 1, 1) == 4);   // by 1 everybody goes anyway
  CHECK(jumps_to(bounded_jump{}, 3, 2, 2) == 5);
  CHECK(jumps_to(bounded_jump{}, 3, 10, 10) == 13);
  CHECK(jumps_to(bounded_jump{}, 3, 11, 11) == 13);
  CHECK(jumps_to(bounded_jump{2, 3}, 3, 11, 11) == 6);
  CHECK(jumps_to(bounded_jump{2, 100}, 0, 50, 50) == 50);
}

TEST_CASE("hop_core: a jump needs a lag as great as the trigger", "[peer][hop_core]") {
  CHECK(jumps_to(bounded_jump{5, 10}, 3, 4, 4) == 4);
  CHECK(jumps_to(bounded_jump{5, 10}, 3, 5, 5) == 8);
  CHECK(jumps_to(bounded_jump{5, 2}, 3, 5, 5) == 5);
}

TEST_CASE("hop_core: a jump never passes the slowest out-neighbor", "[peer][hop_core]") {
  CHECK(jumps_to(bounded_jump{}, 3, 9, 2) == 5);
  CHECK(jumps_to(bounded_jump{}, 3, 2, 9) == 5);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 1) == 4);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 0) == 4);
  CHECK(jumps_to(as_far_as_it_goes{}, 3, 9, 4) == 7);
  CHECK(jumps_to(as_far_as_it_goes{}, 3, 1, 4) == 4);
  CHECK(jumps_to(backwards{}, 3, 9, 4) == 4);
}

TEST_CASE("hop_core: a jump never passes the last iteration", "[peer][hop_core]") {
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 10) == 9);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 7) == 6);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 6) == 5);
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 5) == 4);   // the last one is the next one
  CHECK(jumps_to(bounded_jump{}, 3, 9, 9, 4) == -1);  // in the last one already
  CHECK(jumps_to(as_far_as_it_goes{}, 3, 9, 9, 7) == 6);
}

TEST_CASE("hop_core: the steps of a jump are taken in the order of the rules", "[peer][hop_core]") {
  // 0 sends to 1 and 2, and hears of 3, 4 and 5: so it may lag behind those and wait for these.
  peer_site const place = site(0, {3, 4, 5}, {1, 2}, 3);

  SECTION("backup workers") {
    hand p(hop(gather_all_but{.backups = 1}, token_queues{6}, bounded_jump{}), place);
    p.start(100);
    p.in_step_until(2);
    for (std::int64_t k = 2; k <= 5; ++k) CHECK(p.update(3, k));
    CHECK(p.update(4, 2));
    CHECK(p.update(4, 6));
    CHECK(p.tokens(1, 4));
    CHECK(p.tokens(2, 5));
    p.iterate();
    p.said();
    CHECK(p.core.tokens(0) == 10);
    CHECK(p.poll() == "wait");
    // (1) J − 1 = 3 tokens of each, (2) what is older than k − 1 = 5 dropped, (3) iteration 5, and 3
    // tokens put in: all that before it (4) receives.
    CHECK(p.core.jumping());
    CHECK(p.core.gathering());
    CHECK(p.core.tokens(0) == 7);
    CHECK(p.core.tokens(1) == 8);
    CHECK(p.iteration() == 5);
    CHECK(p.core.queue().first() == iteration_index{5});
    CHECK(p.core.held() == 2);
    CHECK(p.said() == lines{"tokens 3 to 3", "tokens 3 to 4", "tokens 3 to 5"});
    // Its in-neighbors may be max_ig ahead of iteration 5 now, and no further.
    CHECK(p.update(3, 6));
    CHECK(p.update(3, 11));
    CHECK_FALSE(p.update(3, 12));
    CHECK(p.update(4, 4));  // too late
    CHECK(p.core.counters().updates_late == 1);
    CHECK(p.poll() == "wait");
    CHECK_FALSE(p.core.can_go_on());
    CHECK(p.tokens(1, 3));  // no reason for another jump, or a longer one
    CHECK(p.poll() == "wait");
    CHECK(p.iteration() == 5);
    CHECK(p.update(5, 5));
    auto const all = p.reduce();
    CHECK(all.parts == std::vector<part>{{0, {}}, {3, value(3, 5)}, {5, value(5, 5)}});
    CHECK(p.said().empty());
    // (5) one token of each, iteration 6, one put in.
    CHECK(p.poll() == "send");
    CHECK(p.iteration() == 6);
    CHECK(p.core.tokens(0) == 9);
    CHECK(p.core.tokens(1) == 7);
    CHECK(p.said() == lines{"tokens 1 to 3", "tokens 1 to 4", "tokens 1 to 5"});
    p.send_and_compute();
    CHECK(p.said().empty());  // both have left iteration 6: 1 is in 9, 2 in 7
    CHECK(p.update(5, 6));
    CHECK(p.reduce().parts ==
          std::vector<part>{{0, {}}, {3, value(3, 6)}, {4, value(4, 6)}, {5, value(5, 6)}});
  }

  SECTION("bounded staleness") {
    hand p(hop(gather_newest{.staleness = 1}, token_queues{6}, bounded_jump{}), place);
    p.start(100);
    p.in_step_until(2);
    p.iterate();
    CHECK(p.update(3, 3));  // k − 1 − s = 4 is needed: dropped
    CHECK(p.update(4, 4));  // just kept
    CHECK(p.tokens(1, 4));
    CHECK(p.tokens(2, 5));
    p.said();
    CHECK(p.poll() == "wait");
    CHECK(p.core.jumping());
    CHECK(p.iteration() == 5);
    CHECK(p.core.tokens(0) == 7);
    CHECK(p.said() == lines{"tokens 3 to 3", "tokens 3 to 4", "tokens 3 to 5"});
    CHECK_FALSE(p.core.boxes().fresh(0));
    CHECK(p.core.boxes().fresh(1));
    CHECK(p.update(3, 4));
    CHECK(p.poll() == "wait");
    CHECK(p.update(5, 6));
    auto const all = p.reduce();
    CHECK(all.parts ==
          std::vector<part>{{0, {}}, {3, value(3, 4)}, {4, value(4, 4)}, {5, value(5, 6)}});
    CHECK(all.weights == std::vector<double>{2.0 / 7, 1.0 / 7, 1.0 / 7, 3.0 / 7});
    CHECK(p.poll() == "send");
    CHECK(p.iteration() == 6);
    CHECK(p.core.tokens(0) == 6);
    CHECK(p.said() == lines{"tokens 1 to 3", "tokens 1 to 4", "tokens 1 to 5"});
  }
}

TEST_CASE("hop_core: no jump without out-neighbors that are ahead", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 9}, token_queues{3}, bounded_jump{}), among({1, 2}));
  p.start(10);
  p.in_step_until(1);
  p.iterate();
  CHECK(p.tokens(2, 3));
  p.lose(1);
  CHECK(p.poll() == "reduce");  // 1 was the slowest, and bounds nothing any more
  CHECK(p.core.jumping());
  p.reduce();
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 4);
  p.send_and_compute();
  p.reduce();
  p.lose(2);
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 5);
  CHECK(p.core.counters().jumps == 1);
}

TEST_CASE("hop_core: who waits for a token may jump once it comes", "[peer][hop_core]") {
  hand p(hop(gather_newest{.staleness = 9}, token_queues{2}, bounded_jump{}), among({1}));
  p.start(10);
  CHECK(p.update(1, 0));
  p.iterate();
  CHECK(p.poll() == "send");
  p.iterate();
  CHECK(p.poll() == "wait");
  CHECK(p.iteration() == 1);
  CHECK(p.core.tokens(0) == 0);
  CHECK(p.tokens(1, 4));  // 1 is in iteration 3
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "reduce");
  CHECK(p.iteration() == 2);
  p.reduce();
  CHECK(p.poll() == "send");
  CHECK(p.iteration() == 3);
}
