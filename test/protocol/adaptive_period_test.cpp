// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/adaptive_period.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/fixed_ada_comm.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

using orders = pace_orders<period_order>;
using numbers = std::vector<std::int64_t>;
using losses = std::vector<double>;

constexpr time_point moment(duration d) { return time_point(d); }
constexpr pace_point of_clock(std::int64_t c) {
  return {.clock = clock_index{c}, .committed_at = {}};
}
constexpr double no_number = std::numeric_limits<double>::quiet_NaN();

/// A minute's intervals.
adaptive_period_options minutes(std::int64_t first_steps, double gamma = 0.5) {
  return {.first_steps = first_steps, .interval = 60s, .gamma = gamma};
}

/// τ after each interval, where the loss is evaluated when the conductor asks: `F[0]` at the start,
/// and so on.
numbers periods(adaptive_period_options const& o, losses const& F) {
  period_conductor c(o);
  orders out;
  c.join(worker_id{0}, clock_index{0}, {}, out);
  numbers all;
  for (double const f : F) {
    time_point const t = c.next_sample();
    c.observe(t, f);
    REQUIRE((t < c.next_sample() || t == c.next_tick()));
    if (t == c.next_tick()) {
      c.tick(t, out);
      all.push_back(c.steps());
    }
  }
  return all;
}

/// A run's first interval ends with this loss, that at the start was 1; who is where, is given.
/// Returns the orders.
struct rehearsal {
  period_conductor conductor;
  time_point now{};

  explicit rehearsal(adaptive_period_options const& o) : conductor(o) {
    conductor.observe({}, 1.0);
  }
  orders join(std::uint32_t w, std::int64_t clock) {
    orders out;
    conductor.join(worker_id{w}, clock_index{clock}, now, out);
    return out;
  }
  void commit(std::uint32_t w, std::int64_t clock) {
    conductor.commit(worker_id{w}, clock_index{clock}, {});
  }
  orders interval(double loss) {
    orders out;
    now = conductor.next_tick();
    conductor.observe(now, loss);
    conductor.tick(now, out);
    return out;
  }
};

/// The orders for one worker, followed where it stands.
void follow(adaptive_period& pace, orders const& all, std::uint32_t w, std::int64_t clock) {
  for (auto const& [to, order] : all)
    if (to == worker_id{w}) pace.follow(order, of_clock(clock));
}

numbers steps_in_clocks(adaptive_period const& pace, std::int64_t from, std::int64_t to) {
  numbers all;
  for (std::int64_t c = from; c <= to; ++c) all.push_back(pace.due(of_clock(c)).steps);
  return all;
}

std::string complaint(adaptive_period_options const& o) {
  try {
    period_conductor const c(o);
  } catch (option_error const& e) {
    return e.what();
  }
  return "none";
}

}  // namespace

TEST_CASE("ada_comm: the period follows the root of the loss, rounded up (rules §5)") {
  CHECK(periods(minutes(16), {1.0, 0.25}) == numbers{8});
  CHECK(periods(minutes(16), {1.0, 0.5}) == numbers{12});    // 11.3
  CHECK(periods(minutes(16), {1.0, 0.26}) == numbers{9});    // 8.16
  CHECK(periods(minutes(16), {4.0, 1.0}) == numbers{8});     // what counts is the ratio
  CHECK(periods(minutes(100), {1.0, 0.81, 0.49, 0.09}) == numbers{90, 70, 30});
  // τ_0 is multiplied, not the period in use.
  CHECK(periods(minutes(10), {1.0, 0.64, 0.49, 0.36}) == numbers{8, 7, 6});
}

TEST_CASE("ada_comm: where the loss asks for no fewer steps the period is shortened by gamma "
          "(rules §5)") {
  CHECK(periods(minutes(16), {1.0, 1.0, 1.0, 1.0}) == numbers{8, 4, 2});
  CHECK(periods(minutes(16), {1.0, 9.0}) == numbers{8});
  CHECK(periods(minutes(16), {1.0, 0.25, 0.25}) == numbers{8, 4});  // 8 is not smaller than 8
  CHECK(periods(minutes(16), {1.0, 0.25, 0.3}) == numbers{8, 4});
  CHECK(periods(minutes(5), {1.0, 2.0, 2.0, 2.0}) == numbers{3, 2, 1});  // rounded up, too
  CHECK(periods(minutes(10, 0.9), {1.0, 1.0, 1.0}) == numbers{9, 9});
  CHECK(periods(minutes(100, 0.25), {1.0, 1.0, 1.0}) == numbers{25, 7});
  // After a cut by gamma the loss has to ask for fewer than that.
  CHECK(periods(minutes(16), {1.0, 2.0, 0.25, 0.04}) == numbers{8, 4, 2});
  CHECK(periods(minutes(16), {1.0, 2.0, 0.01}) == numbers{8, 2});
}

