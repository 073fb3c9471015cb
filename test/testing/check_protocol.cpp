// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>
#include <chrono>
#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/dssp.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/essp.hpp>
#include <rubato/protocol/fixed_ada_comm.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/testing/conformance.hpp>

#include "seeds.hpp"

using namespace rubato;

namespace {

/// Lets workers drift one clock further apart than it says.
struct off_by_one {
  [[nodiscard]] staleness bound() const noexcept { return 1; }
  [[nodiscard]] clock_index need(clock_index c, staleness s) const noexcept {
    return c - std::min(s, bound()) - staleness{1};
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness s) const noexcept {
    return need(c, s);
  }
};

}  // namespace

TEST_CASE("check_protocol accepts what is shipped", "[testing]") {
  testing::search const few{.schedules = test::seed_count(50)};
  CHECK(testing::check_protocol(bsp{}, few) == testing::sentences{});
  CHECK(testing::check_protocol(ssp{.staleness = 2}, few) == testing::sentences{});
  CHECK(testing::check_protocol(essp{.staleness = 2}, few) == testing::sentences{});
  CHECK(testing::check_protocol(dyn_sgd{.staleness = 2}, few) == testing::sentences{});
  CHECK(testing::check_protocol(with(dyn_sgd{}, stable_cut{}), few) == testing::sentences{});
  CHECK(testing::check_protocol(psp{.staleness = 1, .sample = 2, .of = 6}, few) == testing::sentences{});
  CHECK(testing::check_protocol(dssp{.low = 1, .high = 4}, few) == testing::sentences{});
  CHECK(testing::check_protocol(vap{.first = 5}, few) == testing::sentences{});
}

TEST_CASE("check_protocol accepts paces with a conductor", "[testing]") {
  using namespace std::chrono_literals;
  testing::search const few{.schedules = test::seed_count(50)};
  adsp const searching{.check_period = 2ms, .epoch = 40ms, .probe_period = 4ms};
  CHECK(testing::check_protocol(searching, few) == testing::sentences{});
  CHECK(testing::check_protocol(ada_comm{.first_steps = 8, .interval = 5ms}, few) ==
        testing::sentences{});
  CHECK(testing::check_protocol(fixed_ada_comm{.steps = 3}, few) == testing::sentences{});
  CHECK(testing::check_protocol(with(dyn_sgd{.staleness = 2}, searching.pace()), few) ==
        testing::sentences{});
}

TEST_CASE("check_protocol catches a bound that is not kept", "[testing]") {
  composed const wrong{off_by_one{}, eager{}, sum{}, every_step{}, "wrong"};
  auto const found = testing::check_protocol(wrong, {.schedules = 50});
  auto const names = [&](std::string const& part) {
    return std::ranges::any_of(found,
                               [&](auto const& s) { return s.find(part) != std::string::npos; });
  };
  CHECK(names("staler than it asked for"));  // the policy by itself
  CHECK(names("schedule "));                 // and in runs
  CHECK(names("SSP-"));
}

namespace {

/// Waits for everybody to be one clock ahead of itself.
struct never {
  [[nodiscard]] staleness bound() const noexcept { return 1; }
  [[nodiscard]] clock_index need(clock_index c, staleness) const noexcept { return c.next(); }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness) const noexcept { return c; }
};

}  // namespace

namespace {

/// The first two workers keep within a clock of the slowest; the others do not wait.
struct some_wait {
  [[nodiscard]] staleness bound() const noexcept { return staleness::infinite(); }
  [[nodiscard]] clock_index need(clock_index c, staleness s, worker_id who) const noexcept {
    return who.value() < 2 ? c - std::min(s, staleness{1}) : c - s;
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness s, worker_id who) const noexcept {
    return who.value() < 2 ? need(c, s, who) : clock_index::highest();
  }
};

}  // namespace

TEST_CASE("check_protocol holds each worker to what admission says of it", "[testing]") {
  composed const protocol{some_wait{}, eager{}, sum{}, every_step{}, "some_wait"};
  CHECK(testing::check_protocol(protocol, {.schedules = test::seed_count(50)}) == testing::sentences{});

  // The same runs, held to what it does not say: that the others wait, too; that all wait for less.
  auto const found = [&](auto const& said) {
    std::vector<std::string> all;
    for (std::uint64_t seed = 1; seed <= 30; ++seed) {
      auto expected = testing::eager_rules(staleness::infinite());
      expected.minimal_waits = false;
      expected.admission.emplace(said);
      for (auto const& s : testing::observed_run(protocol, testing::random_schedule(seed), expected).violations)
        all.push_back(s);
    }
    return all;
  };
  auto const names = [](std::vector<std::string> const& all, std::string const& part) {
    return std::ranges::any_of(all, [&](auto const& s) { return s.find(part) != std::string::npos; });
  };
  CHECK(found(some_wait{}).empty());
  CHECK(names(found(bounded_staleness{1}), "SSP-3"));
  CHECK(names(found(unbounded{}), "waits at server"));
}

TEST_CASE("check_protocol reports a deadlock as a sentence", "[testing]") {
  composed const wrong{never{}, eager{}, sum{}, every_step{}, "never"};
  auto const found = testing::check_protocol(wrong, {.schedules = 20});
  CHECK(std::ranges::any_of(found,
                            [](auto const& s) { return s.find("deadlock") != std::string::npos; }));
}

namespace {

/// Renews at every clock, and counts how often it is asked.
struct counting_reads {
  std::int64_t* asked;
  [[nodiscard]] bool renews(read_point) const noexcept { return ++*asked, true; }
};

}  // namespace

TEST_CASE("check_protocol runs a protocol with its reads", "[testing]") {
  std::int64_t asked = 0;
  CHECK(testing::check_protocol(with(ssp{.staleness = 3}, counting_reads{&asked}), {.schedules = 10}) ==
        testing::sentences{});
  CHECK(asked > 0);
  // Which are refused beside an admission that lets in each read for itself.
  auto const found = testing::check_protocol(with(dssp{.low = 1, .high = 4}, refreshed{}), {.schedules = 10});
  REQUIRE(found.size() == 1);
  CHECK(found[0].find("reads()") != std::string::npos);
}
