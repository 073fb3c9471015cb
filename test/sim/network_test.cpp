// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/sim/network.hpp>

#include <rubato/core/error.hpp>
#include <rubato/sim/scenario.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

using namespace rubato;
using namespace std::chrono_literals;
using sim::network;
using sim::network_options;
using sim::station;
using sim::transit;

namespace {

constexpr station worker(std::uint32_t i) { return worker_id(i); }
constexpr station server(std::uint32_t i) { return server_id(i); }

using machines = std::vector<std::uint32_t>;

std::string complaint(sim::scenario const& s, std::size_t workers) {
  try {
    s.validate(workers, 1);
  } catch (option_error const& e) {
    return e.what();
  }
  return "";
}

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
  std::map<std::pair<station, station>, time_point> last;
  time_point now;
  int held = 0;
  int overtaken = 0;
  time_point last_of_all;
  for (int i = 0; i < 20'000; ++i) {
    now += duration(random.below(200'000));
    station const from = worker(static_cast<std::uint32_t>(random.below(5)));
    station const to = server(static_cast<std::uint32_t>(random.below(2)));
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
    station const from = up ? worker(0) : server(0);
    station const to = up ? server(0) : worker(0);
    // Held back or not, each is late by the same: so their order is kept, too.
    REQUIRE(late.send(from, to, 1, now, other).delivered ==
            plain.send(from, to, 1, now, one).delivered + 10ms);
  }
  CHECK(one == other);
}

TEST_CASE("workers of one machine share its card, each way by itself", "[sim][network]") {
  random_stream random(1);
  // Workers 0 and 2 are on one machine, 1 and 3 on another, 4 has no entry.
  network net({.worker_link = {.latency = 1ms, .bandwidth = 1'000'000}, .header_bytes = 0}, {},
              {7, 3, 7, 3});
  SECTION("those that send at once do so one after the other") {
    transit const first = net.send(worker(0), server(0), 1000, {}, random);
    CHECK(first.sent == time_point(1ms));
    CHECK(first.delivered == time_point(2ms));
    transit const second = net.send(worker(2), server(1), 1000, {}, random);
    CHECK(second.sent == time_point(2ms));
    CHECK(second.delivered == time_point(3ms));
    CHECK(net.send(worker(1), server(1), 1000, {}, random).delivered == time_point(2ms));
    CHECK(net.send(worker(4), server(1), 1000, {}, random).delivered == time_point(2ms));
    CHECK(net.send(worker(0), worker(4), 1000, {}, random).delivered == time_point(4ms));
  }
  SECTION("so do those that receive") {
    CHECK(net.send(server(0), worker(0), 1000, {}, random).delivered == time_point(2ms));
    CHECK(net.send(server(1), worker(2), 1000, {}, random).delivered == time_point(3ms));
    CHECK(net.send(worker(4), worker(2), 1000, {}, random).delivered == time_point(4ms));
    CHECK(net.send(server(0), worker(1), 1000, {}, random).delivered == time_point(2ms));
    CHECK(net.send(worker(0), server(0), 1000, {}, random).delivered == time_point(2ms));
  }
  SECTION("messages between machines hold both cards") {
    CHECK(net.send(worker(0), worker(1), 1000, {}, random).delivered == time_point(2ms));
    CHECK(net.send(worker(2), worker(4), 1000, {}, random).delivered == time_point(3ms));
    CHECK(net.send(worker(4), worker(3), 1000, {}, random).delivered == time_point(3ms));
  }
}

TEST_CASE("a message within a machine passes no card", "[sim][network]") {
  random_stream random(1);
  network net({.worker_link = {.latency = 1ms, .bandwidth = 1'000'000},
               .local_link = {.latency = 3us, .bandwidth = 100'000'000},
               .header_bytes = 100},
              {}, {0, 0, 0, 1});
  // Busy cards do not matter to it.
  CHECK(net.send(worker(0), worker(3), 900, {}, random).delivered == time_point(2ms));
  transit const first = net.send(worker(0), worker(1), 900, {}, random);
  CHECK(first.sent == time_point(10us));
  CHECK(first.delivered == time_point(13us));
  // One sender's follow each other, whoever gets them.
  transit const second = net.send(worker(0), worker(2), 400, {}, random);
  CHECK(second.sent == time_point(15us));
  CHECK(second.delivered == time_point(18us));
  // Senders do not wait for each other, though, nor does the receiver's side hold anything up.
  CHECK(net.send(worker(1), worker(2), 900, {}, random).delivered == time_point(13us));
  CHECK(net.send(worker(2), worker(0), 900, time_point(1us), random).delivered == time_point(14us));
  // And it has not kept the cards busy.
  CHECK(net.send(worker(1), server(0), 900, time_point(1us), random).delivered == time_point(3ms));
  CHECK(net.send(server(0), worker(2), 900, time_point(1us), random).delivered ==
        time_point(2ms + 1us));
}

TEST_CASE("a local message takes 5 us by default, whatever its size", "[sim][network]") {
  random_stream random(1);
  network net({.worker_link = {.latency = 1ms, .bandwidth = 1}}, {}, {0, 0});
  for (std::uint64_t const bytes : {std::uint64_t{0}, std::uint64_t{1} << 40}) {
    transit const t = net.send(worker(0), worker(1), bytes, time_point(1s), random);
    CHECK(t.sent == time_point(1s));
    CHECK(t.delivered == time_point(1s + 5us));
  }
}

TEST_CASE("network: servers that live with workers share their card, and talk to them within the machine") {
  network_options const o{.worker_link = {.latency = 100us, .bandwidth = 1'000'000},
                          .local_link = {.latency = 5us},
                          .server_bandwidth = 9'000'000,
                          .header_bytes = 0};
  // Workers 0 and 1 on machine 7, 2 on 3; servers 0 on 7, 1 and 2 on 9, 3 on its own.
  network net(o, {}, {7, 7, 3}, {7, 9, 9});
  random_stream none(1, 0);
  CHECK(net.is_local(worker(0), server(0)));
  CHECK(net.is_local(server(0), worker(1)));
  CHECK(net.is_local(server(1), server(2)));
  CHECK_FALSE(net.is_local(worker(2), server(0)));
  CHECK_FALSE(net.is_local(worker(0), server(1)));
  CHECK_FALSE(net.is_local(server(2), server(3)));
  auto const at = [](duration d) { return time_point(d); };
  CHECK(net.send(worker(0), server(0), 1000, at(0us), none).delivered == at(5us));
  // 1000 bytes take 1 ms through a card, which machine 7 has one of, and machine 9 too.
  CHECK(net.send(worker(2), server(0), 1000, at(0us), none).delivered == at(1100us));
  CHECK(net.send(server(0), worker(2), 1000, at(0us), none).delivered == at(1100us));
  CHECK(net.send(worker(1), server(1), 1000, at(0us), none).delivered == at(2100us));  // after server 0's
  CHECK(net.send(server(1), worker(2), 1000, at(0us), none).delivered == at(2100us));
  CHECK(net.send(server(2), worker(0), 1000, at(0us), none).delivered == at(2100us));  // after server 1's
}

TEST_CASE("network: a server's card is that of its machine, whoever is used first") {
  network_options const o{.worker_link = {.latency = 0us, .bandwidth = 1'000'000},
                          .server_bandwidth = 1'000,
                          .header_bytes = 0};
  network net(o, {}, {0}, {100, 101});
  random_stream none(1, 0);
  auto const at = [](duration d) { return time_point(d); };
  CHECK(net.send(worker(0), server(2), 1000, at(0us), none).delivered == at(1s));  // on a machine to itself
  CHECK(net.send(worker(0), server(0), 1000, at(1s), none).delivered == at(1s + 1ms));
  CHECK(net.send(worker(0), server(1), 1000, at(2s), none).delivered == at(2s + 1ms));
  CHECK(net.send(worker(0), server(3), 1000, at(3s), none).delivered == at(4s));
}

TEST_CASE("what is local", "[sim][network]") {
  network const net({}, {}, {0, 1, 0, 4'000'000'000});
  CHECK(net.is_local(worker(0), worker(2)));
  CHECK(net.is_local(worker(2), worker(0)));
  CHECK_FALSE(net.is_local(worker(0), worker(1)));
  CHECK_FALSE(net.is_local(worker(2), worker(3)));
  CHECK_FALSE(net.is_local(worker(0), worker(4)));  // beyond the end: on its own
  CHECK_FALSE(net.is_local(worker(4), worker(5)));
  CHECK_FALSE(net.is_local(worker(0), server(0)));  // servers are, too
  CHECK_FALSE(net.is_local(server(2), worker(2)));
  CHECK_FALSE(net.is_local(server(0), server(1)));
  for (std::uint32_t const w : {0U, 3U, 9U}) CHECK(net.is_local(worker(w), worker(w)));
  CHECK_FALSE(network({}).is_local(worker(0), worker(1)));
}

TEST_CASE("the number of a machine is but a name", "[sim][network]") {
  random_stream random(1);
  // Cards for every number up to this one would take more memory than there is.
  constexpr std::uint32_t huge = std::numeric_limits<std::uint32_t>::max();
  network net({.worker_link = {.latency = 0ms, .bandwidth = 1'000'000}, .header_bytes = 0}, {},
              {huge, 5, huge});
  CHECK(net.send(worker(2), server(0), 1000, {}, random).delivered == time_point(1ms));
  CHECK(net.send(worker(0), server(1), 1000, {}, random).delivered == time_point(2ms));
  CHECK(net.send(worker(1), server(2), 1000, {}, random).delivered == time_point(1ms));
}

TEST_CASE("machines of one worker each are as none", "[sim][network]") {
  network_options const usual{
      .worker_link = {.latency = 1ms, .jitter = sim::lognormal{.sigma = 1}, .bandwidth = 1'000'000},
      .server_bandwidth = 3'000'000};
  network_options other = usual;
  other.local_link = {.latency = 1s, .jitter = sim::exponential{}, .bandwidth = 1};
  network plain(usual);
  network placed(other, {}, {2, 0, 9});
  random_stream one(6);
  random_stream two(6);
  random_stream choice(3);
  for (int i = 0; i < 1'000; ++i) {
    time_point const now(i * 100us);
    auto const w = static_cast<std::uint32_t>(choice.below(5));
    auto const v = static_cast<std::uint32_t>((w + 1 + choice.below(4)) % 5);
    station const to = choice.chance(0.5) ? server(v) : worker(v);
    bool const up = !to.is_server() || choice.chance(0.5);
    station const a = up ? worker(w) : to;
    station const b = up ? to : worker(w);
    std::uint64_t const bytes = choice.below(500);
    transit const without = plain.send(a, b, bytes, now, one);
    transit const with = placed.send(a, b, bytes, now, two);
    REQUIRE(with.sent == without.sent);
    REQUIRE(with.delivered == without.delivered);
  }
  CHECK(one == two);
}

TEST_CASE("a small local message does not overtake a big one", "[sim][network]") {
  random_stream random(1);
  network net({.local_link = {.latency = 3us, .bandwidth = 1'000'000}, .header_bytes = 0}, {},
              {0, 0, 0});
  CHECK(net.send(worker(0), worker(1), 1000, {}, random).delivered == time_point(1003us));
  CHECK(net.send(worker(0), worker(1), 1, time_point(10us), random).delivered ==
        time_point(1004us));
  CHECK(net.send(worker(0), worker(1), 0, time_point(10us), random).delivered ==
        time_point(1004us));
  // Another pair's may.
  CHECK(net.send(worker(2), worker(1), 1, time_point(10us), random).delivered == time_point(14us));
}

TEST_CASE("no message overtakes another of its pair, within a machine or between machines",
          "[sim][network]") {
  sim::distribution const heavy = sim::pareto{.least = 0.1, .alpha = 1, .cap = 100};
  bool const jitter_within = GENERATE(false, true);
  bool const jitter_between = GENERATE(false, true);
  bool const finite = GENERATE(false, true);
  INFO("jitter within " << jitter_within << ", between " << jitter_between << ", finite "
                        << finite);
  auto const jitter = [&](bool any) { return any ? heavy : sim::distribution(); };
  network net({.worker_link = {.latency = 1ms,
                               .jitter = jitter(jitter_between),
                               .bandwidth = finite ? 10'000'000u : 0u},
               .local_link = {.latency = 200us,
                              .jitter = jitter(jitter_within),
                              .bandwidth = finite ? 20'000'000u : 0u},
               .server_bandwidth = finite ? 20'000'000u : 0u},
              {1ms}, {0, 1, 0, 1, 0});
  random_stream random(6);
  std::map<std::pair<station, station>, time_point> last;
  time_point now;
  int held_within = 0;
  int held_between = 0;
  int overtaken = 0;
  time_point last_of_all;
  for (int i = 0; i < 20'000; ++i) {
    now += duration(random.below(100'000));
    auto const any = [&] {
      std::uint64_t const n = random.below(8);  // 6 workers, the last without an entry
      return n < 6 ? worker(static_cast<std::uint32_t>(n))
                   : server(static_cast<std::uint32_t>(n - 6));
    };
    station const from = any();
    station const to = any();
    // Mostly little, now and then a lot: then what follows is much faster by itself.
    std::uint64_t const bytes = random.chance(0.1) ? 10'000 : random.below(100);
    transit const t = net.send(from, to, bytes, now, random);
    REQUIRE(t.sent >= now);
    REQUIRE(t.delivered >= t.sent);
    auto const [it, first] = last.try_emplace(std::pair(from, to), t.delivered);
    if (!first) {
      REQUIRE(t.delivered >= it->second);
      (net.is_local(from, to) ? held_within : held_between) += t.delivered == it->second ? 1 : 0;
      it->second = t.delivered;
    }
    overtaken += t.delivered < last_of_all ? 1 : 0;
    last_of_all = t.delivered;
  }
  // The guard had work to do where there is jitter, and none elsewhere.
  CHECK((held_within > 20) == jitter_within);
  CHECK((held_between > 20) == jitter_between);
  CHECK(overtaken > 100);  // different pairs are not ordered
}

TEST_CASE("each message draws from the link that it takes", "[sim][network]") {
  network net({.worker_link = {.latency = 1ms},
               .local_link = {.latency = 1ms, .jitter = sim::uniform{.low = 1, .high = 3}}},
              {}, {0, 0});
  random_stream random(6);
  random_stream const untouched = random;
  CHECK(net.send(worker(0), worker(2), 1, {}, random).delivered == time_point(1ms));
  CHECK(net.send(worker(0), server(0), 1, {}, random).delivered == time_point(1ms));
  CHECK(random == untouched);
  random_stream same(6);
  duration const expected = stretch(1ms, sim::uniform{.low = 1, .high = 3}.draw(same));
  CHECK(net.send(worker(0), worker(1), 1, {}, random).delivered == time_point(expected));
  CHECK(random == same);
}

TEST_CASE("blocks are as even as possible, the larger ones first", "[sim][network]") {
  CHECK(sim::blocks(16, 4) == machines{0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3});
  CHECK(sim::blocks(10, 4) == machines{0, 0, 0, 1, 1, 1, 2, 2, 3, 3});
  CHECK(sim::blocks(8, 3) == machines{0, 0, 0, 1, 1, 1, 2, 2});
  CHECK(sim::blocks(3, 1) == machines{0, 0, 0});
  CHECK(sim::blocks(3, 3) == machines{0, 1, 2});
  CHECK(sim::blocks(2, std::numeric_limits<std::size_t>::max()) == machines{0, 1});
  CHECK(sim::blocks(0, 3).empty());
  CHECK(sim::blocks(0, 0).empty());
  CHECK_THROWS_WITH(sim::blocks(3, 0), "blocks: there must be at least 1 machine for 3 workers");
  CHECK_THROWS_AS(sim::blocks(3, 0), option_error);
}

TEST_CASE("a bad placement is named", "[sim][network]") {
  CHECK(complaint({.machine_of = {}}, 2).empty());
  CHECK(complaint({.machine_of = {0}}, 2).empty());
  CHECK(complaint({.machine_of = {5, (1U << 20) - 1}}, 2).empty());
  CHECK(complaint({.machine_of = {0, 0, 1}}, 2) ==
        "machine_of must be a list of at most 2 machines, one per worker, but is 3");
  CHECK(complaint({.joins = {{.at = 1s}}, .machine_of = {0, 0, 1}}, 2).empty());
  CHECK(complaint({.machine_of = {0, 1U << 20}}, 2) ==
        "machine_of[1] must be below 1048576, but is 1048576");
  CHECK(complaint({.machine_of = {4'294'967'295U}}, 2) ==
        "machine_of[0] must be below 1048576, but is 4294967295");
}

TEST_CASE("bad network options are named", "[sim][network]") {
  CHECK_NOTHROW(network_options{}.validate());
  CHECK_THROWS_WITH((network_options{.worker_link = {.latency = -1ns}}.validate()),
                    "network.worker_link.latency must be at least 0 ns, but is -1");
  CHECK_THROWS_WITH((network_options{.worker_link = {.jitter = sim::constant{-1}}}.validate()),
                    Catch::StartsWith("network.worker_link.jitter: the value of constant"));
  CHECK_THROWS_WITH((network_options{.local_link = {.latency = -1ns}}.validate()),
                    "network.local_link.latency must be at least 0 ns, but is -1");
  CHECK_THROWS_WITH((network_options{.local_link = {.jitter = sim::constant{-1}}}.validate()),
                    Catch::StartsWith("network.local_link.jitter: the value of constant"));
}
