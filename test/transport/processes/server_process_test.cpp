// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A server among processes that a test plays itself: who does not read, who asks before the server has
// heard of it, who comes and goes.
#include <rubato/transport/processes/server_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <rubato/net/asio_network.hpp>
#include <rubato/net/connection.hpp>
#include <rubato/net/link.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/table_description.hpp>

#include "patience.hpp"
#include "transport/processes/server_process_bench.hpp"

using namespace rubato;
using namespace rubato::test::serving_alone;
using namespace std::chrono_literals;
using Catch::Contains;

// ---- answers that nobody reads

TEST_CASE("server: who asks on and does not read the answers is cut off, and the others go on",
          "[tcp]") {
  test::log_capture const log;
  constexpr std::size_t rows = 1 << 20;  // 8 MB
  played_run run(bsp{}, rows);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::asio_network idle;  // reads while it is connected, and then no more
  auto const glutton = run.connected(idle, second_worker);

  // 64 MB, and the table twice for each worker and whoever looks on.
  constexpr std::uint64_t allowed = 8 + 2 * 3;
  for (std::uint64_t i = 0; i < 3 * allowed; ++i)
    glutton->ask(run.to().identity(second_worker), clock_index{0});
  REQUIRE(run.until([&] { return run.stats().connections_lost == 1; }));
  CHECK_THAT(log.warnings(), Contains("worker process 1: more comes, but ") &&
                                 Contains(" bytes of answers have not been read"));
  CHECK(run.stats().reads >= allowed);
  CHECK(run.stats().reads <= allowed + 2);

  run.first().ask(run.to().identity(first_worker), clock_index{0});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
  run.commit(run.first(), first_worker, clock_index{0});
  run.first().ask(run.to().identity(first_worker), clock_index{1});
  REQUIRE(run.until([&] { return run.stats().reads_waiting == 1; }));  // the barrier holds
  run.to().lose(second_worker);
  REQUIRE(run.until([&] { return run.first().answers().size() == 2; }));
  CHECK(run.first().values(1) == std::vector<std::int64_t>(rows, 1));

  REQUIRE(run.until([&] {
    idle.poll();
    return !glutton->lost_for().empty();
  }));
  CHECK_THAT(glutton->lost_for(), Contains("have not been read") || Contains("given up as lost"));
  CHECK(glutton->answers().size() < allowed);
}

TEST_CASE("server: who commits far ahead of the others is cut off, and they go on", "[tcp]") {
  test::log_capture const log;
  constexpr std::size_t rows = 8;
  constexpr std::uint64_t held_max = 1 << 20;
  played_run run(bsp{}, rows, held_max);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::asio_network its_own;
  auto const runaway = run.connected(its_own, second_worker);

  // Each counts as its 64 bytes and what it takes to keep it.
  constexpr std::uint64_t allowed = held_max / (256 + 64);
  for (std::uint64_t i = 0; i < 2 * allowed; ++i) {
    run.commit(*runaway, second_worker, clock_index{static_cast<std::int64_t>(i)});
    its_own.poll();
  }
  REQUIRE(run.until([&] {
    its_own.poll();
    return run.stats().connections_lost == 1;
  }));
  CHECK_THAT(log.warnings(), Contains("worker process 1: ") &&
                                 Contains("bytes of commits are ahead of what the slowest worker"));
  CHECK(run.stats().commits >= allowed);
  CHECK(run.stats().commits < allowed + allowed / 8);

  run.commit(run.first(), first_worker, clock_index{0});
  run.to().lose(second_worker);
  run.first().ask(run.to().identity(first_worker), clock_index{1});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
}

TEST_CASE("server: who was given up is not counted among those who are connected", "[tcp]") {
  test::log_capture const log;
  played_run run(bsp{}, 8);
  run.to().join(second_worker);
  net::asio_network its_own;
  auto const given_up = run.connected(its_own, second_worker);
  REQUIRE(run.until([&] { return run.stats().connections == 2; }));
  run.to().lose(second_worker);
  REQUIRE(run.until([&] { return run.stats().connections_lost == 1; }));
  CHECK(run.until([&] { return run.stats().connections == 1; }));
}

TEST_CASE("server: who keeps up may commit as much as it likes", "[tcp]") {
  played_run run(bsp{}, 8, 1 << 16);
  std::uint64_t const commits = 4 * (1 << 16) / 256;
  for (std::uint64_t i = 0; i < commits; ++i) {
    run.commit(run.first(), first_worker, clock_index{static_cast<std::int64_t>(i)});
    if (i % 64 == 0) run.settle();
  }
  REQUIRE(run.until([&] { return run.stats().commits == commits; }));
  CHECK(run.stats().connections_lost == 0);
}

