// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/sim/network.hpp>

#include <rubato/core/error.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <utility>

using namespace rubato;
using namespace std::chrono_literals;
using sim::network;
using sim::network_options;
using sim::node;
using sim::transit;

namespace {

constexpr node worker(std::uint32_t i) { return worker_id(i); }
constexpr node server(std::uint32_t i) { return server_id(i); }

}  // namespace

TEST_CASE("transfer times are whole nanoseconds, rounded up", "[sim][network]") {
  CHECK(sim::transfer_time(1000, 0) == 0ns);
  CHECK(sim::transfer_time(0, 10) == 0ns);
  CHECK(sim::transfer_time(1000, 1'000'000'000) == 1000ns);
  CHECK(sim::transfer_time(1, 3'000'000'000) == 1ns);
  CHECK(sim::transfer_time(10, 3'000'000'000) == 4ns);
  CHECK(sim::transfer_time(1, 3) == 333'333'334ns);
  constexpr auto huge = std::numeric_limits<std::uint64_t>::max();
  CHECK(sim::transfer_time(huge, huge) == 1s);
  CHECK(sim::transfer_time(huge, 1) == duration::max());
}

TEST_CASE("a card lets messages pass one after the other", "[sim][network]") {
  sim::nic card(1'000'000'000);
  CHECK(card.pass(time_point(10ns), 5) == time_point(15ns));
  CHECK(card.pass(time_point(11ns), 5) == time_point(20ns));
  CHECK(card.pass(time_point(30ns), 5) == time_point(35ns));
  CHECK(card.busy_until() == time_point(35ns));
}

TEST_CASE("nodes of the two kinds do not mix", "[sim][network]") {
  CHECK(worker(3) != server(3));
  CHECK(worker(3) == worker(3));
  CHECK(worker(7).index() == 7);
  CHECK(server(7).index() == 7);
  CHECK(server(7).is_server());
  CHECK_FALSE(worker(7).is_server());
}

TEST_CASE("a lone message takes its latency and the slower card", "[sim][network]") {
  random_stream random(1);
  SECTION("latency alone") {
    network net({.worker_link = {.latency = 2ms}});
    transit const t = net.send(worker(0), server(0), 1000, time_point(1ms), random);
    CHECK(t.sent == time_point(1ms));
    CHECK(t.delivered == time_point(3ms));
  }
  SECTION("slow worker link") {
    network net({.worker_link = {.latency = 2ms, .bandwidth = 1'000'000},
                 .server_bandwidth = 10'000'000,
                 .header_bytes = 0});
    transit const t = net.send(worker(0), server(0), 1000, {}, random);
    CHECK(t.sent == time_point(1ms));
    CHECK(t.delivered == time_point(3ms));
  }
  SECTION("slow server") {
    network net({.worker_link = {.latency = 2ms, .bandwidth = 10'000'000},
                 .server_bandwidth = 1'000'000,
                 .header_bytes = 0});
    transit const t = net.send(worker(0), server(0), 1000, {}, random);
    CHECK(t.sent == time_point(100us));
    CHECK(t.delivered == time_point(3ms));
  }
  SECTION("the header counts") {
    network net(
        {.worker_link = {.latency = 0ms}, .server_bandwidth = 1'000'000'000, .header_bytes = 24});
    CHECK(net.send(worker(0), server(0), 100, {}, random).delivered == time_point(124ns));
  }
}

TEST_CASE("all of a server's traffic shares its card, each way by itself", "[sim][network]") {
  random_stream random(1);
  network net({.worker_link = {.latency = 0ms}, .server_bandwidth = 1'000'000, .header_bytes = 0});
  for (std::uint32_t w = 0; w < 10; ++w) {
    CHECK(net.send(worker(w), server(0), 1000, {}, random).delivered == time_point((w + 1) * 1ms));
  }
  CHECK(net.send(server(0), worker(0), 1000, {}, random).delivered == time_point(1ms));
  CHECK(net.send(server(0), worker(1), 1000, {}, random).delivered == time_point(2ms));
  CHECK(net.send(worker(0), server(1), 1000, {}, random).delivered == time_point(1ms));
}

TEST_CASE("a worker's messages share its link", "[sim][network]") {
  random_stream random(1);
  network net({.worker_link = {.latency = 1ms, .bandwidth = 1'000'000}, .header_bytes = 0});
  CHECK(net.send(worker(0), server(0), 1000, {}, random).delivered == time_point(2ms));
  CHECK(net.send(worker(0), server(1), 1000, {}, random).delivered == time_point(3ms));
  CHECK(net.send(worker(1), server(1), 1000, {}, random).delivered == time_point(2ms));
  CHECK(net.send(worker(2), worker(3), 1000, {}, random).delivered == time_point(2ms));
}

TEST_CASE("no message overtakes another of its pair", "[sim][network]") {
  bool const finite = GENERATE(false, true);
  network net({.worker_link = {.latency = 1ms,
                               .jitter = sim::pareto{.least = 0.1, .alpha = 1, .cap = 100},
                               .bandwidth = finite ? 10'000'000u : 0u},
               .server_bandwidth = finite ? 20'000'000u : 0u});
  random_stream random(6);
  std::map<std::pair<node, node>, time_point> last;
  time_point now;
  int held = 0;
  int overtaken = 0;
  time_point last_of_all;
  for (int i = 0; i < 20'000; ++i) {
    now += duration(random.below(200'000));
    node const from = worker(static_cast<std::uint32_t>(random.below(5)));
    node const to = server(static_cast<std::uint32_t>(random.below(2)));
    bool const up = random.chance(0.5);
    std::pair const pair = up ? std::pair(from, to) : std::pair(to, from);
    transit const t = net.send(pair.first, pair.second, random.below(1000), now, random);
    REQUIRE(t.sent >= now);
    REQUIRE(t.delivered >= t.sent);
    auto const [it, first] = last.try_emplace(pair, t.delivered);
    if (!first) {
      REQUIRE(t.delivered >= it->second);
      held += t.delivered == it->second ? 1 : 0;
      it->second = t.delivered;
    }
    overtaken += t.delivered < last_of_all ? 1 : 0;
    last_of_all = t.delivered;
  }
  CHECK(held > 100);       // the guard had work to do
  CHECK(overtaken > 100);  // and did not order what belongs to different pairs
}

TEST_CASE("jitter multiplies the latency", "[sim][network]") {
  random_stream random(6);
  network net({.worker_link = {.latency = 1ms, .jitter = sim::uniform{.low = 1, .high = 3}}});
  duration sum{0};
  constexpr int n = 10'000;
  for (int i = 0; i < n; ++i) {
    time_point const now(i * 10ms);
    duration const taken = net.send(worker(0), server(0), 1, now, random).delivered - now;
    REQUIRE((taken >= 1ms && taken <= 3ms));
    sum += taken;
  }
  CHECK(to_seconds(sum) / n == Approx(2e-3).epsilon(0.02));
}

TEST_CASE("a delayed server's messages take longer, each way", "[sim][network]") {
  random_stream random(1);
  network net({.worker_link = {.latency = 1ms, .bandwidth = 1'000'000}, .header_bytes = 0},
              {0ms, 5ms});
  CHECK(net.send(worker(0), server(0), 1000, {}, random).delivered == time_point(2ms));
  transit const t = net.send(worker(1), server(1), 1000, {}, random);
  CHECK(t.sent == time_point(1ms));  // its sender's card is free as early as ever
  CHECK(t.delivered == time_point(7ms));
  CHECK(net.send(server(1), worker(2), 1000, {}, random).delivered == time_point(7ms));
  CHECK(net.send(worker(1), server(2), 1000, {}, random).delivered == time_point(3ms));
  CHECK(net.send(worker(1), worker(3), 1000, {}, random).delivered == time_point(4ms));
}

TEST_CASE("a delay neither changes the draws nor lets messages overtake", "[sim][network]") {
  network_options const usual{
      .worker_link = {.latency = 1ms, .jitter = sim::lognormal{.sigma = 2}}};
  network plain(usual);
  network late(usual, {10ms});
  random_stream one(6);
  random_stream other(6);
  for (int i = 0; i < 1'000; ++i) {
    time_point const now(i * 100us);
    bool const up = i % 3 == 0;
    node const from = up ? worker(0) : server(0);
    node const to = up ? server(0) : worker(0);
    // Held back or not, each is late by the same: so their order is kept, too.
    REQUIRE(late.send(from, to, 1, now, other).delivered ==
            plain.send(from, to, 1, now, one).delivered + 10ms);
  }
  CHECK(one == other);
}

TEST_CASE("bad network options are named", "[sim][network]") {
  CHECK_NOTHROW(network_options{}.validate());
  CHECK_THROWS_WITH((network_options{.worker_link = {.latency = -1ns}}.validate()),
                    "network.worker_link.latency must be at least 0 ns, but is -1");
  CHECK_THROWS_WITH((network_options{.worker_link = {.jitter = sim::constant{-1}}}.validate()),
                    Catch::StartsWith("network.worker_link.jitter: the value of constant"));
}
