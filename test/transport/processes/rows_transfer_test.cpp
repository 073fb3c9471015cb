// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/rows_transfer.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/net/asio_network.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>
#include <rubato/storage/table_description.hpp>

#include "net/ends.hpp"
#include "patience.hpp"

using namespace rubato;
using namespace rubato::detail;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

constexpr std::uint64_t rows_there = 1000;

blueprint const& tables() {
  static blueprint const plan(bsp{}, 1, {describe(dense<std::int64_t, sum>{.rows = rows_there, .width = 2}),
                                         describe(sparse<std::int64_t, sum>{.rows = 50})});
  return plan;
}

/// @param reconnect how long a lost connection is missed, and the first one is tried
net::deployment of_a_worker(std::chrono::milliseconds reconnect) {
  net::deployment p;
  p.reconnect = reconnect;
  return p;
}

std::unique_ptr<net::network> sockets() { return std::make_unique<net::asio_network>(); }

moved_rows some_rows(std::uint64_t first, std::uint64_t count, std::int64_t value, bool changed = false) {
  moved_rows r{.table = 0, .run = {first, count}, .changed = changed};
  r.values.resize_bytes(static_cast<std::size_t>(count) * 2 * sizeof(std::int64_t));
  for (auto& x : r.values.as<std::int64_t>()) x = value++;
  return r;
}

moved_rows some_keys(std::vector<std::uint64_t> keys) {
  moved_rows r{.table = 1};
  r.values.resize_bytes(keys.size() * sizeof(std::int64_t));
  r.keys = std::move(keys);
  return r;
}

/// What came, and why it ended if that was too early, while `sends` sends in a thread of its own, which tries to get
/// through for so long.
struct transfer {
  std::vector<moved_rows> came;
  std::string receiver, sender;

  template <class F>
  explicit transfer(F sends, std::chrono::milliseconds tries = test::patience) {
    rows_receiver to(sockets(), of_a_worker(300ms), tables(), [this](moved_rows const& r) {
      if (!r.run.count && r.keys.empty()) throw wire::frame_error("rows of nothing");
      came.push_back(r);
    });
    std::atomic<bool> gave_up = false;
    std::jthread other([&, where = to.address(), session = to.session()] {
      try {
        rows_sender from(sockets(), of_a_worker(tries), where, session, [] {});
        sends(from);
      } catch (std::exception const& e) {
        sender = e.what();
        gave_up = true;
      }
    });
    try {
      to.receive([&] {
        if (gave_up) throw std::runtime_error("nobody sends any more");
      });
    } catch (std::exception const& e) {
      receiver = e.what();
    }
  }
};

}  // namespace

TEST_CASE("rows_transfer: what is sent comes, in order, with all that is said of it", "[tcp]") {
  transfer const t([](rows_sender& from) {
    from.send(some_rows(0, 3, 100, true));
    from.send(some_keys({49, 7}));
    from.send(some_rows(990, 10, -5));
    from.finish();
  });
  CHECK(t.receiver.empty());
  CHECK(t.sender.empty());
  REQUIRE(t.came.size() == 3);
  CHECK(t.came[0].run == row_run{0, 3});
  CHECK(t.came[0].changed);
  CHECK(t.came[0].values.as<std::int64_t>()[5] == 105);
  CHECK(t.came[1].table == 1);
  CHECK(t.came[1].keys == std::vector<std::uint64_t>{49, 7});
  CHECK_FALSE(t.came[2].changed);
  CHECK(t.came[2].values.as<std::int64_t>()[0] == -5);
}

TEST_CASE("rows_transfer: more than may be under way comes as well", "[tcp]") {
  transfer const t([](rows_sender& from) {
    for (std::int64_t i = 0; i < 3000; ++i) from.send(some_rows(0, rows_there, i));
    from.finish();
  });
  CHECK(t.receiver.empty());
  CHECK(t.sender.empty());
  REQUIRE(t.came.size() == 3000);
  CHECK(t.came.back().values.as<std::int64_t>()[0] == 2999);
}

TEST_CASE("rows_transfer: who makes rows for longer than it tries to get through gets through", "[tcp]") {
  transfer const t(
      [](rows_sender& from) {
        for (std::int64_t i = 0; i < 15; ++i) {
          from.send(some_rows(0, 1, i));
          std::this_thread::sleep_for(100ms);
        }
        from.finish();
      },
      1s);
  CHECK(t.receiver.empty());
  CHECK(t.sender.empty());
  CHECK(t.came.size() == 15);
}

TEST_CASE("rows_transfer: who goes before the end is lost, and none is taken for all", "[tcp]") {
  test::log_capture const log;
  transfer const t([](rows_sender& from) {
    for (std::int64_t i = 0; i < 2000; ++i) from.send(some_rows(0, rows_there, i));  // so that it has been let in
  });
  CHECK_THAT(t.receiver, Contains("was lost while it sent them"));
}

TEST_CASE("rows_transfer: rows that no table has end it for both", "[tcp]") {
  test::log_capture const log;
  for (moved_rows const& wrong : {some_rows(rows_there - 1, 2, 0), some_rows(~std::uint64_t{0}, 1, 0), some_keys({50}),
                                  some_rows(3, 0, 0)}) {
    transfer const t([&](rows_sender& from) {
      from.send(moved_rows(wrong));
      from.finish();
    });
    CHECK(t.came.empty());
    CHECK_THAT(t.receiver, Contains("was lost while it sent them"));
    CHECK_THAT(t.sender, Contains("was lost while they were sent"));
  }
}

TEST_CASE("rows_transfer: nobody else is listened to", "[tcp]") {
  test::log_capture const log;
  std::string refused;
  transfer const t([&](rows_sender& from) {
    from.send(some_rows(0, 3, 1));
    from.finish();
  });
  CHECK(t.came.size() == 1);
  rows_receiver to(sockets(), of_a_worker(300ms), tables(), [](moved_rows const&) {});
  std::atomic<bool> was_there = false;
  std::jthread other([&, where = to.address(), session = to.session()] {
    try {
      rows_sender from(sockets(), of_a_worker(test::patience), where, session + 1, [] {});
      from.finish();
    } catch (error const& e) {
      refused = e.what();
    }
    was_there = true;
  });
  CHECK_THROWS_WITH(to.receive([&] {
    if (was_there) throw std::runtime_error("nobody came");
  }),
                    "nobody came");
  other.join();
  CHECK_THAT(refused, Contains("rows are expected from another process"));
}