TEST_CASE("server: what the protocol lets a worker send is kept, and no more", "[tcp]") {
  test::log_capture const log;
  constexpr std::size_t rows = 8192;
  constexpr std::uint64_t held_max = 16;  // less than one commit
  auto const [staleness, is_anew] =  // the process was lost, and came back
      GENERATE(Catch::Generators::table<std::int64_t, bool>({{3, false}, {20, false}, {3, true}}));
  played_run run(with(ssp{.staleness = staleness}, stable_cut{}), rows, held_max);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  if (is_anew) {
    run.to().drop(second_worker);
    run.settle();
    run.to().join(second_worker);
    run.settle();
  }
  net::asio_network its_own;
  auto const ahead = run.connected(its_own, second_worker);
  auto const has = [&](std::uint64_t commits) {
    return run.until([&] {
      its_own.poll();
      return run.stats().commits == commits;
    });
  };
  std::int64_t const allowed = staleness + 2;  // one is on its way when it waits
  for (std::int64_t i = 0; i < allowed; ++i) run.commit(*ahead, second_worker, clock_index{i});
  REQUIRE(has(static_cast<std::uint64_t>(allowed)));
  CHECK(run.stats().connections_lost == 0);
  for (std::int64_t i = allowed; i < allowed + 2; ++i) run.commit(*ahead, second_worker, clock_index{i});
  REQUIRE(run.until([&] {
    its_own.poll();
    return run.stats().connections_lost == 1;
  }));
}

TEST_CASE("server: all processes of a large run may wait at its door", "[tcp]") {
  constexpr std::uint32_t many = 300;
  test::log_capture const log;
  test::temporary_folder const folder;
  net::deployment place;
  place.as = net::role::server;
  place.rank = 0;
  place.workers = many;
  place.coordinator.path = folder.file("coordinator");  // which is not there yet
  place.listen = {.host = {}, .path = folder.file("server")};
  place.silence = long_silence;
  blueprint const plan(bsp{}, 1, {describe(counting{.rows = 8})});
  detail::server_process server(std::make_unique<net::asio_network>(), plan, plan.agreement(), place, 1 << 20);
  net::asio_network network;
  std::vector<std::shared_ptr<void>> attempts;
  std::vector<std::unique_ptr<net::connection>> made;
  for (std::uint32_t i = 0; i < many; ++i)
    attempts.push_back(network.dial(server.bound(), {}, without_heartbeats(),
        [&](auto fresh, auto const&, bool) { made.push_back(std::move(fresh)); }));
  REQUIRE(test::run_until(network, [&] {
    server.poll();
    return made.size() == many;
  }));
  server.poll();
  CHECK(std::ranges::none_of(made, [](auto const& one) { return one == nullptr; }));
  CHECK(log.warnings() == "");
}

TEST_CASE("server: who was sent away is known when it comes back, and may come as another", "[tcp]") {
  test::log_capture const log;
  played_run run(bsp{}, 8);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::asio_network its_own;
  auto const lost = [&](worker_peer const& w) {
    return run.until([&] {
      its_own.poll();
      return !w.lost_for().empty();
    });
  };
  {
    auto const odd = run.connected(its_own, second_worker);
    run.commit(*odd, second_worker, clock_index{0});
    odd->ask(run.to().identity(second_worker), clock_index{1});  // waits for the other worker
    REQUIRE(run.until([&] { return run.stats().reads_waiting == 1; }));
    odd->babble();
    REQUIRE(lost(*odd));
    CHECK_THAT(odd->lost_for(), Contains("a frame of kind 99"));
  }
  worker_peer again(its_own, run.server_address(), second_worker.value());  // the same session
  REQUIRE(lost(again));
  CHECK_THAT(again.lost_for(), Contains("given up as lost"));
  run.commit(run.first(), first_worker, clock_index{0});
  run.settle();  // the question is gone with who asked
  worker_peer anew(its_own, run.server_address(), second_worker.value(), 500);
  REQUIRE(run.until([&] {
    its_own.poll();
    return anew.is_up();
  }));
  anew.ask(run.to().identity(second_worker), clock_index{1});
  REQUIRE(run.until([&] {
    its_own.poll();
    return anew.answers().size() == 1;
  }));
  CHECK(anew.values(0) == std::vector<std::int64_t>(8, 2));
}

