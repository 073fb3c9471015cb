// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/rate_search.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>

using namespace rubato;
using namespace std::chrono_literals;

namespace {

using rates = std::vector<std::int64_t>;

constexpr time_point instant(duration d) { return time_point(d); }
constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

/// Checkpoints every 10 s, probes of two periods, epochs of five probes.
constexpr commit_rate_options usual{.check_period = 10s,
                                    .epoch = 100s,
                                    .probe_period = 20s,
                                    .first_rate = 1,
                                    .search = true,
                                    .samples = 9};

/// A training whose loss is 1/u + 0.1, where u grows by `speed(rate)` per second.
class training {
 public:
  explicit training(std::function<double(std::int64_t)> speed) : speed_(std::move(speed)) {}

  [[nodiscard]] double loss(duration t, std::int64_t rate) {
    u_ += speed_(rate) * to_seconds(t - now_);
    now_ = t;
    return 1 / u_ + 0.1;
  }

 private:
  std::function<double(std::int64_t)> speed_;
  double u_ = 0.5;
  duration now_{0};
};

/// How a search goes whose losses are evaluated when it asks: the rate of each of `periods`.
rates evaluated(rate_search& s, std::function<double(std::int64_t)> speed, int periods,
                duration period = 10s, duration begin = 0s) {
  training model(std::move(speed));
  rates tried;
  for (int p = 0; p < periods; ++p) {
    tried.push_back(s.checkpoint(instant(begin + p * period)));
    int asked = 0;
    while (s.next_sample() < instant(begin + (p + 1) * period)) {
      time_point const t = s.next_sample();
      s.observe(t, model.loss(t.since_start() - begin, s.rate()));
      REQUIRE(t < s.next_sample());
      REQUIRE(++asked <= 100);
    }
    (void)model.loss((p + 1) * period, s.rate());
  }
  return tried;
}

rates evaluated(std::function<double(std::int64_t)> speed, int periods) {
  rate_search s(usual);
  return evaluated(s, std::move(speed), periods);
}

/// Twice as fast with each step up to `best`, and half as fast with each beyond.
auto peak_at(std::int64_t best) {
  return [best](std::int64_t rate) {
    return 0.02 * std::pow(2.0, static_cast<double>(rate < best ? rate : 2 * best - rate));
  };
}

std::string complaint(commit_rate_options const& o) {
  try {
    rate_search const s(o);
  } catch (option_error const& e) {
    return e.what();
  }
  return "none";
}

template <class Change>
std::string complaint_after(Change change) {
  commit_rate_options o = usual;
  change(o);
  return complaint(o);
}

}  // namespace

TEST_CASE("rate_search: an epoch begins with a probe at the first rate and one at the next "
          "(rules §5)") {
  CHECK(evaluated(peak_at(1), 4) == rates{1, 1, 2, 2});
  rate_search s({.check_period = 10s,
                 .epoch = 100s,
                 .probe_period = 10s,
                 .first_rate = 7,
                 .samples = 9});
  CHECK(evaluated(s, peak_at(1), 2) == rates{7, 8});
}

TEST_CASE("rate_search: it steps up while that is faster, then keeps the best (003 §4.2)") {
  CHECK(evaluated(peak_at(1), 10) == rates{1, 1, 2, 2, 1, 1, 1, 1, 1, 1});
  CHECK(evaluated(peak_at(2), 10) == rates{1, 1, 2, 2, 3, 3, 2, 2, 2, 2});
  CHECK(evaluated(peak_at(3), 10) == rates{1, 1, 2, 2, 3, 3, 4, 4, 3, 3});
}

TEST_CASE("rate_search: a probe is compared with the one before it, not with the first "
          "(rules §5)") {
  // 3 is faster than 1, but slower than 2.
  auto const speed = [](std::int64_t rate) { return rate == 2 ? 0.16 : rate == 3 ? 0.08 : 0.02; };
  CHECK(evaluated(speed, 10) == rates{1, 1, 2, 2, 3, 3, 2, 2, 2, 2});
}

