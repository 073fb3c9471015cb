// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What a server takes from one worker process: who goes beyond is cut off and hears why, and the others go on.
#include <rubato/transport/processes/process_usage.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/server/commit_cut.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>

#include "transport/processes/server_process_bench.hpp"

using namespace rubato;
using namespace rubato::test::serving_alone;
using Catch::Contains;

namespace {

using row_numbers = std::vector<std::uint64_t>;
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();

/// A run of two worker processes, of which the second goes beyond a limit.
struct limited_run {
  limited_run(rules const& p, table_description const& t, net::server_limits const& l, table_changes const& c = {})
      : run(blueprint({p}, 1, {t}, {c}), l, std::uint64_t{1} << 30) {
    join(second_worker);
    second = run.connected(its_own, second_worker);
  }
  void join(worker_id w) {
    run.to().join(w);
    REQUIRE(run.until([&] { return run.to().has_started(w); }));
  }
  /// A commit of rows of one float each; of all rows without numbers.
  void commit(worker_peer& from, worker_id w, std::int64_t clock, row_numbers rows, std::vector<float> const& values) {
    auto part = run.plan().table(0).pool().take();
    part->whole = rows.empty();
    part->rows = std::move(rows);
    part->values.resize_bytes(0);
    part->values.append(std::as_bytes(std::span(values)));
    from.commit({run.to().identity(w), clock_index{clock}, version_index{clock}, {std::move(part)}});
  }
  [[nodiscard]] bool has_commits(std::uint64_t n) {
    return run.until([&] {
      its_own.poll();
      return run.stats().commits == n;
    });
  }
  /// The sentence that the second process has been cut off with.
  [[nodiscard]] std::string cut_off() {
    REQUIRE(run.until([&] {
      its_own.poll();
      return !second->lost_for().empty();
    }));
    return second->lost_for();
  }

  test::log_capture log;
  played_run run;
  net::asio_network its_own;
  std::unique_ptr<worker_peer> second;
};

row_numbers rows_between(std::uint64_t first, std::uint64_t end) {
  row_numbers all;
  for (; first < end; ++first) all.push_back(first);
  return all;
}

}  // namespace

TEST_CASE("server limits: who commits what is not finite is cut off, where the server asks for that", "[tcp]") {
  auto const [bad, name] = GENERATE(std::pair{not_a_number, "NaN"}, std::pair{-infinite, "infinity"});
  bool const checks = GENERATE(true, false);
  limited_run l(asp{}, describe(dense<float>{.rows = 4}), {.check_finite = checks});
  l.commit(*l.second, second_worker, 0, {}, {1, 2, 3, 4});
  REQUIRE(l.has_commits(1));
  l.commit(*l.second, second_worker, 1, {1, 3}, {0, bad});
  if (!checks) {
    CHECK(l.has_commits(2));
    return;
  }
  CHECK_THAT(l.cut_off(), Contains("an update of table 0 with " + std::string(name)) && Contains("check_finite"));
  CHECK(l.run.stats().not_finite == 1);
  l.commit(l.run.first(), first_worker, 0, {2}, {9});
  CHECK(l.has_commits(2));
  CHECK(l.run.stats().connections == 1);
}

TEST_CASE("server limits: an update that is folded while it arrives is checked piece by piece", "[tcp]") {
  constexpr std::size_t rows = 1 << 20;
  limited_run l(asp{}, describe(dense<float>{.rows = rows}), {.check_finite = true});
  std::vector<float> values(rows, 1.0F);
  values[rows - 1] = not_a_number;
  l.commit(*l.second, second_worker, 0, {}, values);
  CHECK_THAT(l.cut_off(), Contains("NaN"));
  CHECK(l.run.stats().commits == 0);
}

