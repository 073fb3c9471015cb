// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>

#include <cstdint>
#include <limits>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/dssp.hpp>
#include <rubato/protocol/gaia.hpp>
#include <rubato/protocol/fed_buff.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/adam.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/protocol/visibility.hpp>
#include <rubato/storage/arithmetic.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/multi_version.hpp>

#include "server/lone_number.hpp"

using namespace rubato;
using test::lone_number;
using test::numbers;

namespace {

/// A barrier of each worker with the one that comes next; the last one waits for nobody.
struct next_one : unbounded {
  [[nodiscard]] clock_index need(clock_index c, staleness) const noexcept { return c; }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness) const noexcept { return c; }
  [[nodiscard]] bool heeds(worker_id reader, worker_id other, clock_index) const noexcept {
    return other.value() == reader.value() + 1;
  }
};
static_assert(heeding_admission<next_one>);

/// It says of itself that it limits, too.
struct next_one_with_a_limit : next_one {
  static constexpr bool limits = true;
  [[nodiscard]] double limit(clock_index) const noexcept { return 1; }
};

void push_at(lone_number& s, std::uint32_t w, int at) { s.push(w, 1, 0, time_point(seconds(at))); }

rules chain() { return with(rules(psp{.of = 3}), next_one{}); }

}  // namespace

TEST_CASE("a read waits for those that it heeds, and for nobody else", "[server][admissions]") {
  lone_number s(chain(), 3);
  for (std::uint32_t w = 0; w < 3; ++w) CHECK(s.read(w));
  s.push(0, 1);
  CHECK_FALSE(s.read(0));
  s.push(2, 1);
  CHECK(s.freed().empty());
  CHECK(s.read(2));
  s.push(1, 1);
  CHECK(s.freed() == numbers{0});
  CHECK(s.read(1));
}

TEST_CASE("an admission that has more than one of what a server asks one of is refused", "[server][admissions]") {
  CHECK_THROWS_WITH((test::lone_shard{with(rules(psp{.of = 3}), next_one_with_a_limit{}), dense<double>{.rows = 1}}),
                    Catch::Contains("more than one of heeds(), extra() and limit()"));
}

TEST_CASE("who is gone is not waited for, and who comes is", "[server][admissions]") {
  lone_number s(chain(), 3);
  s.push(1, 1);
  CHECK_FALSE(s.read(1));
  s.order(membership_order::kind::freeze, 2, 0);
  s.order(membership_order::kind::drop, 2, 0);
  CHECK(s.freed() == numbers{1});
  // It has committed nothing yet when worker 1 is at 2, nor has worker 0, which that does not heed.
  s.push(1, 1);
  s.order(membership_order::kind::enlist, 2, 0);
  CHECK_FALSE(s.read(1));
  s.order(membership_order::kind::start, 2, 2);
  CHECK(s.freed() == numbers{1});
  s.order(membership_order::kind::drop, 1, 2);
  CHECK(s.read(0));
}

TEST_CASE("a worker that does not wait any more is not let in", "[server][admissions]") {
  lone_number s(chain(), 2);
  s.push(0, 1);
  CHECK_FALSE(s.read(0));
  s.server.withdraw(worker_id{0});
  s.push(1, 1);
  CHECK(s.freed().empty());
  CHECK(s.read(0));
}

TEST_CASE("who would wait makes as many clocks more as bring it closest to the slowest worker's next commit",
          "[server][admissions]") {
  lone_number s(dssp{.low = 1, .high = 6}, 2);
  // The fast one commits each 10 s, the slow one each 35 s, last at 70 s.
  push_at(s, 1, 35);
  push_at(s, 1, 70);
  for (int i = 1; i <= 3; ++i) push_at(s, 0, 50 + 10 * i);
  CHECK(s.read(0));
  push_at(s, 0, 90);
  // At 90 s, two clocks ahead: the slow one's next is expected at 105 s. After one clock more it is 5 s to there, after
  // five of them 0 s to the next but one, at 140 s.
  for (int i = 0; i < 5; ++i) {
    CHECK(s.read(0));
    push_at(s, 0, 100 + 10 * i);
  }
  CHECK_FALSE(s.read(0));  // all that was granted is used up, and s_U is reached
  push_at(s, 1, 140);
  CHECK(s.freed().empty());
  for (int i = 1; i <= 5; ++i) push_at(s, 1, 140 + 35 * i);
  CHECK(s.freed() == numbers{0});
}

