// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Peers without a server, as threads and in virtual time: what both transports promise. Nothing here
// depends on how fast the machine is.
#include <Eigen/Core>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <limits>
#include <mutex>
#include <rubato/peer/gossip.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "transport/peer_groups.hpp"

using namespace rubato;
using namespace rubato::test;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

/// Runs so many iterations and compares every one with the computation in one place (HOP-3).
template <class Transport>
void check_trajectories(Transport const& t, graph const& on, iteration_order order,
                        std::int64_t iterations, floats const& initial) {
  sgd const options{.rate = 0.1, .momentum = 0.9, .decay = 0.01};
  auto const mixing = mixing_matrix::automatic(on);
  auto group = make_group(t, mixing, standard(order), initial, options);
  auto const expected =
      test::in_one_place<float>(mixing, order, options, states(on.size(), initial), iterations);
  std::atomic<int> wrong = 0;
  auto const report = group.run([&](auto& peer) {
    wrong += peer.count() != on.size();
    for (std::int64_t const k : peer.iterations(iterations)) {
      auto const& x = expected[static_cast<std::size_t>(k)][peer.rank()];
      wrong += !test::same_bits<float>(peer.parameters(), x);
      peer.step(test::gradient_at(peer.parameters(), peer.rank(), k));
    }
  });
  CHECK(wrong == 0);
  CHECK(same_bits(parameters_of(group), expected.back()));
  CHECK(report.iterations() == static_cast<std::uint64_t>(iterations) * on.size());
}

/// Calls `check(transport)` with both.
template <class Check>
void on_both(Check check) {
  check(in_process{});
  check(simulated{});
}

/// What `f` throws, as "code: sentence".
template <class F>
std::string thrown_by(F f) {
  try {
    f();
  } catch (error const& e) {
    return std::to_string(static_cast<int>(e.code())) + ": " + e.what();
  }
  return "nothing";
}
std::string code(errc c) { return std::to_string(static_cast<int>(c)) + ": "; }

}  // namespace

// ---- what is computed

TEST_CASE(
    "peers: in threads each trajectory is that of a computation in one place, bit for bit "
    "(HOP-3)",
    "[transport][peers]") {
  floats initial(3000);  // more than is averaged at a time
  random_stream random(7);
  for (float& x : initial) x = static_cast<float>(random.normal());
  for (auto const order : {iteration_order::parallel, iteration_order::serial}) {
    check_trajectories(in_process{}, ring_based(8), order, 50, initial);
    for (auto const busy_poll : {usual_busy_poll, usual_busy_poll, 0us, longest_busy_poll})
      check_trajectories(in_process{.busy_poll = busy_poll}, ring_based(8), order, 50, {1, 2, -3});
    check_trajectories(simulated{}, ring_based(8), order, 50, {1, 2, -3});
  }
}

TEST_CASE("peers: one peer is plain sgd, two average with each other", "[transport][peers]") {
  on_both([](auto transport) {
    for (std::uint32_t const n : {1U, 2U})
      for (auto const order : {iteration_order::parallel, iteration_order::serial})
        check_trajectories(transport, ring(n), order, 20, {3, -1});
    auto two = make_group(transport, complete(2), with_backup());
    CHECK(two.run(training(30)).iterations() <= 60);
    CHECK_THROWS_WITH(make_group(transport, ring(1), with_backup()),
                      Contains("node 0") && Contains("expected 1 to 1"));
  });
}

TEST_CASE("peers: a run begins where the last one ended", "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, ring(5), standard());
    states const initial = parameters_of(group);
    auto const first =
        test::in_one_place<float>(group.mixing(), iteration_order::parallel, sgd{}, initial, 10);
    auto const second = test::in_one_place<float>(group.mixing(), iteration_order::parallel, sgd{},
                                                  first.back(), 7);
    group.run(training(10));
    CHECK(same_bits(parameters_of(group), first.back()));
    CHECK(group.run(training(7)).iterations() == 5 * 7);
    CHECK(same_bits(parameters_of(group), second.back()));
    CHECK(group.run(training(0)).iterations() == 0);
    CHECK(same_bits(parameters_of(group), second.back()));
  });
}

TEST_CASE("peers: a run keeps nothing of the last one but the parameters, no momentum either",
          "[transport][peers]") {
  on_both([](auto transport) {
    sgd const options{.rate = 0.1, .momentum = 0.9};
    auto group = make_group(transport, mixing_matrix::automatic(ring(3)), standard(), {1, -2, 0.5F},
                            options);
    group.run(training(5));
    auto const expected = test::in_one_place<float>(group.mixing(), iteration_order::parallel,
                                                    options, parameters_of(group), 5);
    group.run(training(5));
    CHECK(same_bits(parameters_of(group), expected.back()));
  });
}