TEST_CASE("rate_search: an equal rate is no step up") {
  CHECK(evaluated([](std::int64_t) { return 0.05; }, 6) == rates{1, 1, 2, 2, 1, 1});
}

TEST_CASE("rate_search: a new epoch searches from the first rate again (rules §5)") {
  rates expected{1, 1, 2, 2, 3, 3, 2, 2, 2, 2};
  rates const again = expected;
  expected.insert(expected.end(), again.begin(), again.end());
  CHECK(evaluated(peak_at(2), 20) == expected);
}

TEST_CASE("rate_search: with no losses at all, or too few, the first rate is kept") {
  for (int const losses : {0, 1, 8, 9}) {
    rate_search s(usual);
    rates tried;
    for (int p = 0; p < 12; ++p) {
      tried.push_back(s.checkpoint(instant(p * 10s)));
      // One for each slot of a probe, up to so many.
      for (int i = 0; i < losses; ++i) {
        duration const t = p / 2 * 20s + stretch(20s, (i + 0.5) / 9);
        if (t >= p * 10s && t < (p + 1) * 10s) s.observe(instant(t), 1.0);
      }
    }
    std::int64_t const second = losses == 9 ? 2 : 1;
    CHECK(tried == rates{1, 1, second, second, 1, 1, 1, 1, 1, 1, 1, 1});
  }
}

TEST_CASE("rate_search: what tells nothing does not step up (rules §5)") {
  auto const with_losses = [](auto loss) {
    rate_search s(usual);
    rates tried;
    int n = 0;
    for (int p = 0; p < 8; ++p) {
      tried.push_back(s.checkpoint(instant(p * 10s)));
      for (int i = 0; i < 5; ++i) s.observe(instant(p * 10s + 1s + i * 2s), loss(n++));
    }
    return tried;
  };
  rates const stays{1, 1, 2, 2, 1, 1, 1, 1};
  CHECK(with_losses([](int) { return 2.5; }) == stays);
  CHECK(with_losses([](int n) { return 1.0 + 0.1 * n; }) == stays);            // rising
  CHECK(with_losses([](int n) { return n % 2 == 0 ? 3.0 : 1.0; }) == stays);   // noise
  rates const tries_nothing(8, 1);
  CHECK(with_losses([](int) { return not_a_number; }) == tries_nothing);
  CHECK(with_losses([](int n) { return n < 10 ? not_a_number : 5.0 / n; }) == tries_nothing);
  CHECK(with_losses([](int n) { return n < 10 ? 5.0 / (n + 1) : not_a_number; }) == stays);
}

TEST_CASE("rate_search: a step up that nothing is known of goes back to the last good rate") {
  // Losses are heard up to 40 s only: 2 was faster than 1, of 3 nothing is known.
  rate_search s(usual);
  training model([](std::int64_t rate) { return rate == 1 ? 0.02 : 0.2; });
  rates tried;
  for (int p = 0; p < 8; ++p) {
    tried.push_back(s.checkpoint(instant(p * 10s)));
    for (int i = 0; i < 5 && p < 4; ++i) {
      duration const t = p * 10s + 1s + i * 2s;
      s.observe(instant(t), model.loss(t, s.rate()));
    }
  }
  CHECK(tried == rates{1, 1, 2, 2, 3, 3, 2, 2});
}

TEST_CASE("rate_search: it wants a loss in the middle of each slot, and none while a rate is "
          "kept") {
  rate_search s(usual);
  CHECK(s.next_sample() == time_point::max());  // before the run has begun
  (void)s.checkpoint(instant(100s));
  for (int i = 0; i < 9; ++i) {
    time_point const expected = instant(100s + stretch(20s, (i + 0.5) / 9));
    CHECK(s.next_sample() == expected);
    s.observe(expected, 1.0);
  }
  CHECK(s.next_sample() == time_point::max());
  (void)s.checkpoint(instant(110s));
  CHECK(s.next_sample() == time_point::max());
  (void)s.checkpoint(instant(120s));
  CHECK(s.next_sample() == instant(120s + stretch(20s, 0.5 / 9)));
  (void)s.checkpoint(instant(130s));
  (void)s.checkpoint(instant(140s));
  CHECK(s.rate() == 1);
  CHECK(s.next_sample() == time_point::max());
  s.observe(instant(145s), 1.0);
  CHECK(s.next_sample() == time_point::max());
}