TEST_CASE("ada_comm: the period is 1 at least, and then stays") {
  CHECK(periods(minutes(16), {1.0, 0.0, 0.0, 5.0}) == numbers{1, 1, 1});
  CHECK(periods(minutes(16), {1.0, -3.0}) == numbers{1});
  CHECK(periods(minutes(1), {1.0, 1.0, 0.5}) == numbers{1, 1});
  CHECK(periods(minutes(4), {1.0, 1e-300}) == numbers{1});
}

TEST_CASE("ada_comm: as long as no loss is known, or none that can be compared, it stays") {
  period_conductor c(minutes(16));
  orders out;
  c.join(worker_id{0}, clock_index{0}, {}, out);
  for (int i = 1; i < 5; ++i) c.tick(moment(i * 60s), out);
  CHECK(out.empty());
  CHECK(c.steps() == 16);
  // Then F(0) is the first that is known.
  c.observe(moment(250s), 4.0);
  c.tick(moment(300s), out);
  CHECK(c.steps() == 16);
  c.observe(moment(330s), 1.0);
  c.tick(moment(360s), out);
  CHECK(c.steps() == 8);
  c.tick(moment(420s), out);  // nothing new
  CHECK(c.steps() == 8);
  CHECK(periods(minutes(16), {0.0, 1.0, 2.0}) == numbers{16, 16});
  CHECK(periods(minutes(16), {-1.0, 1.0, 2.0}) == numbers{16, 16});
}

TEST_CASE("ada_comm: a loss that is no number is left out, and not asked for again at once: that "
          "would never end") {
  for (double const loss : {no_number, std::numeric_limits<double>::infinity()}) {
    CHECK(periods(minutes(16), {loss, 1.0, 0.25}) == numbers{16, 8});
    CHECK(periods(minutes(16), {1.0, loss, 0.25}) == numbers{16, 8});
    CHECK(periods(minutes(16), {loss, loss, loss, loss}) == numbers{16, 16, 16});
  }
}

TEST_CASE("ada_comm: losses that leave the range of numbers break nothing") {
  constexpr double most = std::numeric_limits<double>::max();
  CHECK(periods(minutes(16), {1e-300, most, most}) == numbers{8, 4});
  CHECK(periods(minutes(16), {most, -most, most, 1.0}).back() == 1);
  period_conductor c(minutes(16));
  orders out;
  for (double const f : {most, -most, most, -most}) {
    c.observe(moment(1s), f);
    c.observe(moment(30s), f);
  }
  c.tick(moment(60s), out);
  CHECK(c.steps() >= 1);
  CHECK(c.steps() <= 16);
}

TEST_CASE("ada_comm: where bodies report the loss, F is the mean of an interval, and F(0) that of "
          "the first tenth of the first one") {
  period_conductor c(minutes(100));
  orders out;
  for (double const f : {3.0, 5.0}) c.observe(moment(1s), f);  // F(0) = 4
  c.observe(moment(6s - 1ns), 4.0);
  for (double const f : {0.5, 1.0, 1.5}) c.observe(moment(6s), f);
  c.tick(moment(60s), out);
  CHECK(c.steps() == 50);  // of the square root of 1/4
  for (double const f : {0.2, 0.3, 0.22}) c.observe(moment(61s), f);
  c.tick(moment(120s), out);
  CHECK(c.steps() == 25);  // 0.24 of this interval alone, 24.5
  // Reports may lag.
  c.observe(moment(2s), 1e9);
  c.tick(moment(180s), out);
  CHECK(c.steps() == 25);
}

TEST_CASE("ada_comm: it wants to know the loss at the start and at each interval's end") {
  period_conductor c(minutes(16));
  orders out;
  CHECK(c.next_sample() == moment(0s));
  CHECK(c.next_tick() == moment(60s));
  c.observe(moment(0s), 1.0);
  CHECK(c.next_sample() == moment(60s));
  c.observe(moment(60s), 0.5);
  c.tick(moment(60s), out);
  CHECK(c.next_sample() == moment(120s));
  CHECK(c.next_tick() == moment(120s));
}

