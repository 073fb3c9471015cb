// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/commit_rate.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/concepts.hpp>

#include "seeds.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr time_point at(duration d) { return time_point(d); }
constexpr pace_point in_clock(std::int64_t c) {
  return {.clock = clock_index{c}, .committed_at = {}};
}

/// Four commits in the minute that starts at 100 s, by a worker that has made seven.
constexpr commit_quota four_a_minute{
    .start = time_point(100s), .period = 60s, .done = clock_index{7}, .commits = 4, .rate = 4};

/// Due as soon as a step ends.
bool goes_next(commit_due const& d) { return d.at == time_point::min() && d.steps == 1; }

}  // namespace

TEST_CASE("commit_rate: before the first order no commit is due (rules §5)") {
  commit_rate const pace;
  for (std::int64_t c : {0, 1, 1000}) {
    CHECK(pace.due(in_clock(c)).at == time_point::max());
    CHECK(pace.due(in_clock(c)).steps == 1);
  }
}

TEST_CASE("commit_rate: nobody pauses, and one step is enough") {
  commit_rate pace;
  auto const steps_max = std::numeric_limits<std::int64_t>::max();
  CHECK(pace.due(in_clock(0)).steps_max == steps_max);
  pace.follow(four_a_minute, in_clock(7));
  CHECK(pace.due(in_clock(7)).steps == 1);
  CHECK(pace.due(in_clock(7)).steps_max == steps_max);
}

TEST_CASE("commit_rate: commit number n is due at start + (n - done)*period/quota (rules §5)") {
  commit_rate pace;
  pace.follow(four_a_minute, in_clock(7));
  CHECK(pace.due(in_clock(7)).at == at(115s));  // in clock 7 the next one is the eighth
  CHECK(pace.due(in_clock(8)).at == at(130s));
  CHECK(pace.due(in_clock(9)).at == at(145s));
  CHECK(pace.due(in_clock(10)).at == at(160s));
  // The next order may come late: until then it goes on like that.
  CHECK(pace.due(in_clock(11)).at == at(175s));
  CHECK(pace.due(in_clock(8)).at == at(130s));  // numbers are absolute
}

TEST_CASE("commit_rate: where a checkpoint is late, who has caught up goes on like those who were on target") {
  commit_rate on_target, behind;
  on_target.follow({.start = at(60s), .period = 60s, .done = clock_index{2}, .commits = 2, .rate = 2}, in_clock(2));
  behind.follow({.start = at(60s), .period = 60s, .done = clock_index{0}, .commits = 4, .rate = 2}, in_clock(0));
  CHECK(on_target.due(in_clock(2)).at == at(90s));
  CHECK(behind.due(in_clock(2)).at == at(105s));
  for (commit_rate const& pace : {on_target, behind})
    for (std::int64_t const c : {3, 4, 5, 6, 7}) CHECK(pace.due(in_clock(c)).at == at(60s + (c - 1) * 30s));
  // As little may a commit start too early.
  behind.spent(1h);
  CHECK(behind.due(in_clock(3)).at == at(105s));
  CHECK(behind.due(in_clock(4)).at == at(120s));
}

TEST_CASE("commit_rate: after a late checkpoint, too, those count in the new period that were not due before it") {
  commit_rate pace;
  pace.follow({.start = at(60s), .period = 60s, .done = clock_index{0}, .commits = 4, .rate = 2}, in_clock(0));
  // By 240 s eight were due. The conductor had heard of seven; the ninth was made after the checkpoint.
  pace.follow({.start = at(240s), .period = 60s, .done = clock_index{7}, .commits = 3, .rate = 2}, in_clock(9));
  CHECK(pace.due(in_clock(8)).at == at(270s));
  CHECK(pace.due(in_clock(9)).at == at(300s));
}

TEST_CASE("commit_rate: an order without a rate goes on at one commit a period") {
  commit_rate pace;
  pace.follow({.start = {}, .period = 60s, .done = clock_index{0}, .commits = 4}, in_clock(0));
  pace.spent(1s);
  CHECK(pace.due(in_clock(4)).at == at(119s));
}

