// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/rate_conductor.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <vector>

#include <rubato/core/error.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

using orders = pace_orders<commit_quota>;

constexpr time_point at(duration d) { return time_point(d); }

/// A minute's periods at a fixed rate.
commit_rate_options fixed(std::int64_t rate) { return {.first_rate = rate, .search = false}; }

/// `workers` that have started at clock 0.
rate_conductor with_workers(std::uint32_t workers, std::int64_t rate) {
  rate_conductor c(fixed(rate));
  orders out;
  for (std::uint32_t w = 0; w < workers; ++w) c.join(worker_id{w}, clock_index{0}, at(0s), out);
  REQUIRE(out.empty());
  return c;
}

/// The quotas that a checkpoint gives, by worker; each worker gets one order at most.
std::map<std::uint32_t, commit_quota> tick(rate_conductor& c, duration t) {
  orders out;
  c.tick(at(t), out);
  std::map<std::uint32_t, commit_quota> all;
  for (auto const& [to, order] : out) CHECK(all.emplace(to.value(), order).second);
  return all;
}

void commit(rate_conductor& c, std::uint32_t w, std::int64_t clock) {
  c.commit(worker_id{w}, clock_index{clock}, {});
}

void check_quota(commit_quota const& q, duration start, std::int64_t done, std::int64_t commits) {
  CHECK(q.start == at(start));
  CHECK(q.period == 60s);
  CHECK(q.done == clock_index{done});
  CHECK(q.commits == commits);
}

}  // namespace

TEST_CASE("rate_conductor: at each checkpoint everybody gets what brings it to the target "
          "(rules §5)") {
  rate_conductor c = with_workers(3, 2);
  CHECK(c.next_tick() == at(0s));
  auto first = tick(c, 0s);
  REQUIRE(first.size() == 3);
  for (std::uint32_t w = 0; w < 3; ++w) check_quota(first[w], 0s, 0, 2);
  CHECK(c.next_tick() == at(60s));
  CHECK(c.target() == 2);
  commit(c, 0, 1);
  commit(c, 0, 2);
  commit(c, 1, 2);
  commit(c, 2, 1);
  auto second = tick(c, 60s);
  REQUIRE(second.size() == 3);
  check_quota(second[0], 60s, 2, 2);
  check_quota(second[1], 60s, 2, 2);
  check_quota(second[2], 60s, 1, 3);
  CHECK(c.target() == 4);
  CHECK(c.rate() == 2);
}

TEST_CASE("rate_conductor: who got ahead draws the target along, which never falls again "
          "(rules §5)") {
  rate_conductor c = with_workers(2, 2);
  (void)tick(c, 0s);
  commit(c, 0, 7);
  auto quotas = tick(c, 60s);
  CHECK(c.target() == 9);
  check_quota(quotas[0], 60s, 7, 2);
  check_quota(quotas[1], 60s, 0, 9);
  c.leave(worker_id{0});
  quotas = tick(c, 120s);
  CHECK(c.target() == 11);
  REQUIRE(quotas.size() == 1);
  check_quota(quotas[1], 120s, 0, 11);
}

TEST_CASE("rate_conductor: the target rises even if nobody commits") {
  rate_conductor c = with_workers(1, 3);
  for (int p = 0; p < 5; ++p) CHECK(tick(c, p * 60s)[0].commits == 3 * (p + 1));
  CHECK(c.target() == 15);
}

TEST_CASE("rate_conductor: a slow worker's quota grows, that of the others does not") {
  rate_conductor c = with_workers(2, 2);
  for (std::int64_t p = 0; p < 6; ++p) {
    auto quotas = tick(c, p * 60s);
    CHECK(quotas[0].commits == 2);
    CHECK(quotas[1].commits == 2 + p);  // it makes one of two
    commit(c, 0, 2 * (p + 1));
    commit(c, 1, p + 1);
  }
}

TEST_CASE("rate_conductor: a joiner counts as one on target, and gets its first quota at the next "
          "checkpoint (rules §5)") {
  rate_conductor c = with_workers(1, 2);
  (void)tick(c, 0s);
  commit(c, 0, 2);
  (void)tick(c, 60s);  // the target is 4
  orders out;
  c.join(worker_id{5}, clock_index{1}, at(70s), out);
  CHECK(out.empty());
  commit(c, 0, 4);
  auto quotas = tick(c, 120s);
  check_quota(quotas[0], 120s, 4, 2);
  check_quota(quotas[5], 120s, 1, 2);  // in its own clock's count
  commit(c, 5, 2);
  quotas = tick(c, 180s);
  CHECK(c.target() == 8);
  check_quota(quotas[5], 180s, 2, 3);
  check_quota(quotas[0], 180s, 4, 4);
}

