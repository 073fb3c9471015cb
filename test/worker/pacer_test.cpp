// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/pacer.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/conductor.hpp>
#include <rubato/protocol/pace.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr time_point at(duration d) { return time_point(d); }
auto clock_at(duration d) {
  return [d] { return at(d); };
}
/// A clock that nobody may look at.
auto const no_clock = []() -> time_point {
  FAIL("the time does not matter here");
  return {};
};

/// Answers what a test says, and remembers where it was asked.
struct scripted {
  std::function<commit_due(pace_point const&)>* answer;

  [[nodiscard]] commit_due due(pace_point const& p) const noexcept { return (*answer)(p); }
};
static_assert(pace_policy<scripted>);

struct minute {
  std::int64_t number = 0;
};

/// Orders nothing.
struct idle_conductor {
  using order_type = minute;
  void join(worker_id, clock_index, time_point, pace_orders<minute>&) {}
  void leave(worker_id) {}
  void commit(worker_id, clock_index, time_point) {}
  void observe(time_point, double) {}
  void tick(time_point, pace_orders<minute>&) {}
  [[nodiscard]] time_point next_tick() const noexcept { return time_point::max(); }
  [[nodiscard]] time_point next_sample() const noexcept { return time_point::max(); }
  [[nodiscard]] std::span<pace_change const> changes() const noexcept { return {}; }
};

struct heard {
  std::vector<duration> spent;
  std::vector<std::pair<std::int64_t, pace_point>> orders;
};

/// Commits are due at the minute that was ordered, less what was spent last.
struct by_the_minute {
  heard* log;
  std::int64_t number = 0;
  duration early{};

  [[nodiscard]] commit_due due(pace_point const&) const noexcept {
    return {.at = time_point(number * 60s) - early};
  }
  void follow(minute const& m, pace_point const& p) {
    number = m.number;
    log->orders.emplace_back(m.number, p);
  }
  void spent(duration d) {
    early = d;
    log->spent.push_back(d);
  }
  [[nodiscard]] idle_conductor make_conductor() const { return {}; }
};
static_assert(conducted_pace<by_the_minute>);

/// As its worker gets it.
template <class Order>
conductor::order order_of(Order const& o) {
  auto const bytes = std::as_bytes(std::span(&o, 1));
  return {bytes.begin(), bytes.end()};
}

using durations = std::vector<duration>;

}  // namespace