TEST_CASE("nothing is granted to who has not committed twice, or is not the fastest, or asks for less",
          "[server][admissions]") {
  lone_number s(dssp{.low = 0, .high = 8}, 3);
  auto const waits = [&s](staleness asked) {
    bool const let_in = s.read(0, asked);
    s.server.withdraw(worker_id{0});
    return !let_in;
  };
  for (int i = 1; i <= 5; ++i) push_at(s, 1, 5 * i);
  push_at(s, 2, 29);
  push_at(s, 2, 58);
  for (int i = 1; i <= 3; ++i) push_at(s, 0, 10 * i);
  CHECK(waits(staleness::infinite()));  // worker 1 is ahead
  for (int i = 4; i <= 6; ++i) push_at(s, 0, 10 * i);
  CHECK(waits(0));
  CHECK_FALSE(waits(staleness::infinite()));

  lone_number once(dssp{.low = 0, .high = 8}, 2);
  push_at(once, 0, 10);
  CHECK_FALSE(once.read(0));
}

TEST_CASE("an extension needs a bound that is finite, and servers that let workers in", "[server][admissions]") {
  dense<double> const table{.rows = 1};
  CHECK_THROWS_WITH((test::lone_shard{rules(dssp{.low = 1, .high = staleness::infinite()}), table}),
                    Catch::Contains("expected a bound that is finite"));
  CHECK_THROWS_WITH((test::lone_shard{with(rules(dssp{}), stable_cut{}), table}), Catch::Contains("the coordinator"));
  CHECK_FALSE(blueprint(dssp{}, 1, {describe(table)}).shares_reads());
}

TEST_CASE("a worker goes on while others know of all it has changed but for the limit", "[server][admissions]") {
  lone_number s(vap{.first = 1}, 2);
  CHECK(s.read(0));
  CHECK(s.read(1));
  s.push(0, -0.6);
  CHECK(s.read(0));  // 0.6 of 1/sqrt(2)
  s.push(0, 0.2);
  CHECK_FALSE(s.read(0));  // 0.8 of 1/sqrt(3): worker 1 must know of the first one
  s.push(1, 0);
  CHECK(s.freed().empty());
  CHECK(s.read(1));
  CHECK(s.freed() == numbers{0});
  CHECK(s.read(0));  // a second one at this clock
  s.push(0, 5);
  CHECK_FALSE(s.read(0));  // greater than the limit alone: worker 1 must know of all
  s.push(1, 0);
  CHECK(s.read(1));
  CHECK(s.freed() == numbers{0});
}

TEST_CASE("what a worker reads later at a clock does not make up for what it has read first", "[server][admissions]") {
  lone_number s(vap{.first = 1}, 2);
  CHECK(s.read(0));
  CHECK(s.read(1));
  s.push(0, 5);
  CHECK(s.read(1));
  CHECK_FALSE(s.read(0));
}

TEST_CASE("who waits knows of everything, and who is gone of all there is to know", "[server][admissions]") {
  lone_number s(vap{.first = 0}, 3);
  for (std::uint32_t w = 0; w < 3; ++w) CHECK(s.read(w));
  s.push(0, 1);
  s.push(1, 1);
  CHECK_FALSE(s.read(0));
  CHECK_FALSE(s.read(1));  // worker 2 computes
  s.push(2, 1);
  CHECK(s.read(2));  // and the others wait
  CHECK(s.freed().size() == 2);
  s.push(0, 1);
  CHECK_FALSE(s.read(0));
  s.order(membership_order::kind::freeze, 2, 0);
  s.order(membership_order::kind::drop, 2, 1);
  CHECK(s.freed().empty());
  s.order(membership_order::kind::drop, 1, 1);
  CHECK(s.freed() == numbers{0});
}