TEST_CASE("rate_conductor: a joiner whose clock is ahead of the others' does not draw the target "
          "along") {
  rate_conductor c = with_workers(1, 1);
  (void)tick(c, 0s);
  orders out;
  c.join(worker_id{1}, clock_index{1000}, at(10s), out);
  commit(c, 0, 1);
  auto quotas = tick(c, 60s);
  CHECK(c.target() == 2);
  check_quota(quotas[1], 60s, 1000, 1);
  commit(c, 1, 1001);
  CHECK(tick(c, 120s)[1].commits == 1);
}

TEST_CASE("rate_conductor: who has left, or is lost, gets no quota, and its late commits count for "
          "nothing") {
  rate_conductor c = with_workers(3, 1);
  (void)tick(c, 0s);
  c.leave(worker_id{1});
  commit(c, 1, 50);
  commit(c, 9, 70);  // nobody has ever heard of it
  auto const quotas = tick(c, 60s);
  CHECK(quotas.size() == 2);
  CHECK(quotas.count(1) == 0);
  CHECK(quotas.count(9) == 0);
  CHECK(c.target() == 2);
  c.leave(worker_id{1});  // twice
  c.leave(worker_id{9});
  CHECK(tick(c, 120s).size() == 2);
}

TEST_CASE("rate_conductor: who comes back under its number starts on target again") {
  rate_conductor c = with_workers(2, 2);
  (void)tick(c, 0s);
  c.leave(worker_id{1});
  commit(c, 0, 2);
  (void)tick(c, 60s);
  orders out;
  c.join(worker_id{1}, clock_index{0}, at(80s), out);
  commit(c, 0, 4);
  auto quotas = tick(c, 120s);
  check_quota(quotas[1], 120s, 0, 2);
}

TEST_CASE("rate_conductor: a report that was overtaken takes nothing back") {
  rate_conductor c = with_workers(1, 1);
  (void)tick(c, 0s);
  commit(c, 0, 3);
  commit(c, 0, 2);
  CHECK(tick(c, 60s)[0].done == clock_index{3});
}

TEST_CASE("rate_conductor: a tick that comes early does nothing, one that comes late counts from "
          "the checkpoint") {
  rate_conductor c = with_workers(1, 1);
  (void)tick(c, 0s);
  CHECK(tick(c, 60s - 1ns).empty());
  CHECK(c.next_tick() == at(60s));
  auto quotas = tick(c, 75s);
  check_quota(quotas[0], 60s, 0, 2);
  CHECK(c.next_tick() == at(120s));
  // Three checkpoints were missed: they are not made up for.
  quotas = tick(c, 305s);
  check_quota(quotas[0], 300s, 0, 3);
  CHECK(c.next_tick() == at(360s));
  CHECK(tick(c, 305s).empty());
}

TEST_CASE("rate_conductor: what is committed after a checkpoint does not count there, however late "
          "it is called") {
  rate_conductor c = with_workers(2, 1);
  (void)tick(c, 0s);
  c.commit(worker_id{0}, clock_index{1}, at(60s));
  c.commit(worker_id{1}, clock_index{1}, at(59s));
  c.commit(worker_id{0}, clock_index{2}, at(60s + 1ns));
  c.commit(worker_id{0}, clock_index{3}, at(70s));
  auto quotas = tick(c, 75s);
  check_quota(quotas[0], 60s, 1, 1);
  check_quota(quotas[1], 60s, 1, 1);
  CHECK(c.target() == 2);
  // At the next one they do.
  quotas = tick(c, 120s);
  check_quota(quotas[0], 120s, 3, 1);
  check_quota(quotas[1], 120s, 1, 3);
  // Where checkpoints are missed, neither.
  c.commit(worker_id{1}, clock_index{4}, at(200s));
  c.commit(worker_id{0}, clock_index{5}, at(300s));
  c.commit(worker_id{1}, clock_index{5}, at(301s));
  c.commit(worker_id{0}, clock_index{9}, at(310s));
  quotas = tick(c, 320s);
  check_quota(quotas[0], 300s, 5, 2);
  check_quota(quotas[1], 300s, 4, 3);
}

