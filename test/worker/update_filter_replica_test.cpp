// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What a worker sees, and its servers have, where a filter leaves small entries out of its commits.
#include <rubato/worker/replica.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <rubato/partition/range.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/server/blueprint.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/update_filter.hpp>

#include "at.hpp"
#include "storage/updates.hpp"
#include "worker/filters.hpp"

using namespace rubato;
using namespace rubato::test::filters;
using test::at;
using test::values_of;

namespace {

/// A worker's replica of a table of 8 rows on two servers, and these servers' rows.
struct setup {
  static constexpr std::uint64_t rows = 8;
  static constexpr std::uint32_t servers = 2;

  explicit setup(update_filter filter)
      : plan(ssp{}, servers,
             {describe(dense<double, merge_of_protocol, range>{.rows = rows, .filter = filter})}),
        own(make_replica(plan.table(0), servers, 0)) {
    for (std::uint32_t s = 0; s < servers; ++s)
      states.push_back(plan.table(0).make_host(server_id{s}, threading::single));
  }

  void push(std::uint64_t k, double x) {
    own->push_rows({&k, 1}, reinterpret_cast<std::byte const*>(&x));
  }

  /// Commits to both servers, which fold at once; the bytes sent.
  std::size_t commit(bool keep, bool flush = false) {
    std::size_t bytes = 0;
    for (std::uint32_t s = 0; s < servers; ++s) {
      auto const u = own->commit(server_id{s}, at(clock), keep, flush);
      weighted_part const step{u.get(), 1.0};
      states[s]->fold({&step, 1}, std::nullopt);
      bytes += u->bytes();
    }
    ++clock;
    return bytes;
  }
  /// Whether a commit that is to send everything would send nothing. What it would have sent is lost.
  bool has_committed_all() {
    bool all = true;
    for (std::uint32_t s = 0; s < servers; ++s)
      all = own->commit(server_id{s}, at(clock), false, true).empty() && all;
    return all;
  }

  /// Fetches the whole table: all own commits are in.
  void fetch() {
    for (std::uint32_t s = 0; s < servers; ++s) {
      own->slot(server_id{s}).stamp = {.server_clock = at(clock), .included = at(clock)};
      states[s]->snapshot(own->slot(server_id{s}).state, {});
    }
    own->accept_base({.at = at(clock), .need = at(clock)});
    for (std::uint32_t s = 0; s < servers; ++s) own->acknowledge(server_id{s}, at(clock));
  }

  /// Fetches a row by key; what the worker sees.
  double fetch(std::uint64_t k) {
    layout::place const place = own->where().locate(key{k});
    read_slot& slot = own->slot(place.server);
    slot.stamp = {.server_clock = at(clock), .included = at(clock)};
    slot.rows = {place.local};
    slot.values.resize_bytes(sizeof(double));
    states[place.server.index()]->read(slot.rows, slot.values.data(), {});
    double seen = 0;
    missing_rows fetched;
    fetched.add(k, 0);
    fetched.places = {place};
    own->accept_rows(fetched, {.at = at(clock), .need = at(clock)},
                     reinterpret_cast<std::byte*>(&seen));
    return seen;
  }

  doubles read() const {
    doubles all(rows);
    own->read_whole(reinterpret_cast<std::byte*>(all.data()));
    return all;
  }
  /// Whatever is cached will do.
  double read(std::uint64_t k) {
    double x = 0;
    missing_rows missing;
    own->read_rows({&k, 1}, {}, true, reinterpret_cast<std::byte*>(&x), missing);
    REQUIRE(missing.empty());
    return x;
  }
  /// What the servers hold.
  doubles state() const {
    doubles all(rows);
    numbers const local{0, 1, 2, 3};
    for (std::uint32_t s = 0; s < servers; ++s)
      states[s]->read(local, reinterpret_cast<std::byte*>(all.data() + 4 * s), {});
    return all;
  }

  blueprint plan;
  std::unique_ptr<replica> own;
  std::vector<std::unique_ptr<table_host>> states;
  std::int64_t clock = 0;
};

}  // namespace

TEST_CASE("replica: without a filter everything is sent") {
  setup t(update_filter{});
  t.push(1, 1e-300);
  CHECK(values_of<double>(*t.own->commit(server_id{0}, at(0), false, false)) == doubles{1e-300});
  CHECK(t.has_committed_all());
}

TEST_CASE("replica: dropped entries are gone from the worker's own view") {
  for (bool const keep : {false, true}) {
    setup t(dropping);
    t.fetch();
    t.push(1, 0.125);
    t.push(2, 4);
    t.push(6, 0.125);
    CHECK(t.read() == doubles{0, 0.125, 4, 0, 0, 0, 0.125, 0});
    t.commit(keep);
    CHECK(t.has_committed_all());
    CHECK(t.own->kept_commits() == (keep ? 1 : 0));
    if (keep) {  // the base lacks the commit, the replica makes up for it
      CHECK(t.read() == doubles{0, 0, 4, 0, 0, 0, 0, 0});
      CHECK(t.read(2) == 4);
      CHECK(t.read(1) == 0);
    }
    t.fetch();
    CHECK(t.own->kept_commits() == 0);
    CHECK(t.read() == doubles{0, 0, 4, 0, 0, 0, 0, 0});
    CHECK(t.state() == t.read());
  }
}

TEST_CASE("replica: a row fetched by key shows what was dropped until it is fetched again") {
  setup t(dropping);
  CHECK(t.fetch(1) == 0);
  t.push(1, 0.125);
  t.commit(true);
  CHECK(t.read(1) == 0.125);
  CHECK(t.fetch(1) == 0);
  CHECK(t.read(1) == 0);
}

TEST_CASE("replica: a commit that was all small is not kept") {
  setup t(dropping);
  t.fetch();
  t.push(1, 0.125);
  CHECK(t.commit(true) == 0);
  CHECK(t.own->kept_commits() == 0);
}

TEST_CASE("replica: carried entries stay in the worker's own view, each exactly once") {
  for (bool const keep : {false, true}) {
    setup t(carrying);
    t.fetch();
    doubles pushed(setup::rows);
    for (int i = 0; i < 20; ++i) {
      for (std::uint64_t k = 0; k < setup::rows; ++k) {
        double const x = std::ldexp(1.0, -static_cast<int>(k)) * (i % 5 == 4 ? -1 : 1);
        if (k == 3 && i % 2 == 0) continue;
        t.push(k, x);
        pushed[k] += x;
      }
      CHECK(t.read() == pushed);
      t.commit(keep);
      if (keep) {
        CHECK(t.read() == pushed);
        CHECK(t.read(5) == pushed[5]);
      }
      CHECK(t.fetch(6) == pushed[6]);
      if (i % 3 == 0 || !keep) t.fetch();
      CHECK(t.read() == pushed);
      CHECK(t.read(6) == pushed[6]);
    }
    CHECK(t.state() != pushed);
    CHECK(t.commit(keep, true) != 0);  // there was something left
    CHECK(t.has_committed_all());
    CHECK(t.state() == pushed);
  }
}

TEST_CASE("replica: a flush sends what would be carried, and not what would be dropped") {
  for (bool const keep : {false, true}) {
    setup t(carrying);
    t.push(1, 0.125);
    CHECK(t.commit(keep) == 0);
    t.push(7, 0.0625);
    t.commit(keep, true);
    CHECK(t.has_committed_all());
    CHECK(t.state() == doubles{0, 0.125, 0, 0, 0, 0, 0, 0.0625});
  }
  setup t(dropping);
  t.push(1, 0.125);
  t.commit(false, true);
  CHECK(t.state()[1] == 0);
}