TEST_CASE("changes count by their weight, and those of integers, too", "[server][admissions]") {
  lone_number half(with(rules(vap{.first = 1}), scale{.lambda = 0.5}), 2);
  CHECK(half.read(0));
  CHECK(half.read(1));
  half.push(0, 1.4);
  CHECK(half.read(0));  // 0.7 of 1/sqrt(2)
  half.push(0, 0.1);
  CHECK_FALSE(half.read(0));

  std::vector<std::int64_t> const some{0, -7, 3, std::numeric_limits<std::int64_t>::min()};
  CHECK(detail::greatest_magnitude(some.data(), 3) == 7);
  CHECK(detail::greatest_magnitude(some.data(), 4) == 0x1p63);
  std::vector<float> many(100, 0.5F);
  many[31] = -2;
  many[97] = std::numeric_limits<float>::quiet_NaN();
  double const infinite = std::numeric_limits<double>::infinity();
  CHECK(detail::greatest_magnitude(many.data(), many.size()) == infinite);
  CHECK(detail::greatest_magnitude(many.data(), 97) == 2);
  CHECK(detail::greatest_magnitude(many.data(), 0) == 0);
  many[97] = -std::numeric_limits<float>::infinity();
  CHECK(detail::greatest_magnitude(many.data(), many.size()) == infinite);
  many[5] = std::numeric_limits<float>::quiet_NaN();
  CHECK(detail::greatest_magnitude(many.data(), 30) == infinite);
}

TEST_CASE("what is not a number changes more than any limit", "[server][admissions]") {
  for (double const weight : {0.0, 0.5, 1.0}) {
    lone_number s(with(rules(vap{.first = 1}), scale{.lambda = weight}), 2);
    CHECK(s.read(0));
    CHECK(s.read(1));
    s.push(0, std::numeric_limits<double>::quiet_NaN());
    CHECK_FALSE(s.read(0));
  }
}

TEST_CASE("limits go with one server, and with updates that count by a weight as they come", "[server][admissions]") {
  dense<double> const table{.rows = 4};
  auto const refused = [](rules const& p, std::uint32_t servers, auto const& t, char const* why) {
    CHECK_THROWS_WITH(blueprint(p, servers, {describe(t)}), Catch::Contains(why));
  };
  refused(vap{}, 2, table, "could wait for each other for ever, expected 1");
  refused(with(rules(vap{}), strict{}), 1, table, "holds commits back");
  refused(with(rules(vap{}), quorum{.count = 2}), 1, table, "holds commits back");
  refused(with(rules(vap{}), momentum{.mu = 0.5}), 1, table, "more than their weight says");
  refused(with(rules(vap{}), adam{}), 1, table, "more than their weight says");
  refused(with(rules(dyn_sgd{}), vap{}.admission()), 1, multi_version{table}, "more than their weight says");
  refused(with(vap{}, significance{}), 1, table, ": use send_all");
  refused(vap{}, 1, dense<double>{.rows = 4, .filter = {.largest = 0.1, .small = small_entries::carry}},
          ": use .filter.small = small_entries::drop");
  CHECK_NOTHROW(blueprint(vap{}, 1, {describe(dense<double>{.rows = 4, .filter = {.threshold = 0.1}})}));
  CHECK_FALSE(blueprint(vap{}, 1, {describe(table)}).shares_reads());
}

TEST_CASE("waiting for some goes with commits that are seen at once only", "[server][admissions]") {
  dense<double> const table{.rows = 1};
  auto const refused = [&](rules const& p) {
    CHECK_THROWS_WITH((test::lone_shard{p, table}), Catch::Contains("holds back what these have committed"));
  };
  refused(with(rules(psp{.of = 3}), strict{}));
  refused(with(rules(psp{.of = 3}), stable_cut{}));
  refused(with(rules(psp{.of = 3}), quorum{.count = 2}));
  CHECK_FALSE(blueprint(psp{.of = 3}, 1, {describe(table)}).shares_reads());
}
