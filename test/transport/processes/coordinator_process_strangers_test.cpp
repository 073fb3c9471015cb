// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Those who do not say who they are, or something else than they are.
#include <rubato/transport/processes/coordinator_process.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/connection.hpp>
#include <rubato/net/network.hpp>
#include <rubato/transport/processes/past_sessions.hpp>
#include <rubato/wire/control.hpp>

#include "net/certificates.hpp"
#include "net/ends.hpp"
#include "transport/processes/coordinator_process_bench.hpp"

using namespace rubato;
using namespace rubato::test::coordinating;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

/// Holds up who tells it that a worker starts.
class halting_conductor final : public idle_conductor {
 public:
  halting_conductor(std::atomic<bool>& stands_still, std::atomic<bool> const& goes_on)
      : stands_still_(stands_still), goes_on_(goes_on) {}
  void join(worker_id, clock_index, time_point, orders&) {
    stands_still_ = true;
    while (!goes_on_) std::this_thread::sleep_for(1ms);
  }

 private:
  std::atomic<bool>& stands_still_;
  std::atomic<bool> const& goes_on_;
};

}  // namespace

TEST_CASE("coordinator: who has left without saying who it is is forgotten", "[tcp]") {
  coordinated const run(5s);
  net::asio_network network;
  // A session that the coordinator remembered as over would be refused.
  for (int i = 0; i < 5; ++i) {
    stranger guest(network, run.place().coordinator, 77);
    CHECK(test::run_until(network, [&] { return guest.is_up() || !guest.lost_for().empty(); }));
    CHECK(guest.lost_for() == "");
  }
}

TEST_CASE("coordinator: who registers as something else than it said hello as is refused, and others are let in",
          "[tcp]") {
  auto const [shown, claimed] = GENERATE(Catch::Generators::table<net::role, net::role>(
      {{net::role::worker, net::role::server},
       {net::role::worker, net::role::coordinator},
       {net::role::server, net::role::worker}}));
  test::log_capture log;
  {
    coordinated const run(5s);
    net::asio_network network;
    stranger guest(network, run.place().coordinator, 77, 5s, shown);
    guest.register_itself(claimed);
    CHECK(test::run_until(network, [&] { return !guest.lost_for().empty(); }));
    CHECK_FALSE(guest.is_in());
    CHECK_THAT(guest.lost_for(), Contains(std::string("a process that said hello as a ") + to_string(shown) +
                                          " registers as a " + to_string(claimed)));
    member const server(network, run.place(), net::role::server);
    member const worker(network, run.place(), net::role::worker);
    CHECK(test::run_until(network, [&] { return worker.is_in(); }));
  }
  CHECK_THAT(log.warnings(), Contains("registers as a "));
}

namespace {

/// A run whose processes show certificates of one authority.
class certified_run {
 public:
  certified_run()
      : run_(5s, asp{}, std::make_unique<net::asio_network>(), 2, keys("coordinator", "rubato:coordinator")) {}

  /// For a process with a certificate for this.
  [[nodiscard]] net::deployment place(std::string const& uri, std::optional<std::uint32_t> rank) const {
    net::deployment own = run_.place();
    own.rank = rank;
    own.keys = keys("member", uri);
    return own;
  }

 private:
  [[nodiscard]] net::security keys(std::string const& name, std::string const& uri) const {
    auto const who = test::make_identity(authority_, name + ".test", 30, ",URI:" + uri);
    auto const file = [&](char const* what) { return folder_.file(name + what); };
    test::write_certificate(authority_, file("-authority"));
    test::write_certificate(who, file("-certificate"));
    test::write_key(who, file("-key"));
    return {.token = {}, .tls = net::tls_files{file("-certificate"), file("-key"), file("-authority")}};
  }

  test::temporary_folder folder_;
  test::identity authority_ = test::make_authority("Authority of the tests");
  coordinated run_;
};

}  // namespace

TEST_CASE("coordinator: a certificate is for its number, and the others' run goes on", "[tcp]") {
  using rank_of = std::optional<std::uint32_t>;
  auto const [uri, rank, why] = GENERATE(Catch::Generators::table<std::string, rank_of, std::string>(
      {{"rubato:worker/1", 0, "the certificate of this worker is for worker 1 only, and not for worker 0"},
       {"rubato:worker/1", std::nullopt,
        "the certificate of this worker is for worker 1 only, so it must ask for its number (RANK)"},
       {"rubato:server", 1, "the certificate of this worker is for a server only"}}));
  test::log_capture log;
  {
    certified_run const run;
    net::asio_network network;
    member const wrong(network, run.place(uri, rank), net::role::worker);
    CHECK(test::run_until(network, [&] { return !wrong.lost_for().empty(); }));
    CHECK_THAT(wrong.lost_for(), Contains(why));
    member const server(network, run.place("rubato:server/0", 0), net::role::server);
    member const first(network, run.place("rubato:worker", std::nullopt), net::role::worker);
    member const second(network, run.place("rubato:worker/1", 1), net::role::worker);
    CHECK(test::run_until(network, [&] { return first.is_in() && second.is_in(); }));
    CHECK(first.number() == 0);
    CHECK(second.number() == 1);
  }
  CHECK_THAT(log.warnings(), Contains(why));
}