TEST_CASE("server limits: rows count for who commits them first, and only so many are taken", "[tcp]") {
  limited_run l(asp{}, describe(sparse<float>{}), {.rows_max = 12});
  std::vector<float> const ten(10, 1.0F);
  l.commit(*l.second, second_worker, 0, rows_between(0, 10), ten);
  l.commit(*l.second, second_worker, 1, rows_between(0, 10), ten);  // again
  REQUIRE(l.has_commits(2));
  l.commit(l.run.first(), first_worker, 0, rows_between(5, 15), ten);  // five of them not its own
  REQUIRE(l.has_commits(3));
  l.commit(*l.second, second_worker, 2, rows_between(10, 20), ten);  // five are the first one's
  CHECK_THAT(l.cut_off(), Contains("worker process 1 asks for more, with 10 rows of its own") &&
                              Contains("rows_max of this server is 12"));
  CHECK(l.run.stats().over_limits == 1);
  l.commit(l.run.first(), first_worker, 1, rows_between(15, 20), std::vector<float>(5));
  CHECK(l.has_commits(4));
}

TEST_CASE("server limits: bytes of rows and of commits that are held back", "[tcp]") {
  std::vector<float> const ten(10, 1.0F);
  SECTION("rows, each with its number") {
    limited_run l(asp{}, describe(sparse<float>{}), {.bytes_max = 10 * 12});
    l.commit(*l.second, second_worker, 0, rows_between(0, 10), ten);
    REQUIRE(l.has_commits(1));
    l.commit(*l.second, second_worker, 1, {10}, {1});
    CHECK_THAT(l.cut_off(), Contains("bytes_max of this server is 120"));
  }
  SECTION("rows, where their number is limited, too") {
    limited_run l(asp{}, describe(sparse<float>{}), {.rows_max = 1000, .bytes_max = 10 * 12});
    l.commit(*l.second, second_worker, 0, rows_between(0, 10), ten);
    REQUIRE(l.has_commits(1));
    l.commit(*l.second, second_worker, 1, {10}, {1});
    CHECK_THAT(l.cut_off(), Contains("with 10 rows of its own, 120 bytes: bytes_max of this server is 120"));
  }
  SECTION("commits") {
    limited_run l(bsp{}, describe(dense<float>{.rows = 10}), {.bytes_max = 1000});
    for (std::int64_t i = 0; i < 100; ++i) l.commit(*l.second, second_worker, i, {}, ten);
    CHECK_THAT(l.cut_off(), Contains("bytes that are kept for it: bytes_max of this server is 1000"));
    CHECK(l.run.stats().commits >= 1000 / 100);
    CHECK(l.run.stats().commits <= 1000 / 40 + 1);
  }
}

TEST_CASE("server limits: cuts that questions wait for count, and without cuts none are taken", "[tcp]") {
  auto const cut = [](std::size_t workers, clock_index first) {
    std::vector<clock_index> below(workers, clock_index{0});
    below[0] = first;
    return commit_cut(std::move(below), clock_index{0});
  };
  SECTION("they count") {
    limited_run l(with(ssp{.staleness = 3}, stable_cut{}), describe(dense<float>{.rows = 4}), {.bytes_max = 1000});
    commit_cut const of_1000 = cut(1000, clock_index{5});  // which nobody has committed up to
    l.second->ask(l.run.to().identity(second_worker), clock_index{0}, &of_1000);
    l.second->ask(l.run.to().identity(second_worker), clock_index{0}, &of_1000);
    CHECK_THAT(l.cut_off(), Contains("8000 bytes that are kept for it: bytes_max of this server is 1000"));
  }
  SECTION("none are taken") {
    limited_run l(bsp{}, describe(dense<float>{.rows = 4}), {});
    commit_cut const of_two = cut(2, clock_index{0});
    l.second->ask(l.run.to().identity(second_worker), clock_index{1}, &of_two);
    CHECK_THAT(l.cut_off(), Contains("a request of a cut, which there are none of under this protocol"));
  }
}

TEST_CASE("server limits: rows of a commit that is refused are nobody's", "[tcp]") {
  constexpr std::uint64_t many = 60'000;  // more than the system keeps for who does not read
  limited_run l(asp{}, describe(sparse<float>{}), {.rows_max = many});
  std::vector<float> const values(many, 1.0F);
  l.commit(*l.second, second_worker, 0, rows_between(0, many), values);
  l.run.settle();
  l.run.to().drop(second_worker);  // while they arrive
  l.run.settle();
  REQUIRE(l.run.until([&] {
    l.its_own.poll();
    return l.run.stats().refused == 1;
  }));
  l.commit(l.run.first(), first_worker, 0, rows_between(0, many), values);
  REQUIRE(l.has_commits(1));
  l.commit(l.run.first(), first_worker, 1, {many}, {1});
  CHECK(l.run.until([&] { return l.run.stats().over_limits == 1; }, std::chrono::seconds(2)));
}

