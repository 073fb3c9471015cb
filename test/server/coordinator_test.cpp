// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/server/coordinator.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <optional>

#include "at.hpp"

using namespace rubato;
using test::at;

namespace {

using kind = membership_order::kind;

constexpr worker_id alice{7};

void check_order(std::optional<membership_order> const& o, kind what, std::int64_t clock) {
  REQUIRE(o.has_value());
  CHECK(o->what == what);
  CHECK(o->worker == alice);
  CHECK(o->clock == at(clock));
}

/// A worker that has joined at clock 0 on two shards.
coordinator with_alice() {
  coordinator c(2);
  auto const enlist = c.join(alice, {});
  (void)c.report(enlist, {at(0)});
  (void)c.report(enlist, {at(0)});
  return c;
}

}  // namespace

TEST_CASE("coordinator: a joiner is enlisted, then starts at the greatest of the shards' clocks "
          "(rules §1)") {
  coordinator c(3);
  auto const enlist = c.join(alice, incarnation_id{4});
  CHECK(enlist.what == kind::enlist);
  CHECK(enlist.worker == alice);
  CHECK(enlist.incarnation == incarnation_id{4});
  CHECK_FALSE(c.report(enlist, {at(5)}));
  CHECK_FALSE(c.report(enlist, {at(8)}));
  auto const start = c.report(enlist, {at(6)});
  check_order(start, kind::start, 8);
  CHECK(start->incarnation == incarnation_id{4});
}

TEST_CASE("coordinator: who leaves by itself is dropped below its own clock at once (rules §1)") {
  coordinator c = with_alice();
  check_order(c.leave(alice, at(12)), kind::drop, 12);
  CHECK_FALSE(c.lose(alice));
}

TEST_CASE("coordinator: who is lost is frozen, then dropped below the least of what the shards "
          "received (rules §1)") {
  coordinator c = with_alice();
  auto const freeze = c.lose(alice);
  check_order(freeze, kind::freeze, 0);
  CHECK_FALSE(c.report(*freeze, {at(9)}));
  check_order(c.report(*freeze, {at(7)}), kind::drop, 7);
  CHECK_FALSE(c.lose(alice));
}

TEST_CASE("coordinator: losing twice, or somebody unknown, is nothing to do") {
  coordinator c = with_alice();
  CHECK(c.lose(alice));
  CHECK_FALSE(c.lose(alice));
  CHECK_FALSE(c.lose(worker_id{1}));
}

TEST_CASE("coordinator: a worker lost while it joins is frozen, and its join's late reports count "
          "for nothing") {
  coordinator c(2);
  auto const enlist = c.join(alice, {});
  CHECK_FALSE(c.report(enlist, {at(3)}));
  auto const freeze = c.lose(alice);
  check_order(freeze, kind::freeze, 0);
  CHECK_FALSE(c.report(enlist, {at(4)}));  // overtaken: no start
  CHECK_FALSE(c.report(*freeze, {at(4)}));
  check_order(c.report(*freeze, {at(3)}), kind::drop, 3);
}

TEST_CASE("coordinator: reports about a worker that is gone count for nothing") {
  coordinator c = with_alice();
  auto const freeze = c.lose(alice);
  (void)c.leave(alice, at(2));  // it had ended by itself
  CHECK_FALSE(c.report(*freeze, {at(2)}));
  CHECK_FALSE(c.report(*freeze, {at(2)}));
}

TEST_CASE("coordinator: reports about an earlier incarnation count for nothing (rules §1)") {
  coordinator c(2);
  auto const first = c.join(alice, incarnation_id{0});
  CHECK_FALSE(c.report(first, {at(1)}));
  auto const second = c.join(alice, incarnation_id{1});
  CHECK_FALSE(c.report(first, {at(9)}));
  CHECK_FALSE(c.report(second, {at(2)}));
  check_order(c.report(second, {at(3)}), kind::start, 3);
}

TEST_CASE("coordinator: every order has an epoch of its own, greater than all before (rules §1)") {
  coordinator c(1);
  CHECK(c.epoch() == epoch_id{0});
  auto const enlist = c.join(alice, {});
  auto const start = c.report(enlist, {at(0)});
  auto const freeze = c.lose(alice);
  auto const drop = c.report(*freeze, {at(0)});
  CHECK(epoch_id{0} < enlist.epoch);
  CHECK(enlist.epoch < start->epoch);
  CHECK(start->epoch < freeze->epoch);
  CHECK(freeze->epoch < drop->epoch);
  CHECK(c.epoch() == drop->epoch);
}

TEST_CASE("coordinator: conversations of several workers do not mix") {
  coordinator c(2);
  auto const a = c.join(worker_id{0}, {});
  auto const b = c.join(worker_id{1}, {});
  CHECK_FALSE(c.report(a, {at(1)}));
  CHECK_FALSE(c.report(b, {at(5)}));
  auto const start_b = c.report(b, {at(2)});
  REQUIRE(start_b);
  CHECK(start_b->worker == worker_id{1});
  CHECK(start_b->clock == at(5));
  auto const start_a = c.report(a, {at(2)});
  REQUIRE(start_a);
  CHECK(start_a->worker == worker_id{0});
  CHECK(start_a->clock == at(2));
}

TEST_CASE("coordinator: a joiner starts no lower than cuts have gone, which may be above all shards' clocks (PS-1)") {
  coordinator c(1);
  c.begin_stage(stage_id{1}, true);
  worker_id const other{0};
  for (worker_id const w : {other, alice}) (void)c.report(c.join(w, {}), {at(0)});
  auto const freeze = c.lose(alice);
  c.cuts().report(server_id{0}, other, at(2));
  REQUIRE(freeze);
  check_order(c.report(*freeze, {at(0)}), kind::drop, 0);  // the shard has not dropped it yet, and is held at 0
  (void)c.leave(other, at(2));
  REQUIRE(c.cuts().workers().floor() == at(2));
  auto const start = c.report(c.join(alice, incarnation_id{1}), {at(0)});
  check_order(start, kind::start, 2);
  CHECK(c.cuts().grant(alice, true)->of(alice) == at(2));
}