TEST_CASE("rate_search: who evaluates late leaves slots out") {
  rate_search s(usual);
  (void)s.checkpoint(instant(0s));
  s.observe(instant(stretch(20s, 4.7 / 9)), 1.0);
  CHECK(s.next_sample() == instant(stretch(20s, 5.5 / 9)));
  s.observe(instant(stretch(20s, 1.5 / 9)), 1.0);  // overtaken
  CHECK(s.next_sample() == instant(stretch(20s, 5.5 / 9)));
}

TEST_CASE("rate_search: a loss that is no number is not asked for again at once: that would never "
          "end") {
  for (double const loss : {not_a_number, std::numeric_limits<double>::infinity()}) {
    rate_search s(usual);
    (void)s.checkpoint(instant(0s));
    for (int i = 0; i < 9; ++i) {
      time_point const asked = s.next_sample();
      REQUIRE(asked < instant(20s));
      s.observe(asked, loss);
      REQUIRE(asked < s.next_sample());
    }
    CHECK(s.next_sample() == time_point::max());
  }
}

TEST_CASE("rate_search: however short the slots are, the next sample moves on") {
  for (duration const probe : {18ns, 19ns, 100ns, 1000ns, 1000003ns}) {
    rate_search s({.check_period = probe,
                   .epoch = 4 * probe,
                   .probe_period = probe,
                   .first_rate = 1,
                   .samples = 9});
    for (int p = 0; p < 2; ++p) {
      (void)s.checkpoint(instant(p * probe));
      int asked = 0;
      while (s.next_sample() < instant((p + 1) * probe)) {
        time_point const t = s.next_sample();
        REQUIRE(instant(p * probe) <= t);
        s.observe(t, 1.0);
        REQUIRE(t < s.next_sample());
        ++asked;
      }
      CHECK(asked == 9);
    }
  }
}

TEST_CASE("rate_search: losses that fall into one slot are averaged") {
  // What bodies report: many losses per slot, far off, and right on average.
  auto const tried = [](bool both) {
    rate_search s(usual);
    training model(peak_at(2));
    rates all;
    int n = 0;
    for (int p = 0; p < 10; ++p) {
      all.push_back(s.checkpoint(instant(p * 10s)));
      for (int slot = 0; slot < 9; ++slot) {
        duration const middle = p / 2 * 20s + stretch(20s, (slot + 0.5) / 9);
        if (middle < p * 10s || middle >= (p + 1) * 10s) continue;
        double const right = model.loss(middle, s.rate());
        double const off = n++ % 2 == 0 ? 0.9 : -0.9;
        for (int i = 0; i < 4; ++i) s.observe(instant(middle), right + off);
        if (both)
          for (int i = 0; i < 4; ++i) s.observe(instant(middle), right - off);
      }
    }
    return all;
  };
  CHECK(tried(true) == rates{1, 1, 2, 2, 3, 3, 2, 2, 2, 2});
  CHECK(tried(false) == rates{1, 1, 2, 2, 1, 1, 1, 1, 1, 1});
}

