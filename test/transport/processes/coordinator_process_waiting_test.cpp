// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Those who wait before the first run.
#include <rubato/transport/processes/coordinator_process.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <rubato/core/rare.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/wire/control.hpp>

#include "net/ends.hpp"
#include "transport/processes/coordinator_process_bench.hpp"

using namespace rubato;
using namespace rubato::test::coordinating;
using namespace std::chrono_literals;
using Catch::Contains;

TEST_CASE("coordinator: who is not there any more does not keep out who has other tables", "[tcp]") {
  coordinated const run(60s);
  net::asio_network network, its_own;
  std::optional<stranger> first(std::in_place, its_own, run.place().coordinator, 77, 60s);
  first->register_itself();
  REQUIRE(test::run_until(its_own, [&] { return first->is_up() && first->has_arrived(); }));
  std::string const now = GENERATE("is there", "has left", "has a broken connection");
  INFO(now);
  if (now == "has left") first.reset();
  if (now == "has a broken connection") first->cut();  // and is not heard of
  member right(network, run.place(), net::role::server, "something else");
  CHECK(test::run_until(network, [&] {
    if (now == "is there") its_own.poll();
    return right.is_in() || !right.lost_for().empty();
  }));
  CHECK(right.is_in() == (now != "is there"));
  if (now == "is there")
    CHECK_THAT(right.lost_for(),
               Contains("than worker 0 (process 0): it says \"something else\"; expected \"played\""));
}

TEST_CASE("coordinator: who comes in the place of one whose connection is broken waits until that is given up",
          "[tcp]") {
  shared_log const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead));
  net::asio_network network, its_own, elsewhere;
  stranger known(its_own, run.place().coordinator, 77, 60s);
  known.register_itself();
  REQUIRE(test::run_until(its_own, [&] { return known.is_up() && known.has_arrived(); }));
  known.cut();  // and it may come back, for as long as a handshake takes
  std::optional<member> newcomer(std::in_place, network, run.place(), net::role::worker, agreed, 0U);
  auto const waits = [&] { return log.lines().find("worker 0 has come anew (process ") != std::string::npos; };
  REQUIRE(test::run_until(network, waits));
  SECTION("and is let in then") {
    member const server(network, run.place(), net::role::server);  // whose address workers are told
    REQUIRE(test::run_until(network, [&] { return server.has_heard<wire::admission>() || server.is_in(); }));
    CHECK_FALSE(newcomer->is_in());
    ahead = 10s;
    stranger const another(network, run.place().coordinator, 78, 60s);  // it looks at the time when it hears something
    CHECK(test::run_until(network, [&] { return newcomer->is_in(); }));
  }
  SECTION("or it is back") {
    CHECK(test::run_until(its_own, [&] { return known.is_up(); }));
    CHECK(test::run_until(network, [&] { return !newcomer->lost_for().empty(); }));
    CHECK_THAT(newcomer->lost_for(), Contains("worker 0 is here already"));
    CHECK(known.lost_for() == "");
  }
  SECTION("one for each place") {
    member const second(elsewhere, run.place(), net::role::worker, agreed, 0U);
    CHECK(test::run_until(elsewhere, [&] { return !second.lost_for().empty(); }));
    CHECK_THAT(second.lost_for(), Contains(", waits to become worker 0, whose connection is broken"));
    CHECK(newcomer->lost_for() == "");
    newcomer.reset();
    std::optional<member> third;
    auto const is_waiting = [&] { return log.lines().find("come anew") != log.lines().rfind("come anew"); };
    CHECK(test::run_until(elsewhere, [&] {  // the coordinator may not have heard yet that the first has left
      if (!third || !third->lost_for().empty())
        third.emplace(elsewhere, run.place(), net::role::worker, agreed, 0U);
      return is_waiting();
    }));
  }
}

TEST_CASE("coordinator: who was told to come again and did not hear it is told once more, also after the end",
          "[tcp]") {
  auto const told = [] {
    auto const all = rare_paths();
    return std::ranges::find(all, "a process was told to come again", &rare_count::what)->times;
  };
  coordinated const run(5s, asp{}, std::make_unique<net::asio_network>(), 1, {}, 20s);
  net::asio_network network, of_server, its_own;
  member server(of_server, run.place(), net::role::server);
  member worker(network, run.place(), net::role::worker);
  auto const serve = [&] { of_server.run_one(net::network::clock::now() + 1ms); };
  REQUIRE(test::run_until(network, [&] { return serve(), worker.is_in(); }));
  worker.say(wire::ready{});
  stage_id const stage{1};
  REQUIRE(test::run_until(network, [&] { return serve(), worker.has_heard<wire::worker_starts>(); }));
  worker.say(wire::worker_ended{stage, worker_id{0}, clock_index{0}, {}});
  REQUIRE(test::run_until(network, [&] { return serve(), server.has_heard<wire::end_stage>(); }));
  server.say(wire::stage_over{stage, {}, 0});
  REQUIRE(test::run_until(network, [&] { return worker.has_heard<wire::run_over>(); }));
  worker.say(wire::farewell{});
  REQUIRE(test::run_until(network, [&] { return worker.has_arrived(); }));
  std::uint64_t const before = told();  // it is over, but the server does not read that
  auto const [number, life] = network.process();
  wire::registration next{.as = net::role::worker, .rank = 0U, .listens = {}, .agreed = agreed, .pid = number};
  next.life = life;
  stranger early(its_own, run.place().coordinator, 77);
  REQUIRE(test::run_until(its_own, [&] { return early.is_up(); }));
  early.register_itself(next);
  while (told() == before) std::this_thread::yield();
  early.cut();
  CHECK(test::run_until(its_own, [&] { return early.is_in() || !early.lost_for().empty(); }));
  CHECK(early.is_in());
  CHECK_THAT(early.lost_for(), !Contains("given up"));
}