TEST_CASE("server: who asks again while it waits is answered once, for what it asked last", "[tcp]") {
  played_run run(bsp{}, 8);
  run.to().join(second_worker);
  REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  net::asio_network its_own;
  auto const other = run.connected(its_own, second_worker);
  run.commit(run.first(), first_worker, clock_index{0});
  for (int i = 0; i < 100; ++i) run.first().ask(run.to().identity(first_worker), clock_index{1});
  run.settle();
  CHECK(run.stats().reads_waiting == 1);
  run.commit(*other, second_worker, clock_index{0});
  REQUIRE(run.until([&] {
    its_own.poll();
    return !run.first().answers().empty();
  }));
  run.settle();
  REQUIRE(run.first().answers().size() == 1);
  CHECK(run.first().answers().front().header.sequence == 100);
}

namespace {

/// A run of two workers on three tables, of which the first one is a clock ahead.
struct run_ahead {
  run_ahead() {
    run.to().join(second_worker);
    REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
    other = run.connected(its_own, second_worker);
    run.commit(run.first(), first_worker, clock_index{0});
  }
  void ask(int table, std::int64_t clock = 1) {
    run.first().ask(run.to().identity(first_worker), clock_index{clock}, nullptr, static_cast<std::uint16_t>(table));
  }
  /// The tickets of the answers that have come since, in their order, and the tables that they are of.
  [[nodiscard]] std::vector<std::pair<std::uint64_t, int>> answers_once_the_other_is_there() {
    run.settle();
    CHECK(run.first().answers().empty());
    run.commit(*other, second_worker, clock_index{0});
    (void)run.until([&] { return (its_own.poll(), !run.first().answers().empty()); });
    run.settle();
    std::vector<std::pair<std::uint64_t, int>> all;
    for (auto const& a : run.first().answers()) all.emplace_back(a.header.sequence, a.header.table);
    return all;
  }

  played_run run{blueprint(bsp{}, 1,
                           {describe(counting{.rows = 4}), describe(counting{.rows = 8}),
                            describe(counting{.rows = 2})}),
                 {},
                 1 << 20};
  net::asio_network its_own;
  std::unique_ptr<worker_peer> other;
};

using answered = std::vector<std::pair<std::uint64_t, int>>;

}  // namespace

TEST_CASE("server: what a worker asks about several tables waits as one, and is answered when the clock is there",
          "[tcp]") {
  run_ahead r;
  for (int const table : {2, 0, 1}) r.ask(table);
  r.run.settle();
  CHECK(r.run.stats().reads_waiting == 1);
  CHECK(r.answers_once_the_other_is_there() == answered{{1, 2}, {2, 0}, {3, 1}});
  CHECK(r.run.first().values(0) == std::vector<std::int64_t>(2, 2));  // of both commits
  CHECK(r.run.first().values(1) == std::vector<std::int64_t>(4, 2));
  CHECK(r.run.first().values(2) == std::vector<std::int64_t>(8, 2));
  CHECK(r.run.stats().reads_waiting == 0);
  r.ask(1);  // and what may go on at once does
  REQUIRE(r.run.until([&] { return r.run.first().answers().size() == 4; }));
}

TEST_CASE("server: who asks about a table again, or at another clock, waits for nothing that it asked before",
          "[tcp]") {
  SECTION("the same table") {
    run_ahead r;
    for (int const table : {0, 1, 1, 2}) r.ask(table);
    CHECK(r.answers_once_the_other_is_there() == answered{{3, 1}, {4, 2}});
  }
  SECTION("another clock") {
    run_ahead r;
    r.ask(0, 2);
    r.ask(1, 1);
    r.ask(2, 1);
    CHECK(r.answers_once_the_other_is_there() == answered{{2, 1}, {3, 2}});
  }
  SECTION("a break") {
    run_ahead r;
    for (int const table : {0, 1, 2}) r.ask(table);
    REQUIRE(r.run.until([&] { return r.run.stats().reads_waiting == 1; }));
    test::log_capture const log;
    r.run.first().cut();
    REQUIRE(r.run.until([&] { return r.run.stats().reconnects == 1 && r.run.first().is_up(); }));
    r.ask(1);
    CHECK(r.answers_once_the_other_is_there() == answered{{4, 1}});
  }
}

