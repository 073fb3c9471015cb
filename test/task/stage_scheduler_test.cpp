// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/task/stage_scheduler.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <numeric>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>

#include "seeds.hpp"

namespace rb = rubato;
using namespace std::chrono_literals;
using Catch::Contains;
using rb::node_id;
using rb::placement;
using rb::task_id;

namespace {

rb::time_point at(rb::duration d) { return rb::time_point(d); }

rb::stage_scheduler on_nodes(std::initializer_list<std::uint32_t> workers, rb::schedule_options const& o = {}) {
  rb::stage_scheduler s(o);
  std::uint32_t n = 0;
  for (std::uint32_t const w : workers) s.add_node(node_id{n++}, w);
  return s;
}

/// What is granted now, by task.
std::map<std::uint32_t, placement> grants(rb::stage_scheduler& s, rb::duration now = 0s) {
  std::map<std::uint32_t, placement> all;
  for (auto& g : s.schedule(at(now))) all.emplace(g.task.value(), std::move(g.where));
  return all;
}

rb::stage_demand workers(std::uint32_t n, double priority = 0) { return {.workers = n, .priority = priority}; }

}  // namespace

// ---- where

TEST_CASE("stage_scheduler: all workers go to one node where one has room, else to as few as possible") {
  auto s = on_nodes({4, 8, 4});
  s.ask(task_id{0}, workers(4), at(0s));
  CHECK(grants(s).at(0) == placement{4, 0, 0});
  s.ask(task_id{1}, workers(6), at(0s));
  CHECK(grants(s).at(1) == placement{0, 6, 0});
  s.ask(task_id{2}, workers(5), at(0s));  // 2 and 4 are free
  CHECK(grants(s).at(2) == placement{0, 1, 4});
}

TEST_CASE("stage_scheduler: of several nodes the one that the task has used least recently, with its data first") {
  auto s = on_nodes({2, 2, 2});
  std::vector<std::uint32_t> used;
  auto const next = [&](rb::stage_demand d) {
    s.ask(task_id{0}, std::move(d), at(0s));
    placement const where = grants(s).at(0);
    s.finish(task_id{0});
    return static_cast<int>(std::ranges::find(where, 2U) - where.begin());
  };
  for (int const expected : {0, 1, 2, 0, 1, 2}) CHECK(next(workers(2)) == expected);
  rb::stage_demand near_data = workers(2);
  near_data.data = {node_id{1}, node_id{2}};
  for (int const expected : {1, 2, 1, 2}) CHECK(next(near_data) == expected);
  CHECK(next(workers(2)) == 0);
  CHECK(s.last_use(task_id{0}, node_id{0}) > s.last_use(task_id{0}, node_id{1}));
  CHECK(s.last_use(task_id{7}, node_id{0}) == 0);
}

TEST_CASE("stage_scheduler: a stage that is spread has workers on all nodes, as evenly as there is room") {
  auto s = on_nodes({4, 1, 4});
  auto const spread = [](std::uint32_t n) {
    rb::stage_demand d = workers(n);
    d.spread = true;
    return d;
  };
  s.ask(task_id{0}, spread(2), at(0s));
  CHECK(grants(s).at(0) == placement{1, 1, 0});
  s.ask(task_id{1}, spread(5), at(0s));  // 3, none and 4 are free
  CHECK(grants(s).at(1) == placement{3, 0, 2});
  s.finish(task_id{0});
  s.ask(task_id{0}, spread(2), at(0s));  // on those first that it has used least recently
  CHECK(grants(s).at(0) == placement{1, 0, 1});
  CHECK_THROWS_WITH(s.ask(task_id{2}, spread(10), at(0s)), Contains("no room for 10 workers"));
}

TEST_CASE("stage_scheduler: a stage that is to be on one node waits until one has room for all of it") {
  auto s = on_nodes({4, 6});
  CHECK(s.capacity_of_one_node() == 6);
  s.ask(task_id{0}, workers(3), at(0s));
  CHECK(grants(s).at(0) == placement{3, 0});
  s.ask(task_id{1}, workers(2), at(0s));
  CHECK(grants(s).at(1) == placement{0, 2});
  s.ask(task_id{2}, {.workers = 5, .one_node = true}, at(0s));  // 1 and 4 are free
  CHECK(grants(s).empty());
  s.finish(task_id{0});
  CHECK(grants(s).empty());
  s.finish(task_id{1});
  CHECK(grants(s).at(2) == placement{0, 5});
  CHECK_THROWS_WITH(s.ask(task_id{3}, {.workers = 7, .one_node = true}, at(0s)),
                    Contains("no room for 7 workers on one node") && Contains("one at most 6"));
  s.ask(task_id{3}, workers(7), at(0s));
}