TEST_CASE("coordinator: who shows the key of its place is let in at once, started again", "[tcp]") {
  std::atomic<int> let_in = 0, kept_waiting = 0;
  log_listener const log([&](std::string_view line) {
    let_in += line == "worker 0 is here" ? 1 : 0;
    kept_waiting += line.starts_with("worker 0 has come anew") ? 1 : 0;
  });
  coordinated const run(60s);
  net::asio_network network, its_own;
  stranger first(its_own, run.place().coordinator, 77, 60s), again(network, run.place().coordinator, 78, 60s);
  wire::secret const none{}, key{1, 2, 3}, other_key{1, 2, 4};
  auto const [had, shown, is_same] = GENERATE_COPY(Catch::Generators::table<wire::secret, wire::secret, bool>(
      {{key, key, true}, {key, other_key, false}, {key, none, false}, {none, none, false}}));
  wire::registration self{.as = net::role::worker, .rank = 0U, .listens = {}, .agreed = agreed, .pid = 0};
  self.place_key = had;
  first.register_itself(self);
  REQUIRE(test::run_until(its_own, [&] { return let_in == 1; }));
  first.cut();
  self.place_key = shown;
  again.register_itself(self);
  CHECK(test::run_until(network, [&] { return let_in + kept_waiting == 2; }));
  CHECK(let_in == (is_same ? 2 : 1));
}

TEST_CASE("coordinator: it says for whom it waits, and then that patience is over", "[tcp]") {
  shared_log const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead), 2);
  net::asio_network network;
  member const server(network, run.place(), net::role::server);
  member worker(network, run.place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return worker.is_in(); }));
  member const unready(network, run.place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return unready.is_in(); }));
  worker.say(wire::ready{1, false, 0, false});
  REQUIRE(test::run_until(network, [&] { return worker.has_arrived(); }));
  ahead = 10s;
  worker.say(wire::end_run{});  // of no run; it looks at the time when it hears something
  CHECK(test::run_until(network, [&] { return log.lines().find("waiting for") != std::string::npos; }));
  CHECK(log.lines() == "waiting for worker 1 (here, but not ready)\n");
  ahead = 90s;
  worker.say(wire::end_run{});
  CHECK(test::run_until(network, [&] { return worker.has_heard<wire::stop_run>(); }));
  CHECK(worker.told_last() == "after 60 s the run waits for worker 1 (here, but not ready)");
}

TEST_CASE("coordinator: the first run waits for those whose connection is broken", "[tcp]") {
  shared_log const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead), 2, {}, 60s);
  net::asio_network network, its_own;
  member const server(network, run.place(), net::role::server);
  stranger cut_off(its_own, run.place().coordinator, 77, 60s);
  cut_off.register_itself({.as = net::role::worker, .rank = 0U, .listens = {}, .agreed = agreed, .pid = 0});
  cut_off.say(wire::ready{1, false, 0, false});
  REQUIRE(test::run_until(its_own, [&] { return cut_off.is_up() && cut_off.has_arrived(); }));
  cut_off.cut();
  auto const logged = [&](char const* text) { return log.lines().find(text) != std::string::npos; };
  REQUIRE(test::run_until(network, [&] { return logged("may come back"); }));
  member other(network, run.place(), net::role::worker);
  other.say(wire::ready{1, false, 0, false});
  REQUIRE(test::run_until(network, [&] { return other.is_in() && other.has_arrived(); }));
  ahead = 4s;
  other.say(wire::end_run{});  // of no run; it looks at the time when it hears something
  CHECK(test::run_until(network, [&] { return logged("waiting for"); }));
  CHECK(logged("waiting for worker 0 (here, but its connection is broken)\n"));
  CHECK_FALSE(other.has_heard<wire::worker_starts>());
  CHECK(test::run_until(its_own, [&] { return cut_off.is_up(); }));
  CHECK(test::run_until(network, [&] { return other.has_heard<wire::worker_starts>(); }));
}

TEST_CASE("coordinator: patience is not begun anew by who comes and goes again", "[tcp]") {
  test::log_capture const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead), 2);
  net::asio_network network;
  member const server(network, run.place(), net::role::server);
  member const waiting(network, run.place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return waiting.is_in(); }));
  auto const look_at_the_time = [&](std::uint64_t session) {  // as it does when it hears something
    stranger const another(network, run.place().coordinator, session, 60s);
    REQUIRE(test::run_until(network, [&] { return another.is_up(); }));
  };
  // All are there, and nobody waits, but while it is away: 40 s each time, of 60 s.
  for (int times = 1; times <= 2; ++times) {
    std::optional<member> fickle(std::in_place, network, run.place(), net::role::worker);
    REQUIRE(test::run_until(network, [&] { return fickle->is_in(); }));
    CHECK_FALSE(waiting.has_heard<wire::stop_run>());
    fickle.reset();
    REQUIRE(test::run_until(network, [&] { return server.count<wire::expel>() == times; }));
    look_at_the_time(77);
    ahead = ahead.load() + 40s;
  }
  auto const is_told = [&] { return waiting.has_heard<wire::stop_run>(); };
  // At the first that comes it looks at the time, and lets the second one in only where some of that is left: then it
  // would be told too, but later.
  for (std::uint64_t const session : {78U, 79U}) {
    stranger const another(network, run.place().coordinator, session, 60s);
    REQUIRE(test::run_until(network, [&] { return is_told() || another.is_up(); }));
  }
  REQUIRE(is_told());
  CHECK_THAT(waiting.told_last(), Contains("after 60 s only 1 of 1 servers and 1 of 2 workers are here"));
}
