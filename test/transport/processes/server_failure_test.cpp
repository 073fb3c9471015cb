// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Servers that fail by themselves, and not for what a worker has sent.
#include <rubato/transport/processes/server_process.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/storage/bfloat16.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/store_host.hpp>
#include <rubato/transport/tcp.hpp>

#include "transport/processes/server_process_bench.hpp"
#include "transport/processes/serving.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

/// Cannot say what some commits are worth.
struct fails_at_clock {
  std::int64_t clock = 3;
  [[nodiscard]] double weight(commit_info const& c) const noexcept {
    return c.stamp.value() == clock ? std::numeric_limits<double>::quiet_NaN() : 1.0;
  }
  [[nodiscard]] std::uint64_t fingerprint() const noexcept { return 0xfa11; }
};
static_assert(merge_policy<fails_at_clock>);

using failing_table = dense<double, fails_at_clock>;

/// Cannot be read as a whole.
struct unreadable_store {
  using value_type = float;
  static constexpr bool bounded = true;
  explicit unreadable_store(store_shape const& s) : shape(s) {}
  void assign(row_values<float> const&) {}
  void fold(std::span<weighted_update<float> const>) {}
  void read(std::span<std::uint64_t const> rows, float* out) const { std::fill_n(out, rows.size() * shape.width, 0.F); }
  void copy(std::uint64_t, std::uint64_t, float*) const { throw std::runtime_error("the disk cannot be read"); }
  [[nodiscard]] std::size_t bytes() const { return 1; }
  store_shape shape;
};
struct unreadable : dense<float, sum> { using store = unreadable_store; };

}  // namespace

TEST_CASE("server: its own failure ends the run for all, and nobody is blamed for it", "[tcp][loss]") {
  test::silence_in_log const silence;
  constexpr std::uint32_t workers = 2;
  auto const run_under = [&](auto protocol, std::size_t rows, bool shares = true) {
    failing_table const table{.rows = rows};
    net::deployment const shape{
        .workers = workers, .servers = 1, .when_lost = net::on_loss::go_on, .share_memory = shares};
    test::serving const run(shape, protocol, {describe(table)});
    std::vector<std::string> heard(workers);
    std::atomic<bool> has_failed = false;  // for the first worker, whose commit it is
    test::in_processes(workers, [&](std::uint32_t rank) {
      try {
        cluster c{run.process(rank, 1), protocol, table};
        c.run([&](auto& w) {
          std::vector<double> seen(rows);
          for (int after = 0; after < 100; after += has_failed ? 1 : 0) {
            w.pull(seen);
            if (rank == 0) w.push(std::vector<double>(rows, 1));
            w.step();
          }
        });
      } catch (error const& e) {
        heard[rank] = e.what();
      }
      if (rank == 0) has_failed = true;
    });
    for (std::string const& sentence : heard)
      CHECK_THAT(sentence, Contains("server 0: table 0: its merge gives the weight nan to commit 3 of worker "));
  };
  SECTION("as commits come") { run_under(asp{}, 4); }
  SECTION("while one waits for the other") { run_under(bsp{}, 4); }
  SECTION("as it folds a large one window by window") { run_under(asp{}, 300'000, false); }
  SECTION("as it folds one that is lent turn by turn") { run_under(asp{}, 2'200'000); }
}

TEST_CASE("server: a table that cannot be read while it is sent ends the run for all, and no connection",
          "[tcp][loss]") {
  test::silence_in_log const silence;
  bool const is_coded = GENERATE(false, true);
  unreadable table{{.rows = 50'000}};
  if (is_coded) table.codec.answers = bfloat16{};
  net::deployment const shape{.workers = 1, .servers = 1, .when_lost = net::on_loss::go_on};
  test::serving const run(shape, asp{}, {describe(table)});
  std::string heard;
  test::in_processes(1, [&](std::uint32_t) {
    try {
      cluster c{run.process(0, 1), asp{}, table};
      c.run([&](auto& w) {
        std::vector<float> all(50'000);
        w.pull(all);
      });
    } catch (error const& e) {
      heard = e.what();
    }
  });
  CHECK_THAT(heard, Contains("server 0: the disk cannot be read"));
}

TEST_CASE("server: a coordinator that leaves in the middle of a run has not ended it", "[tcp][loss]") {
  test::log_capture const log;
  test::serving_alone::played_run run(asp{}, 10);
  run.to().leave();
  REQUIRE(run.until([&] { return !run.server().failure().empty(); }));
  CHECK(run.server().failure() == "the coordinator was lost: it has left before the run was over");
}
