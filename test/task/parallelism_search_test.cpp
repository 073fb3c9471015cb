// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/task/parallelism_search.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>

#include "seeds.hpp"

namespace rb = rubato;
using namespace std::chrono_literals;
using Catch::Contains;

namespace {

/// What was run: degree and iterations of each part.
struct part {
  std::uint32_t workers;
  std::int64_t iterations;
  bool probes;
  friend bool operator==(part const&, part const&) = default;
};

/// Runs a whole stage whose iterations take `time_of(degree)`.
template <class F>
std::vector<part> run(rb::parallelism_search& s, F time_of) {
  std::vector<part> all;
  std::int64_t next = 0;
  while (auto const p = s.next()) {
    REQUIRE(p->first == next);
    next += p->iterations;
    all.push_back({p->workers, p->iterations, p->probes});
    s.ran(time_of(p->workers) * p->iterations);
  }
  return all;
}

}  // namespace

TEST_CASE("parallelism_search: probes at growing degrees until one is slower, and the rest at the best") {
  rb::parallelism_search s({.growth = 2}, 100, 64);
  auto const u = [](std::uint32_t d) { return rb::duration(1'000'000 / d + 40'000 * d); };  // least at 5
  CHECK(run(s, u) == std::vector<part>{{1, 10, true}, {2, 10, true}, {4, 10, true}, {8, 10, true}, {4, 60, false}});
  CHECK(s.best() == 4);
  CHECK_FALSE(s.searching());
  REQUIRE(s.probes().size() == 4);
  CHECK(s.probes()[3].per_iteration == 445us);
}

TEST_CASE("parallelism_search: one worker may be the best") {
  rb::parallelism_search s({.probe = 2, .growth = 2}, 20, 64);
  CHECK(run(s, [](std::uint32_t d) { return rb::duration(1000 * d); }) ==
        std::vector<part>{{1, 2, true}, {2, 2, true}, {1, 16, false}});
}

TEST_CASE("parallelism_search: equal times go on, and the lesser degree is kept") {
  rb::parallelism_search s({.probe = 1, .growth = 2}, 10, 4);
  CHECK(run(s, [](std::uint32_t) { return 1ms; }) ==
        std::vector<part>{{1, 1, true}, {2, 1, true}, {4, 1, true}, {1, 7, false}});
}

TEST_CASE("parallelism_search: ends at the most workers there are, also where growth would pass them by") {
  rb::parallelism_search s({.probe = 5, .growth = 3}, 100, 7);
  auto const faster = [](std::uint32_t d) { return rb::duration(1'000'000 / d); };
  CHECK(run(s, faster) == std::vector<part>{{1, 5, true}, {3, 5, true}, {7, 5, true}, {7, 85, false}});
  rb::parallelism_search limited({.probe = 5, .limit = 3, .growth = 3}, 100, 7);
  CHECK(run(limited, faster) == std::vector<part>{{1, 5, true}, {3, 5, true}, {3, 90, false}});
}

TEST_CASE("parallelism_search: a short stage is over before the search is") {
  rb::parallelism_search s({.growth = 2}, 25, 64);
  CHECK(run(s, [](std::uint32_t d) { return rb::duration(1'000'000 / d); }) ==
        std::vector<part>{{1, 10, true}, {2, 10, true}, {4, 5, true}});
  CHECK(s.searching());
  CHECK(s.best() == 4);
}

TEST_CASE("parallelism_search: a part that lost workers says nothing of its degree") {
  rb::parallelism_search s({.growth = 2}, 100, 8);
  s.ran(100ms);
  REQUIRE(s.next()->workers == 2);
  s.ran_unmeasured();  // its ten iterations count
  REQUIRE(s.next().has_value());
  CHECK(s.next()->workers == 2);
  CHECK(s.next()->first == 20);
  CHECK(s.probes().size() == 1);
  s.ran(50ms);
  CHECK(s.next()->workers == 4);
  s.ran_unmeasured();
  CHECK(s.done() == 40);
}

TEST_CASE("parallelism_search: a part in which workers crashed is no measure, but where that comes again") {
  rb::parallelism_search s({.growth = 2}, 200, 8);
  s.ran_disturbed(900ms);
  CHECK(s.probes().empty());
  CHECK(s.next()->workers == 1);
  s.ran(100ms);
  REQUIRE(s.next()->workers == 2);
  s.ran_disturbed(900ms);  // of another degree
  CHECK(s.next()->workers == 2);
  s.ran_disturbed(60ms);
  REQUIRE(s.probes().size() == 2);
  CHECK(s.probes()[1].per_iteration == 6ms);
  CHECK(s.next()->workers == 4);
  CHECK(s.done() == 40);

  rb::parallelism_search always({.growth = 2}, 200, 8);
  while (auto const p = always.next()) always.ran_disturbed(p->iterations * 1ms / p->workers);
  CHECK_FALSE(always.searching());
  CHECK(always.probes().size() == 4);
  CHECK(always.best() == 8);

  rb::parallelism_search lost({.growth = 4}, 200, 8);
  lost.ran_disturbed(9ms);
  lost.ran_unmeasured();  // the part before this one
  lost.ran_disturbed(9ms);
  CHECK(lost.probes().empty());

  rb::parallelism_search fewer({.growth = 4}, 200, 8);
  fewer.ran(10ms);
  REQUIRE(fewer.next()->workers == 4);
  fewer.ran_disturbed(1ms);
  fewer.limit_to(3);
  fewer.ran_disturbed(1ms);
  CHECK(fewer.probes().size() == 1);
}

TEST_CASE("parallelism_search: where workers are lost no degree is tried or found that there are none for") {
  auto const faster = [](std::uint32_t d) { return rb::duration(1'000'000 / d); };
  rb::parallelism_search s({.growth = 2}, 100, 8);
  s.ran(10 * faster(1));
  s.ran(10 * faster(2));
  REQUIRE(s.next()->workers == 4);
  s.limit_to(3);
  CHECK(s.next()->workers == 3);
  s.ran(10 * faster(3));
  CHECK_FALSE(s.searching());
  CHECK(s.best() == 3);
  s.limit_to(2);
  CHECK(s.best() == 2);
  CHECK(s.next()->workers == 2);
  s.limit_to(8);  // none comes back
  CHECK(s.next()->workers == 2);

  rb::parallelism_search ended({.growth = 4}, 100, 20);
  for (std::uint32_t const d : {1U, 4U, 16U, 20U}) ended.ran(10 * faster(d));
  REQUIRE(ended.best() == 20);
  ended.limit_to(15);  // times fell up to there
  CHECK(ended.next()->workers == 15);

  rb::parallelism_search again({.growth = 2}, 100, 8);
  again.ran(10 * faster(1));
  again.ran(10 * faster(2));
  again.limit_to(2);  // which has been tried
  CHECK_FALSE(again.searching());
  CHECK(again.next()->workers == 2);
  CHECK(again.next()->iterations == 80);
}

TEST_CASE("parallelism_search: what cannot be meant is refused by name") {
  CHECK_THROWS_WITH(rb::parallelism_search({}, 0, 4), Contains("needs iterations"));
  CHECK_THROWS_WITH(rb::parallelism_search({.probe = 0}, 10, 4), Contains("probe must be at least 1"));
  CHECK_THROWS_WITH(rb::parallelism_search({.growth = 1}, 10, 4), Contains("growth must be"));
  CHECK_THROWS_WITH(rb::parallelism_search({.first = 4, .limit = 2}, 10, 4), Contains("limit must be"));
  CHECK_THROWS_AS(rb::parallelism_search({}, 10, 0), rb::option_error);
}

TEST_CASE("parallelism_search: on unimodal curves it runs every iteration once, and stops behind the least") {
  for (std::uint64_t i = 0; i < rb::test::seed_count(300); ++i) {
    std::uint64_t const seed = rb::test::first_seed() + i;
    INFO(rb::test::repeat_by(seed));
    rb::random_stream random(seed, 0);
    auto const limit = static_cast<std::uint32_t>(1 + random.below(200));
    auto const compute = 1e9 * (0.1 + random.uniform());
    auto const talk = 1e6 * random.uniform();
    auto const time_of = [&](std::uint32_t d) {
      return rb::duration(static_cast<std::int64_t>(compute / d + talk * d));
    };
    rb::search_options const o{.probe = static_cast<std::int64_t>(1 + random.below(20)),
                               .growth = 1.1 + random.uniform()};
    std::int64_t const iterations = static_cast<std::int64_t>(1 + random.below(2000));
    rb::parallelism_search s(o, iterations, limit);
    std::int64_t sum = 0;
    for (part const& p : run(s, time_of)) sum += p.iterations;
    REQUIRE(sum == iterations);
    // Of those that were tried none was better, and the next one would not have been.
    for (auto const& p : s.probes()) REQUIRE(time_of(s.best()) <= time_of(p.workers));
    if (!s.searching() && s.probes().back().workers != limit)
      REQUIRE(time_of(s.probes().back().workers) > time_of(s.best()));
  }
}
