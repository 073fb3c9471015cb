// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/observer.hpp>

#include <catch2/catch.hpp>

#include <array>
#include <cstdint>

#include <rubato/testing/expectations.hpp>

using namespace rubato;

namespace {

/// Two workers and a table of one row. The first one commits four times, the other begins and commits once; then the
/// first one reads, at clock 4 under staleness 1, what it had before.
testing::sentences read_after_another_began(bool is_given_up) {
  constexpr staleness bound = 1;
  testing::observer o(testing::eager_rules(bound), 0, 2, {{0}});
  auto const commit = [&o](std::uint32_t w, std::int64_t clock) {
    o.pushing(w, 0, 0, 1);
    o.committing(w);
    o.committed(w, clock_index{clock + 1});
  };
  o.started(0, clock_index{0});
  for (std::int64_t clock = 0; clock < 4; ++clock) commit(0, clock);
  if (is_given_up) o.crashed(0);
  o.started(1, clock_index{0});
  commit(1, 0);
  std::array<std::uint64_t, 1> const rows{0};
  std::array<std::int64_t, 2> const values{4, 0};
  o.read(0, bound, 0, testing::observer::kind::whole, rows, values);
  return o.violations();
}

}  // namespace

TEST_CASE("observer: who may be given up need not see those who begin later, for they may be in another run",
          "[testing]") {
  CHECK(read_after_another_began(true) == testing::sentences{});
  auto const found = read_after_another_began(false);
  REQUIRE(found.size() == 2);
  CHECK(found[0] == "SSP-3: worker 0 reads at clock 4 while c_min is 1");
  CHECK(found[1] == "SSP-1: worker 0 at clock 4 reads 0 of worker 1 in row 0 of table 0, expected all stamps below 3");
}
