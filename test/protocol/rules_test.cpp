// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/rules.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/admission.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/pace.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/revise.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr clock_index at(std::int64_t c) { return clock_index{c}; }

// ---- admission

/// Workers from the second on wait for nobody.
struct first_waits {
  [[nodiscard]] staleness bound() const noexcept { return staleness{2}; }
  [[nodiscard]] clock_index need(clock_index c, staleness s, worker_id w) const noexcept {
    return w.value() == 0 ? c - s : clock_index::lowest();
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness, worker_id w) const noexcept {
    return w.value() == 0 ? c : at(-1);
  }
};

template <admission_policy P>
void check_admits_as(P const& p) {
  admission_rule const made(p);
  admission_rule const copy = made;
  for (admission_rule const& rule : {made, copy}) {
    REQUIRE(rule.bound() == p.bound());
    for (std::int64_t c = 0; c < 9; c += 4)
      for (staleness const s : {staleness{0}, staleness{1}, staleness{5}, staleness::infinite()})
        for (worker_id const w : {worker_id{0}, worker_id{3}}) {
          if constexpr (detail::admits_by_worker<P>) {
            REQUIRE(rule.need(at(c), s, w) == p.need(at(c), s, w));
            REQUIRE(rule.cache_need(at(c), s, w) == p.cache_need(at(c), s, w));
          } else {
            REQUIRE(rule.need(at(c), s, w) == p.need(at(c), s));
            REQUIRE(rule.cache_need(at(c), s, w) == p.cache_need(at(c), s));
          }
        }
  }
}

// ---- merges

/// A merge with versions in which every answer tells what it was asked.
struct odd_versions {
  std::int64_t k;
  [[nodiscard]] double weight(commit_info const& c) const noexcept {
    return 10.0 * c.workers + static_cast<double>(c.from.value());
  }
  [[nodiscard]] version_index map(commit_info const& c) const noexcept {
    return version_index{c.stamp.value() + k};
  }
  [[nodiscard]] double share(version_state const& v) const noexcept { return 0.5 * v.updates; }
  [[nodiscard]] std::optional<double> expire(version_state const& v,
                                             version_window const& w) const noexcept {
    if (v.version >= w.least) return std::nullopt;
    return static_cast<double>(w.c_max.value() - w.c_min.value());
  }
  [[nodiscard]] version_index version_after(version_read const& r) const noexcept {
    return version_index{r.top.value() + r.c_max.value() + k};
  }
};

std::vector<commit_info> some_commits() {
  std::vector<commit_info> all;
  for (std::uint32_t const workers : {1U, 3U, 8U})
    for (std::int64_t const stamp : {0, 5})
      all.push_back({.from = worker_id{workers - 1},
                     .stamp = at(stamp),
                     .c_min = at(stamp - 1),
                     .c_max = at(stamp + 2),
                     .workers = workers,
                     .version = version_index{stamp + 7}});
  return all;
}

template <merge_policy P>
void check_merges_as(P const& p) {
  merge_rule const made(p);
  merge_rule const copy = made;
  for (merge_rule const& rule : {made, copy}) {
    CHECK(rule.exact() == exact_merge<P>);
    CHECK(rule.versioned() == versioned_merge<P>);
    CHECK(rule.type() == typeid(P));
    if constexpr (velocity_merge<P>) CHECK(rule.decay() == p.decay());
    else CHECK(rule.decay() == std::nullopt);
    CHECK((rule.elements() != nullptr) == element_merge<P>);
    CHECK((rule.unshared().elements() != nullptr) == element_merge<P>);
    for (commit_info const& c : some_commits()) CHECK(rule.weight(c) == p.weight(c));
    if constexpr (versioned_merge<P>) {
      for (commit_info const& c : some_commits()) CHECK(rule.map(c) == p.map(c));
      for (std::int64_t const v : {2, 6})
        for (std::uint32_t const updates : {1U, 4U}) {
          version_state const state{version_index{v}, updates};
          version_window const window{version_index{5}, at(3), at(9)};
          version_read const read{version_index{v}, version_index{8}, at(4)};
          CHECK(rule.share(state) == p.share(state));
          CHECK(rule.expire(state, window) == p.expire(state, window));
          CHECK(rule.version_after(read) == p.version_after(read));
        }
    }
  }
}

// ---- paces

struct minute {
  std::int64_t number;
};

