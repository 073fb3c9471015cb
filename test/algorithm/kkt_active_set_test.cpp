// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/kkt_active_set.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <rubato/storage/kkt_filter.hpp>

using rubato::kkt_filter;
using rubato::algorithm::kkt_active_set;

namespace {

/// The passes of so many in which a coordinate of weight 0 with this gradient is looked at, beside one that violates
/// its condition by `violation` in each pass; lambda is 1.
std::vector<std::int64_t> passes_with(kkt_filter const& filter, double gradient, double violation,
                                      std::int64_t passes) {
  kkt_active_set active(filter, 2, 1);
  std::vector<std::int64_t> with;
  for (std::int64_t p = 0; p < passes; ++p) {
    active.begin_pass(p);
    CHECK(active.contains(0));
    active.found(0, 0.5, -1 + violation);
    if (!active.contains(1)) continue;
    active.found(1, 0, gradient);
    with.push_back(p);
  }
  return with;
}

}  // namespace

TEST_CASE("kkt_active_set: what is left out is looked at again after so many passes", "[algorithm]") {
  // The first pass knows no violation yet, so nothing is left out by what is found in it.
  CHECK(passes_with({.passes = 1}, 0.5, 0, 9) == std::vector<std::int64_t>{0, 1, 3, 5, 7});
  CHECK(passes_with({.passes = 3}, -0.5, 0, 11) == std::vector<std::int64_t>{0, 1, 5, 9});
  auto const huge = std::numeric_limits<std::int64_t>::max();
  CHECK(passes_with({.passes = huge}, 0.5, 0, 9) == std::vector<std::int64_t>{0, 1});
}

TEST_CASE("kkt_active_set: nothing is left out near lambda, or while others violate their conditions", "[algorithm]") {
  std::vector<std::int64_t> const all{0, 1, 2, 3, 4};
  CHECK(passes_with({.passes = 3}, 0.95, 0, 5) == all);
  CHECK(passes_with({.passes = 3, .margin = 0}, 0.95, 0, 5) != all);
  CHECK(passes_with({.passes = 3, .margin = 0}, 0.5, 0.75, 5) == all);
  CHECK(passes_with({.passes = 3, .margin = 0}, 0.5, 0.25, 5) != all);
  CHECK(passes_with({}, 0, 0, 5) == all);
}

TEST_CASE("kkt_active_set: the margin goes by the greatest violation of the whole pass before", "[algorithm]") {
  kkt_active_set active({.passes = 3, .margin = 0}, 3, 1);
  active.begin_pass(0);
  active.found(0, 0.5, -0.25);  // by 0.75
  active.begin_pass(0);         // goes on with another batch
  active.found(1, 0, 0);
  active.begin_pass(1);
  active.found(1, 0, 0.5);
  active.found(2, 0, 0.125);
  active.begin_pass(2);
  CHECK(active.contains(1));
  CHECK_FALSE(active.contains(2));
  active.found(1, 0, 0.5);  // nothing was violated in pass 1
  active.begin_pass(3);
  CHECK_FALSE(active.contains(1));
}

TEST_CASE("kkt_active_set: one pass may have all, and what it finds active stays so", "[algorithm]") {
  kkt_active_set active({.passes = 100}, 2, 1);
  for (std::int64_t p = 0; p < 2; ++p) {
    active.begin_pass(p);
    for (std::size_t j = 0; j < 2; ++j) active.found(j, 0, 0);
  }
  active.begin_pass(2);
  CHECK_FALSE(active.contains(0));
  active.begin_pass(2, true);
  CHECK(active.contains(0));
  active.found(0, 0, 2);
  active.begin_pass(3);
  CHECK(active.contains(0));
  CHECK_FALSE(active.contains(1));
}
