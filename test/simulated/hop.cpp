// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Hop's rules (protocol-rules.md §6) on random schedules: a judge looks after every event.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/testing/observed_peers.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>
#include <string>
#include <utility>
#include <vector>

#include "seeds.hpp"
#include "simulated/peers_in_one_place.hpp"

using namespace rubato;

namespace {

constexpr std::uint64_t usual_seeds = 500;

std::string lines(std::vector<std::string> const& sentences) {
  std::string all;
  for (auto const& s : sentences) all += "\n  " + s;
  return all;
}

// ---- parts, drawn from the seed

std::uint64_t draw(std::uint64_t seed, std::uint64_t what, std::uint64_t below) {
  return random_stream(seed, what).below(below);
}
iteration_order random_order(std::uint64_t seed) {
  return draw(seed, 1, 2) == 0 ? iteration_order::parallel : iteration_order::serial;
}
token_queues random_tokens(std::uint64_t seed) {
  return {1 + static_cast<std::int64_t>(draw(seed, 2, 8))};
}
staleness random_staleness(std::uint64_t seed) {
  return static_cast<std::int64_t>(draw(seed, 3, 6));
}
/// Now and then so lazy that it never jumps.
bounded_jump random_jump(std::uint64_t seed) {
  if (draw(seed, 4, 3) == 0) return {.trigger = 1 << 20};
  return {.trigger = 2 + static_cast<std::int64_t>(draw(seed, 5, 3)),
          .iterations_max = 2 + static_cast<std::int64_t>(draw(seed, 6, 9))};
}
std::uint32_t random_backups(std::uint64_t seed) {
  return 1 + static_cast<std::uint32_t>(draw(seed, 7, 3));
}
sgd random_sgd(std::uint64_t seed) {
  return {.rate = 0.1,
          .momentum = draw(seed, 8, 2) == 0 ? 0.0 : 0.9,
          .decay = draw(seed, 9, 2) == 0 ? 0.0 : 0.01};
}

// ---- schedules

testing::peer_schedule with_losses(std::uint64_t seed) { return testing::random_peers(seed); }
testing::peer_schedule without_losses(std::uint64_t seed) {
  return testing::random_peers(seed, {.crashes = false, .leaves = false});
}
/// Each peer has as many in-neighbors as there are backup workers.
testing::peer_schedule for_backups(std::uint64_t seed, std::uint32_t backups) {
  return testing::random_peers(seed, {.in_min = backups});
}
/// Who lags behind those that it sends to may still be ahead of those that it hears of: it jumps,
/// and then waits for them, while the others go on.
testing::peer_schedule uneven_and_directed(std::uint64_t seed) {
  using namespace std::chrono_literals;
  random_stream random(seed, 0x0dd);
  testing::peer_schedule s{
      .seed = seed, .mixing = mixing_matrix::automatic(directed_ring(3)), .iterations = 40};
  while (testing::detail::fewest_in(s.mixing.topology()) < 2)
    s.mixing =
        testing::detail::random_directed(random, 4 + static_cast<std::uint32_t>(random.below(9)));
  s.scenario.seed = seed;
  s.scenario.speed.work_cost = 1ms;
  s.scenario.network.worker_link.jitter = testing::detail::random_jitter(random);
  for (std::uint32_t i = 0; i < s.peers(); ++i)
    s.scenario.speed.slowness.push_back(
        testing::detail::one_of(random, std::array{1.0, 1.0, 3.0, 10.0, 30.0}));
  return s;
}

/// What the runs of a family came to.
struct totals {
  std::uint64_t iterations = 0, jumps = 0, crashes = 0, late = 0;