TEST_CASE("pacer: a commit is due after so many steps, in each clock anew") {
  pacer p(every{3}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  for (int c = 1; c < 4; ++c) {
    for (int s = 0; s < 3; ++s) {
      CHECK_FALSE(p.due(no_clock));
      CHECK(p.steps() == s);
      p.step();
    }
    CHECK(p.due(no_clock));
    p.step();  // somebody goes on without committing
    CHECK(p.due(no_clock));
    p.begin(clock_index{c}, at(0s));
    CHECK(p.steps() == 0);
  }
}

TEST_CASE("pacer: a commit is due once the time has come and the steps are made, both") {
  std::function<commit_due(pace_point const&)> answer = [](pace_point const&) {
    return commit_due{.steps = 2, .at = at(10s)};
  };
  pacer p(scripted{&answer}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  p.step();
  CHECK_FALSE(p.due(clock_at(11s)));
  p.step();
  CHECK_FALSE(p.due(clock_at(10s - 1ns)));
  CHECK(p.due(clock_at(10s)));
  CHECK(p.due(clock_at(1h)));
  p.step();
  CHECK_FALSE(p.due(clock_at(9s)));
}

TEST_CASE("pacer: what is due never is never due") {
  std::function<commit_due(pace_point const&)> answer = [](pace_point const&) {
    return commit_due{.at = time_point::max()};
  };
  pacer p(scripted{&answer}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  p.step();
  CHECK_FALSE(p.due(clock_at(100'000h)));
}

TEST_CASE("pacer: the pace hears who asks, in which clock, and when that began") {
  std::vector<pace_point> asked;
  std::function<commit_due(pace_point const&)> answer = [&](pace_point const& q) {
    asked.push_back(q);
    return commit_due{};
  };
  pacer p(scripted{&answer}, worker_id{7});
  p.begin(clock_index{4}, at(1s));
  p.begin(clock_index{5}, at(3s));
  REQUIRE(asked.size() == 2);
  CHECK(asked[0].clock == clock_index{4});
  CHECK(asked[0].committed_at == at(1s));
  CHECK(asked[0].worker == worker_id{7});
  CHECK(asked[1].clock == clock_index{5});
  CHECK(asked[1].committed_at == at(3s));
}

TEST_CASE("pacer: who has made the most steps pauses until the commit is due, others do not") {
  std::function<commit_due(pace_point const&)> answer = [](pace_point const&) {
    return commit_due{.steps = 1, .at = at(10s), .steps_max = 3};
  };
  pacer p(scripted{&answer}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  for (int s = 0; s < 3; ++s) {
    CHECK(p.pause(no_clock) == time_point::min());
    p.step();
  }
  CHECK(p.pause(clock_at(4s)) == at(10s));
  CHECK(p.pause(clock_at(10s - 1ns)) == at(10s));
  CHECK(p.pause(clock_at(10s)) == time_point::min());
  p.step();
  CHECK(p.pause(clock_at(4s)) == at(10s));
}

TEST_CASE("pacer: without a time there is nothing to pause for") {
  std::function<commit_due(pace_point const&)> answer = [](pace_point const&) {
    return commit_due{.steps = 2, .steps_max = 2};
  };
  pacer p(scripted{&answer}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  p.step();
  p.step();
  CHECK(p.pause(clock_at(0s)) == time_point::min());
  CHECK(p.due(clock_at(0s)));
}

TEST_CASE("pacer: a pace that answers what cannot be is told so") {
  commit_due said;
  std::function<commit_due(pace_point const&)> answer = [&](pace_point const&) { return said; };
  pacer p(scripted{&answer}, worker_id{0});
  for (std::int64_t const steps : {0, -1}) {
    said = {.steps = steps};
    CHECK_THROWS_AS(p.begin(clock_index{0}, at(0s)), option_error);
  }
  said = {.steps = 5, .steps_max = 4};
  CHECK_THROWS_WITH(p.begin(clock_index{0}, at(0s)),
                    Catch::Contains("pace") && Catch::Contains("at least 5 steps and at most 4"));
  said = {.steps = 5, .steps_max = 5};
  CHECK_NOTHROW(p.begin(clock_index{0}, at(0s)));
}

TEST_CASE("pacer: an order counts at once, in the clock under way") {
  heard log;
  pacer p(by_the_minute{&log, 5}, worker_id{3});
  p.begin(clock_index{2}, at(100s));
  p.step();
  CHECK_FALSE(p.due(clock_at(130s)));
  p.follow(order_of(minute{2}));
  CHECK(p.due(clock_at(130s)));
  CHECK(p.steps() == 1);
  REQUIRE(log.orders.size() == 1);
  CHECK(log.orders[0].first == 2);
  CHECK(log.orders[0].second.clock == clock_index{2});
  CHECK(log.orders[0].second.committed_at == at(100s));
  CHECK(log.orders[0].second.worker == worker_id{3});
}

TEST_CASE("pacer: what cannot be an order of the pace's conductor is refused") {
  heard log;
  pacer p(by_the_minute{&log, 1}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  CHECK_THROWS_AS(p.follow(order_of(std::int32_t{2})), option_error);
  CHECK_THROWS_WITH(p.follow({}), Catch::Contains("order of 0 bytes"));
  CHECK(log.orders.empty());
  pacer alone(every{3}, worker_id{0});
  alone.begin(clock_index{0}, at(0s));
  CHECK_THROWS_AS(alone.follow(order_of(minute{2})), option_error);
}

TEST_CASE("pacer: a commit and the fetches before the next step are an exchange (rules §5)") {
  heard log;
  pacer p(by_the_minute{&log, 1}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  p.committed(3s);
  p.begin(clock_index{1}, at(50s));
  p.fetched(4s);
  p.fetched(1s);  // another table, or more rows
  CHECK(log.spent.empty());
  p.step();
  CHECK(log.spent == durations{8s});
  p.fetched(100s);  // something read later
  p.step();
  CHECK(log.spent == durations{8s});
  CHECK(p.due(clock_at(52s)));  // it was asked again with that in mind
  CHECK_FALSE(p.due(clock_at(52s - 1ns)));
}

TEST_CASE("pacer: a commit with no fetch after it is an exchange by itself") {
  heard log;
  pacer p(by_the_minute{&log, 1}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  p.committed(3s);
  p.begin(clock_index{1}, at(10s));
  p.committed(5s);
  CHECK(log.spent == durations{3s});
  p.begin(clock_index{2}, at(20s));
  p.fetched(1s);
  p.step();
  CHECK(log.spent == durations{3s, 6s});
}

TEST_CASE("pacer: before the first commit the first pulls are what is known of an exchange") {
  heard log;
  pacer p(by_the_minute{&log, 1}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  p.fetched(9s);
  p.step();
  CHECK(log.spent == durations{9s});
  p.fetched(8s);
  p.step();
  CHECK(log.spent == durations{9s});
}

TEST_CASE("pacer: who pulls nothing before its first commit has not exchanged in no time") {
  heard log;
  pacer p(by_the_minute{&log, 1}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  p.step();
  p.committed(3s);
  p.begin(clock_index{1}, at(10s));
  p.fetched(4s);
  CHECK(log.spent.empty());
  p.step();
  CHECK(log.spent == durations{7s});
}

TEST_CASE("pacer: a pause that would never end is none") {
  struct never {
    [[nodiscard]] commit_due due(pace_point const&) const noexcept {
      return {.at = time_point::max(), .steps_max = 2};
    }
  };
  pacer p(never{}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  for (int i = 0; i < 5; ++i) p.step();
  CHECK(p.pause(clock_at(1s)) == time_point::min());
  CHECK_FALSE(p.due(clock_at(1s)));
}

TEST_CASE("pacer: who waits for a time while none passes is told so") {
  heard log;
  pacer p(by_the_minute{&log, 1}, worker_id{7});
  p.begin(clock_index{0}, at(0s));
  auto const steps = [&](int n, duration each) {
    for (int i = 0; i < n; ++i) {
      p.step();
      (void)p.due(clock_at(i * each));
    }
  };
  CHECK_NOTHROW(steps(1'500'000, 1ns));
  CHECK_THROWS_WITH(steps(1'500'000, 0ns),
                    Catch::Contains("worker 7") && Catch::Contains("work_cost"));
}

TEST_CASE("pacer: that a commit takes no time has been measured, and counts") {
  heard log;
  pacer p(by_the_minute{&log, 1}, worker_id{0});
  p.begin(clock_index{0}, at(0s));
  p.fetched(0s);
  p.step();
  CHECK(log.spent.empty());
  p.committed(0s);
  p.begin(clock_index{1}, at(30s));
  p.step();
  CHECK(log.spent == durations{0s});
}