TEST_CASE("peers: the consensus is the average, and the spread the greatest distance from it",
          "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, ring(4), standard());
    CHECK(group.parameters() == floats{1, -2, 0.5F, 4});
    CHECK(group.spread() == 0);
    group.run([](auto& peer) {
      for ([[maybe_unused]] auto const k : peer.iterations(1))
        peer.step(floats{-30.0F * static_cast<float>(peer.rank()), 0, 0, 0});
    });
    CHECK(group.parameters()[0] == Approx(1 + 4.5));  // 0.1 times 0, 30, 60, 90
    CHECK(group.observe() == group.parameters());
    CHECK(group.spread() == Approx(4.5));
    CHECK(group.size() == 4);
    CHECK_THROWS_WITH(group.parameters(4), Contains("no peer 4 among 4"));
  });
}

// ---- misuse

TEST_CASE("peers: the spread is no number where parameters are none, or infinite", "[transport][peers]") {
  double const bad = GENERATE(std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity());
  std::uint32_t const whose = GENERATE(0U, 2U);
  peer_group group{in_process{}, ring(4), gossip{.probability = 1e-9}, plain_step{}, std::vector<double>(3)};
  group.run([&](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(1))
      peer.step(std::vector<double>(3, peer.rank() == whose ? bad : 1));
  });
  CHECK(std::isnan(group.spread()));
}

TEST_CASE("peers: calls that make no sense are errors, and change nothing", "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, ring(3), standard());
    auto const expected = test::in_one_place<float>(group.mixing(), iteration_order::parallel,
                                                    sgd{}, parameters_of(group), 3);
    std::vector<std::string> said;  // by peer 0 alone
    group.run([&](auto& peer) {
      auto const expect_error = [&](auto call) {
        if (peer.rank() == 0) said.push_back(thrown_by(call));
      };
      expect_error([&] { peer.step(floats(4)); });
      expect_error([&] { (void)peer.iterations(-1); });
      for (std::int64_t const k : peer.iterations(3)) {
        auto const gradient = test::gradient_at(peer.parameters(), peer.rank(), k);
        if (k == 1) expect_error([&] { peer.step(floats(3)); });
        if (k == 1) expect_error([&] { (void)peer.iterations(3); });
        if (k == 1) expect_error([&] { peer.step(gradient, -1); });
        if (k == 1) expect_error([&] { peer.step(gradient, std::nan("")); });
        peer.step(gradient);
        if (k == 1) expect_error([&] { peer.step(gradient); });
      }
      expect_error([&] { peer.step(floats(4)); });
    });
    REQUIRE(said.size() == 8);
    CHECK_THAT(said[0], Contains(code(errc::bad_option)) && Contains("once in each"));
    CHECK_THAT(said[1], Contains(code(errc::bad_option)) && Contains("0 or more, but is -1"));
    CHECK_THAT(said[2], Contains(code(errc::wrong_size)) && Contains("3 numbers, expected 4"));
    CHECK_THAT(said[3], Contains(code(errc::bad_option)) && Contains("only once"));
    CHECK_THAT(said[4], Contains(code(errc::bad_option)) && Contains("work must be finite"));
    CHECK_THAT(said[5], Contains(code(errc::bad_option)) && Contains("work must be finite"));
    CHECK_THAT(said[6], Contains(code(errc::bad_option)) && Contains("once in each"));
    CHECK_THAT(said[7], Contains(code(errc::bad_option)) && Contains("once in each"));
    CHECK(same_bits(parameters_of(group), expected.back()));
  });
}

TEST_CASE("peers: an iteration without a step ends the run with an error", "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, ring(3), standard());
    auto const forgets = [](auto& peer) {
      for (std::int64_t const k : peer.iterations(5))
        if (k < 2) peer.step(floats(4));
    };
    CHECK_THROWS_WITH(group.run(forgets), Contains("iteration 2 had no step()"));
    CHECK(group.run(training(5)).iterations() == 15);
  });
}