TEST_CASE("coordinator: who has no place says little, and one that has may say more", "[tcp]") {
  test::log_capture log;
  {
    coordinated const run(5s);
    net::asio_network network;
    std::string const much(detail::arriving_control::of_guest_max, 'x');
    stranger guest(network, run.place().coordinator, 77);
    guest.register_itself({.as = net::role::worker, .rank = std::nullopt, .listens = {}, .agreed = much, .pid = 0});
    CHECK(test::run_until(network, [&] { return !guest.lost_for().empty(); }));
    CHECK_THAT(guest.lost_for(), Contains("expected at most 1048576"));
    member const server(network, run.place(), net::role::server);
    member worker(network, run.place(), net::role::worker);
    REQUIRE(test::run_until(network, [&] { return worker.is_in(); }));
    worker.say(wire::farewell{much});
    CHECK(test::run_until(network, [&] { return worker.has_arrived() || !worker.lost_for().empty(); }));
    CHECK(worker.lost_for() == "");
  }
}

namespace {

/// Sockets, for whom no time goes by: what there is so much of in a second comes in one.
class standing_clock final : public net::network_decorator {
 public:
  standing_clock() : network_decorator(std::make_unique<net::asio_network>()) {}
  [[nodiscard]] clock::time_point now() const override { return began_; }

 private:
  clock::time_point began_ = clock::now();
};

/// Connects, and says something else than a hello.
void babble(net::network& network, net::address const& to) {
  test::recorder hears;
  std::unique_ptr<net::connection> made;
  auto const dialing = network.dial(to, {}, {}, [&](auto fresh, auto const&, bool) { made = std::move(fresh); });
  REQUIRE(test::run_until(network, [&] { return made != nullptr; }));
  made->attach(hears);
  wire::frame_header h;
  h.kind = 99;
  made->send(h, {});
  made->flush();
  REQUIRE(test::run_until(network, [&] { return hears.is_closed(); }));
}

}  // namespace

TEST_CASE("coordinator: a flood of those who say nonsense, or go again, does not fill the log", "[tcp]") {
  enum class flood { at_the_door, of_nonsense, of_breaks };
  auto const what = GENERATE(flood::at_the_door, flood::of_nonsense, flood::of_breaks);
  shared_log log;
  {
    coordinated const run(60s, asp{}, std::make_unique<standing_clock>());
    net::asio_network network;
    for (std::uint64_t session = 1; session <= 100; ++session) {
      if (what == flood::at_the_door) {
        babble(network, run.place().coordinator);
        continue;
      }
      stranger guest(network, run.place().coordinator, session, 60s);
      REQUIRE(test::run_until(network, [&] { return guest.is_up(); }));
      if (what == flood::of_breaks) {
        guest.cut();
        continue;
      }
      guest.say(wire::farewell{});
      REQUIRE(test::run_until(network, [&] { return !guest.lost_for().empty(); }));
    }
  }
  CHECK_THAT(log.lines(), Contains("refuses more than 32 a second; the rest are not told of singly"));
  std::istringstream all(log.lines());
  int of_coordinator = 0;
  for (std::string line; std::getline(all, line);)  // of which strangers say some of their own
    if (!line.starts_with("the coordinator: cut")) ++of_coordinator;
  CHECK(of_coordinator < 50);
}

TEST_CASE("coordinator: a session is one role's", "[tcp]") {
  test::log_capture const log;
  coordinated const run(5s);
  net::asio_network network;
  stranger worker(network, run.place().coordinator, 77);
  worker.register_itself();
  REQUIRE(test::run_until(network, [&] { return worker.is_up() && worker.has_arrived(); }));
  stranger const intruder(network, run.place().coordinator, 77, 5s, net::role::server);
  CHECK(test::run_until(network, [&] { return !intruder.lost_for().empty(); }));
  CHECK_THAT(intruder.lost_for(), Contains("this session is a worker process's, and not a server's"));
  CHECK(worker.is_up());
  CHECK(worker.lost_for() == "");
}

TEST_CASE("coordinator: who is here and does not say who it is is sent away in time", "[tcp]") {
  // And as long for a handshake; a link says more often that it is here. The shorter is about as long as the coordinator
  // may take until it looks.
  coordinated const run(GENERATE(400ms, 100ms));
  net::asio_network network;
  stranger guest(network, run.place().coordinator, 77, run.place().silence);
  CHECK(test::run_until(network, [&] { return !guest.lost_for().empty(); }));
  CHECK_THAT(guest.lost_for(), Contains("did not say in time who it is") || Contains("was given up as lost"));
}

