// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Rules that random runs reach too rarely, or cannot see, each as a case of its own.
#include <catch2/catch.hpp>
#include <cstddef>
#include <rubato/protocol/admission.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/server/coordinator.hpp>
#include <rubato/server/shard_control.hpp>
#include <rubato/worker/row_cache.hpp>
#include <utility>
#include <vector>

using namespace rubato;

namespace {

struct complete_clocks {
  static constexpr bool holds_back = true;
  [[nodiscard]] constexpr clock_index horizon(fold_window const& w) const noexcept {
    return w.c_min;
  }
};

sender from(std::uint32_t w, std::uint32_t life = 0) {
  return {worker_id{w}, incarnation_id{life}, stage_id{1}};
}

/// A server's control in its first stage, with so many workers at clock 0.
shard_control control_of(admission_rule a, visibility_rule v, std::uint32_t workers) {
  shard_control control(std::move(a), std::move(v));
  control.begin_stage(stage_id{1});
  for (std::uint32_t w = 0; w < workers; ++w) (void)control.enlist(worker_id{w}, {});
  return control;
}

void commit(shard_control& control, std::uint32_t w, std::int64_t stamp) {
  REQUIRE(control.accept(from(w), clock_index{stamp}) == refusal::none);
  control.hold({.from = from(w), .stamp = clock_index{stamp}});
  control.complete(from(w), clock_index{stamp});
}

}  // namespace

TEST_CASE("A commit counts once, in order, in its own life and stage", "[rules]") {
  auto control = control_of(bounded_staleness{3}, eager{}, 2);
  REQUIRE(control.accept(from(0), clock_index{0}) == refusal::none);
  control.complete(from(0), clock_index{0});
  CHECK(control.accept(from(0), clock_index{0}) == refusal::order);
  CHECK(control.accept(from(0), clock_index{2}) == refusal::order);
  CHECK(control.accept(from(0, 1), clock_index{1}) == refusal::incarnation);
  CHECK(control.accept({worker_id{0}, {}, stage_id{0}}, clock_index{1}) == refusal::stage);
  CHECK(control.accept(from(7), clock_index{0}) == refusal::stranger);
  CHECK(control.counters().refused == 5);
  CHECK(control.freeze(worker_id{0}) == clock_index{1});
  CHECK(control.accept(from(0), clock_index{1}) == refusal::stranger);
}

TEST_CASE("Under the barrier a stamp is one step of a merge, and M is its commits", "[rules]") {
  auto control = control_of(barrier{}, strict{}, 3);
  commit(control, 2, 0);
  commit(control, 0, 0);
  CHECK(control.take_ready().empty());
  control.drop(worker_id{1}, clock_index{0});
  auto const ready = control.take_ready();
  REQUIRE(ready.size() == 1);
  REQUIRE(ready.front().commits.size() == 2);
  for (held_commit const& c : ready.front().commits) CHECK(c.info.workers == 2);

  auto const next = [] {
    auto wide = control_of(barrier{}, strict{}, 3);
    for (std::uint32_t w = 0; w < 3; ++w) commit(wide, w, 0);
    (void)wide.enlist(worker_id{3}, {});  // at clock 1: it has no part in stamp 0
    return wide.take_ready();
  }();
  REQUIRE(next.size() == 1);
  for (held_commit const& c : next.front().commits) CHECK(c.info.workers == 3);
}

TEST_CASE("The average is over the workers, and ASP reads afresh at each clock", "[rules]") {
  commit_info one_of_four{};
  one_of_four.workers = 4;
  CHECK(average{}.weight(one_of_four) == 0.25);
  CHECK(scale{}.weight(one_of_four) == 0.25);
  CHECK(scale{.lambda = 0.5}.weight(one_of_four) == 0.5);
  CHECK(unbounded{}.cache_need(clock_index{3}, 0) == clock_index::highest());
}

TEST_CASE("A joiner begins at the greatest c_min, a lost worker ends at its least", "[rules]") {
  coordinator members(3);
  auto const enlist = members.join(worker_id{5}, {});
  CHECK_FALSE(members.report(enlist, {clock_index{4}}));
  CHECK_FALSE(members.report(enlist, {clock_index{7}}));
  auto const start = members.report(enlist, {clock_index{6}});
  REQUIRE(start);
  CHECK(start->what == membership_order::kind::start);
  CHECK(start->clock == clock_index{7});
  auto const freeze = members.lose(worker_id{5});
  REQUIRE(freeze);
  CHECK_FALSE(members.report(*freeze, {clock_index{9}}));
  CHECK_FALSE(members.report(*freeze, {clock_index{8}}));
  auto const drop = members.report(*freeze, {clock_index{10}});
  REQUIRE(drop);
  CHECK(drop->what == membership_order::kind::drop);
  CHECK(drop->clock == clock_index{8});
  CHECK_FALSE(members.lose(worker_id{5}));
}

