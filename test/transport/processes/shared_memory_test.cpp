// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A server and a worker process on one machine, of which a test plays one: what is read in the server's memory.
#include <rubato/transport/processes/server_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/transport/processes/arena_view.hpp>

#include "transport/processes/server_process_bench.hpp"
#include "transport/processes/serving.hpp"

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;
using detail::arena_view;

namespace {

constexpr std::size_t shared_rows = 2 * 8192 + 100;  // of int64: two chunks and a little

blueprint plan_of(rules const& p) { return {p, 1, {describe(test::counting{.rows = shared_rows})}}; }

/// A server that shares its memory, and a worker process that says what the test lets it say.
struct sharing_run : test::serving_alone::played_run {
  explicit sharing_run(rules const& p)
      : played_run(plan_of(p), net::server_limits{}, std::uint64_t{1} << 30,
                   std::make_unique<net::asio_network>(), true) {
    REQUIRE(until([&] { return !first().answers().empty(); }));
    auto const& told = first().answers().front();
    REQUIRE(told.header.kind == +wire::kind::memory);
    memory = wire::from_bytes<wire::memory_meta>(told.meta);
    std::string why;
    view = arena_view::open(memory, why);
    INFO(why);
    REQUIRE(view);
  }

  void say_mapped() { first().say(wire::kind::mapped, memory.number); }
  /// The next answer, to a question at this clock.
  test::serving_alone::worker_peer::answer const& ask(std::int64_t clock) {
    std::size_t const before = first().answers().size();
    first().ask(to().identity(test::serving_alone::first_worker), clock_index{clock});
    REQUIRE(until([&] { return first().answers().size() == before + 1; }));
    return first().answers().back();
  }
  static wire::reply_meta meta_of(test::serving_alone::worker_peer::answer const& a) {
    REQUIRE(a.header.kind == +wire::kind::reply);
    return wire::from_bytes<wire::reply_meta>(a.meta);
  }
  /// What lies where the answer says.
  [[nodiscard]] std::vector<std::int64_t> values_of(test::serving_alone::worker_peer::answer const& a) const {
    std::vector<std::int64_t> all(shared_rows);
    auto to = std::as_writable_bytes(std::span(all));
    for (std::size_t i = 0; i < a.body.size() / sizeof(std::uint64_t); ++i) {
      std::uint64_t place = 0;
      std::memcpy(&place, a.body.data() + i * sizeof place, sizeof place);
      std::size_t const n = std::min<std::size_t>(to.size(), 64 * 1024);
      view->check_place(place, n);
      std::memcpy(to.data(), view->at(place), n);
      to = to.subspan(n);
    }
    CHECK(to.empty());
    return all;
  }
  void commit_at(std::int64_t clock) {
    std::uint64_t const before = stats().commits;
    commit(first(), test::serving_alone::first_worker, clock_index{clock});
    REQUIRE(until([&] { return stats().commits == before + 1; }));
  }
  [[nodiscard]] bool holds(wire::reply_meta const& m) const { return view->holds(m.pin, m.slot); }

  wire::memory_meta memory{};
  std::unique_ptr<arena_view> view{};
};

std::vector<std::int64_t> all_of(std::int64_t x) { return std::vector<std::int64_t>(shared_rows, x); }

}  // namespace

TEST_CASE("shared memory: an answer says where the rows lie, and they stay until it is released", "[shm]") {
  bool const eager = GENERATE(true, false);
  sharing_run run(eager ? rules(asp{}) : rules(bsp{}));
  run.say_mapped();
  auto const first = run.ask(0);
  auto const m = run.meta_of(first);
  REQUIRE(m.pin != 0);
  CHECK(first.body.size() == 3 * sizeof(std::uint64_t));
  CHECK(run.holds(m));
  CHECK(run.stats().reads_in_memory == 1);
  std::uint64_t const of_one = run.server().shared_memory()->used();

  run.commit_at(0);
  CHECK(run.values_of(first) == all_of(0));
  CHECK(run.server().shared_memory()->used() == 2 * of_one);
  auto const second = run.ask(1);
  CHECK(run.values_of(second) == all_of(1));
  CHECK(run.values_of(first) == all_of(0));

  run.first().say(wire::kind::released, m.pin);
  run.first().say(wire::kind::released, run.meta_of(second).pin);
  run.first().say(wire::kind::released, 12345);  // which there is not
  REQUIRE(run.until([&] { return !run.holds(run.meta_of(second)); }));
  CHECK_FALSE(run.holds(m));
  CHECK(run.server().shared_memory()->used() == of_one);
  CHECK(run.server().shared_memory()->pinned() == 0);
}