TEST_CASE("commit_rate: a commit that was under way when the order was made counts: the others "
          "share the period") {
  commit_rate pace;
  pace.follow({.start = at(40s), .period = 60s, .done = clock_index{0}, .commits = 9},
              in_clock(0));
  pace.follow({.start = at(100s), .period = 60s, .done = clock_index{7}, .commits = 4, .rate = 2},
              in_clock(9));  // of nine the conductor had heard of seven
  CHECK(pace.due(in_clock(9)).at == at(130s));
  CHECK(pace.due(in_clock(10)).at == at(160s));
}

TEST_CASE("commit_rate: one that was made between the checkpoint and the order belongs to the new "
          "period") {
  commit_rate pace;
  pace.follow({.start = at(40s), .period = 60s, .done = clock_index{3}, .commits = 4},
              in_clock(3));
  pace.follow(four_a_minute, in_clock(8));  // it was to be at 7, and has gone on
  CHECK(pace.due(in_clock(8)).at == at(130s));
  CHECK(pace.due(in_clock(10)).at == at(160s));
}

TEST_CASE("commit_rate: a first order is followed by its numbers, wherever the worker is") {
  for (std::int64_t const c : {7, 9, 11, 12, 20}) {
    commit_rate pace;
    pace.follow(four_a_minute, in_clock(c));
    CHECK(pace.due(in_clock(c)).at == at(100s + (c + 1 - 7) * 15s));
  }
}

TEST_CASE("commit_rate: who has made more commits than the order asks for goes on from there, at the rate") {
  commit_rate pace;
  pace.follow({.start = at(40s), .period = 60s, .done = clock_index{0}, .commits = 20},
              in_clock(0));
  pace.follow(four_a_minute, in_clock(20));  // as a conductor orders that missed checkpoints, and has heard of seven
  CHECK(pace.due(in_clock(20)).at == at(115s));
  CHECK(pace.due(in_clock(23)).at == at(160s));
  CHECK(pace.due(in_clock(24)).at == at(175s));
}

TEST_CASE("commit_rate: when the last commit was made has no say") {
  commit_rate pace;
  pace.follow(four_a_minute, in_clock(7));
  for (duration const d : {0s, 99s, 114s, 200s})
    CHECK(pace.due({.clock = clock_index{7}, .committed_at = at(d)}).at == at(115s));
}

TEST_CASE("commit_rate: a commit starts as much earlier as commits and pulls take (rules §5)") {
  commit_rate pace;
  pace.follow(four_a_minute, in_clock(7));
  pace.spent(4s);
  CHECK(pace.due(in_clock(7)).at == at(111s));
  CHECK(pace.due(in_clock(10)).at == at(156s));
}

TEST_CASE("commit_rate: it starts no earlier than the commit before it was due (rules §5)") {
  commit_rate pace;
  pace.follow(four_a_minute, in_clock(7));
  pace.spent(14s);
  CHECK(pace.due(in_clock(7)).at == at(101s));
  pace.spent(1h);
  CHECK(pace.due(in_clock(7)).at == at(100s));
  CHECK(pace.due(in_clock(9)).at == at(130s));
}

TEST_CASE("commit_rate: the time of commits and pulls is smoothed, the first is taken whole") {
  commit_rate pace;
  CHECK(pace.overhead() == 0s);
  pace.spent(8s);
  CHECK(pace.overhead() == 8s);
  pace.spent(4s);
  CHECK(pace.overhead() == 7s);
  pace.spent(15s);
  CHECK(pace.overhead() == 9s);
  for (int i = 0; i < 200; ++i) pace.spent(1s);
  CHECK(pace.overhead() >= 1s);
  CHECK(pace.overhead() < 1s + 1us);
  commit_rate free;
  free.spent(0s);  // is a measurement too
  free.spent(4s);
  CHECK(free.overhead() == 1s);
}

