// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Large commits before a server: refused, broken off, or of a worker that is lost meanwhile.
#include <rubato/transport/processes/server_process.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/transport/processes/windowed_body.hpp>

#include "transport/processes/server_process_bench.hpp"

using namespace rubato;
using namespace rubato::test::serving_alone;

// ---- commits that are refused

TEST_CASE("server: a commit that may be late is refused and changes nothing, and its connection goes on", "[tcp]") {
  test::log_capture const log;
  constexpr std::size_t rows = 1 << 20;  // 8 MB
  played_run run(asp{}, rows);
  net::asio_network its_own;
  auto const stranger = run.connected(its_own, second_worker);
  auto const join = [&] {
    run.to().join(second_worker);
    REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
  };
  run.commit(*stranger, second_worker, clock_index{0});
  for (int i = 0; i < 3; ++i) {  // as much as fits into the socket
    its_own.poll();
    run.settle();
  }
  REQUIRE(stranger->answers().empty());
  join();  // while it arrives
  REQUIRE(run.until([&] {
    its_own.poll();
    return stranger->answers().size() == 1;
  }));
  CHECK(stranger->answers()[0].header.kind == +wire::kind::refused);
  CHECK(run.stats().refused == 1);
  CHECK(run.stats().commits == 0);

  run.commit(*stranger, second_worker, clock_index{0});
  REQUIRE(run.until([&] {
    its_own.poll();
    return run.stats().commits == 1;
  }));
  run.first().ask(run.to().identity(first_worker), clock_index{0});
  REQUIRE(run.until([&] { return run.first().answers().size() == 1; }));
  CHECK(run.first().values(0) == std::vector<std::int64_t>(rows, 1));
  CHECK(run.stats().connections_lost == 0);
  CHECK(stranger->lost_for() == "");
}

TEST_CASE("server: who commits what it never may is cut off, and hears why", "[tcp]") {
  test::log_capture const log;
  played_run run(asp{}, 4);
  net::asio_network its_own;
  auto const liar = run.connected(its_own, second_worker);
  std::string why;
  SECTION("for a worker that it does not have") {
    run.commit(*liar, second_worker, clock_index{0});
    why = "a commit of worker 1 was refused, for its worker is not in the run";
  }
  SECTION("out of order") {
    run.to().join(second_worker);
    REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
    run.commit(*liar, second_worker, clock_index{1});
    why = "a commit of worker 1 was refused, for it does not come next";
  }
  REQUIRE(run.until([&] {
    its_own.poll();
    return !liar->lost_for().empty();
  }));
  CHECK(liar->lost_for() == why);
  CHECK(run.stats().refused == 1);
  CHECK(run.stats().connections_lost == 1);
  CHECK(run.stats().commits == 0);
}

// ---- a worker that is lost in the middle of a large commit

namespace {

/// A run whose second worker is in the middle of a commit of which the server has folded some.
class half_folded {
 public:
  static constexpr std::size_t rows = 1 << 20;  // 8 MB, and so many windows

  half_folded() {
    run.to().join(second_worker);
    REQUIRE(run.until([&] { return run.to().has_started(second_worker); }));
    sender = run.connected(slow, second_worker);
    run.commit(*sender, second_worker, clock_index{0});
    // Only what fits into the socket comes at a time, which is less than a window.
    std::vector<std::int64_t> seen;
    do {
      slow.poll();
      seen = read();
    } while (seen.front() == 0);
    REQUIRE(seen.back() == 0);
  }

  /// What the first worker sees.
  std::vector<std::int64_t> read() {
    std::size_t const before = run.first().answers().size();
    run.first().ask(run.to().identity(first_worker), clock_index{0});
    REQUIRE(run.until([&] { return run.first().answers().size() == before + 1; }));
    return run.first().values(before);
  }
  /// The stage ends, and with it the first worker.
  shard_counters counted() {
    run.to().lose(first_worker);
    run.to().end_stage();
    REQUIRE(run.until([&] { return run.to().counted().has_value(); }));
    return *run.to().counted();
  }

  played_run run{asp{}, rows};
  net::asio_network slow;
  std::unique_ptr<worker_peer> sender;
};

static_assert(half_folded::rows * sizeof(std::int64_t) > 4 * detail::windowed_body::window_size);

}  // namespace

TEST_CASE("server: a commit whose worker is lost while it is folded counts as folded in part", "[tcp]") {
  test::log_capture const log;
  half_folded at;
  bool const is_cut = GENERATE(true, false);
  if (is_cut) {
    at.sender->cut();
    REQUIRE(at.run.until([&] { return at.run.stats().connections == 1; }));
  }
  at.run.to().lose(second_worker);
  auto const counted = at.counted();
  CHECK(counted.partly_folded == 1);
  CHECK(counted.commits == 0);
}

TEST_CASE("server: a commit whose worker is given up while it is folded is refused, and counts as folded "
          "in part once",
          "[tcp]") {
  test::log_capture const log;
  half_folded at;
  at.run.to().drop(second_worker);
  at.run.settle();
  REQUIRE(at.run.until([&] {
    at.slow.poll();
    return at.run.stats().refused == 1;
  }));
  at.run.to().lose(second_worker);  // there is nothing half done any more
  auto const counted = at.counted();
  CHECK(counted.partly_folded == 1);
  CHECK(counted.commits == 0);
}

TEST_CASE("server: a commit that breaks off while it is folded and comes again counts as a whole", "[tcp]") {
  test::log_capture const log;
  half_folded at;
  at.sender->cut();
  REQUIRE(at.run.until([&] {
    at.slow.poll();
    return at.run.stats().commits == 1;
  }));
  CHECK(at.read() == std::vector<std::int64_t>(half_folded::rows, 1));
  at.run.to().lose(second_worker);
  auto const counted = at.counted();
  CHECK(counted.partly_folded == 0);
  CHECK(counted.commits == 1);
}
