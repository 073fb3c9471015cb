// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/server_group.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/machine_memory.hpp>
#include <rubato/partition/hash.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/server/commit_cut.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/shared_update.hpp>
#include <rubato/storage/sparse.hpp>

using namespace rubato;

namespace {

using doubles = std::vector<double>;
constexpr worker_id lone_worker{0};
constexpr stage_id stage{1};
constexpr std::uint32_t servers = 3;

template <class... Tables>
blueprint plan_of(rules protocol, Tables... tables) {
  return {std::move(protocol), servers, {describe(tables)...}};
}

/// A stage with one worker, on all servers.
void begin(server_group& group) {
  group.begin_stage(stage);
  std::vector<worker_id> released;
  for (std::uint32_t s = 0; s < servers; ++s) {
    shard& one = group.server(server_id{s});
    membership_order o{.what = membership_order::kind::enlist,
                       .worker = lone_worker,
                       .incarnation = {},
                       .clock = {},
                       .epoch = epoch_id{1},
                       .stage = stage,
                       .version = {}};
    REQUIRE(one.order(o, released));
    o.what = membership_order::kind::start;
    o.epoch = epoch_id{2};
    (void)one.order(o, released);
  }
}

/// One in every element of the first table that server `s` holds.
void commit_ones(server_group& group, blueprint const& plan, server_id s, std::int64_t clock) {
  update u;
  u.whole = true;
  u.values.assign_zeros(static_cast<std::size_t>(plan.table(0).where().rows_of(s)) *
                        plan.table(0).row_bytes());
  std::ranges::fill(u.values.as<double>(), 1.0);
  commit_message m{{lone_worker, {}, stage}, clock_index{clock}, {}, {}};
  m.parts.resize(1);
  m.parts[0] = shared_update(std::move(u));
  std::vector<worker_id> released;
  REQUIRE(group.server(s).commit(std::move(m), released) == refusal::none);
}

doubles whole(server_group const& group, std::size_t elements) {
  doubles all(elements);
  group.read_whole(0, reinterpret_cast<std::byte*>(all.data()));
  return all;
}

}  // namespace

TEST_CASE("server_group: a table is read as a whole in the order of its keys, whoever holds them") {
  doubles start(2'000);
  for (std::size_t i = 0; i < start.size(); ++i) start[i] = static_cast<double>(i);
  blueprint const plan = plan_of(
      asp{}, dense<double, merge_of_protocol, hash>{.rows = 1'000, .width = 2, .init = start});
  server_group const group(plan, GENERATE(threading::single, threading::multiple));
  CHECK(group.size() == servers);
  CHECK(whole(group, start.size()) == start);
}

TEST_CASE("server_group: touched rows are read by ascending key, whoever holds them") {
  std::vector<key> keys;
  doubles values;
  for (std::uint64_t i = 100; i-- > 0;) {
    keys.emplace_back(i * 1'000'003);
    values.push_back(static_cast<double>(i));
  }
  blueprint const plan = plan_of(asp{}, sparse<double>{.init_keys = keys, .init = values});
  server_group const group(plan, threading::single);
  std::vector<std::uint64_t> found{7};
  raw_array read;
  group.read_touched(0, found, read);
  REQUIRE(found.size() == 100);
  auto const got = read.as<double>();
  REQUIRE(got.size() == 100);
  for (std::size_t i = 0; i < 100; ++i) {
    CHECK(found[i] == i * 1'000'003);
    CHECK(got[i] == static_cast<double>(i));
  }
}

TEST_CASE("server_group: its updates are those of the server that has received most") {
  blueprint const plan = plan_of(asp{}, dense<double>{.rows = 9});
  server_group group(plan, threading::single);
  begin(group);
  CHECK(group.updates() == 0);
  for (std::int64_t c = 0; c < 3; ++c) commit_ones(group, plan, server_id{1}, c);
  commit_ones(group, plan, server_id{2}, 0);
  CHECK(group.updates() == 3);
  run_report r;
  group.add_counters(r);
  CHECK(r.updates == 3);
  CHECK(r.servers.commits == 4);
  doubles const all = whole(group, 9);
  CHECK(std::ranges::count(all, 3.0) == 3);
  CHECK(std::ranges::count(all, 1.0) == 3);
  CHECK(std::ranges::count(all, 0.0) == 3);
}

TEST_CASE("server_group: servers of one process share its memory, and none is made where it is not enough") {
  blueprint const plan = plan_of(asp{}, dense<double>{.rows = machine_memory() / sizeof(double) + 1});
  CHECK_THROWS_AS(server_group(plan, threading::single), option_error);
}

TEST_CASE("server_group: what nobody reads any more is folded on every server") {
  blueprint const plan = plan_of(with(asp{}, stable_cut{}), dense<double>{.rows = 9});
  server_group group(plan, threading::single);
  begin(group);
  for (std::uint32_t s = 0; s < servers; ++s)
    for (std::int64_t c = 0; c < 2; ++c) commit_ones(group, plan, server_id{s}, c);
  auto const held = [&](std::uint32_t s) {
    return group.server(server_id{s}).inspect([](shard_control const& c) { return c.held_back(); });
  };
  for (std::uint32_t s = 0; s < servers; ++s) CHECK(held(s) == 2);
  std::vector<worker_id> released;
  group.fold_below(stage, commit_cut({clock_index{1}}, clock_index{1}), released);
  for (std::uint32_t s = 0; s < servers; ++s) CHECK(held(s) == 1);
}

TEST_CASE("server_group: a stage begins on every server, with the parameters of the one before") {
  blueprint const plan = plan_of(asp{}, dense<double>{.rows = 9});
  server_group group(plan, threading::single);
  begin(group);
  for (std::uint32_t s = 0; s < servers; ++s) commit_ones(group, plan, server_id{s}, 0);
  group.begin_stage(stage_id{2});
  CHECK(group.updates() == 0);
  CHECK(whole(group, 9) == doubles(9, 1.0));
}