  void add(peer_report const& r) {
    iterations += r.iterations();
    crashes += r.crashes;
    for (peer_metrics const& p : r.peers) {
      jumps += p.jumps;
      late += p.updates_late;
    }
  }
};

/// Runs `protocol_of(seed)` on `schedule_of(seed)` and requires that the rules hold in each run.
template <class ProtocolOf, class ScheduleOf>
void check_family(ProtocolOf protocol_of, ScheduleOf schedule_of, bool jumps = false) {
  std::uint64_t const seeds = test::seed_count(usual_seeds);
  totals sum;
  bool losses = false;
  for (std::uint64_t i = 0; i < seeds; ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    testing::peer_schedule const s = schedule_of(seed);
    auto const run = testing::observed_peers(protocol_of(seed), s);
    INFO("broken rules:" << lines(run.violations));
    REQUIRE(run.violations.empty());
    losses = losses || !s.scenario.crashes.empty();
    sum.add(run.report);
  }
  if (seeds < 100) return;
  // Schedules that do nothing would prove nothing.
  CHECK(sum.iterations > 50 * seeds);
  CHECK((sum.jumps > seeds / 2) == jumps);
  CHECK((sum.crashes > seeds / 10) == losses);
}

// ---- HOP-3

using numbers = std::vector<double>;
using states = test::peer_states<double>;

template <hop_protocol P>
auto make_group(P const& p, testing::peer_schedule const& s, sgd const& options) {
  return peer_group{simulated{.scenario = s.scenario, .stack_bytes = 64 * 1024}, s.mixing, p,
                    options, numbers{0.5, -1, 3, 0.25}};
}

/// HOP-3 for a protocol that waits for all.
template <hop_protocol P>
void check_trajectories(P const& p, std::uint64_t seed) {
  auto const s = without_losses(seed);
  sgd const options = random_sgd(seed);
  auto group = make_group(p, s, options);
  auto const expected = test::in_one_place(s.mixing, p.order(), options,
                                           states(s.peers(), group.parameters(0)), s.iterations);
  std::vector<std::int64_t> wrong;
  group.run([&](auto& peer) {
    for (std::int64_t const k : peer.iterations(s.iterations)) {
      if (!test::same_bits<double>(peer.parameters(),
                                   expected[static_cast<std::size_t>(k)][peer.rank()]))
        wrong.push_back(k);
      peer.step(test::gradient_at(peer.parameters(), peer.rank(), k));
    }
  });
  CHECK(wrong == std::vector<std::int64_t>{});
  for (std::uint32_t i = 0; i < group.size(); ++i)
    REQUIRE(test::same_bits<double>(group.parameters(i), expected.back()[i]));
}

/// The sum of all parameters of one number, and the sum of squares of what peers differ from the
/// average.
std::pair<double, double> moments(states const& x, std::size_t number) {
  double sum = 0;
  for (numbers const& of_peer : x) sum += of_peer[number];
  double const average = sum / static_cast<double>(x.size());
  double squares = 0;
  for (numbers const& of_peer : x) squares += std::pow(of_peer[number] - average, 2);
  return {sum, squares};
}

}  // namespace

// ---- Table 1, HOP-1, HOP-2, HOP-4

TEST_CASE("hop: the standard keeps its rules in random runs", "[simulated][hop]") {
  check_family([](std::uint64_t seed) { return hop(random_order(seed)); }, without_losses);
}

TEST_CASE("hop: NOTIFY-ACK keeps its rules in random runs", "[simulated][hop]") {
  check_family([](std::uint64_t seed) { return hop(notify_ack{}, random_order(seed)); },
               without_losses);
}

TEST_CASE("hop: the standard with token queues keeps its rules in random runs",
          "[simulated][hop]") {
  check_family([](std::uint64_t seed) { return hop(random_tokens(seed), random_order(seed)); },
               without_losses);
}

TEST_CASE("hop: backup workers keep their rules in random runs, jumps and losses among them",
          "[simulated][hop]") {
  check_family(
      [](std::uint64_t seed) {
        return hop(gather_all_but{random_backups(seed)}, random_tokens(seed), random_jump(seed),
                   random_order(seed));
      },
      [](std::uint64_t seed) { return for_backups(seed, random_backups(seed)); }, true);
}

TEST_CASE("hop: backup workers keep their rules where jumps have to wait for slow in-neighbors",
          "[simulated][hop]") {
  check_family(
      [](std::uint64_t seed) {
        return hop(gather_all_but{1}, token_queues{1 + static_cast<std::int64_t>(seed % 4)},
                   bounded_jump{.iterations_max = 2 + static_cast<std::int64_t>(seed % 11)},
                   random_order(seed));
      },
      uneven_and_directed, true);
}

TEST_CASE("hop: bounded staleness without tokens keeps its rules in random runs",
          "[simulated][hop]") {
  check_family(
      [](std::uint64_t seed) {
        return hop(gather_newest{random_staleness(seed)}, random_order(seed));
      },
      with_losses);
}