TEST_CASE("rate_conductor: what was due at a checkpoint after missed ones, and came a little later, counts for the "
          "target, but no more than was due") {
  for (std::int64_t const clock : {5, 6, 7, 20}) {
    rate_conductor c = with_workers(2, 2);
    (void)tick(c, 0s);  // by the checkpoint of 180 s the workers are to have made six
    c.commit(worker_id{0}, clock_index{4}, at(150s));
    c.commit(worker_id{0}, clock_index{clock}, at(185s));
    auto quotas = tick(c, 190s);
    std::int64_t const target = std::min<std::int64_t>(clock, 6) + 2;
    CHECK(c.target() == target);
    check_quota(quotas[0], 180s, 4, target - 4);
    check_quota(quotas[1], 180s, 0, target);
  }
}

TEST_CASE("rate_conductor: who was ahead before a checkpoint that others came to late draws the target along") {
  rate_conductor c = with_workers(2, 1);
  (void)tick(c, 0s);
  c.commit(worker_id{0}, clock_index{30}, at(130s));
  auto quotas = tick(c, 190s);
  CHECK(c.target() == 31);
  check_quota(quotas[0], 180s, 30, 1);
}

TEST_CASE("rate_conductor: with nobody there time goes on") {
  rate_conductor c(fixed(1));
  CHECK(tick(c, 0s).empty());
  CHECK(tick(c, 60s).empty());
  CHECK(c.next_tick() == at(120s));
  orders out;
  c.join(worker_id{0}, clock_index{0}, at(70s), out);
  CHECK(tick(c, 120s)[0].commits == 1);
}

TEST_CASE("rate_conductor: without a search it never asks for the loss, and says what it was "
          "given") {
  rate_conductor c = with_workers(1, 3);
  for (int p = 0; p < 3; ++p) {
    (void)tick(c, p * 60s);
    CHECK(c.next_sample() == time_point::max());
    c.observe(at(p * 60s + 1s), 1.0);
  }
  REQUIRE(c.changes().size() == 1);
  CHECK(c.changes()[0] == pace_change{at(0s), 3, c.changes()[0].reason});
}

TEST_CASE("rate_conductor: a tick that comes late goes by the commits made up to its checkpoint") {
  rate_conductor c({.check_period = 10s, .first_rate = 4, .search = false});
  orders out;
  c.join(worker_id{0}, clock_index{0}, at(0s), out);
  CHECK(tick(c, 0s)[0].commits == 4);
  for (int n = 1; n <= 6; ++n) c.commit(worker_id{0}, clock_index{n}, at(n * 2500ms));
  auto quotas = tick(c, 16s);  // the one of 10 s
  CHECK(quotas[0].start == at(10s));
  CHECK(quotas[0].done == clock_index{4});
  CHECK(quotas[0].commits == 4);
  CHECK(c.target() == 8);
  quotas = tick(c, 20s);  // and the two that it had heard of since
  CHECK(quotas[0].done == clock_index{6});
  CHECK(quotas[0].commits == 6);
  CHECK(c.target() == 12);
}

TEST_CASE("rate_conductor: while the search probes, targets rise by the rate that is tried") {
  rate_conductor c({.check_period = 10s,
                    .epoch = 60s,
                    .probe_period = 10s,
                    .first_rate = 2,
                    .samples = 9});
  orders out;
  c.join(worker_id{0}, clock_index{0}, at(0s), out);
  std::vector<std::int64_t> targets;
  std::vector<std::int64_t> rates;
  for (int p = 0; p < 7; ++p) {
    std::int64_t const ordered = tick(c, p * 10s)[0].rate;
    CHECK(ordered == c.rate());
    for (; c.next_sample() < at((p + 1) * 10s);) c.observe(c.next_sample(), 5.0);
    targets.push_back(c.target());
    rates.push_back(c.rate());
  }
  // The loss does not fall: 2, 3, and 2 for the rest of the epoch.
  CHECK(rates == std::vector<std::int64_t>{2, 3, 2, 2, 2, 2, 2});
  CHECK(targets == std::vector<std::int64_t>{2, 5, 7, 9, 11, 13, 15});
}

TEST_CASE("rate_conductor: a period that never ends is no overflow") {
  rate_conductor c({.check_period = duration::max(), .first_rate = 1, .search = false});
  orders out;
  c.join(worker_id{0}, clock_index{0}, at(0s), out);
  CHECK(tick(c, 0s)[0].commits == 1);
  CHECK(c.next_tick() == time_point::max());
  CHECK(tick(c, 1000h).empty());
}

TEST_CASE("rate_conductor: a rate beyond one commit per nanosecond is refused, so that targets do "
          "not overflow") {
  CHECK_THROWS_AS(rate_conductor({.check_period = 1s, .first_rate = 1'000'000'001}), option_error);
  CHECK_NOTHROW(rate_conductor({.check_period = 60s, .first_rate = 60'000'000'000}));
}