TEST_CASE("server limits: rows of a commit that comes too late for its round are nobody's", "[tcp]") {
  std::vector<float> const ten(10, 1.0F);
  limited_run l(k_sync{.k = 1}, describe(sparse<float>{}), {.rows_max = 12});
  l.commit(l.run.first(), first_worker, 0, {100}, {1});
  REQUIRE(l.has_commits(1));
  l.commit(*l.second, second_worker, 0, rows_between(0, 10), ten);  // of a round that is over
  REQUIRE(l.has_commits(2));
  l.commit(*l.second, second_worker, 1, rows_between(10, 20), ten);
  REQUIRE(l.has_commits(3));
  l.commit(*l.second, second_worker, 2, rows_between(0, 3), {1, 1, 1});
  CHECK_THAT(l.cut_off(), Contains("with 10 rows of its own"));
}

TEST_CASE("server limits: rows that a stage takes out of a table are nobody's", "[tcp]") {
  std::vector<float> const ten(10, 1.0F);
  SECTION("they are cleared") {
    limited_run l(asp{}, describe(sparse<float>{}), {.rows_max = 12}, {.cleared = {0}});
    l.commit(*l.second, second_worker, 0, rows_between(0, 10), ten);
    REQUIRE(l.has_commits(1));
    bool const clears = GENERATE(true, false);
    l.run.to().begin_next_stage(clears);
    l.join(second_worker);
    l.commit(*l.second, second_worker, 0, rows_between(10, 20), ten);
    if (!clears) {
      CHECK_THAT(l.cut_off(), Contains("with 10 rows of its own"));
      return;
    }
    CHECK(l.has_commits(2));
    l.commit(*l.second, second_worker, 1, rows_between(0, 3), {1, 1, 1});  // which were its own
    CHECK_THAT(l.cut_off(), Contains("with 10 rows of its own"));
  }
  SECTION("the stage before is undone") {
    limited_run l(asp{}, describe(sparse<float>{}), {.rows_max = 12});
    l.commit(*l.second, second_worker, 0, rows_between(0, 5), std::vector<float>(5, 1.0F));
    REQUIRE(l.has_commits(1));
    l.run.to().begin_next_stage(false, recovery::keep);
    l.join(second_worker);
    l.commit(*l.second, second_worker, 0, rows_between(5, 10), std::vector<float>(5, 1.0F));
    REQUIRE(l.has_commits(2));
    l.run.to().begin_next_stage(false, recovery::restore);
    l.join(second_worker);
    l.commit(*l.second, second_worker, 0, rows_between(20, 27), std::vector<float>(7, 1.0F));
    CHECK(l.has_commits(3));
    l.commit(*l.second, second_worker, 1, {27}, {1});
    CHECK_THAT(l.cut_off(), Contains("with 12 rows of its own"));
  }
}

TEST_CASE("server limits: of an answer counts what is kept for it, not what is yet to be taken from the table",
          "[tcp]") {
  constexpr std::size_t rows = 1 << 20;
  bool const streamed = GENERATE(true, false);
  rules const protocol = streamed ? rules(asp{}) : rules(bsp{});
  limited_run l(protocol, describe(dense<float>{.rows = rows}), {.bytes_max = 2'000'000});
  auto const ask = [&] { l.second->ask(l.run.to().identity(second_worker), clock_index{0}); };
  ask();
  REQUIRE(l.run.until([&] { return l.run.stats().reads == 1; }));
  ask();  // and nothing has been read
  if (!streamed) {
    CHECK(l.run.until([&] { return l.run.stats().over_limits == 1; }));
    return;
  }
  REQUIRE(l.run.until([&] {
    l.its_own.poll();
    return l.second->answers().size() == 2;
  }));
  CHECK(l.second->answers().back().body.size() == rows * sizeof(float));
}