TEST_CASE("commit_rate: a commit that was due when the checkpoint came keeps its number and goes "
          "next (rules §5)") {
  commit_rate pace;
  pace.follow({.start = {}, .period = 60s, .done = clock_index{0}, .commits = 2}, in_clock(0));
  CHECK(pace.due(in_clock(1)).at == at(60s));  // the second one, which has not started
  pace.follow({.start = at(60s), .period = 60s, .done = clock_index{1}, .commits = 3}, in_clock(1));
  CHECK(goes_next(pace.due(in_clock(1))));
  // It belongs to the period before: the two others have this one for themselves. Were they three,
  // who is always one behind had to commit half as often again as it may be able to.
  CHECK(pace.due(in_clock(2)).at == at(90s));
  CHECK(pace.due(in_clock(3)).at == at(120s));
}

TEST_CASE("commit_rate: a commit is overdue if its time came with the checkpoint, not later") {
  commit_quota const next{
      .start = at(60s), .period = 60s, .done = clock_index{0}, .commits = 2};
  auto const after = [&](duration first_period) {
    commit_rate pace;
    pace.follow({.start = {}, .period = first_period, .done = clock_index{0}, .commits = 1},
                in_clock(0));
    pace.follow(next, in_clock(0));
    return pace.due(in_clock(0));
  };
  CHECK(goes_next(after(59s)));
  CHECK(goes_next(after(60s)));
  CHECK(after(60s + 1ns).at == at(90s));
}

TEST_CASE("commit_rate: one that was to start early, but is due later, is not overdue") {
  commit_rate pace;
  pace.follow({.start = {}, .period = 60s, .done = clock_index{0}, .commits = 6, .rate = 6}, in_clock(0));
  pace.spent(10s);
  CHECK(pace.due(in_clock(6)).at == at(60s));
  pace.follow({.start = at(60s), .period = 60s, .done = clock_index{6}, .commits = 6}, in_clock(6));
  CHECK(pace.due(in_clock(6)).at == at(60s));
  pace.follow({.start = at(60s), .period = 60s, .done = clock_index{6}, .commits = 2}, in_clock(6));
  CHECK(pace.due(in_clock(6)).at == at(80s));
}

TEST_CASE("commit_rate: who is behind by several commits has one overdue, the rest by the quota") {
  commit_rate pace;
  pace.follow({.start = {}, .period = 60s, .done = clock_index{0}, .commits = 4}, in_clock(0));
  pace.follow({.start = at(60s), .period = 60s, .done = clock_index{0}, .commits = 8}, in_clock(0));
  CHECK(goes_next(pace.due(in_clock(0))));
  CHECK(pace.due(in_clock(1)).at == at(60s + stretch(60s, 1.0 / 7)));
  CHECK(pace.due(in_clock(7)).at == at(120s));
}

TEST_CASE("commit_rate: an overdue commit stays so over checkpoints, however long a step takes "
          "(rules §5)") {
  commit_rate pace;
  pace.follow({.start = {}, .period = 60s, .done = clock_index{0}, .commits = 1}, in_clock(0));
  for (int p = 1; p < 5; ++p) {
    pace.follow({.start = at(p * 60s), .period = 60s, .done = clock_index{0}, .commits = p + 1},
                in_clock(0));
    CHECK(goes_next(pace.due(in_clock(0))));
  }
  CHECK(pace.due(in_clock(1)).at == at(240s + 15s));
}

TEST_CASE("commit_rate: it goes next even if it is the only one that the order asks for") {
  // Two checkpoints were missed: the worker went on by the old order, but the target stood still.
  commit_rate pace;
  pace.follow({.start = {}, .period = 60s, .done = clock_index{0}, .commits = 1}, in_clock(0));
  pace.follow({.start = at(180s), .period = 60s, .done = clock_index{2}, .commits = 1},
              in_clock(2));
  CHECK(goes_next(pace.due(in_clock(2))));
}