TEST_CASE("rate_search: so are their times") {
  // Both rates are equal. In the second probe's last slots the first loss comes early and twenty
  // more come late: by the first one's time the loss would have fallen faster.
  rate_search s(usual);
  training model([](std::int64_t) { return 0.05; });
  rates tried;
  for (int p = 0; p < 6; ++p) {
    tried.push_back(s.checkpoint(instant(p * 10s)));
    for (int slot = 0; slot < 9; ++slot) {
      auto const moment = [&](double place) {
        return p / 2 * 20s + stretch(20s, (slot + place) / 9);
      };
      duration const late = moment(0.95);
      if (late < p * 10s || late >= (p + 1) * 10s) continue;
      if (p / 2 == 1 && slot >= 5) s.observe(instant(moment(0.05)), model.loss(moment(0.05), 2));
      double const loss = model.loss(late, 2);
      for (int i = 0; i < 20; ++i) s.observe(instant(late), loss);
    }
  }
  CHECK(tried == rates{1, 1, 2, 2, 1, 1});
}

TEST_CASE("rate_search: a loss of the probe before, or from after the probe, counts for nothing") {
  auto const tried = [](bool disturbed) {
    rate_search s(usual);
    training model(peak_at(2));
    rates all;
    for (int p = 0; p < 10; ++p) {
      all.push_back(s.checkpoint(instant(p * 10s)));
      for (int i = 0; i < 5; ++i) {
        duration const t = p * 10s + 1s + i * 2s;
        s.observe(instant(t), model.loss(t, s.rate()));
        if (!disturbed) continue;
        s.observe(instant(p / 2 * 20s - 1ns), 1e6);
        s.observe(instant(p / 2 * 20s + 20s), 1e6);
        s.observe(time_point::max(), 1e6);
        s.observe(time_point::min(), 1e6);
      }
    }
    return all;
  };
  CHECK(tried(true) == tried(false));
  CHECK(tried(true) == rates{1, 1, 2, 2, 3, 3, 2, 2, 2, 2});
}

TEST_CASE("rate_search: what was heard while a rate was kept does not count in the next epoch") {
  rate_search s(usual);
  (void)evaluated(s, peak_at(1), 5);
  for (int i = 0; i < 50; ++i) s.observe(instant(50s + i * 1s), 1e9);
  (void)s.checkpoint(instant(100s));
  CHECK(s.next_sample() == instant(100s + stretch(20s, 0.5 / 9)));
}

TEST_CASE("rate_search: a checkpoint that comes late ends the probe then") {
  rate_search s(usual);
  auto const probe_from = [&](duration t) {
    for (int i = 0; i < 9; ++i) s.observe(instant(t + stretch(20s, (i + 0.5) / 9)), 1.0);
  };
  CHECK(s.checkpoint(instant(0s)) == 1);
  probe_from(0s);
  CHECK(s.checkpoint(instant(30s)) == 2);  // that of 20 s was missed
  probe_from(30s);
  CHECK(s.checkpoint(instant(40s)) == 2);
  CHECK(s.checkpoint(instant(50s)) == 1);
  CHECK(s.checkpoint(instant(250s)) == 1);  // an epoch began meanwhile
  probe_from(250s);
  CHECK(s.checkpoint(instant(260s)) == 1);
  CHECK(s.checkpoint(instant(270s)) == 2);
}

TEST_CASE("rate_search: an epoch of two probes only compares nothing") {
  rate_search s({.check_period = 10s,
                 .epoch = 20s,
                 .probe_period = 10s,
                 .first_rate = 3,
                 .samples = 9});
  CHECK(evaluated(s, peak_at(9), 6) == rates{3, 4, 3, 4, 3, 4});
}

TEST_CASE("rate_search: its decisions are on record, with the reasons") {
  rate_search s(usual);
  (void)evaluated(s, peak_at(2), 11);
  REQUIRE(s.changes().size() == 5);
  auto const check = [&](std::size_t i, duration t, std::int64_t rate, std::string const& why) {
    CHECK(s.changes()[i].at == instant(t));
    CHECK(s.changes()[i].value == rate);
    CHECK(s.changes()[i].reason == why);
  };
  check(0, 0s, 1, "an epoch begins");
  check(1, 20s, 2, "the first step up");
  check(2, 40s, 3, "faster");
  check(3, 60s, 2, "no faster");
  check(4, 100s, 1, "an epoch begins");

  rate_search in_the_dark(usual);
  for (int p = 0; p < 5; ++p) (void)in_the_dark.checkpoint(instant(p * 10s));
  REQUIRE(in_the_dark.changes().size() == 2);
  CHECK(in_the_dark.changes()[1].reason == std::string("too few losses are known"));
  CHECK(in_the_dark.changes()[1].value == 1);
}