/// What a conductor has heard, in order.
struct events {
  std::vector<std::pair<char, std::int64_t>> heard;
};

struct telling_conductor {
  using order_type = minute;
  events* log;
  std::vector<pace_change> made{};

  void join(worker_id w, clock_index c, time_point, pace_orders<minute>& out) {
    log->heard.emplace_back('j', c.value());
    out.push_back({w, {7}});
  }
  void leave(worker_id w) { log->heard.emplace_back('l', w.value()); }
  void commit(worker_id, clock_index c, time_point) { log->heard.emplace_back('c', c.value()); }
  void observe(time_point, double loss) {
    log->heard.emplace_back('o', static_cast<std::int64_t>(loss));
  }
  void tick(time_point t, pace_orders<minute>& out) {
    out.push_back({worker_id{1}, {8}});
    out.push_back({worker_id{2}, {9}});
    made.push_back({t, 9, "because"});
  }
  [[nodiscard]] time_point next_tick() const noexcept { return time_point(3s); }
  [[nodiscard]] time_point next_sample() const noexcept { return time_point(4s); }
  [[nodiscard]] std::span<pace_change const> changes() const noexcept { return made; }
};

struct told_pace {
  events* log;
  std::int64_t steps = 1;

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept {
    return {.steps = steps, .at = p.committed_at + 1s};
  }
  void follow(minute const& m, pace_point const& p) { steps = m.number + p.clock.value(); }
  void spent(duration d) { steps = d / 1s; }
  [[nodiscard]] telling_conductor make_conductor() const {
    if (steps == 66) throw option_error("told_pace: 66");
    return {log};
  }
};
static_assert(conducted_pace<told_pace>);

