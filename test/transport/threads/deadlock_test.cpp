// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Where all threads wait for each other the run ends. A mistake of the runtime's makes these tests hang, or alarms
// where nothing is wrong.
#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/cluster/peer_group.hpp>
#include <rubato/peer/push_node.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/in_process.hpp>

#include "transport/peer_groups.hpp"

namespace rb = rubato;
using Catch::Contains;
using namespace std::chrono_literals;

namespace {

using integers = rb::dense<std::int64_t, rb::sum>;

/// Admits a read at clock c once everybody is at c + 1: nobody ever is.
struct asks_too_much {
  rb::staleness bound() const noexcept { return 0; }
  rb::clock_index need(rb::clock_index c, rb::staleness) const noexcept { return c.next(); }
  rb::clock_index cache_need(rb::clock_index c, rb::staleness) const noexcept { return c; }
};

/// Everybody sends to the next one, and waits for two.
struct waits_for_one_more {
  std::vector<rb::worker_id> out(rb::graph const& g, rb::worker_id i, rb::iteration_index) const {
    return {at(g, i.value() + 1)};
  }
  std::vector<rb::worker_id> in(rb::graph const& g, rb::worker_id j, rb::iteration_index) const {
    auto const n = static_cast<std::uint32_t>(g.size());
    std::vector two{at(g, j.value() + n - 1), at(g, j.value() + n - 2)};
    std::ranges::sort(two);
    return two;
  }
  std::string text() const { return "waits for one more"; }

 private:
  static rb::worker_id at(rb::graph const& g, std::uint32_t i) {
    return rb::worker_id{i % static_cast<std::uint32_t>(g.size())};
  }
};
struct push_to_one {
  std::unique_ptr<rb::peer_node> make_node(rb::node_setup const& setup) const {
    return rb::make_push_node({.name = "push_to_one", .who = waits_for_one_more{}}, setup);
  }
};

rb::in_process threads(std::uint32_t workers, bool cache, std::chrono::microseconds busy_poll = 0us) {
  return {.workers = workers, .servers = 2, .process_cache = cache, .busy_poll = busy_poll};
}

auto reading(int clocks) {
  return [clocks](auto& worker) {
    std::vector<std::int64_t> x(4);
    for (int c = 0; c < clocks; ++c) {
      worker.pull(x);
      worker.push(x);
      worker.step(1);
    }
  };
}

}  // namespace

TEST_CASE("threads: when everybody waits the run ends, and the sentence says who waits for what", "[transport]") {
  bool const cache = GENERATE(false, true);
  auto const looks_for = GENERATE(0us, 50us);
  CAPTURE(cache, looks_for.count());
  rb::cluster cluster{threads(2, cache, looks_for), with(rb::bsp{}, asks_too_much{}), integers{.rows = 4}};
  CHECK_THROWS_AS(cluster.run(reading(3)), rb::deadlock_error);
  // With a cache one of them asks for all.
  CHECK_THROWS_WITH(cluster.run(reading(3)), Contains("deadlock: nobody can run; worker ") &&
                                                 Contains(" at clock 0 waits at server 0 for c_min 1, which is 0") &&
                                                 Contains("waits at server 1") && Contains("because of worker 0"));
  std::atomic<int> ran = 0;
  cluster.run([&](auto&) { ++ran; });  // as if there had been none
  CHECK(ran == 2);
}

TEST_CASE("threads: who leaves those behind who can only wait ends the run", "[transport]") {
  bool const cache = GENERATE(false, true);
  CAPTURE(cache);
  rb::cluster cluster{threads(3, cache), with(rb::bsp{}, asks_too_much{}), integers{.rows = 4}};
  CHECK_THROWS_AS(cluster.run([](auto& worker) {
    if (worker.rank() != 0) return reading(1)(worker);
    std::this_thread::sleep_for(20ms);  // the others are likely to sleep by then; if not they find out themselves
  }),
                  rb::deadlock_error);
}

TEST_CASE("threads: who waits for a cut that cannot be is named, too", "[transport]") {
  rb::cluster cluster{threads(2, false), with(rb::ssp{.staleness = 1}, asks_too_much{}, rb::stable_cut{}),
                      integers{.rows = 4}};
  CHECK_THROWS_WITH(cluster.run(reading(3)), Contains("waits at the coordinator for c_min 1, which is 0"));
}

TEST_CASE("threads: peers that all wait end, and are named", "[transport][peers]") {
  auto const looks_for = GENERATE(0us, 50us);
  CAPTURE(looks_for.count());
  auto group = rb::test::make_group(rb::in_process{.busy_poll = looks_for}, rb::complete(4), push_to_one{});
  CHECK_THROWS_AS(group.run(rb::test::training(5)), rb::deadlock_error);
  CHECK_THROWS_WITH(group.run(rb::test::training(5)), Contains("; peer 0 waits in iteration 0 for peer 2; ") &&
                                                          Contains("; peer 3 waits in iteration 0 for peer 1"));
}

TEST_CASE("threads: nobody is alarmed where all wait for a moment only", "[transport]") {
  bool const cache = GENERATE(false, true);
  CAPTURE(cache);
  rb::cluster cluster{threads(4, cache), rb::bsp{}, integers{.rows = 4}};
  for (int run = 0; run < 50; ++run) CHECK_NOTHROW(cluster.run(reading(20)));
  auto group = rb::test::make_group(rb::in_process{.busy_poll = 0us}, rb::ring(4), rb::test::standard());
  for (int run = 0; run < 50; ++run) CHECK_NOTHROW(group.run(rb::test::training(20)));
}