TEST_CASE("rate_search: a run that begins at another time goes the same way") {
  rate_search s(usual);
  CHECK(evaluated(s, peak_at(3), 10, 10s, 5000s) == rates{1, 1, 2, 2, 3, 3, 4, 4, 3, 3});
}

TEST_CASE("rate_search: without a search the first rate holds throughout") {
  rate_search s({.check_period = 7s, .first_rate = 4, .search = false, .samples = 0});
  for (int p = 0; p < 500; ++p) CHECK(s.checkpoint(instant(p * 7s)) == 4);
  CHECK(s.next_sample() == time_point::max());
  s.observe(instant(3600s), 1.0);
  REQUIRE(s.changes().size() == 1);
  CHECK(s.changes()[0].at == instant(0s));
  CHECK(s.changes()[0].value == 4);
}

TEST_CASE("rate_search: each option that cannot be meant is named, with what was expected") {
  using o = commit_rate_options;
  using Catch::Contains;
  CHECK(complaint(usual) == "none");
  CHECK(complaint({}) == "none");
  CHECK_THAT(complaint_after([](o& x) { x.check_period = 0s; }),
             Contains("check_period") && Contains("above 0") && Contains("is 0"));
  CHECK_THAT(complaint_after([](o& x) { x.check_period = -1ns; }), Contains("check_period"));
  CHECK_THAT(complaint_after([](o& x) { x.first_rate = 0; }),
             Contains("first_rate") && Contains("at least 1") && Contains("is 0"));
  CHECK_THAT(complaint_after([](o& x) { x.first_rate = -3; }), Contains("first_rate"));
  CHECK_THAT(complaint_after([](o& x) { x.first_rate = std::numeric_limits<std::int64_t>::max(); }),
             Contains("first_rate"));
  CHECK_THAT(complaint_after([](o& x) { x.probe_period = 0s; }), Contains("probe_period"));
  CHECK_THAT(complaint_after([](o& x) { x.probe_period = -10s; }), Contains("probe_period"));
  CHECK_THAT(complaint_after([](o& x) { x.probe_period = 15s; }),
             Contains("probe_period") && Contains("whole number of check periods"));
  CHECK_THAT(complaint_after([](o& x) { x.epoch = 95s; }),
             Contains("epoch") && Contains("whole number of check periods"));
  CHECK_THAT(complaint_after([](o& x) { x.epoch = 30s; }),
             Contains("epoch") && Contains("two probe periods"));
  CHECK_THAT(complaint_after([](o& x) { x.epoch = -100s; }), Contains("epoch"));
  CHECK_THAT(complaint_after([](o& x) { x.epoch = 0s; }), Contains("epoch"));
  CHECK_THAT(complaint_after([](o& x) { x.samples = 8; }),
             Contains("samples") && Contains("from 9 to 100000") && Contains("is 8"));
  CHECK_THAT(complaint_after([](o& x) { x.samples = 1'000'000'000; }), Contains("samples"));
  CHECK_THAT(complaint_after([](o& x) { x.samples = std::numeric_limits<std::size_t>::max(); }),
             Contains("samples"));
  CHECK(complaint_after([](o& x) { x.epoch = 40s; }) == "none");
  // What the search alone needs is not asked for without one.
  CHECK(complaint({.check_period = 7s, .first_rate = 1, .search = false, .samples = 0}) == "none");
  CHECK_THAT(complaint({.check_period = 0s, .search = false}), Contains("check_period"));
  CHECK_THAT(complaint({.first_rate = 0, .search = false}), Contains("first_rate"));
}