TEST_CASE("ada_comm: a tick that comes early does nothing, one that comes late is one") {
  period_conductor c(minutes(16));
  orders out;
  c.observe(moment(0s), 1.0);
  c.observe(moment(30s), 1.0);
  c.tick(moment(60s - 1ns), out);
  CHECK(c.steps() == 16);
  c.tick(moment(200s), out);
  CHECK(c.steps() == 8);
  CHECK(c.next_tick() == moment(240s));
  c.observe(moment(210s), 1.0);
  c.tick(moment(240s), out);
  CHECK(c.steps() == 4);
  CHECK(c.next_tick() == moment(300s));
}

TEST_CASE("ada_comm: an interval that never ends is no overflow") {
  period_conductor c({.interval = duration::max()});
  orders out;
  c.observe(moment(0s), 1.0);
  c.observe(moment(30s), 1.0);
  c.tick(moment(1000h), out);
  CHECK(c.steps() == 16);
  CHECK(c.next_tick() == time_point::max());
}

TEST_CASE("ada_comm: all workers change at the same clock, one that nobody can have begun") {
  rehearsal r(minutes(16));
  for (std::uint32_t w = 0; w < 3; ++w) CHECK(r.join(w, 0).empty());
  r.commit(0, 5);
  r.commit(1, 4);
  r.commit(2, 5);
  // Somebody may be at clock 6, its report under way; nobody is beyond.
  auto const all = r.interval(0.25);
  REQUIRE(all.size() == 3);
  for (std::uint32_t w = 0; w < 3; ++w) {
    adaptive_period pace(minutes(16));
    follow(pace, all, w, w == 1 ? 4 : 6);
    CHECK(steps_in_clocks(pace, 4, 9) == numbers{16, 16, 16, 8, 8, 8});
  }
}

TEST_CASE("ada_comm: who has left gets no order, and has no say in when the change comes") {
  rehearsal r(minutes(16));
  for (std::uint32_t w = 0; w < 3; ++w) (void)r.join(w, 0);
  r.commit(0, 5);
  r.conductor.leave(worker_id{2});
  r.commit(2, 50);  // unknown by now
  r.commit(9, 60);
  auto const all = r.interval(0.25);
  REQUIRE(all.size() == 2);
  for (auto const& [to, order] : all) {
    CHECK(to < worker_id{2});
    CHECK(order.from == clock_index{7});
    CHECK(order.steps == 8);
  }
}

TEST_CASE("ada_comm: a second change that comes before the first is in use leaves it in its "
          "place") {
  rehearsal r(minutes(16));
  for (std::uint32_t w = 0; w < 2; ++w) (void)r.join(w, 0);
  for (std::uint32_t w = 0; w < 2; ++w) r.commit(w, 5);
  auto const first = r.interval(0.25);  // from clock 7 on
  r.commit(0, 6);
  auto const second = r.interval(0.0625);  // from clock 8 on
  adaptive_period slow(minutes(16));
  follow(slow, first, 1, 6);
  follow(slow, second, 1, 6);  // it is still in clock 6
  adaptive_period fast(minutes(16));
  follow(fast, first, 0, 6);
  follow(fast, second, 0, 7);
  CHECK(steps_in_clocks(slow, 6, 9) == numbers{16, 8, 4, 4});
  CHECK(steps_in_clocks(fast, 7, 9) == numbers{8, 4, 4});
  // Twice for the same clock: the later one holds.
  auto const third = r.interval(0.01);
  follow(slow, third, 1, 7);
  follow(fast, third, 0, 7);
  CHECK(steps_in_clocks(slow, 7, 9) == numbers{8, 2, 2});
  CHECK(steps_in_clocks(fast, 7, 9) == numbers{8, 2, 2});
}

