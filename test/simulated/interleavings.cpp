// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Every order in which three workers can make three clocks, against brute force.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <compare>
#include <rubato/protocol/admission.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/server/shard_control.hpp>
#include <set>
#include <utility>
#include <vector>

using namespace rubato;

namespace {

constexpr std::uint32_t workers = 3;
constexpr std::int64_t clocks = 3;

/// A shard's control, and what it should do, told by scanning everything.
class exploration {
 public:
  exploration(admission_rule a, visibility_rule v)
      : admission_(std::move(a)), visibility_(std::move(v)) {}

  std::size_t run() {
    shard_control control(admission_, visibility_);
    control.begin_stage(stage_id{1});
    for (std::uint32_t w = 0; w < workers; ++w) (void)control.enlist(worker_id{w}, {});
    visit(control, {});
    return visited_.size();
  }

 private:
  struct position {
    std::array<std::int64_t, workers> clock{};
    std::array<bool, workers> waits{};
    std::array<bool, workers> admitted{};
    std::array<std::int64_t, workers> folded{};  // commits
    auto operator<=>(position const&) const = default;
  };

  static std::int64_t least(position const& p) { return std::ranges::min(p.clock); }

  [[nodiscard]] bool may_go(position const& p, std::uint32_t w) const {
    auto const s = admission_.bound();
    return s.is_infinite() || p.clock[w] - s.clocks() <= least(p);
  }

  [[nodiscard]] std::int64_t visible(position const& p, std::uint32_t w) const {
    auto const s = admission_.bound();
    if (!visibility_.holds_back() || s.is_infinite()) return p.clock[w];
    return std::min(p.clock[w], least(p) + s.clocks());
  }

  void visit(shard_control const& control, position const& p) {
    if (!visited_.insert(p).second) return;
    check(control, p);
    for (std::uint32_t w = 0; w < workers; ++w) {
      if (p.admitted[w] && p.clock[w] < clocks) commit(control, p, w);
      if (!p.admitted[w] && !p.waits[w]) arrive(control, p, w);
    }
  }

  void arrive(shard_control control, position p, std::uint32_t w) {
    bool const in = control.admit({from(w), clock_index{p.clock[w]}, admission_.bound()});
    REQUIRE(in == may_go(p, w));
    (in ? p.admitted : p.waits)[w] = true;
    visit(control, p);
  }

  void commit(shard_control control, position p, std::uint32_t w) {
    clock_index const stamp{p.clock[w]};
    REQUIRE(control.accept(from(w), stamp) == refusal::none);
    if (visibility_.holds_back())
      control.hold({.from = from(w), .stamp = stamp});
    else
      ++p.folded[w];
    control.complete(from(w), stamp);
    ++p.clock[w];
    p.admitted[w] = false;
    std::pair<clock_index, worker_id> last{clock_index::lowest(), {}};
    for (auto const& group : control.take_ready())
      for (held_commit const& c : group.commits) {
        commit_info const& info = c.info;
        REQUIRE(std::pair(info.stamp, info.from) > last);  // in the order (stamp, worker)
        last = {info.stamp, info.from};
        REQUIRE(info.stamp.value() == p.folded[info.from.index()]++);
        REQUIRE(info.workers == workers);
      }
    std::vector<worker_id> released;
    control.publish(released);
    let_in(p, released);
    visit(control, p);
  }

  /// Exactly those whose need is met now.
  void let_in(position& p, std::vector<worker_id> const& released) {
    std::set<worker_id> const in(released.begin(), released.end());
    REQUIRE(in.size() == released.size());
    for (std::uint32_t w = 0; w < workers; ++w) {
      REQUIRE(in.contains(worker_id{w}) == (p.waits[w] && may_go(p, w)));
      if (!in.contains(worker_id{w})) continue;
      p.waits[w] = false;
      p.admitted[w] = true;
    }
  }

  void check(shard_control const& control, position const& p) {
    REQUIRE(control.published().value() == least(p));
    REQUIRE(control.workers().c_max().value() == std::ranges::max(p.clock));
    std::size_t held = 0;
    for (std::uint32_t w = 0; w < workers; ++w) {
      REQUIRE(p.folded[w] == visible(p, w));
      held += static_cast<std::size_t>(p.clock[w] - p.folded[w]);
      read_stamp const stamp = control.stamp_for(worker_id{w});
      REQUIRE(stamp.included.value() == p.folded[w]);
      REQUIRE(stamp.server_clock.value() == least(p));
    }
    REQUIRE(control.held_back() == held);
  }

  static sender from(std::uint32_t w) { return {worker_id{w}, {}, stage_id{1}}; }

  admission_rule admission_;
  visibility_rule visibility_;
  std::set<position> visited_;
};

}  // namespace

TEST_CASE("Three workers make three clocks in every possible order", "[simulated]") {
  for (std::int64_t s = 0; s <= 3; ++s) {
    INFO("staleness " << s);
    CHECK(exploration(bounded_staleness{s}, strict{}).run() > 100);
    CHECK(exploration(bounded_staleness{s}, eager{}).run() > 100);
  }
  CHECK(exploration(barrier{}, strict{}).run() > 100);
  CHECK(exploration(unbounded{}, eager{}).run() > 500);
  CHECK(exploration(unbounded{}, strict{}).run() > 500);
}