TEST_CASE("shared memory: who has not said that it sees it is sent the rows", "[shm]") {
  sharing_run run(asp{});
  SECTION("nothing") {}
  SECTION("another one's number") { run.first().say(wire::kind::mapped, run.memory.number + 1); }
  auto const a = run.ask(0);
  CHECK(run.meta_of(a).pin == 0);
  CHECK(a.body.size() == shared_rows * sizeof(std::int64_t));
  CHECK(run.stats().reads_in_memory == 0);
}

TEST_CASE("shared memory: where a server limits what it keeps for a process, it is sent the rows", "[shm]") {
  test::serving_alone::played_run run(plan_of(asp{}), {.bytes_max = 1 << 30}, std::uint64_t{1} << 30,
                                      std::make_unique<net::asio_network>(), true);
  CHECK(run.server().shared_memory() == nullptr);
  run.first().ask(run.to().identity(test::serving_alone::first_worker), clock_index{0});
  REQUIRE(run.until([&] { return !run.first().answers().empty(); }));  // of no memory it is told
  CHECK(sharing_run::meta_of(run.first().answers().front()).pin == 0);
}

TEST_CASE("shared memory: who does not release what it has read is sent the rows from then on", "[shm]") {
  sharing_run run(asp{});
  run.say_mapped();
  std::vector<wire::reply_meta> pinned;
  for (std::int64_t clock = 0; clock < 6; ++clock) {
    auto const a = run.ask(clock);
    if (auto const m = run.meta_of(a); m.pin != 0) pinned.push_back(m);
    else CHECK(run.first().values(run.first().answers().size() - 1) == all_of(clock));
    run.commit_at(clock);
  }
  CHECK(pinned.size() == 2);  // of its worker, and of whoever looks on
  CHECK(run.server().shared_memory()->used() <= 3 * (shared_rows * sizeof(std::int64_t) + 1024));
  run.first().say(wire::kind::released, pinned.front().pin);
  CHECK(run.meta_of(run.ask(6)).pin != 0);
}

TEST_CASE("shared memory: what a process reads is given up with its connection, before it changes", "[shm]") {
  test::log_capture const log;
  sharing_run run(asp{});
  run.say_mapped();
  auto const a = run.ask(0);
  auto const m = run.meta_of(a);
  REQUIRE(m.pin != 0);
  std::uint64_t const of_one = run.server().shared_memory()->used();
  std::size_t const before = run.first().answers().size();
  SECTION("which breaks, and the next one is told anew") {
    run.first().cut();
    REQUIRE(run.until([&] { return !run.holds(m); }));
    REQUIRE(run.until([&] { return run.first().answers().size() == before + 1; }));
    CHECK(wire::from_bytes<wire::memory_meta>(run.first().answers().back().meta) == run.memory);
    CHECK(run.meta_of(run.ask(0)).pin == 0);  // nobody has said that it sees it
    run.say_mapped();
    CHECK(run.meta_of(run.ask(0)).pin > m.pin);
  }
  SECTION("which ends, as it says what nobody understands") {
    run.first().babble();
    REQUIRE(run.until([&] { return !run.holds(m); }));
    CHECK(run.server().shared_memory()->pinned() == 0);
    CHECK(run.server().shared_memory()->used() == of_one);
  }
  SECTION("which ends, as it is given up") {
    run.to().lose(test::serving_alone::first_worker);
    REQUIRE(run.until([&] { return !run.holds(m); }));
    CHECK(run.server().shared_memory()->pinned() == 0);
  }
}

// ---- both ends

namespace {

using test::counting;

constexpr std::int64_t clocks_run = 20;

/// Under BSP each read is of all commits of the clocks before, whatever way it has come.
template <class Change>
void train(test::serving const& run, std::uint32_t workers, std::uint32_t threads, counting const& table,
           Change change) {
  test::in_processes(workers, [&](std::uint32_t rank) {
    tcp options = run.process(rank, threads);
    change(options);
    cluster c{options, bsp{}, table};
    std::int64_t const each = workers * threads;
    c.run([&](auto& w) {
      std::vector<std::int64_t> seen(shared_rows);
      for (std::int64_t clock = 0; clock < clocks_run; ++clock) {
        w.pull(seen);
        test::expect(test::are_all(seen, clock * each), "a read is not of the commits of all clocks before");
        w.push(test::ones(shared_rows));
        if (clock % 7 == 3) c.runtime().cut(server_id{0});
        w.step();
      }
    });
    auto const& all = c.parameters();
    test::expect(test::are_all(all, clocks_run * each), "a commit is missing, or counts twice");
  });
}

}  // namespace

