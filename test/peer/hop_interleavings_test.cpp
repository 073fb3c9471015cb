// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Every order in which a few peers can move and their messages arrive, for every protocol of the
// Hop family.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "peer/hop_search.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/topologies.hpp"

using namespace rubato;
using rubato::test::findings;
using rubato::test::search;

namespace {

/// Iter(i) − Iter(j) at most, as 002 Table 1 has it.
std::int64_t bound_of(hop_rules const& p, graph const& g, worker_id i, worker_id j) {
  constexpr std::int64_t unbounded = 1'000'000;
  std::int64_t const there = g.distance(j, i);
  std::int64_t const back = g.distance(i, j);
  std::int64_t bound = unbounded;
  // On a directed graph a jump may go beyond this until the peer has been caught up.
  bool const caught_up = !p.jumps || g.undirected();
  if (p.bounds_gap && caught_up)
    bound = (distance(p.oldest(iteration_index{0}), iteration_index{0}) + 1) * there;
  if (p.acks) bound = std::min(bound, 2 * back);
  if (p.gap_max) bound = std::min(bound, *p.gap_max * back);
  return bound;
}

/// Every order; and the gaps between peers become as great as the rules allow, and no greater.
void examine(hop_rules const& p, std::vector<graph> const& graphs, std::int64_t iterations,
             std::size_t states_at_least) {
  for (graph const& g : graphs) {
    findings const found = search(p, g, iterations).reduced();
    INFO(g.name() << " of " << g.size() << ", " << iterations << " iterations, " << found.states
                  << " states");
    CHECK(found.problem == "");
    CHECK(found.states >= states_at_least);
    CHECK(found.endings == 1);
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      for (std::uint32_t j = 0; j < g.size(); ++j) {
        INFO("Iter(" << i << ") - Iter(" << j << ")");
        std::int64_t const bound =
            std::min(bound_of(p, g, worker_id{i}, worker_id{j}), iterations - 1);
        CHECK(found.gap[i][j] <= bound);
        // Acknowledgements and jumps need not let a gap become as great as that.
        if (!p.acks && !p.jumps) CHECK(found.gap[i][j] == bound);
      }
    }
    // HOP-3: each has reduced the same in iteration k, whatever the order.
    if (p.by_iteration() && p.bounds_gap)
      CHECK(found.seen.reduces.size() == g.size() * static_cast<std::size_t>(iterations));
  }
}

std::vector<graph> small_graphs() { return {directed_ring(3), complete(3), star(3)}; }
std::vector<graph> greater_graphs() {
  return {directed_ring(4), ring(4), complete(4), star(4), grid(1, 4), exponential(4)};
}
std::vector<graph> all_graphs() {
  std::vector<graph> all = greater_graphs();
  for (graph const& g : small_graphs()) all.push_back(g);
  all.push_back(ring(2));
  return all;
}

// A gather that waits for one more than there are.
struct gather_too_many : gather_all {
  [[nodiscard]] static std::size_t needed(std::size_t n) noexcept { return n + 1; }
};

}  // namespace

TEST_CASE("hop interleavings: where every update is waited for", "[peer][interleavings]") {
  SECTION("standard") { examine(hop(), all_graphs(), 4, 30); }
  SECTION("serial") { examine(hop(iteration_order::serial), all_graphs(), 4, 50); }
  SECTION("notify_ack") { examine(hop(notify_ack{}), all_graphs(), 4, 40); }
  SECTION("notify_ack, serial") {
    examine(hop(notify_ack{}, iteration_order::serial), all_graphs(), 4, 40);
  }
  SECTION("tokens") {
    for (std::int64_t const max_ig : {1, 2, 3}) examine(hop(token_queues{max_ig}), all_graphs(), 4, 50);
  }
  SECTION("tokens, serial") {
    for (std::int64_t const max_ig : {1, 2})
      examine(hop(token_queues{max_ig}, iteration_order::serial), all_graphs(), 4, 50);
  }
  SECTION("more iterations") {
    examine(hop(), greater_graphs(), 9, 300);
    examine(hop(token_queues{2}), greater_graphs(), 9, 1000);
    examine(hop(notify_ack{}), greater_graphs(), 9, 500);
  }
}

TEST_CASE("hop interleavings: one peer alone", "[peer][interleavings]") {
  examine(hop(), {complete(1)}, 4, 5);
  examine(hop(notify_ack{}), {complete(1)}, 4, 5);
  examine(hop(token_queues{1}), {complete(1)}, 4, 5);
  examine(hop(gather_newest{.staleness = 1}, token_queues{2}, bounded_jump{2, 3}), {complete(1)}, 4, 5);
}

