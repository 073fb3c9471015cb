// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/worker.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/replica.hpp>

using namespace rubato;

namespace {

using doubles = std::vector<double>;

constexpr std::uint64_t four_rows = 4;

auto writing(doubles what) {
  return [what = std::move(what)](std::span<double> delta) {
    REQUIRE(delta.size() == what.size());
    std::ranges::copy(what, delta.begin());
  };
}

/// What a table of four rows holds after a run of one worker.
template <class Table, class Body>
doubles left_by(std::uint32_t servers, Table table, Body body) {
  table.rows = four_rows;
  rubato::cluster cluster{simulated{.workers = 1, .servers = servers}, with(bsp{}, sum{}), table};
  cluster.run(body);
  return cluster.parameters();
}
template <class Body>
doubles left_by(std::uint32_t servers, Body body) {
  return left_by(servers, dense<double>{}, body);
}

/// A replica of such a table on so many servers, pushed to by hand.
struct by_hand {
  explicit by_hand(std::uint32_t servers)
      : plan(bsp{}, servers, {describe(dense<double>{.rows = four_rows})}),
        of(make_replica(plan.table(0), servers, 0)) {}

  /// Where the values were written.
  std::byte const* push_in_place(doubles const& what) {
    update_buffer room = of->room();
    std::ranges::copy(what, room->values.as<double>().begin());
    std::byte const* const at = room->values.data();
    of->push_whole(std::move(room));
    return at;
  }
  [[nodiscard]] shared_update commit() { return of->commit(server_id{0}, clock_index{0}, false, false); }

  blueprint plan;
  std::unique_ptr<replica> of;
};

}  // namespace

TEST_CASE("push_in_place: what is written is added, and read by the worker itself at once") {
  for (std::uint32_t const servers : {1U, 3U}) {
    INFO(servers << " servers");
    doubles const left = left_by(servers, [](auto& worker) {
      doubles seen(four_rows);
      worker.push_in_place(writing({1, 2, 3, 4}));
      worker.pull(seen);
      CHECK(seen == doubles{1, 2, 3, 4});
      worker.push_in_place(writing({10, 0, 0, 0}));  // the second one of a clock
      worker.pull(seen);
      CHECK(seen == doubles{11, 2, 3, 4});
      worker.push(std::vector<std::uint64_t>{2}, doubles{100});
      worker.commit();
      worker.push(std::vector<std::uint64_t>{1}, doubles{1000});  // before it
      worker.push_in_place(writing({1, 1, 1, 1}));
      worker.commit();
      CHECK(worker.metrics().pushes == 5);
    });
    CHECK(left == doubles{12, 1003, 104, 5});
  }
}

TEST_CASE("push_in_place: rows are in the order of their keys wherever they lie") {
  doubles const left = left_by(3, dense<double, merge_of_protocol, hash>{}, [](auto& worker) {
    for (int clock = 0; clock < 3; ++clock) {
      worker.push_in_place(writing({1, 2, 3, 4}));
      worker.commit();
    }
  });
  CHECK(left == doubles{3, 6, 9, 12});
}

TEST_CASE("push_in_place: rows that have been read by key hold it, too") {
  (void)left_by(1, [](auto& worker) {
    std::vector<std::uint64_t> const keys{3, 1};
    doubles seen(2);
    worker.pull(keys, seen);
    worker.push_in_place(writing({1, 2, 3, 4}));
    worker.pull(keys, seen);
    CHECK(seen == doubles{4, 2});
    worker.pull(std::vector<std::uint64_t>{0, 3}, seen);
    CHECK(seen == doubles{1, 4});
  });
}

TEST_CASE("push_in_place: with checks on who does not write everything is found out") {
  (void)left_by(1, [](auto& worker) {
    for (int clock = 0; clock < 2; ++clock) {
      worker.push_in_place([](std::span<double> delta) {
        CHECK(std::ranges::all_of(delta, [](double x) { return x != x; }));
        std::ranges::fill(delta, 1);
      });
      worker.commit();
    }
  });
}

TEST_CASE("push_in_place: where one server has the table, it is sent from where it was written") {
  by_hand table(1);
  for (int clock = 0; clock < 3; ++clock) {
    std::byte const* const at = table.push_in_place({1, 2, 3, 4});
    shared_update const sent = table.commit();
    CHECK(sent->values.data() == at);
    CHECK(sent->whole);
    CHECK(sent->values.as<double>()[3] == 4);
  }
  SECTION("not what comes second") {
    std::byte const* const first = table.push_in_place({1, 2, 3, 4});
    std::byte const* const second = table.push_in_place({1, 1, 1, 1});
    CHECK(first != second);
    shared_update const sent = table.commit();
    CHECK(sent->values.data() == first);
    CHECK(sent->values.as<double>()[3] == 5);
  }
}

TEST_CASE("push_in_place: on several servers the room is used again") {
  by_hand table(2);
  std::byte const* const at = table.push_in_place({1, 2, 3, 4});
  CHECK(table.commit()->values.size_bytes() == 2 * sizeof(double));
  std::vector<doubles> const would_take_what_is_free(8, doubles(four_rows));
  CHECK(table.push_in_place({1, 2, 3, 4}) == at);
}

TEST_CASE("push_in_place: nothing is pushed where writing throws, or what is written is not finite") {
  for (std::uint32_t const servers : {1U, 2U}) {
    doubles const left = left_by(servers, dense<double>{.check_finite = true}, [](auto& worker) {
      CHECK_THROWS_AS(worker.push_in_place([](std::span<double> delta) {
        std::ranges::fill(delta, 7);
        throw std::domain_error("no gradient");
      }),
                      std::domain_error);
      constexpr double nan = std::numeric_limits<double>::quiet_NaN();
      CHECK_THROWS_AS(worker.push_in_place(writing({1, nan, 1, 1})), usage_error);
      CHECK(worker.metrics().pushes == 0);
      worker.push_in_place(writing({1, 1, 1, 1}));
    });
    CHECK(left == doubles{1, 1, 1, 1});
  }
}

TEST_CASE("push_in_place: who writes may use the worker: it is added after what that does") {
  doubles const left = left_by(1, [](auto& worker) {
    worker.push_in_place([&](std::span<double> delta) {
      doubles seen(four_rows);
      worker.push_in_place(writing({1, 2, 3, 4}));
      worker.pull(seen);
      CHECK(seen == doubles{1, 2, 3, 4});
      worker.commit();
      std::ranges::transform(seen, delta.begin(), [](double x) { return 10 * x; });
    });
    CHECK(worker.clock() == clock_index{1});
    worker.commit();
  });
  CHECK(left == doubles{11, 22, 33, 44});
}