TEST_CASE("commit_rate: the first order makes nothing overdue") {
  commit_rate pace;
  pace.follow({.start = at(60s), .period = 60s, .done = clock_index{3}, .commits = 1}, in_clock(3));
  CHECK(pace.due(in_clock(3)).at == at(120s));
}

TEST_CASE("commit_rate: what is overdue goes next even though commits take long") {
  commit_rate pace;
  pace.spent(1h);
  pace.follow({.start = {}, .period = 60s, .done = clock_index{0}, .commits = 1}, in_clock(0));
  pace.follow({.start = at(60s), .period = 60s, .done = clock_index{0}, .commits = 2}, in_clock(0));
  CHECK(goes_next(pace.due(in_clock(0))));
}

TEST_CASE("commit_rate: quotas and periods beyond all measure overflow nothing") {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  commit_rate pace;
  pace.spent(1s);
  pace.follow({.start = at(5s), .period = 60s, .done = clock_index{0}, .commits = most},
              in_clock(0));
  CHECK(pace.due(in_clock(0)).at == at(5s));
  CHECK(pace.due(in_clock(most / 2)).at == at(35s));
  commit_rate slow;
  slow.spent(1s);
  slow.follow({.start = at(5s), .period = duration::max(), .done = clock_index{0}, .commits = 1},
              in_clock(0));
  CHECK(slow.due(in_clock(0)).at >= time_point::max() - 1s);
  CHECK(slow.due(in_clock(most / 2)).at >= time_point::max() - 1s);
  commit_rate fast;
  fast.follow({.start = at(6s), .period = 1ns, .done = clock_index{0}, .commits = most},
              in_clock(0));
  CHECK(fast.due(in_clock(most - 2)).at == at(6s + 1ns));
  commit_rate next = pace;  // by the order in force it has made more than can be counted
  next.follow({.start = at(65s), .period = 60s, .done = clock_index{2}, .commits = 6, .rate = 2}, in_clock(3));
  CHECK(goes_next(next.due(in_clock(3))));  // overdue: the second that the conductor has not heard of
  CHECK(next.due(in_clock(4)).at == at(80s) - 1s);
}

TEST_CASE("commit_rate: a copy goes on by itself") {
  commit_rate pace;
  pace.follow(four_a_minute, in_clock(7));
  commit_rate other = pace;
  other.spent(5s);
  CHECK(pace.due(in_clock(7)).at == at(115s));
  CHECK(other.due(in_clock(7)).at == at(110s));
}

TEST_CASE("adsp: hands all it was told to its pace; its defaults are the paper's, but for the probe") {
  adsp const usual;
  CHECK(usual.check_period == 60s);
  CHECK(usual.probe_period == 120s);
  CHECK(usual.epoch == 20min);
  CHECK(usual.pace().options().check_period == 60s);
  CHECK(usual.pace().options().search);
  auto const o = adsp{.check_period = 2s,
                      .epoch = 12s,
                      .probe_period = 6s,
                      .first_rate = 5,
                      .search = false,
                      .samples = 11}
                     .pace()
                     .options();
  CHECK(o.check_period == 2s);
  CHECK(o.epoch == 12s);
  CHECK(o.probe_period == 6s);
  CHECK(o.first_rate == 5);
  CHECK_FALSE(o.search);
  CHECK(o.samples == 11);
}

namespace {

/// ADSP's halves without a run around them: workers that commit when it is due but for those that stand still now and
/// then, and a conductor that comes late to its checkpoints, before it has heard of all commits made meanwhile. Time
/// goes on in milliseconds; reports and orders take one.
class late_checkpoints {
 public:
  static constexpr std::int64_t rate = 5, period_ms = 20;

  explicit late_checkpoints(std::uint64_t seed)
      : random_(seed, 0xad5), conductor_({.check_period = period_ms * 1ms, .first_rate = rate, .search = false}) {
    pace_orders<commit_quota> none;
    for (std::uint32_t w = 0; w < workers_.size(); ++w) conductor_.join(worker_id{w}, clock_index{0}, at(0s), none);
  }

