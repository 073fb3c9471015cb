// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/transport/processes/rows_transfer.hpp>

#include <catch2/catch.hpp>

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

net::deployment of_a_worker() {
  net::deployment p;
  p.reconnect = 300ms;
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

/// What came, and why it ended if that was too early, while `sends` sends in a thread of its own.
struct transfer {
  std::vector<moved_rows> came;
  std::string receiver, sender;

  template <class F>
  explicit transfer(F sends, std::function<void()> const& checkpoint = [] {}) {
    rows_receiver to(sockets(), of_a_worker(), tables(), [this](moved_rows const& r) {
      if (!r.run.count && r.keys.empty()) throw wire::frame_error("rows of nothing");
      came.push_back(r);
    });
    std::jthread other([&, where = to.address(), session = to.session()] {
      try {
        rows_sender from(sockets(), of_a_worker(), where, session, [] {});
        sends(from);
      } catch (std::exception const& e) {
        sender = e.what();
      }
    });
    try {
      to.receive(checkpoint);
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
  rows_receiver to(sockets(), of_a_worker(), tables(), [](moved_rows const&) {});
  std::jthread other([&, where = to.address(), session = to.session()] {
    try {
      rows_sender from(sockets(), of_a_worker(), where, session + 1, [] {});
      from.finish();
    } catch (error const& e) {
      refused = e.what();
    }
  });
  auto const until = std::chrono::steady_clock::now() + 1s;
  CHECK_THROWS_WITH(to.receive([&] {
    if (std::chrono::steady_clock::now() > until) throw std::runtime_error("nobody came");
  }),
                    "nobody came");
  other.join();
  CHECK_THAT(refused, Contains("rows are expected from another process"));
}