TEST_CASE("stage_scheduler: the node that has a stage's tables comes before all others, if it has room") {
  auto s = on_nodes({4, 4, 4});
  auto const at_home = [](std::uint32_t n) {
    return rb::stage_demand{.workers = n, .home = node_id{1}, .data = {node_id{2}}};
  };
  for (std::uint32_t t = 0; t < 2; ++t) {
    s.ask(task_id{0}, at_home(3), at(0s));
    CHECK(grants(s).at(0) == placement{0, 3, 0});
    if (t == 0) s.finish(task_id{0});
  }
  s.ask(task_id{1}, at_home(2), at(0s));
  CHECK(grants(s).at(1) == placement{0, 0, 2});
}

TEST_CASE("stage_scheduler: history is a task's own") {
  auto s = on_nodes({2, 2});
  s.ask(task_id{0}, workers(2), at(0s));
  CHECK(grants(s).at(0) == placement{2, 0});
  s.finish(task_id{0});
  for (placement const& expected : {placement{2, 0}, placement{0, 2}, placement{2, 0}}) {
    s.ask(task_id{1}, workers(2), at(0s));
    CHECK(grants(s).at(1) == expected);
    s.finish(task_id{1});
  }
}

TEST_CASE("stage_scheduler: a placement that is given is followed strictly") {
  auto s = on_nodes({4, 4});
  s.ask(task_id{0}, {.where = {1, 3}}, at(0s));
  CHECK(grants(s).at(0) == placement{1, 3});
  s.ask(task_id{1}, {.where = {0, 2}}, at(0s));  // fits on the other node; it is not moved there
  CHECK(grants(s).empty());
  s.finish(task_id{0});
  CHECK(grants(s).at(1) == placement{0, 2});
}

TEST_CASE("stage_scheduler: what there is no room for, ever, is refused") {
  auto s = on_nodes({4, 4});
  CHECK_THROWS_WITH(s.ask(task_id{0}, workers(9), at(0s)), Contains("no room for 9 workers"));
  CHECK_THROWS_WITH(s.ask(task_id{0}, {.where = {5, 0}}, at(0s)), Contains("where it asks for them"));
  CHECK_THROWS_AS(s.ask(task_id{0}, {.where = {0, 0, 1}}, at(0s)), rb::option_error);
  CHECK_THROWS_AS(s.ask(task_id{0}, workers(0), at(0s)), rb::option_error);
  CHECK(s.waiting() == 0);
}

// ---- when