TEST_CASE("server: who reads the answers may ask on", "[tcp]") {
  played_run run(bsp{}, 1 << 20);
  for (std::size_t i = 1; i <= 30; ++i) {
    run.first().ask(run.to().identity(first_worker), clock_index{0});
    REQUIRE(run.until([&] { return run.first().answers().size() == i; }));
  }
  CHECK(run.stats().connections_lost == 0);
}

// ---- who is let in

TEST_CASE("server: a second session of a worker process that is here is refused, and the first goes on",
          "[tcp]") {
  played_run run(asp{}, 5);
  auto said = worker_peer::hello_of(first_worker.value());
  said.session += 1000;
  auto const second = run.dialling(run.network(), shown(said));
  REQUIRE(run.until([&] { return second->is_up() || !second->lost_for().empty(); }));
  CHECK_FALSE(second->is_up());
  CHECK_THAT(second->lost_for(), Contains("worker process 0 is here already"));

  run.first().ask(run.to().identity(first_worker), clock_index{0});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
  CHECK(run.stats().connections_lost == 0);

  // Another one than the process that is here: its next life, or one of another number.
  bool const lives_again = GENERATE(true, false);
  if (lives_again) {
    ++said.incarnation;
    run.to().admit(said.number, said.incarnation);
  } else {
    said.number = second_worker.value();
  }
  auto const other = run.dialling(run.network(), shown(said));
  REQUIRE(run.until([&] { return other->is_up() || !other->lost_for().empty(); }));
  CHECK(other->lost_for() == "");
}

// ---- questions that come before what they go by

namespace {

/// A run under synchronized reads whose first worker has asked for a cut that the server does not
/// hold, so that it waits.
class early_question {
 public:
  static constexpr std::size_t rows = 5;

  void ask_first(shared_cut const& cut) {
    run.first().ask(run.to().identity(first_worker), clock_index{1}, cut.get());
    run.settle();
    CHECK(run.stats().reads_waiting == 1);
    CHECK(run.stats().refused == 0);
    CHECK(run.first().answers().empty());
  }
  void check_answer(std::int64_t expected) {
    REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
    CHECK(run.first().answers()[0].header.kind == +wire::kind::reply);
    CHECK(run.first().values(0) == std::vector<std::int64_t>(rows, expected));
    CHECK(run.stats().reads_waiting == 0);
  }
  void commit_first(std::int64_t stamp) {
    run.commit(run.first(), first_worker, clock_index{stamp});
    auto const commits = run.stats().commits + 1;
    REQUIRE(run.until([&] { return run.stats().commits == commits; }));
  }

  played_run run{with(ssp{.staleness = 3}, stable_cut{}), rows};
};

shared_cut cut_of(std::vector<clock_index> below, clock_index c_min) {
  return std::make_shared<commit_cut const>(std::move(below), c_min);
}

}  // namespace

TEST_CASE("server: a cut that goes by an order still on its way is answered when that is here",
          "[tcp][cut]") {
  early_question at;
  at.commit_first(0);
  at.run.to().start_joiners_at(clock_index{2});
  at.run.to().join(second_worker);
  at.run.to().hold_back();  // the server hears of the worker, and not where it starts
  REQUIRE(at.run.until([&] { return at.run.to().has_held_back(); }));
  at.ask_first(cut_of({clock_index{1}, clock_index{2}}, clock_index{1}));
  at.run.to().let_go();
  at.check_answer(1);
}

TEST_CASE("server: a cut that another worker's commit is missing of is answered when that is here",
          "[tcp][cut]") {
  early_question at;
  at.run.to().join(second_worker);
  REQUIRE(at.run.until([&] { return at.run.to().has_started(second_worker); }));
  auto const other = at.run.connected(at.run.network(), second_worker);
  at.commit_first(0);
  at.ask_first(cut_of({clock_index{1}, clock_index{1}}, clock_index{1}));
  at.run.commit(*other, second_worker, clock_index{0});
  at.check_answer(2);
}

TEST_CASE("server: a question that waits for a cut may come again, over the next connection or the same",
          "[tcp][cut]") {
  test::log_capture const log;  // of the cut
  bool const cuts = GENERATE(true, false);
  early_question at;
  at.run.to().join(second_worker);
  REQUIRE(at.run.until([&] { return at.run.to().has_started(second_worker); }));
  auto const other = at.run.connected(at.run.network(), second_worker);
  auto const cut = cut_of({clock_index{0}, clock_index{1}}, clock_index{0});
  at.ask_first(cut);
  if (cuts) {
    at.run.first().cut();
    REQUIRE(at.run.until([&] { return at.run.first().is_up(); }));
  }
  at.ask_first(cut);
  at.run.commit(*other, second_worker, clock_index{0});
  at.check_answer(1);
  at.run.settle();
  CHECK(at.run.first().answers().size() == 1);
}