TEST_CASE("hop: bounded staleness with tokens keeps its rules in random runs, jumps among them",
          "[simulated][hop]") {
  check_family(
      [](std::uint64_t seed) {
        return hop(gather_newest{random_staleness(seed)}, random_tokens(seed), random_jump(seed),
                   random_order(seed));
      },
      with_losses, true);
}

TEST_CASE("hop: bounded staleness keeps its rules where jumps have to wait for slow in-neighbors",
          "[simulated][hop]") {
  check_family(
      [](std::uint64_t seed) {
        return hop(gather_newest{random_staleness(seed)}, random_tokens(seed),
                   bounded_jump{.iterations_max = 2 + static_cast<std::int64_t>(seed % 11)},
                   random_order(seed));
      },
      uneven_and_directed, true);
}

TEST_CASE("hop: the hybrid keeps its rules in random runs, jumps and losses among them",
          "[simulated][hop]") {
  check_family(
      [](std::uint64_t seed) {
        return hop(gather_hybrid{random_staleness(seed), random_backups(seed)}, random_tokens(seed),
                   random_jump(seed), random_order(seed));
      },
      [](std::uint64_t seed) { return for_backups(seed, random_backups(seed)); }, true);
}

// ---- HOP-3

TEST_CASE(
    "hop: whatever the schedule, each trajectory is that of a computation in one place, bit "
    "for bit (HOP-3)",
    "[simulated][hop]") {
  for (std::uint64_t i = 0; i < test::seed_count(usual_seeds); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    check_trajectories(hop(random_order(seed)), seed);
    check_trajectories(hop(notify_ack{}, random_order(seed)), seed);
    check_trajectories(hop(random_tokens(seed), random_order(seed)), seed);
  }
}

TEST_CASE("hop: averaging alone keeps the average of all parameters, and brings peers together",
          "[simulated][hop]") {
  for (std::uint64_t i = 0; i < test::seed_count(usual_seeds); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = without_losses(seed);
    auto group = make_group(hop(random_order(seed)), s, {.rate = 1});
    auto const iterations = static_cast<std::size_t>(s.iterations);
    std::vector<states> x(iterations + 1, states(group.size()));
    group.run([&](auto& peer) {
      numbers gradient(peer.parameters().size());
      for (double& g : gradient) g = peer.random().normal();
      for (std::int64_t const k : peer.iterations(s.iterations)) {
        x[static_cast<std::size_t>(k)][peer.rank()].assign(peer.parameters().begin(),
                                                           peer.parameters().end());
        peer.step(gradient);
        std::ranges::fill(gradient, 0.0);
      }
    });
    for (std::uint32_t p = 0; p < group.size(); ++p) x[iterations][p] = group.parameters(p);
    for (std::size_t number = 0; number < x[0][0].size(); ++number) {
      auto const [sum, squares] = moments(x[1], number);
      auto before = squares;
      for (std::size_t k = 2; k <= iterations; ++k) {
        auto const [sum_now, squares_now] = moments(x[k], number);
        REQUIRE(std::abs(sum_now - sum) < 1e-12 * group.size());
        REQUIRE(squares_now <= before + 1e-24);
        before = squares_now;
      }
      if (squares > 1e-20) REQUIRE(before < squares);  // one average is enough on a complete graph
    }
  }
}

// ---- losses