TEST_CASE("A lost worker's commits from the cut on are dropped where they are held back",
          "[rules]") {
  auto control = control_of(bounded_staleness{1}, strict{}, 2);
  for (std::int64_t stamp = 0; stamp < 3; ++stamp) commit(control, 0, stamp);
  REQUIRE(control.take_ready().size() == 1);
  CHECK(control.freeze(worker_id{0}) == clock_index{3});
  control.drop(worker_id{0}, clock_index{2});
  CHECK(control.held_back() == 1);
  CHECK(control.counters().dropped == 1);
  CHECK(control.counters().partly_folded == 0);
}

TEST_CASE("A cached row never makes way for one of an older server clock", "[rules]") {
  row_cache<> rows(1);
  std::byte const newer{5};
  std::byte const older{3};
  CHECK(*rows.put(1, {}, clock_index{4}, &newer) == newer);
  CHECK(*rows.put(1, {}, clock_index{2}, &older) == newer);
  REQUIRE(rows.find(1));
  CHECK(rows.find(1)->mark.server_clock == clock_index{4});
}

TEST_CASE("What is left behind when all are lost is folded by the weight of one", "[rules]") {
  shard_control control(bounded_staleness{1}, strict{});
  control.begin_stage(stage_id{1});
  for (std::uint32_t w = 0; w < 2; ++w) (void)control.enlist(worker_id{w}, {});
  sender const ahead{worker_id{0}, {}, stage_id{1}};
  for (std::int64_t stamp = 0; stamp < 2; ++stamp) {
    REQUIRE(control.accept(ahead, clock_index{stamp}) == refusal::none);
    control.hold({.from = ahead, .stamp = clock_index{stamp}});
    control.complete(ahead, clock_index{stamp});
  }
  REQUIRE(control.take_ready().size() == 1);
  for (std::uint32_t w = 0; w < 2; ++w) control.drop(worker_id{w}, control.freeze(worker_id{w}));
  auto const rest = control.take_ready();
  REQUIRE(rest.size() == 1);
  commit_info const info = rest.front().commits.front().info;
  CHECK(info.workers == 1);
  CHECK(info.c_min == clock_index{0});
  CHECK(info.c_max == clock_index{0});
}

TEST_CASE("A joiner that is lost before it began leaves no commits behind", "[rules]") {
  shard_control control(bounded_staleness{3}, eager{});
  control.begin_stage(stage_id{1});
  (void)control.enlist(worker_id{0}, {});
  sender const first{worker_id{0}, {}, stage_id{1}};
  REQUIRE(control.accept(first, clock_index{0}) == refusal::none);
  control.complete(first, clock_index{0});
  CHECK(control.enlist(worker_id{1}, {}) == clock_index{1});
  CHECK(control.freeze(worker_id{1}) == clock_index{1});
  control.drop(worker_id{1}, clock_index{0});  // another server had registered it at 0
  CHECK(control.counters().partly_folded == 0);
  CHECK(control.counters().dropped == 0);
}

TEST_CASE("Who joins a server that all had left is not told that its commits are in", "[rules]") {
  shard_control control(bounded_staleness{3}, complete_clocks{});
  control.begin_stage(stage_id{1});
  (void)control.enlist(worker_id{0}, {});
  control.drop(worker_id{0}, clock_index{0});
  CHECK(control.take_ready().empty());
  (void)control.enlist(worker_id{1}, {});
  (void)control.enlist(worker_id{2}, {});
  sender const joiner{worker_id{1}, {}, stage_id{1}};
  REQUIRE(control.accept(joiner, clock_index{0}) == refusal::none);
  control.hold({.from = joiner, .stamp = clock_index{0}});
  control.complete(joiner, clock_index{0});
  CHECK(control.take_ready().empty());
  std::vector<worker_id> released;
  control.publish(released);
  CHECK(control.stamp_for(worker_id{1}).included == clock_index{0});
}