// ---- single-machine mode

TEST_CASE("server: values of rows are taken from a process that has the tables, and nobody else", "[tcp]") {
  test::log_capture const log;
  bool const moved = GENERATE(false, true);
  played_run run(bsp{}, 3, 1 << 20, {.moved = moved ? std::optional<rules>(bsp{}) : std::nullopt});
  net::asio_network elsewhere;
  auto const stranger = run.connected(elsewhere, second_worker);
  stranger->give(1, 5);
  REQUIRE(run.until([&] { return run.stats().connections_lost == 1; }));
  run.first().give(2, 7);
  run.first().ask(run.to().identity(first_worker), clock_index{0});
  if (moved) {
    REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
    CHECK(run.first().values(0) == std::vector<std::int64_t>{0, 0, 7});
  } else {
    REQUIRE(run.until([&] { return run.stats().connections_lost == 2; }));
  }
  CHECK_THAT(log.warnings(),
             Contains("worker process 1: values of rows came from a process that does not have the tables"));
}

TEST_CASE("server: a coordinator of more servers than there are here, and one that is ahead of itself, end it",
          "[tcp]") {
  test::log_capture const log;
  net::asio_network network;
  test::temporary_folder const folder;
  net::deployment place;
  place.as = net::role::server;
  place.rank = 0;
  place.coordinator.path = folder.file("coordinator");
  place.listen = {.host = {}, .path = folder.file("server")};
  place.silence = long_silence;
  blueprint const plan(std::vector<rules>{asp{}}, 2, {describe(counting{.rows = 4})}, {});
  played_coordinator coordinator(network, place.coordinator, false);
  detail::server_process server(std::make_unique<net::asio_network>(), plan, plan.agreement(), place, 1 << 20, 1 << 20);
  auto const until = [&](auto condition) {
    for (auto const end = net::network::clock::now() + 10s; !condition() && net::network::clock::now() < end;) {
      server.poll();
      network.run_one(net::network::clock::now() + 1ms);
    }
  };
  until([&] { return coordinator.is_up(); });
  SECTION("more servers") {
    coordinator.welcome(2);
    CHECK_THROWS_WITH(server.run(), Contains("gave this server number 2, but it is one of 2"));
  }
  SECTION("ahead of itself") {
    coordinator.admit(0);
    CHECK_THROWS_WITH(server.run(), Contains("before it gave this server its number"));
  }
}

TEST_CASE("server: initial values are taken from worker process 0, and nobody else", "[tcp]") {
  test::log_capture const log;
  net::asio_network network;
  test::temporary_folder const folder;
  net::deployment place;
  place.as = net::role::server;
  place.rank = 0;
  place.coordinator.path = folder.file("coordinator");
  place.listen = {.host = {}, .path = folder.file("server")};
  place.silence = long_silence;
  blueprint const plan(std::vector<rules>{asp{}}, 1, {describe(sparse<std::int64_t, sum>{.rows = 0})}, {});
  played_coordinator coordinator(network, place.coordinator, false);
  detail::server_process server(std::make_unique<net::asio_network>(), plan, plan.agreement(), place, 1 << 20, 1 << 20);
  auto const until = [&](auto condition) {
    for (auto const end = net::network::clock::now() + test::patience; net::network::clock::now() < end;) {
      if (condition()) return true;
      server.poll();
      network.run_one(net::network::clock::now() + 1ms);
    }
    return false;
  };
  REQUIRE(until([&] { return coordinator.is_up(); }));
  coordinator.welcome(0);
  coordinator.admit(first_worker.value());
  coordinator.admit(second_worker.value());
  worker_peer second(network, server.bound(), second_worker.value());
  REQUIRE(until([&] { return second.is_up(); }));
  second.give(1, 5);
  CHECK(until([&] { return server.stats().connections_lost == 1; }));
  worker_peer first(network, server.bound(), first_worker.value());
  REQUIRE(until([&] { return first.is_up(); }));
  first.give(2, 7);
  CHECK(until([&] { return first.has_arrived(); }));
  CHECK(first.lost_for() == "");
  CHECK(server.stats().connections_lost == 1);
  CHECK_THAT(log.warnings(), Contains("worker process 1: initial values came from it, expected them from process 0"));
  coordinator.shut_down();
}