namespace {

/// Runs a protocol that cannot do without anybody, and says who is said to be lost, and to whom.
/// Nobody: the run came to its end.
template <hop_protocol P>
std::optional<std::pair<std::uint32_t, std::uint32_t>> lost_in(P const& p,
                                                               testing::peer_schedule const& s) {
  testing::peer_observer o(testing::hop_bounds_of(p, s.iterations), s.mixing.topology(), s.iterations);
  auto group = make_group(p, s, {});
  group.runtime().on_event([&] { o.look(group); });
  std::optional<std::pair<std::uint32_t, std::uint32_t>> lost;
  try {
    auto const report = group.run([&](auto& peer) {
      for (std::int64_t const k : peer.iterations(s.asks_for(peer.rank()))) {
        if (k >= s.makes(peer.rank())) return;
        peer.step(test::gradient_at(peer.parameters(), peer.rank(), k));
      }
    });
    o.finish(group, report);
  } catch (lost_error const& e) {
    std::pair<std::uint32_t, std::uint32_t> found{};
    if (std::sscanf(e.what(), "peer %u is lost, and peer %u cannot", &found.first, &found.second) !=
        2)
      o.breach("a lost_error does not name both peers: ", e.what());
    else if (!o.gone(found.first))
      o.breach("peer ", found.first, " is there, but: ", e.what());
    lost = found;
  }
  INFO("broken rules:" << lines(o.violations()));
  REQUIRE(o.violations().empty());
  return lost;
}

/// Whether peers cannot but miss somebody: one leaves that sends to one that stays. Who leaves in
/// its last iteration may have sent already all that is needed of it.
bool somebody_is_missed(testing::peer_schedule const& s) {
  for (std::uint32_t i = 0; i < s.peers(); ++i)
    for (worker_id const j : s.mixing.topology().out(worker_id{i}))
      if (s.makes(i) + (s.announced ? 0 : 1) < s.makes(j.value())) return true;
  return false;
}

template <hop_protocol P>
void check_losses(P const& p, testing::peer_schedule const& s, std::uint64_t& found) {
  auto const lost = lost_in(p, s);
  if (lost) {
    ++found;
    CHECK(s.mixing.topology().has_edge(worker_id{lost->first}, worker_id{lost->second}));
  }
  if (s.scenario.crashes.empty() && somebody_is_missed(s)) CHECK(lost.has_value());
}

}  // namespace

TEST_CASE(
    "hop: who waits for all ends with a lost_error that names both, when one crashes or leaves",
    "[simulated][hop]") {
  std::uint64_t found = 0;
  std::uint64_t const seeds = test::seed_count(usual_seeds);
  for (std::uint64_t i = 0; i < seeds; ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = with_losses(seed);
    check_losses(hop(random_order(seed)), s, found);
    check_losses(hop(notify_ack{}, random_order(seed)), s, found);
    check_losses(hop(random_tokens(seed), random_order(seed)), s, found);
  }
  if (seeds >= 100) CHECK(found > seeds / 2);
}

TEST_CASE("hop: who outlives a loss goes on to the end, whoever leaves or crashes",
          "[simulated][hop]") {
  // Of a ring of five 1 and 4 go, so that 0 is left with nobody, and 2 and 3 with each other. The
  // judge wants all three to make all their iterations.
  using namespace std::chrono_literals;
  testing::peer_schedule s{.mixing = mixing_matrix::automatic(ring(5)), .iterations = 20};
  s.scenario.speed.work_cost = 1ms;
  s.scenario.crashes = {{.worker = worker_id{1}, .at = 4500us}};
  s.leaves = {20, 20, 20, 20, 7};
  auto const clean = [&](auto const& p) {
    auto const run = testing::observed_peers(p, s);
    INFO("broken rules:" << lines(run.violations));
    CHECK(run.violations.empty());
    CHECK(run.report.peers[0].iterations + run.report.peers[0].jumped_over == 20);
    CHECK(run.report.peers[1].iterations < 20);
    CHECK(run.report.crashes == 1);
  };
  for (auto const order : {iteration_order::parallel, iteration_order::serial}) {
    clean(hop(gather_all_but{1}, token_queues{2}, bounded_jump{}, order));
    clean(hop(gather_newest{3}, order));
    clean(hop(gather_newest{3}, token_queues{1}, bounded_jump{}, order));
    clean(hop(gather_hybrid{3, 1}, token_queues{2}, bounded_jump{}, order));
  }
}

// ---- determinism

TEST_CASE("hop: the same seed gives the same run of peers, byte for byte; another seed another one",
          "[simulated][hop]") {
  std::uint64_t differing = 0;
  std::uint64_t const seeds = test::seed_count(50);
  auto const twice = [&](auto const& p, testing::peer_schedule s) {
    auto const one = testing::observed_peers(p, s);
    REQUIRE(same_run(one, testing::observed_peers(p, s)));
    ++s.scenario.seed;
    if (!same_run(one, testing::observed_peers(p, s))) ++differing;
  };
  for (std::uint64_t i = 0; i < seeds; ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    auto const s = for_backups(seed, 1);
    twice(hop(gather_all_but{1}, random_tokens(seed), random_jump(seed), random_order(seed)), s);
    twice(hop(gather_newest{random_staleness(seed)}, random_order(seed)), s);
    twice(hop(gather_newest{random_staleness(seed)}, random_tokens(seed), random_jump(seed)), s);
  }
  CHECK(differing > 2 * seeds);
}