TEST_CASE("hop interleavings: backup workers", "[peer][interleavings]") {
  auto const backup = [](std::int64_t max_ig, auto... more) {
    return hop(gather_all_but{.backups = 1}, token_queues{max_ig}, more...);
  };
  SECTION("small") {
    examine(backup(1), small_graphs(), 4, 5000);
    examine(backup(2), small_graphs(), 4, 20'000);
    examine(backup(1, iteration_order::serial), small_graphs(), 4, 1000);
    examine(backup(3), {ring(2)}, 5, 500);
  }
  SECTION("greater") {
    examine(backup(1), {directed_ring(4), ring(4)}, 3, 50'000);
    examine(backup(2), greater_graphs(), 2, 10'000);
  }
}

TEST_CASE("hop interleavings: bounded staleness", "[peer][interleavings]") {
  auto const stale = [](std::int64_t s, auto... more) {
    return hop(gather_newest{.staleness = s}, more...);
  };
  SECTION("small") {
    examine(stale(0), small_graphs(), 4, 300);
    examine(stale(1), small_graphs(), 4, 2000);
    examine(stale(2), {directed_ring(3), star(3)}, 4, 5000);
    examine(stale(1, iteration_order::serial), small_graphs(), 4, 1000);
    examine(stale(2), {ring(2)}, 5, 200);
  }
  SECTION("small, with tokens") {
    examine(stale(0, token_queues{1}), small_graphs(), 4, 500);
    examine(stale(1, token_queues{1}), small_graphs(), 4, 5000);
    examine(stale(2, token_queues{2}), {directed_ring(3), star(3)}, 4, 10'000);
    examine(stale(2, token_queues{2}), {complete(3)}, 3, 10'000);
    examine(stale(1, token_queues{3}), {star(3)}, 4, 5000);
  }
  SECTION("greater") {
    examine(stale(0), greater_graphs(), 3, 1000);
    examine(stale(1), {directed_ring(4)}, 3, 10'000);
    examine(stale(1), {ring(4), star(4), grid(1, 4)}, 2, 10'000);
    examine(stale(1, token_queues{1}), {directed_ring(4), star(4), grid(1, 4)}, 2, 10'000);
  }
}

TEST_CASE("hop interleavings: the hybrid", "[peer][interleavings]") {
  auto const hybrid = hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2});
  examine(hybrid, {directed_ring(3)}, 4, 50'000);
  examine(hybrid, {star(3)}, 3, 20'000);
  examine(hybrid, {complete(3), directed_ring(4), star(4), grid(1, 4)}, 2, 5000);
}

TEST_CASE("hop interleavings: jumps", "[peer][interleavings]") {
  bounded_jump const jump{2, 3};
  SECTION("backup workers") {
    auto const p = hop(gather_all_but{.backups = 1}, token_queues{2}, jump);
    examine(p, small_graphs(), 4, 20'000);
    examine(p, {directed_ring(4), grid(1, 4)}, 3, 50'000);
  }
  SECTION("bounded staleness") {
    auto const p = hop(gather_newest{.staleness = 2}, token_queues{2}, jump);
    examine(p, {directed_ring(3), star(3)}, 4, 20'000);
    examine(p, {complete(3), directed_ring(4)}, 3, 20'000);
  }
  SECTION("bounded staleness, longer") {
    auto const p = hop(gather_newest{.staleness = 1}, token_queues{3}, jump);
    examine(p, {directed_ring(3)}, 5, 20'000);
    examine(p, {ring(2)}, 7, 1000);
    examine(hop(gather_newest{.staleness = 1}, token_queues{2}, jump), {grid(1, 4)}, 3, 50'000);
  }
  SECTION("hybrid") {
    auto const p = hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}, jump);
    examine(p, {directed_ring(3)}, 4, 50'000);
    examine(p, {star(3)}, 3, 20'000);
  }
  SECTION("serial") {
    auto const p =
        hop(gather_newest{.staleness = 2}, token_queues{2}, jump, iteration_order::serial);
    examine(p, {directed_ring(3), star(3)}, 4, 5000);
  }
}

TEST_CASE("hop interleavings: one may die at any time", "[peer][interleavings]") {
  // Its neighbors hear of it in the end, after all that it has said. Nobody waits for it for ever, and
  // who has finished before it dies is missed by nobody.
  auto const examine_loss = [](hop_rules const& p, std::vector<graph> const& graphs, std::int64_t iterations,
                               std::size_t states_at_least) {
    for (graph const& g : graphs) {
      std::size_t states = 0;
      for (std::uint32_t mortal = 0; mortal < g.size(); ++mortal) {
        findings const found = search(p, g, iterations, mortal).reduced();
        INFO(g.name() << " of " << g.size() << ", peer " << mortal << " dies, " << found.states
                      << " states");
        CHECK(found.problem == "");
        CHECK(found.endings > 1);
        states += found.states;
      }
      INFO(g.name() << " of " << g.size());
      CHECK(states >= states_at_least);
    }
  };
  examine_loss(hop(), all_graphs(), 3, 100);
  examine_loss(hop(iteration_order::serial), all_graphs(), 3, 100);
  examine_loss(hop(notify_ack{}), all_graphs(), 3, 100);
  examine_loss(hop(token_queues{1}), all_graphs(), 3, 100);
  examine_loss(hop(gather_all_but{.backups = 1}, token_queues{1}), small_graphs(), 2, 1000);
  examine_loss(hop(gather_newest{.staleness = 1}), small_graphs(), 3, 1000);
  examine_loss(hop(gather_newest{.staleness = 1}, token_queues{1}), small_graphs(), 2, 1000);
  examine_loss(hop(gather_newest{.staleness = 1}, token_queues{2}, bounded_jump{2, 3}),
               {directed_ring(3), star(3), ring(2)}, 3, 1000);
  examine_loss(hop(gather_all_but{.backups = 1}, token_queues{2}, bounded_jump{2, 3}),
               {directed_ring(3), star(3), ring(2)}, 3, 1000);
  examine_loss(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}, bounded_jump{2, 3}),
               {ring(2)}, 4, 1000);
}

TEST_CASE("hop interleavings: the reduced search sees what the full one sees",
          "[peer][interleavings]") {
  auto const compare = [](hop_rules const& p, graph const& g, std::int64_t iterations) {
    INFO(g.name() << " of " << g.size());
    findings const full = search(p, g, iterations).full();
    findings const reduced = search(p, g, iterations).reduced();
    CHECK(full.problem == "");
    CHECK(reduced.problem == "");
    CHECK(full.gap == reduced.gap);
    CHECK(full.seen.iterations == reduced.seen.iterations);
    CHECK(full.seen.reduces == reduced.seen.reduces);
    CHECK(full.states > 2 * reduced.states);
  };
  graph const pair = ring(2);
  compare(hop(), pair, 4);
  compare(hop(iteration_order::serial), pair, 4);
  compare(hop(notify_ack{}), pair, 4);
  compare(hop(notify_ack{}, iteration_order::serial), pair, 4);
  compare(hop(token_queues{1}), pair, 4);
  compare(hop(token_queues{2}), pair, 4);
  compare(hop(gather_all_but{.backups = 1}, token_queues{2}), pair, 4);
  compare(hop(gather_newest{.staleness = 0}), pair, 4);
  compare(hop(gather_newest{.staleness = 2}), pair, 4);
  compare(hop(gather_newest{.staleness = 2}, token_queues{2}), pair, 4);
  compare(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}), pair, 4);
  compare(hop(gather_all_but{.backups = 1}, token_queues{2}, bounded_jump{2, 3}), pair, 4);
  compare(hop(gather_newest{.staleness = 2}, token_queues{2}, bounded_jump{2, 3}), pair, 4);
  compare(hop(gather_hybrid{.staleness = 1, .backups = 1}, token_queues{2}, bounded_jump{2, 3}), pair,
          4);
  graph const circle = directed_ring(3);
  compare(hop(), circle, 3);
  compare(hop(iteration_order::serial), circle, 3);
  compare(hop(notify_ack{}), circle, 2);
  compare(hop(token_queues{1}), circle, 2);
  compare(hop(gather_newest{.staleness = 1}), circle, 2);
  compare(hop(), complete(3), 2);
  compare(hop(notify_ack{}), complete(3), 2);
}

TEST_CASE("hop interleavings: a deadlock is found where there is one", "[peer][interleavings]") {
  findings const found = search(hop(gather_too_many{}), directed_ring(3), 2).reduced();
  INFO(found.problem);
  CHECK(found.problem.starts_with("a deadlock"));
  CHECK(found.endings == 0);
}