TEST_CASE("stage_scheduler: it is time when enough workers are free, or enough time has passed") {
  auto s = on_nodes({4}, {.free_workers = 3, .period = 1s});
  CHECK_FALSE(s.due(at(5s)));  // nobody waits
  CHECK(s.next_time() == rb::time_point::max());
  s.ask(task_id{0}, workers(2), at(5s));
  CHECK(s.due(at(5s)));
  CHECK(grants(s, 5s).size() == 1);
  s.ask(task_id{1}, workers(1), at(5s));
  CHECK_FALSE(s.due(at(5s)));  // 2 are free
  CHECK_FALSE(s.due(at(5'999ms)));
  CHECK(s.next_time() == at(6s));
  CHECK(s.due(at(6s)));
}

// ---- who

TEST_CASE("stage_scheduler: the higher priority comes first, then who has asked earlier") {
  auto s = on_nodes({2});
  s.ask(task_id{0}, workers(2), at(0s));
  s.ask(task_id{1}, workers(2, 5), at(0s));
  s.ask(task_id{2}, workers(2), at(0s));
  std::vector<std::uint32_t> order;
  for (int i = 0; i < 3; ++i) {
    auto const granted = grants(s);
    REQUIRE(granted.size() == 1);
    order.push_back(granted.begin()->first);
    s.finish(task_id{order.back()});
  }
  CHECK(order == std::vector<std::uint32_t>{1, 0, 2});
}

TEST_CASE("stage_scheduler: priority grows with waiting") {
  auto s = on_nodes({2}, {.aging = 1});
  s.ask(task_id{0}, workers(2), at(0s));
  s.ask(task_id{1}, workers(2, 5), at(6s));
  CHECK(grants(s, 6s).contains(0));  // 6 against 5
  s.finish(task_id{0});
  CHECK(grants(s, 6s).contains(1));
}

TEST_CASE("stage_scheduler: who starves locks workers, which nobody else gets") {
  auto s = on_nodes({4}, {.aging = 1, .starving = 10});
  s.ask(task_id{0}, workers(3), at(0s));
  (void)grants(s);
  s.ask(task_id{1}, workers(4), at(0s));
  s.ask(task_id{2}, workers(1), at(10s));
  CHECK(grants(s, 10s).contains(2));  // at 10 it is not above it yet
  s.finish(task_id{2});
  s.ask(task_id{3}, workers(1, 100), at(11s));
  CHECK(grants(s, 11s).empty());
  CHECK(s.starving().size() == 2);  // task 3 as well, but after task 1
  s.finish(task_id{0});
  CHECK(grants(s, 12s) == std::map<std::uint32_t, placement>{{1, {4}}});
  s.finish(task_id{1});
  CHECK(grants(s, 12s).contains(3));
  CHECK(s.starving().empty());
}

TEST_CASE("stage_scheduler: on nodes that nobody starves for the others go on") {
  auto s = on_nodes({4, 2}, {.aging = 1, .starving = 10});
  s.ask(task_id{0}, workers(3), at(0s));
  (void)grants(s);
  s.ask(task_id{1}, {.where = {4, 0}}, at(0s));
  s.ask(task_id{2}, workers(2), at(11s));
  CHECK(grants(s, 11s) == std::map<std::uint32_t, placement>{{2, {0, 2}}});
}

TEST_CASE("stage_scheduler: who withdraws leaves nothing locked") {
  auto s = on_nodes({4}, {.aging = 1, .starving = 1});
  s.ask(task_id{0}, workers(2), at(0s));
  (void)grants(s);
  s.ask(task_id{1}, workers(4), at(0s));
  s.ask(task_id{2}, workers(2), at(5s));
  CHECK(grants(s, 5s).empty());
  s.withdraw(task_id{1});
  CHECK(grants(s, 5s).contains(2));
}

// ---- nodes

TEST_CASE("stage_scheduler: nodes come and go") {
  auto s = on_nodes({2, 2}, {.starving = 1});
  s.ask(task_id{0}, {.where = {1, 1}}, at(0s));
  s.ask(task_id{1}, {.where = {1, 0}}, at(0s));
  CHECK(grants(s).size() == 2);
  CHECK(s.remove_node(node_id{1}) == std::vector{task_id{0}});
  CHECK(s.capacity() == 2);
  CHECK(s.free_workers() == 0);
  s.finish(task_id{0});  // what it has on the other node is its own until then
  CHECK(s.free_workers() == 1);
  s.ask(task_id{2}, workers(2), at(0s));
  CHECK(grants(s, 9s).empty());  // locks node 0
  s.add_node(node_id{1}, 3);
  CHECK(s.capacity() == 5);
  s.finish(task_id{1});
  CHECK(grants(s, 10s).contains(2));
}

TEST_CASE("stage_scheduler: says who asks for more than is left") {
  auto s = on_nodes({4, 2});
  s.ask(task_id{0}, workers(5), at(0s));
  s.ask(task_id{1}, workers(2), at(0s));
  s.ask(task_id{2}, {.where = {1, 0}}, at(0s));
  CHECK_FALSE(s.is_hopeless(task_id{0}));
  CHECK(s.has_node(node_id{0}));
  (void)s.remove_node(node_id{0});
  CHECK_FALSE(s.has_node(node_id{0}));
  CHECK_FALSE(s.has_node(node_id{7}));
  CHECK(s.is_hopeless(task_id{0}));
  CHECK_FALSE(s.is_hopeless(task_id{1}));
  CHECK(s.is_hopeless(task_id{2}));
  CHECK_FALSE(s.is_hopeless(task_id{3}));  // does not ask
}

TEST_CASE("stage_scheduler: who asks for fewer keeps its turn, and locks no more than these") {
  auto s = on_nodes({4, 2}, {.aging = 1, .starving = 1});
  s.ask(task_id{0}, workers(3), at(0s));
  (void)grants(s);
  s.ask(task_id{1}, workers(6), at(0s));
  s.ask(task_id{2}, workers(1), at(1s));
  CHECK(grants(s, 5s).empty());  // task 1 locks all
  (void)s.remove_node(node_id{1});
  CHECK(s.is_hopeless(task_id{1}));
  s.revise(task_id{1}, 3);
  CHECK_FALSE(s.is_hopeless(task_id{1}));
  CHECK(s.starving().front() == task_id{1});
  CHECK(grants(s, 6s).empty());  // the one that is free is locked
  s.finish(task_id{0});
  CHECK(grants(s, 7s) == std::map<std::uint32_t, placement>{{1, {3, 0}}, {2, {1, 0}}});
  CHECK_FALSE(s.is_waiting(task_id{1}));
}

TEST_CASE("stage_scheduler: who asks for fewer leaves what it had locked") {
  auto s = on_nodes({4}, {.aging = 1, .starving = 1});
  s.ask(task_id{0}, workers(2), at(0s));
  (void)grants(s);
  s.ask(task_id{1}, workers(4), at(0s));
  s.ask(task_id{2}, workers(1), at(5s));
  CHECK(grants(s, 5s).empty());
  s.revise(task_id{1}, 1);
  CHECK(grants(s, 5s) == std::map<std::uint32_t, placement>{{1, {1}}, {2, {1}}});
}

TEST_CASE("stage_scheduler: one that fits nowhere since a node was lost does not keep locks from others") {
  auto s = on_nodes({4, 4}, {.aging = 1, .starving = 1});
  s.ask(task_id{0}, {.where = {1, 1}}, at(0s));
  (void)grants(s);
  s.ask(task_id{1}, workers(8), at(0s));
  (void)s.remove_node(node_id{1});
  s.finish(task_id{0});
  s.ask(task_id{2}, workers(1), at(0s));
  CHECK(grants(s).contains(2));
  s.ask(task_id{3}, workers(4), at(0s));
  CHECK(grants(s, 9s).empty());  // tasks 1 and 3 starve, and 3 locks node 0
  s.ask(task_id{4}, workers(1, 5), at(9s));
  CHECK(grants(s, 9s).empty());
  s.finish(task_id{2});
  CHECK(grants(s, 9s).contains(3));
  s.finish(task_id{3});
  s.add_node(node_id{1}, 4);
  s.ask(task_id{5}, workers(1), at(9s));
  CHECK(grants(s, 20s).contains(1));
}

TEST_CASE("stage_scheduler: options that cannot be meant are refused by name") {
  CHECK_THROWS_WITH(rb::stage_scheduler({.free_workers = 0}), Contains("free_workers"));
  CHECK_THROWS_WITH(rb::stage_scheduler({.period = 0ns}), Contains("period"));
  CHECK_THROWS_WITH(rb::stage_scheduler({.aging = -1}), Contains("aging"));
}

// ---- over random demands

namespace {

/// Random demands on random nodes, checked from outside after every step.
class random_load {
 public:
  explicit random_load(std::uint64_t seed) : random_(seed, 0), scheduler_(options()) {
    std::size_t const nodes = 1 + static_cast<std::size_t>(random_.below(5));
    for (std::uint32_t n = 0; n < nodes; ++n) {
      size_.push_back(static_cast<std::uint32_t>(1 + random_.below(8)));
      scheduler_.add_node(node_id{n}, size_.back());
    }
  }

  void step() {
    now_ += std::chrono::milliseconds(random_.below(800));
    switch (random_.below(4)) {
      case 0:
      case 1: return ask();
      case 2: return finish();
      default: return schedule();
    }
  }
  /// All that has been asked for runs in the end.
  void drain() {
    for (int i = 0; !asked_.empty() || !running_.empty(); ++i) {
      REQUIRE(i < 10'000);
      now_ += 1s;
      schedule();
      finish();
    }
  }

 private:
  struct wish {
    rb::stage_demand demand;
    rb::time_point since;
  };

  rb::schedule_options options() {
    return {
        .free_workers = static_cast<std::uint32_t>(1 + random_.below(3)), .period = 500ms, .aging = 1, .starving = 4};
  }
  std::uint32_t capacity() const { return std::accumulate(size_.begin(), size_.end(), 0U); }

  void ask() {
    task_id const t{next_++};
    rb::stage_demand d{.workers = static_cast<std::uint32_t>(1 + random_.below(capacity()))};
    if (random_.chance(0.3)) {
      for (std::uint32_t const n : size_) d.where.push_back(static_cast<std::uint32_t>(random_.below(n + 1)));
      if (rb::workers_of(d.where) == 0) d.where.clear();
    }
    d.priority = static_cast<double>(random_.below(3));
    scheduler_.ask(t, d, now_);
    if (!d.where.empty()) d.workers = rb::workers_of(d.where);
    asked_.emplace(t, wish{d, now_});
  }

  void finish() {
    if (running_.empty()) return;
    auto const at = std::next(running_.begin(), static_cast<std::ptrdiff_t>(random_.below(running_.size())));
    scheduler_.finish(at->first);
    running_.erase(at);
  }

  void schedule() {
    if (!scheduler_.due(now_)) return;
    auto const granted = scheduler_.schedule(now_);
    for (auto const& g : granted) {
      REQUIRE(asked_.contains(g.task));  // each once
      wish const w = asked_.at(g.task);
      REQUIRE(rb::workers_of(g.where) == w.demand.workers);
      if (!w.demand.where.empty()) REQUIRE(g.where == w.demand.where);
      asked_.erase(g.task);
      running_.emplace(g.task, g.where);
    }
    check_room();
    // With nobody running the one that starves longest has begun.
    if (!scheduler_.starving().empty()) REQUIRE_FALSE(running_.empty());
  }

  void check_room() {
    placement busy(size_.size(), 0);
    for (auto const& [t, where] : running_)
      for (std::size_t n = 0; n < where.size(); ++n) busy[n] += where[n];
    for (std::size_t n = 0; n < size_.size(); ++n) REQUIRE(busy[n] <= size_[n]);
    REQUIRE(scheduler_.free_workers() == capacity() - rb::workers_of(busy));
  }

  rb::random_stream random_;
  rb::stage_scheduler scheduler_;
  std::vector<std::uint32_t> size_;
  rb::time_point now_{};
  std::uint32_t next_ = 0;
  std::map<task_id, wish> asked_;
  std::map<task_id, placement> running_;
};

}  // namespace

TEST_CASE("stage_scheduler: random demands are met, each once, and no worker has two of them") {
  for (std::uint64_t i = 0; i < rb::test::seed_count(500); ++i) {
    std::uint64_t const seed = rb::test::first_seed() + i;
    INFO(rb::test::repeat_by(seed));
    random_load load(seed);
    for (int k = 0; k < 200; ++k) load.step();
    load.drain();
  }
}

TEST_CASE("stage_scheduler: a fat stage under a stream of thin ones starts within a bounded number of them") {
  for (std::uint64_t i = 0; i < rb::test::seed_count(300); ++i) {
    std::uint64_t const seed = rb::test::first_seed() + i;
    INFO(rb::test::repeat_by(seed));
    rb::random_stream random(seed, 0);
    auto s = on_nodes({4, 4}, {.aging = 1, .starving = 3});
    rb::time_point now{};
    std::uint32_t next = 1;
    std::vector<task_id> thin;
    auto const fill = [&] {
      while (s.waiting() < 3) s.ask(task_id{next++}, workers(1, static_cast<double>(random.below(4))), now);
      bool fat = false;
      for (auto const& g : s.schedule(now))
        if (g.task == task_id{0}) fat = true;
        else thin.push_back(g.task);
      return fat;
    };
    (void)fill();
    for (int k = 0; k < 4; ++k) (void)fill();
    s.ask(task_id{0}, workers(8), now);
    bool started = false;
    for (int k = 0; k < 200 && !started; ++k) {
      now += std::chrono::milliseconds(300);
      if (!thin.empty()) {
        auto const which = static_cast<std::ptrdiff_t>(random.below(thin.size()));
        s.finish(thin[static_cast<std::size_t>(which)]);
        thin.erase(thin.begin() + which);
      }
      std::size_t const before = thin.size();
      bool const starves = !s.starving().empty() && s.starving().front() == task_id{0};
      started = fill();
      if (starves && !started) REQUIRE(thin.size() <= before);  // nobody overtakes it
    }
    REQUIRE(started);
  }
}
