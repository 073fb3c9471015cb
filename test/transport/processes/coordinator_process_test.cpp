// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Processes that a coordinator refuses or gives up, and such that find none.
#include <rubato/transport/processes/coordinator_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rubato/net/asio_network.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/conductor.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/wire/control.hpp>

#include "net/ends.hpp"
#include "transport/processes/coordinator_process_bench.hpp"

using namespace rubato;
using namespace rubato::test::coordinating;
using namespace std::chrono_literals;
using Catch::Contains;

TEST_CASE("coordinator: two servers whose merges differ in a number do not run together", "[tcp]") {
  auto const said = [](double lambda) {
    return blueprint(con_sgd{.fold = {.lambda = lambda}}, 2, {describe(dense<float>{.rows = 4})}).agreement();
  };
  std::atomic<bool> is_first_in = false;
  log_listener const log([&](std::string_view line) { is_first_in = is_first_in || line.ends_with(" is here"); });
  coordinated const run(5s);
  net::asio_network network;
  member const first(network, run.place(), net::role::server, said(0.25));
  REQUIRE(test::run_until(network, [&] { return is_first_in.load(); }));
  member const second(network, run.place(), net::role::server, said(0.2500001));
  CHECK(test::run_until(network, [&] { return !second.lost_for().empty(); }));
  CHECK_THAT(second.lost_for(), Contains("a server (process ") && Contains(" than server 0 (process ") &&
                                       Contains(": it says \"merge of table 0: scale") && !Contains("admission"));
}

TEST_CASE("coordinator: a flood of processes that are refused does not fill the log", "[tcp]") {
  shared_log const log;
  coordinated const run(5s, asp{}, std::make_unique<net::asio_network>(), 1);
  net::asio_network network;
  member const first(network, run.place(), net::role::worker, "something else");
  REQUIRE(test::run_until(network, [&] { return first.has_arrived(); }));
  std::vector<std::unique_ptr<stranger>> flood;
  for (std::uint64_t n = 0; n < 400; ++n) {
    flood.push_back(std::make_unique<stranger>(network, run.place().coordinator, n));
    flood.back()->register_itself();
    if (n % 20 == 0) CHECK(test::run_until(network, [&] { return !flood.back()->lost_for().empty(); }));
  }
  for (auto const& one : flood) {
    CHECK(test::run_until(network, [&] { return !one->lost_for().empty(); }));
    CHECK_THAT(one->lost_for(), Contains("expected \"something else\""));  // each is told
  }
  CHECK_THAT(log.lines(), Contains("process 0 was refused: a worker (process 0) runs another protocol"));
  CHECK_THAT(log.lines(), Contains("refuses more than 32 a second; the rest are not told of singly"));
  CHECK(std::ranges::count(log.lines(), '\n') < 200);
}

namespace {

/// Orders a megabyte as often as it is asked, as soon as there is a worker and until it has left; but
/// not without end.
class talkative_conductor final : public idle_conductor {
 public:
  static constexpr int most = 100;

  explicit talkative_conductor(std::atomic<int>& ordered) : ordered_(ordered) {}
  void join(worker_id w, clock_index, time_point, orders&) { to_ = w; }
  void leave(worker_id) { to_.reset(); }
  void tick(time_point, orders& out) {
    ++ordered_;
    out.push_back({*to_, {}});
  }
  [[nodiscard]] time_point next_tick() const noexcept {
    return to_ && ordered_ < most ? time_point(std::chrono::nanoseconds(ordered_)) : time_point::max();
  }

 private:
  std::atomic<int>& ordered_;
  std::optional<worker_id> to_;
};

}  // namespace

TEST_CASE("coordinator: who does not take what it is told is given up as lost, and the servers hear of it",
          "[tcp]") {
  test::log_capture const log;
  constexpr int allowed = 64;
  std::atomic<int> ordered = 0;
  {
    conducted_by<talkative_conductor> const pace([&] { return talkative_conductor(ordered); });
    coordinated const run(60s, with(asp{}, pace));
    net::asio_network network;
    member const server(network, run.place(), net::role::server);
    net::asio_network its_own;
    member worker(its_own, run.place(), net::role::worker);
    REQUIRE(test::run_until(network, [&] {
      its_own.poll();
      return worker.is_in();
    }));
    worker.say(wire::ready{1, false, 0, false});  // and reads no more
    // Without optimising, under sanitizers, it takes a while to write 64 MB.
    CHECK(test::run_until(network, [&] { return server.has_heard<wire::expel>(); }, 2min));
  }
  CHECK(ordered == allowed);
  CHECK_THAT(log.warnings(), Contains("worker 0 was lost: it does not take what it is told"));
}

TEST_CASE("coordinator_link: who finds no coordinator says where it looks, and how to start one", "[tcp]") {
  test::log_capture const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  hurried_network network(ahead);
  net::deployment place;
  place.coordinator.path = "/nowhere/coordinator";
  member const alone(network, place, net::role::worker);
  for (int times = 0; times < 3; ++times) {
    network.poll();
    ahead = ahead.load() + 4s;
  }
  network.poll();
  std::string const line = "waiting for the coordinator at unix:/nowhere/coordinator; start this program with "
                           "rubato-launch, or set RUBATO_COORDINATOR";
  CHECK_THAT(log.warnings(), Contains(line));
  CHECK(log.warnings().find(line) != log.warnings().rfind(line));  // again, but not as often as it was asked
  CHECK(std::ranges::count(log.warnings(), '\n') == 2);
}

TEST_CASE("coordinator_link: who has found no coordinator says how long it waited, where, and what to do", "[tcp]") {
  test::log_capture const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  hurried_network network(ahead);
  net::deployment place;
  place.coordinator.path = "/nowhere/coordinator";
  member const alone(network, place, net::role::worker);
  ahead = place.patience;
  REQUIRE(test::run_until(network, [&] { return !alone.lost_for().empty(); }));
  CHECK_THAT(alone.lost_for(), Catch::StartsWith("waited 60 s for the coordinator at unix:/nowhere/coordinator, which "
                                                 "could not be reached: "));
  CHECK_THAT(alone.lost_for(),
             Catch::EndsWith("; start this program with rubato-launch, or set RUBATO_COORDINATOR (or MASTER_ADDR and "
                             "MASTER_PORT) to where it listens, or RUBATO_PATIENCE to how many seconds it may take to "
                             "start"));
}

TEST_CASE("coordinator_link: a coordinator that has answered and goes is lost, and was not absent", "[tcp]") {
  test::log_capture const log;
  net::asio_network network;
  std::optional<coordinated> run(std::in_place, 5s);
  member const left(network, run->place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return left.has_arrived(); }));
  run.reset();
  REQUIRE(test::run_until(network, [&] { return !left.lost_for().empty(); }));
  CHECK_THAT(left.lost_for(), !Contains("waited"));
}

TEST_CASE("coordinator: who is stopped does not wait long for those that have not heard all", "[tcp]") {
  coordinated run(60s, asp{}, std::make_unique<net::asio_network>(), 1, {}, 60s);
  net::asio_network deaf, network;
  member const server(deaf, run.place(), net::role::server);
  REQUIRE(test::run_until(deaf, [&] { return server.is_in(); }));
  member const worker(network, run.place(), net::role::worker);  // of whom the server is to be told
  REQUIRE(test::run_until(network, [&] { return worker.is_in(); }));
  auto const began = std::chrono::steady_clock::now();
  CHECK(run.links() == 2);
  CHECK(std::chrono::steady_clock::now() - began < 30s);
}