conductor::order bytes_of(minute const& m) {
  auto const bytes = std::as_bytes(std::span(&m, 1));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

TEST_CASE("admission_rule: admits as the policy it is made of") {
  check_admits_as(barrier{});
  check_admits_as(bounded_staleness{staleness{3}});
  check_admits_as(unbounded{});
  check_admits_as(first_waits{});
}

TEST_CASE("visibility_rule: shows as the policy it is made of") {
  auto const check = [](auto const& p, bool synchronized) {
    using policy = std::remove_cvref_t<decltype(p)>;
    visibility_rule const rule(p);
    CHECK(rule.holds_back() == policy::holds_back);
    CHECK(rule.synchronized() == synchronized);
    CHECK(rule.type() == typeid(policy));
    for (std::int64_t const c : {0, 6}) {
      fold_window const w{.c_min = at(c), .bound = staleness{2}};
      CHECK(rule.horizon(w) == p.horizon(w));
    }
  };
  check(eager{}, false);
  check(strict{}, false);
  check(stable_cut{}, true);
}

TEST_CASE("merge_rule: weighs as the policy it is made of, and keeps versions as that does") {
  check_merges_as(sum{});
  check_merges_as(average{});
  check_merges_as(scale{});
  check_merges_as(scale{.lambda = 0.25});
  check_merges_as(momentum{.mu = 0.75, .eta = 0.125});
  check_merges_as(revise{});
  check_merges_as(revise{.kept = versions::capped});
  check_merges_as(odd_versions{.k = 3});
}

TEST_CASE("pace_rule: is due as the policy it is made of; without a conductor nobody conducts it") {
  pace_rule p(every{5});
  CHECK(p.due({}).steps == 5);
  CHECK_FALSE(p.conducted());
  CHECK(p.orders() == nullptr);
  CHECK(p.make_conductor() == nullptr);
  CHECK_FALSE(p.follow({}, {}));
  p.spent(1h);
  CHECK(p.due({}).steps == 5);
  p = every_step{};
  CHECK(p.due({}).steps == 1);
}

TEST_CASE("pace_rule: a copy follows orders by itself") {
  events log;
  pace_rule a(told_pace{&log, 4});
  CHECK(a.conducted());
  REQUIRE(a.orders() != nullptr);
  CHECK(*a.orders() == typeid(minute));
  pace_point const point{.clock = at(3), .committed_at = time_point(10s)};
  CHECK(a.due(point).at == time_point(11s));
  pace_rule b = a;
  CHECK(a.follow(bytes_of({20}), point));
  CHECK(a.due(point).steps == 23);
  CHECK(b.due(point).steps == 4);
  b.spent(6s);
  CHECK(b.due(point).steps == 6);
  CHECK(a.due(point).steps == 23);
  a = b;
  CHECK(a.follow(bytes_of({0}), point));
  CHECK(a.due(point).steps == 3);
  CHECK(b.due(point).steps == 6);
}

TEST_CASE("pace_rule: what has another size than an order is none") {
  events log;
  pace_rule p(told_pace{&log, 4});
  auto order = bytes_of({20});
  order.pop_back();
  CHECK_FALSE(p.follow(order, {}));
  order.resize(sizeof(minute) + 1);
  CHECK_FALSE(p.follow(order, {}));
  CHECK(p.due({}).steps == 4);
}

TEST_CASE("pace_rule: its conductor hears all, and its orders go out as they lie in memory") {
  events log;
  pace_rule const p(told_pace{&log});
  auto const c = p.make_conductor();
  REQUIRE(c != nullptr);
  conductor::orders out;
  c->join(worker_id{5}, at(2), {}, out);
  REQUIRE(out.size() == 1);
  CHECK(out[0].to == worker_id{5});
  CHECK(out[0].order == bytes_of({7}));
  c->tick(time_point(1s), out);  // which appends
  REQUIRE(out.size() == 3);
  CHECK(out[1].to == worker_id{1});
  CHECK(out[1].order == bytes_of({8}));
  CHECK(out[2].to == worker_id{2});
  CHECK(out[2].order == bytes_of({9}));
  c->commit(worker_id{5}, at(3), {});
  c->observe({}, 12.0);
  c->leave(worker_id{5});
  CHECK(log.heard ==
        std::vector<std::pair<char, std::int64_t>>{{'j', 2}, {'c', 3}, {'o', 12}, {'l', 5}});
  CHECK(c->next_tick() == time_point(3s));
  CHECK(c->next_sample() == time_point(4s));
  REQUIRE(c->changes().size() == 1);
  CHECK(c->changes()[0] == pace_change{time_point(1s), 9, "because"});
  CHECK(p.make_conductor()->changes().empty());  // one for each run
  CHECK_THROWS_AS(pace_rule(told_pace{&log, 66}).make_conductor(), option_error);
}

TEST_CASE("rules: a protocol becomes what its policies answer, and its name") {
  rules const s = ssp{.staleness = 3};
  CHECK(s.name == ssp{}.name());
  CHECK(s.admission.need(at(9), staleness::infinite(), {}) == at(6));
  CHECK(s.visibility.type() == typeid(visibility_of<ssp>));
  CHECK(s.merge.type() == typeid(merge_of<ssp>));
  CHECK(s.pace.due({}).steps == 1);
  rules const d = dyn_sgd{};
  CHECK(d.merge.versioned());
  rules const slow = with(bsp{}, every{10});
  CHECK(slow.name == bsp{}.name());
  CHECK(slow.pace.due({}).steps == 10);
  CHECK(slow.visibility.holds_back());
  struct nameless {
    [[nodiscard]] barrier admission() const { return {}; }
    [[nodiscard]] eager visibility() const { return {}; }
    [[nodiscard]] sum merge() const { return {}; }
    [[nodiscard]] every_step pace() const { return {}; }
  };
  CHECK(rules(nameless{}).name == "custom");
}

TEST_CASE("rules: one policy may be replaced by any of its kind; the others and the name stay") {
  rules const before = bsp{};
  rules const admission = with(before, unbounded{});
  CHECK(admission.admission.bound() == staleness::infinite());
  CHECK(admission.visibility.type() == typeid(strict));
  rules const visibility = with(before, eager{});
  CHECK_FALSE(visibility.visibility.holds_back());
  CHECK(visibility.admission.bound() == staleness{0});
  rules const merge = with(before, momentum{.mu = 0.5});
  CHECK(merge.merge.decay() == 0.5);
  CHECK(merge.visibility.type() == typeid(strict));
  rules const pace = with(before, every{3});
  CHECK(pace.pace.due({}).steps == 3);
  CHECK(pace.merge.type() == before.merge.type());
  for (rules const& r : {admission, visibility, merge, pace}) CHECK(r.name == before.name);
  CHECK(before.pace.due({}).steps == 1);
}

TEST_CASE("rules: several policies are replaced at once, from left to right") {
  rules const r = with(rules(bsp{}), eager{}, every{3}, every{4});
  CHECK(r.visibility.type() == typeid(eager));
  CHECK(r.pace.due({}).steps == 4);
}
