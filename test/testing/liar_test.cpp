// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/liar.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/net/deployment.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/testing/world.hpp>
#include <rubato/transport/tcp.hpp>

using namespace rubato;
using namespace std::chrono_literals;
using Catch::Contains;
using testing::lie;
using testing::simulated_process;

namespace {

constexpr std::int64_t liar_clocks = 6;
constexpr std::size_t liar_rows = 4;

/// Three workers, of which the last says one thing that is not so with its third commit, before one server.
struct run_with_a_liar {
  explicit run_with_a_liar(lie what) {
    net::deployment place{.workers = 3, .servers = 1, .when_lost = net::on_loss::go_on};
    place.coordinator = {.host = "127.0.0.1", .port = 29500};
    auto const add = [&](net::role as, std::optional<std::uint32_t> rank) {
      place.as = as;
      place.rank = rank;
      bool const is_liar = as == net::role::worker && rank == 2u;
      world.add(std::string(net::to_string(as)), [this, what, place, is_liar](simulated_process& me) {
        net::network_maker network = me.network();
        if (is_liar) network = lying_network(std::move(network), lies_of(what));
        train({.place = place, .seed = 1, .network = std::move(network)}, me, is_liar);
      });
    };
    add(net::role::coordinator, {});
    add(net::role::server, 0);
    for (std::uint32_t w = 0; w < 3; ++w) add(net::role::worker, w);
    all_ended = world.run(20s);
    ends = world.ends();
  }

  [[nodiscard]] testing::lies lies_of(lie what) {
    return {.next = [this, what]() -> std::optional<lie> {
              return ++commits == 3 ? std::optional(what) : std::nullopt;
            },
            .told = [this](lie l) { told.push_back(l); }};
  }

  void train(tcp const& transport, simulated_process& me, bool is_liar) {
    cluster c{transport, asp{}, dense<std::int64_t, sum>{.rows = liar_rows}, sparse<std::int64_t, sum>{}};
    c.run([&](auto& w) {
      for (std::int64_t clock = 0; clock < liar_clocks; ++clock) {
        me.work(2ms);
        w.push(std::vector<std::uint64_t>{0, 1}, std::vector<std::int64_t>{1, 1});
        if (clock == 0) w.push(std::vector<std::int64_t>(liar_rows, 0));  // all rows: the table is known to have them
        w[table<1>].push(std::vector<std::uint64_t>{7, 9}, std::vector<std::int64_t>{1, 1});
        w.commit();
      }
    });
    if (is_liar || !c.runtime().has_workers()) return;
    counted = c.template parameters<0>();
    by_key = c.template parameters<1>().values;
  }

  testing::world world{1};
  int commits = 0;
  std::vector<lie> told;
  std::vector<testing::process_end> ends;
  bool all_ended = false;
  std::vector<std::int64_t> counted;
  std::vector<std::int64_t> by_key;
};

}  // namespace

TEST_CASE("liar: what is not so is not taken, and the others go on", "[world]") {
  struct expected {
    lie what;
    char const* reason;
  };
  auto const e = GENERATE(values<expected>({
      {lie::stamp_again, "a commit of worker 2 was refused, for it does not come next"},
      {lie::stamp_ahead, "a commit of worker 2 was refused, for it does not come next"},
      {lie::another_stage, "a commit of worker 2 was refused, for it belongs to another stage"},
      {lie::another_worker, "a commit of worker 0 was refused, for its worker is not in the run"},
      {lie::another_life, "a commit of worker 2 was refused, for it belongs to an earlier incarnation of its worker"},
      {lie::too_many_rows, "an update of table 0 with 1099511627778 rows"},
      {lie::too_few_values, "rows and 15 bytes of values"},
      {lie::too_few_tables, "a commit of 1 tables, expected 2"},
      {lie::strange_row, "row 4611686018427387904 of table 0, which is not on this server"},
      {lie::row_twice, "an update names row 0 twice"},
      {lie::frame_again, "came again, expected"},
      {lie::frame_ahead, "came, expected"},
  }));
  run_with_a_liar const r(e.what);
  INFO(to_string(e.what));
  REQUIRE(r.all_ended);
  REQUIRE(r.told == std::vector{e.what});
  for (auto const& end : r.ends) {
    INFO(end.name << ' ' << end.number);
    if (end.number == 4) CHECK_THAT(end.failure, Contains(e.reason));
    else CHECK(end.failure == "");
  }
  // Two commits of the liar's had come before, and none after.
  std::int64_t const expected_count = 2 * liar_clocks + 2;
  CHECK(r.counted == std::vector<std::int64_t>{expected_count, expected_count, 0, 0});
  CHECK(r.by_key == std::vector<std::int64_t>{expected_count, expected_count});
}

TEST_CASE("liar: what comes once more on another connection counts once", "[world]") {
  run_with_a_liar const r(lie::spare_connection);
  REQUIRE(r.all_ended);
  REQUIRE(r.told == std::vector{lie::spare_connection});
  REQUIRE(r.counted.size() == liar_rows);
  CHECK(r.counted[0] <= 3 * liar_clocks);
  CHECK(r.counted[0] >= 2 * liar_clocks + 2);
  CHECK(r.counted[0] == r.counted[1]);
  CHECK(r.by_key == std::vector<std::int64_t>{r.counted[0], r.counted[0]});
}
