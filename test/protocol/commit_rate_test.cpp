// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/commit_rate.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <limits>

#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/concepts.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr time_point at(duration d) { return time_point(d); }
constexpr pace_point in_clock(std::int64_t c) {
  return {.clock = clock_index{c}, .committed_at = {}};
}

/// Four commits in the minute that starts at 100 s, by a worker that has made seven.
constexpr commit_quota four_a_minute{
    .start = time_point(100s), .period = 60s, .done = clock_index{7}, .commits = 4};

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

TEST_CASE("commit_rate: a commit that was under way when the order was made counts: the others "
          "share the period") {
  commit_rate pace;
  pace.follow({.start = at(40s), .period = 60s, .done = clock_index{0}, .commits = 9},
              in_clock(0));
  pace.follow(four_a_minute, in_clock(9));  // of nine the conductor had heard of seven
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

TEST_CASE("commit_rate: who has made more commits than the order asks for goes on by its numbers") {
  commit_rate pace;
  pace.follow({.start = at(40s), .period = 60s, .done = clock_index{0}, .commits = 20},
              in_clock(0));
  pace.follow(four_a_minute, in_clock(20));
  CHECK(pace.due(in_clock(20)).at == at(100s + 14 * 15s));
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
  pace.follow({.start = {}, .period = 60s, .done = clock_index{0}, .commits = 6}, in_clock(0));
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