TEST_CASE("coordinator: whose links break before it has said who it is has as long again", "[tcp]") {
  coordinated const run(1s);
  net::asio_network network;
  stranger guest(network, run.place().coordinator, 77, run.place().silence);
  for (int i = 0; i < 4; ++i) {
    REQUIRE(test::run_until(network, [&] { return guest.is_up(); }));
    CHECK_FALSE(test::run_until(network, [&] { return !guest.lost_for().empty(); }, 300ms));
    guest.cut();
  }
  guest.register_itself();
  CHECK(test::run_until(network, [&] { return guest.is_up() && guest.has_arrived(); }));
  CHECK_FALSE(test::run_until(network, [&] { return !guest.lost_for().empty(); }, 1500ms));  // it is somebody now
  CHECK(guest.lost_for() == "");
}

TEST_CASE("coordinator: who never says who it is is sent away, however often its links break", "[tcp]") {
  test::log_capture const log;
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(60s, asp{}, std::make_unique<hurried_network>(ahead));  // a handshake has 5 s
  net::asio_network network;
  member const server(network, run.place(), net::role::server);
  member const worker(network, run.place(), net::role::worker);  // and nobody waits for who is missing
  REQUIRE(test::run_until(network, [&] { return worker.is_in(); }));
  stranger guest(network, run.place().coordinator, 77, 60s);
  auto const is_sent_away = [&] { return !guest.lost_for().empty(); };
  // What the coordinator hears next after 50 s is a break. One that a busy machine lets stand still counts anew.
  for (int breaks = 0; breaks < 200 && !is_sent_away(); ++breaks) {
    REQUIRE(test::run_until(network, [&] { return guest.is_up() || is_sent_away(); }));
    ahead = ahead.load() + 1s;
    guest.cut();
  }
  CHECK_THAT(guest.lost_for(), Contains("did not say in time who it is") || Contains("was given up as lost"));
}

TEST_CASE("coordinator: who said in time who it is is let in, however long the coordinator stood still",
          "[tcp]") {
  constexpr std::chrono::milliseconds in_time = 1s;
  std::atomic<bool> stands_still = false;
  std::atomic<bool> goes_on = false;
  conducted_by<halting_conductor> const pace([&] { return halting_conductor(stands_still, goes_on); });
  std::atomic<std::chrono::milliseconds> ahead = 0ms;
  coordinated const run(in_time, with(asp{}, pace), std::make_unique<hurried_network>(ahead));
  net::asio_network network;
  member const server(network, run.place(), net::role::server);
  member worker(network, run.place(), net::role::worker);
  REQUIRE(test::run_until(network, [&] { return worker.is_in(); }));
  stranger late(network, run.place().coordinator, 77, in_time);
  REQUIRE(test::run_until(network, [&] { return late.is_up(); }));
  worker.say(wire::ready{1, false, 0, false});
  bool const stood_still = test::run_until(network, [&] { return stands_still.load(); });
  late.register_itself();
  ahead = in_time + 100ms;
  goes_on = true;
  REQUIRE(stood_still);
  REQUIRE(test::run_until(network, [&] { return late.is_in() || !late.lost_for().empty(); }));
  CHECK(late.lost_for() == "");
}

TEST_CASE("coordinator: of those who have been here nothing is kept but the last sessions", "[tcp]") {
  test::log_capture const log;
  coordinated run(5s);
  net::asio_network network;
  constexpr std::uint64_t lives = 1000;
  for (std::uint64_t life = 1; life <= lives; ++life) {
    stranger guest(network, run.place().coordinator, life);
    guest.register_itself();
    REQUIRE(test::run_until(network, [&] { return guest.is_up() && guest.has_arrived(); }));
  }
  {
    stranger again(network, run.place().coordinator, 7);
    CHECK(test::run_until(network, [&] { return !again.lost_for().empty(); }));
    CHECK_THAT(again.lost_for(), Contains("it can only start anew"));
  }
  CHECK(run.links() <= 2);  // of the last one it may not have heard
}

TEST_CASE("past_sessions: they are known until many others have come") {
  detail::past_sessions past;
  for (std::uint64_t n = 0; n < 3 * detail::past_sessions::most; ++n) past.remember(n);
  CHECK(past.size() == detail::past_sessions::most);
  CHECK(past.contains(3 * detail::past_sessions::most - 1));
  CHECK(past.contains(2 * detail::past_sessions::most));
  CHECK_FALSE(past.contains(2 * detail::past_sessions::most - 1));
}