  void go_to(std::int64_t ms) {
    time_point const now = at(ms * 1ms);
    for (auto const& [to, order] : std::exchange(orders_, {})) {
      worker& w = workers_[to.index()];
      w.pace.follow(order, in_clock(w.clock));
    }
    auto const came = reports_.size();
    for (std::uint32_t w = 0; w < workers_.size(); ++w) commit_if_due(w, ms);
    bool const is_awake = now < conductor_.next_tick() || ms >= next_tick_ms_;
    if (!is_awake) return;
    bool const is_late = now >= conductor_.next_tick() + period_ms * 1ms;
    hear(is_late ? random_.below(came + 1) : came, now);
    if (ms >= next_tick_ms_) tick(now);
  }

  /// The first worker never stands still.
  [[nodiscard]] std::int64_t commits_of_first() const { return workers_.front().clock; }
  [[nodiscard]] std::int64_t most_commits() const {
    return std::ranges::max(workers_, {}, &worker::clock).clock;
  }

 private:
  struct worker {
    commit_rate pace;
    std::int64_t clock = 0;
    std::int64_t idle_until_ms = 0;
  };
  struct report {
    worker_id from;
    clock_index at;
  };

  void commit_if_due(std::uint32_t w, std::int64_t ms) {
    worker& one = workers_[w];
    if (w != 0 && random_.below(200) == 0)
      one.idle_until_ms = ms + static_cast<std::int64_t>(random_.below(3 * period_ms));
    if (ms < one.idle_until_ms || one.pace.due(in_clock(one.clock)).at > at(ms * 1ms)) return;
    reports_.push_back({worker_id{w}, clock_index{++one.clock}});
  }

  void hear(std::size_t count, time_point now) {
    for (std::size_t i = 0; i < count; ++i) conductor_.commit(reports_[i].from, reports_[i].at, now);
    reports_.erase(reports_.begin(), reports_.begin() + static_cast<std::ptrdiff_t>(count));
  }

  void tick(time_point now) {
    conductor_.tick(now, orders_);
    next_tick_ms_ = (conductor_.next_tick() - at(0s)) / 1ms;
    if (random_.below(2) == 0) next_tick_ms_ += static_cast<std::int64_t>(random_.below(4 * period_ms));
  }

  random_stream random_;
  rate_conductor conductor_;
  pace_orders<commit_quota> orders_;  // under way
  std::vector<report> reports_;       // those that were made in this millisecond last
  std::vector<worker> workers_ = std::vector<worker>(3);
  std::int64_t next_tick_ms_ = 0;
};

}  // namespace

TEST_CASE("adsp: however late the conductor comes to its checkpoints, workers commit at the rate") {
  for (std::uint64_t i = 0; i < test::seed_count(300); ++i) {
    std::uint64_t const seed = test::first_seed() + i;
    INFO(test::repeat_by(seed));
    late_checkpoints run(seed);
    std::int64_t ahead = 0;
    std::int64_t behind = 0;
    for (std::int64_t ms = 0; ms <= 2000; ++ms) {
      run.go_to(ms);
      std::int64_t const due = ms * late_checkpoints::rate / late_checkpoints::period_ms;
      ahead = std::max(ahead, run.most_commits() - due);
      behind = std::max(behind, due - run.commits_of_first());
    }
    REQUIRE(ahead <= 1);
    REQUIRE(behind <= 1);
  }
}

TEST_CASE("adsp: the server scales by 1/M unless a global rate is set, and nobody waits "
          "(rules §5)") {
  commit_info of_four{};
  of_four.workers = 4;
  CHECK(adsp{}.merge().weight(of_four) == 0.25);
  CHECK(adsp{.global_rate = 0.5}.merge().weight(of_four) == 0.5);
  CHECK(adsp{}.admission().bound().is_infinite());
  CHECK(adsp{}.admission().need(clock_index{1'000'000}, staleness::infinite()) <= clock_index{0});
  CHECK_FALSE(decltype(adsp{}.visibility())::holds_back);
  CHECK(adsp::name() == "adsp");
}