TEST_CASE("peers: a handle in another thread's hands is refused, in place of hanging or crashing",
          "[transport][peers]") {
  on_both([](auto const& transport) {
    auto group = make_group(transport, ring_based(8), standard());
    std::string said;
    auto const report = group.run([&](auto& peer) {
      for (auto const k : peer.iterations(3)) {
        if (k == 1 && peer.rank() == 3)
          std::thread([&] { said = thrown_by([&] { peer.step(floats(4)); }); }).join();
        peer.step(floats(4));  // as usable as before
      }
    });
    CHECK_THAT(said, Catch::StartsWith(code(errc::stale_handle)) && Contains("peer 3") && Contains("another thread"));
    CHECK(report.iterations() == 3 * 8);
  });
}

TEST_CASE("peers: a handle is of no use when its run is over", "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, ring(2), standard());
    typename decltype(group)::peer_type* kept = nullptr;
    group.run([&](auto& peer) {
      if (peer.rank() == 1) kept = &peer;
      training(2)(peer);
    });
    REQUIRE(kept != nullptr);
    CHECK_THAT(thrown_by([&] { kept->step(floats(4)); }), Contains(code(errc::stale_handle)));
    CHECK_THAT(thrown_by([&] { (void)kept->iterations(1); }), Contains(code(errc::stale_handle)));
  });
}

TEST_CASE("peers: what a body throws ends the run for all, and the next run is fine",
          "[transport][peers]") {
  on_both([](auto transport) {
    for (auto const order : {iteration_order::parallel, iteration_order::serial}) {
      auto group = make_group(transport, ring(4), standard(order));
      std::atomic<int> ended = 0;
      auto const body = [&](auto& peer) {
        struct at_exit {
          std::atomic<int>& count;
          ~at_exit() { ++count; }
        } const unwound{ended};
        for (std::int64_t const k : peer.iterations(1'000'000)) {
          if (peer.rank() == 2 && k == 3) throw std::domain_error("the data have run out");
          peer.step(floats(4));
        }
      };
      CHECK_THROWS_AS(group.run(body), std::domain_error);
      CHECK(ended == 4);
      CHECK(group.run(training(5)).iterations() == 20);
    }
  });
}

TEST_CASE("peers: a run that a body starts is refused", "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, ring(2), standard());
    CHECK_THROWS_WITH(group.run([&](auto&) { group.run(training(1)); }),
                      Contains("under way already"));
    CHECK(group.run(training(2)).iterations() == 4);
  });
}

TEST_CASE("peers: options that cannot be meant are errors before anything starts",
          "[transport][peers]") {
  auto const p = standard();
  on_both([&](auto transport) {
    transport.workers = 3;
    CHECK_NOTHROW(make_group(transport, ring(3), p));
    CHECK_THROWS_WITH(make_group(transport, ring(4), p),
                      Contains("4 nodes") && Contains("workers is 3"));
    transport.workers = 1;
    CHECK_THROWS_WITH(make_group(transport, mixing_matrix::automatic(ring(3)), p, floats{}),
                      Contains("no initial parameters"));
    CHECK_THROWS_WITH(
        make_group(transport, mixing_matrix::automatic(ring(3)), p, floats{1}, sgd{.rate = 0}),
        Contains("sgd: rate"));
    CHECK_THROWS_WITH(make_group(transport, ring(4), with_backup(0)), Contains("token_queues"));
  });
  CHECK_THROWS_WITH(make_group(in_process{.slowness = {0.5}}, ring(3), p), Contains("slowness"));
  CHECK_THROWS_WITH(make_group(in_process{.slowness = {1, 1, 1, 1}}, ring(3), p),
                    Contains("4 entries") && Contains("3 peers"));
  auto const scenario_error = [&](sim::scenario const& s) {
    return thrown_by([&] { make_group(simulated{.scenario = s}, ring(3), p); });
  };
  CHECK_THAT(scenario_error({.joins = {{.at = 1ms}}}),
             Contains(code(errc::bad_option)) && Contains("joins"));
  CHECK_THAT(scenario_error({.server_delay = {1ms}}),
             Contains(code(errc::bad_option)) && Contains("server_delay"));
  CHECK_THAT(scenario_error({.server_machine_of = {0}}),
             Contains(code(errc::bad_option)) && Contains("server_machine_of"));
  CHECK_THAT(scenario_error({.machine_losses = {{.machine = 0}}, .machine_of = {0}}),
             Contains(code(errc::bad_option)) && Contains("machine_losses"));
  CHECK_THAT(scenario_error({.one_process_per_machine = true}),
             Contains(code(errc::bad_option)) && Contains("one_process_per_machine"));
  CHECK_THAT(scenario_error({.crashes = {{.worker = worker_id{3}, .at = 1ms}}}),
             Contains(code(errc::bad_option)) && Contains("crashes"));
}