TEST_CASE("shared memory: workers read in it, beside others and through breaks, what they have to", "[shm]") {
  test::silence_in_log const silence;
  std::uint32_t const workers = GENERATE(1U, 2U), threads = GENERATE(1U, 2U);
  CAPTURE(workers, threads);
  counting const table{.rows = shared_rows};
  test::serving const run({.workers = workers, .servers = 2}, bsp{}, {describe(table)});
  train(run, workers, threads, table, [](tcp&) {});
  CHECK(run.reads_in_memory() > 0);
  CHECK(run.reads_in_memory() <= run.reads());
  CHECK(run.commits_in_memory() > 0);
}

TEST_CASE("shared memory: it is used only where both ends want it, and rows can lie there", "[shm]") {
  test::silence_in_log const silence;
  counting table{.rows = shared_rows};
  net::deployment shape{.workers = 1, .servers = 1};
  bool worker_shares = true;
  SECTION("the worker does not") { worker_shares = false; }
  SECTION("the server does not") { shape.share_memory = false; }
  SECTION("the rows are few") { table.rows = 2000; }
  std::uint64_t const n = table.rows;
  test::serving const run(shape, bsp{}, {describe(table)});
  tcp options = run.process(0, 1);
  options.place.share_memory = worker_shares;
  {
    cluster c{options, bsp{}, table};
    c.run([&](auto& w) {
      std::vector<std::int64_t> seen(n);
      for (std::int64_t clock = 0; clock < 5; ++clock) {
        w.pull(seen);
        test::expect(test::are_all(seen, clock), "a read is not of the commits before");
        w.push(test::ones(n));
        w.step();
      }
    });
  }
  CHECK(run.reads() > 0);
  CHECK(run.reads_in_memory() == 0);
  CHECK(run.commits_in_memory() == 0);
}

TEST_CASE("shared memory: what a codec writes comes through the socket, and takes no other table's room", "[shm]") {
  dense<float> const coded{.rows = 100 * shared_rows, .codec = {.answers = bfloat16{}}}, plain{.rows = shared_rows};
  test::serving const run({.workers = 1, .servers = 1}, asp{}, {describe(coded), describe(plain)});
  {
    cluster c{run.process(0, 1), asp{}, coded, plain};
    c.run([&](auto& w) {
      std::vector<float> seen(100 * shared_rows);
      w.pull(seen);
      CHECK(run.reads_in_memory() == 0);
      seen.resize(shared_rows);
      w[table<1>].pull(seen);
    });
  }
  CHECK(run.reads_in_memory() == 1);
}

TEST_CASE("shared memory: updates that a server is long about are read there, too", "[shm]") {
  constexpr std::size_t many = 9 * 1024 * 1024;  // 72 MiB of int64
  bool const at_once = GENERATE(true, false);
  rules const protocol = at_once ? rules(asp{}) : rules(bsp{});
  counting const table{.rows = many};
  test::serving const run({.workers = 1, .servers = 1}, protocol, {describe(table)});
  auto const work = [&](auto protocol_here) {
    cluster c{run.process(0, 1), protocol_here, table};
    c.run([&](auto& w) {
      std::vector<std::int64_t> seen(many);
      for (int i = 0; i < 2; ++i) {
        w.pull(seen);
        w.push(test::ones(many));
        w.step();
      }
    });
    test::expect(test::are_all(c.parameters(), 2), "a commit is missing, or counts twice");
  };
  if (at_once) work(asp{});
  else work(bsp{});
  CHECK(run.commits_in_memory() == 2);
}

TEST_CASE("shared memory: while a large update is folded other workers are answered", "[shm]") {
  constexpr std::size_t many = 5 * 1024 * 1024;  // 40 MiB of int64: ten turns
  constexpr std::uint64_t pushes_max = 100;  // the reader may have no processor while one is folded
  counting const table{.rows = many};
  test::serving const run({.workers = 2, .servers = 1}, asp{}, {describe(table)});
  std::atomic<bool> lends = false, answered_between = false, over = false;
  std::uint64_t pushes = 0;
  test::in_processes(2, [&](std::uint32_t rank) {
    cluster c{run.process(rank, 1), asp{}, table};
    c.run([&](auto& w) {
      std::array const ends{key{0}, key{many - 1}};
      std::array<std::int64_t, 2> seen{};
      for (; rank == 0 && pushes < pushes_max && !answered_between; ++pushes) {
        w.push(test::ones(many));
        w.step();
        w.pull(ends, seen);  // after all of it, so that its memory is there for the next
        lends = run.commits_in_memory() > 0;  // before the server has seen that memory they are sent
      }
      if (rank == 0) over = true;
      while (!over) {
        bool const of_lent = lends;
        w.pull(ends, seen);
        if (of_lent && seen[0] != seen[1]) answered_between = true;
        w.step();
      }
    });
  });
  CHECK(answered_between);
}