TEST_CASE("ada_comm: a joiner hears of the period, and of the change that is to come") {
  rehearsal r(minutes(16));
  for (std::uint32_t w = 0; w < 2; ++w) (void)r.join(w, 0);
  for (std::uint32_t w = 0; w < 2; ++w) r.commit(w, 5);
  auto const first = r.interval(0.25);  // from clock 7 on
  auto const steps_of_joiner = [&](std::uint32_t w, std::int64_t clock) {
    adaptive_period pace(minutes(16));
    follow(pace, r.join(w, clock), w, clock);
    return steps_in_clocks(pace, clock, clock + 3);
  };
  CHECK(steps_of_joiner(2, 5) == numbers{16, 16, 8, 8});
  CHECK(steps_of_joiner(3, 7) == numbers{8, 8, 8, 8});
  for (std::uint32_t w = 0; w < 4; ++w) r.commit(w, 9);
  r.commit(1, 10);
  (void)r.interval(0.0625);  // from clock 12 on
  CHECK(steps_of_joiner(4, 10) == numbers{8, 8, 4, 4});
  for (std::uint32_t w = 0; w < 5; ++w) r.commit(w, 20 + w % 2);
  (void)r.interval(0.01);  // from clock 23 on
  (void)r.interval(0.001);
  // A commit may be here before it is at the servers, which say where a joiner starts.
  CHECK(steps_of_joiner(5, 19) == numbers{4, 4, 4, 4});
  CHECK(steps_of_joiner(6, 21) == numbers{4, 4, 1, 1});
}

TEST_CASE("ada_comm: orders that a worker keeps do not pile up") {
  rehearsal r(minutes(1'000'000));
  (void)r.join(0, 0);
  for (std::int64_t c = 1; c < 15; ++c) {
    r.commit(0, 100 * c);
    (void)r.interval(1.0);
    CHECK(r.join(1, 100 * c).size() <= 2);
    r.conductor.leave(worker_id{1});
  }
}

TEST_CASE("ada_comm: a pace that has no order makes the first number of steps, and never pauses") {
  adaptive_period const pace(minutes(7));
  CHECK(steps_in_clocks(pace, 0, 2) == numbers{7, 7, 7});
  CHECK(pace.due(of_clock(0)).at == time_point::min());
  CHECK(pace.due(of_clock(0)).steps_max == std::numeric_limits<std::int64_t>::max());
}

TEST_CASE("ada_comm: what was decided is on record") {
  rehearsal r(minutes(16));
  (void)r.join(0, 0);
  (void)r.interval(0.25);
  (void)r.interval(0.25);
  (void)r.interval(0.0);
  (void)r.interval(0.0);  // 1 it was, 1 it stays
  auto const changes = r.conductor.changes();
  REQUIRE(changes.size() == 4);
  auto const check = [&](std::size_t i, duration t, std::int64_t steps, std::string const& why) {
    CHECK(changes[i].at == moment(t));
    CHECK(changes[i].value == steps);
    CHECK(changes[i].reason == why);
  };
  check(0, 0s, 16, "given");
  check(1, 60s, 8, "the loss fell");
  check(2, 120s, 4, "the loss did not fall enough");
  check(3, 180s, 1, "the loss fell");
}

TEST_CASE("ada_comm: each option that cannot be meant is named") {
  using Catch::Contains;
  CHECK(complaint({}) == "none");
  CHECK_THAT(complaint({.first_steps = 0}), Contains("first_steps") && Contains("at least 1"));
  CHECK_THAT(complaint({.first_steps = -1}), Contains("first_steps"));
  CHECK_THAT(complaint({.interval = 0s}), Contains("interval") && Contains("above 0"));
  CHECK_THAT(complaint({.interval = -1s}), Contains("interval"));
  for (double const gamma : {0.0, 1.0, -0.5, 1.5, no_number})
    CHECK_THAT(complaint({.gamma = gamma}), Contains("gamma") && Contains("between 0 and 1"));
  CHECK(complaint({.first_steps = 1, .interval = 1ns, .gamma = 0.999}) == "none");
}

TEST_CASE("ada_comm: hands all it was told to its pace; fixed_ada_comm's period is what it says") {
  auto const o = ada_comm{.first_steps = 5, .interval = 3s, .gamma = 0.7}.pace().options();
  CHECK(o.first_steps == 5);
  CHECK(o.interval == 3s);
  CHECK(o.gamma == 0.7);
  CHECK(ada_comm{}.pace().options().gamma == 0.5);
  CHECK(fixed_ada_comm{.steps = 9}.pace().due({}).steps == 9);
  CHECK(ada_comm::name() == "ada_comm");
  CHECK(fixed_ada_comm::name() == "fixed_ada_comm");
}