// A permutation matrix is doubly stochastic, and nothing forbids it with gather_all: parameters go
// round. Where a peer may be left with its own update alone, it would average nothing.
TEST_CASE("peers: an own update that weighs nothing is for those who wait for all",
          "[transport][peers]") {
  Eigen::MatrixXd const swap{{0, 1}, {1, 0}};
  auto const mixing = mixing_matrix::given(graph_of(swap), swap);
  auto all = make_group(simulated{}, mixing, standard());
  auto const expected =
      test::in_one_place<float>(mixing, iteration_order::parallel, sgd{}, parameters_of(all), 5);
  all.run(training(5));
  CHECK(same_bits(parameters_of(all), expected.back()));
  CHECK_THROWS_WITH(make_group(simulated{}, mixing, with_backup()),
                    Contains("own update of node 0 counts 0"));
}

// ---- the end of a run

TEST_CASE("peers: stop() from a body ends the run for all, without an error",
          "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, ring(4), standard());
    auto const report = group.run([&](auto& peer) {
      for (std::int64_t const k : peer.iterations(1'000'000'000)) {
        if (peer.rank() == 1 && k == 5) group.stop();
        peer.step(floats(4));
      }
    });
    CHECK(report.peers[1].iterations == 5);
    for (auto const& p : report.peers) CHECK(p.iterations <= 9);
    CHECK(group.run(training(5)).iterations() == 20);
  });
}

TEST_CASE(
    "peers: who waits for all and misses one that has left ends with a lost_error that names "
    "both",
    "[transport][peers]") {
  on_both([](auto transport) {
    for (auto const order : {iteration_order::parallel, iteration_order::serial})
      for (bool const announced : {false, true}) {
        auto group = make_group(transport, directed_ring(4), standard(order));
        auto const leaves = [&](auto& peer) {
          bool const early = peer.rank() == 2;
          for (std::int64_t const k : peer.iterations(early && announced ? 4 : 100)) {
            if (early && k == 4) return;
            peer.step(floats(4));
          }
        };
        CHECK_THROWS_WITH(group.run(leaves),
                          Contains("peer 2 is lost") && Contains("peer 3 cannot end iteration"));
        CHECK_THROWS_AS(group.run(leaves), lost_error);
        CHECK(group.run(training(5)).iterations() == 20);
      }
  });
}

TEST_CASE("peers: who handles a lost_error leaves, and so does everybody else in the end",
          "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, directed_ring(5), standard());
    std::atomic<int> lost = 0;
    auto const report = group.run([&](auto& peer) {
      if (peer.rank() == 4) return;
      try {  // it may be gone before this peer begins
        for ([[maybe_unused]] auto const k : peer.iterations(50)) peer.step(floats(4));
      } catch (lost_error const&) {
        ++lost;
      }
    });
    CHECK(lost == 4);
    for (auto const& p : report.peers) CHECK(p.iterations < 50);
  });
}

TEST_CASE("peers: with backup workers the others go on without one that has left",
          "[transport][peers]") {
  on_both([](auto transport) {
    auto group = make_group(transport, ring_based(8), with_backup());
    auto const report = group.run([&](auto& peer) {
      if (peer.rank() == 6) return;
      for (std::int64_t const k : peer.iterations(peer.rank() == 5 ? 7 : 60)) {
        if (peer.rank() == 2 && k >= 10) return;
        peer.step(floats(4));
      }
    });
    for (std::uint32_t i = 0; i < 8; ++i) {
      INFO("peer " << i);
      auto const& p = report.peers[i];
      std::uint64_t const wanted = i == 6 ? 0 : i == 5 ? 7 : 60;
      if (i == 2)
        CHECK(p.iterations + p.jumped_over >= 10);
      else
        CHECK(p.iterations + p.jumped_over == wanted);
    }
  });
}

TEST_CASE("peers: the random streams of peers differ, and are those of the seed",
          "[transport][peers]") {
  auto const draws = [](auto transport) {
    auto group = make_group(transport, ring(4), standard());
    std::mutex lock;
    std::set<std::uint64_t> drawn;
    group.run([&](auto& peer) {
      std::lock_guard const guard(lock);
      drawn.insert(peer.random()());
    });
    return drawn;
  };
  auto const first = draws(in_process{.seed = 3});
  CHECK(first.size() == 4);
  CHECK(first == draws(in_process{.seed = 3}));
  CHECK(first == draws(simulated{.scenario = {.seed = 3}}));
  CHECK(first != draws(in_process{.seed = 4}));
}
