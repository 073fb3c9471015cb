// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Several reads together, which the test itself answers late, or refuses to ask.
#include <rubato/worker/reader.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include <rubato/core/element.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/worker/endpoint.hpp>

#include "idle_endpoint.hpp"

namespace rb = rubato;

namespace {

/// Answers that everything else is in, but of the first table as of before the last own commit.
class lagging final : public rb::test::idle_endpoint {
 public:
  void request(rb::server_id, std::size_t table, rb::read_header const& read, rb::read_slot& slot) override {
    slot.stamp = {.server_clock = read.clock, .included = table == 0 ? read.clock - rb::staleness{1} : read.clock};
    slot.values.assign_zeros(slot.rows.size() * sizeof(double));
  }
  [[nodiscard]] bool shares_reads() const noexcept override { return true; }
};

}  // namespace

TEST_CASE("own commits that one answer lacks stay, whatever another one of the same read includes (SSP-2)") {
  lagging link;
  rb::blueprint const plan(rb::ssp{.staleness = 3}, 1,
                           {rb::describe(rb::dense<double>{.rows = 4}), rb::describe(rb::dense<double>{.rows = 4})});
  rb::sender const self{};
  rb::detail::argument_check const check(plan, 0, 0);
  rb::pacer pace(plan.protocol().pace, self.worker);
  rb::worker_metrics metrics;
  rb::detail::reader reads(link, plan, 0, self, rb::server_id{0}, check, pace, metrics);
  reads.start({});
  std::array<std::uint64_t, 1> const row{2};
  std::array const one{1.0};
  reads.replica_of(0).push_rows(row, reinterpret_cast<std::byte const*>(one.data()));
  reads.prepare_commit(false);
  for (std::size_t const table : {0U, 1U})
    (void)reads.replica_of(table).commit(rb::server_id{0}, reads.clock(), reads.keeps_commit(table), false);
  reads.next_clock();
  std::array<double, 1> first{}, second{};
  auto* const out = reinterpret_cast<std::byte*>(first.data());
  SECTION("asked for ahead") {
    for (std::size_t const table : {0U, 1U}) reads.prefetch_rows(table, row);
    reads.pull_rows(0, row, out, 1, std::nullopt);
  }
  SECTION("together") {
    constexpr auto kind = rb::element_type::float64;
    std::array const wishes{rb::pull_wish(1, kind, row, reinterpret_cast<std::byte*>(second.data()), 1),
                            rb::pull_wish(0, kind, row, out, 1)};
    reads.pull_together(wishes, std::nullopt);
  }
  CHECK(first[0] == 1.0);
  CHECK(second[0] == 0.0);
  reads.end();
}

namespace {

/// Answers with sevens where it is waited for. When it cannot ask, it withdraws what it has asked for before, as
/// processes do.
class withdrawing final : public rb::test::idle_endpoint {
 public:
  void request(rb::server_id, std::size_t, rb::read_header const&, rb::read_slot& slot) override {
    if (asked_.size() == room) {
      asked_.clear();
      throw std::bad_alloc();
    }
    slot.state.receive(0, sizeof(double), [](std::byte*, std::size_t, std::size_t) {});
    slot.values.resize_bytes(slot.rows.size() * sizeof(double));
    std::ranges::fill(slot.values.bytes(), std::byte{});
    asked_.push_back(&slot);
  }
  void start() override {
    if (starts) return;
    asked_.clear();
    throw std::bad_alloc();
  }
  void wait() override {
    auto const write = [](std::byte* to, std::size_t bytes) {
      std::fill_n(reinterpret_cast<double*>(to), bytes / sizeof(double), 7.0);
    };
    for (rb::read_slot* const slot : std::exchange(asked_, {})) {
      slot->stamp = {};
      write(slot->values.data(), slot->values.size_bytes());
      for (auto const& piece : slot->scattered) write(piece.data(), piece.size());
      if (slot->asked == rb::selection::all && slot->scattered.empty())
        slot->state.receive(4 * sizeof(double), sizeof(double),
                            [&](std::byte* to, std::size_t bytes, std::size_t) { write(to, bytes); });
    }
  }
  [[nodiscard]] bool scatters() const noexcept override { return true; }

  std::size_t room = 100;  ///< questions at a time
  bool starts = true;      ///< else it cannot send them

 private:
  std::vector<rb::read_slot*> asked_;
};

/// A worker with two tables of four rows on one server.
struct reader_of_two {
  withdrawing link;
  rb::blueprint plan{rb::ssp{.staleness = 3},
                     1,
                     {rb::describe(rb::dense<double>{.rows = 4}), rb::describe(rb::dense<double>{.rows = 4})}};
  rb::detail::argument_check check{plan, 0, 0};
  rb::pacer pace{plan.protocol().pace, rb::worker_id{}};
  rb::worker_metrics metrics;
  rb::detail::reader reads{link, plan, 0, rb::sender{}, rb::server_id{0}, check, pace, metrics};
};

std::byte* bytes_of(std::vector<double>& values) { return reinterpret_cast<std::byte*>(values.data()); }

}  // namespace

TEST_CASE("prefetches: where one cannot be asked for, none is under way any more") {
  reader_of_two w;
  w.reads.start({});
  std::array<std::uint64_t, 1> const row{2};
  w.reads.prefetch_rows(0, row);
  w.link.room = 1;
  CHECK_THROWS_AS(w.reads.prefetch_rows(1, row), std::bad_alloc);
  w.link.room = 100;
  for (std::size_t const table : {0U, 1U}) {
    std::vector<double> read(1);
    w.reads.pull_rows(table, row, bytes_of(read), 1, std::nullopt);
    CHECK(read == std::vector{7.0});
  }
  CHECK(w.metrics.fetches == 2);
  w.reads.end();
}

TEST_CASE("prefetches: one that cannot be sent is not under way") {
  reader_of_two w;
  w.reads.start({});
  std::array<std::uint64_t, 1> const row{2};
  w.link.starts = false;
  CHECK_THROWS_AS(w.reads.prefetch_rows(0, row), std::bad_alloc);
  w.link.starts = true;
  std::vector<double> read(1);
  w.reads.pull_rows(0, row, bytes_of(read), 1, std::nullopt);
  CHECK(read == std::vector{7.0});
  CHECK(w.metrics.fetches == 1);
  w.reads.end();
}

TEST_CASE("pull_together: one that cannot be asked for leaves nothing behind") {
  constexpr auto kind = rb::element_type::float64;
  for (std::size_t room = 0; room < 2; ++room) {
    reader_of_two w;
    w.reads.start({});
    std::vector<double> once(4), first(4, -1.0), second(4), third(4);
    w.reads.pull_whole(0, bytes_of(once), 4, std::nullopt);
    w.reads.next_clock();
    w.reads.next_clock();
    w.reads.next_clock();
    w.reads.next_clock();
    w.link.room = room;
    std::array const wishes{rb::pull_wish(0, kind, bytes_of(first), 4), rb::pull_wish(1, kind, bytes_of(second), 4)};
    CHECK_THROWS_AS(w.reads.pull_together(wishes, std::nullopt), std::bad_alloc);
    w.link.room = 100;
    w.reads.prefetch_whole(0);  // to where it is kept
    w.reads.pull_whole(0, bytes_of(third), 4, std::nullopt);
    CHECK(third == std::vector<double>(4, 7.0));
    CHECK(first == std::vector<double>(4, -1.0));
    w.reads.pull_together(wishes, std::nullopt);
    CHECK(first == std::vector<double>(4, 7.0));
    CHECK(second == std::vector<double>(4, 7.0));
    w.reads.end();
  }
}
