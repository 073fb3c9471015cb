// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/admission.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <type_traits>
#include <vector>

using namespace rubato;

namespace {

constexpr clock_index at(std::int64_t value) { return clock_index{value}; }

/// The table of rules §2 itself: whether a read at clock c is answered at this c_min, and whether a
/// copy fetched at server clock r may be used for it.
struct row {
  std::int64_t c;
  std::int64_t c_min;
  bool answered;
  std::int64_t r;
  bool usable;
};

template <admission_policy P>
void check_rows(P const& p, std::vector<row> const& rows) {
  for (row const& x : rows) {
    INFO("c = " << x.c << ", c_min = " << x.c_min << ", r = " << x.r);
    CHECK((p.need(at(x.c), p.bound()) <= at(x.c_min)) == x.answered);
    CHECK((at(x.r) >= p.cache_need(at(x.c), p.bound())) == x.usable);
  }
}

// Policies are small values that cost nothing where they have nothing to say.
static_assert(std::is_empty_v<barrier> && std::is_empty_v<unbounded>);

}  // namespace

TEST_CASE("admission: BSP answers a read when c <= c_min, a copy serves while r >= c (rules §2)") {
  check_rows(barrier{}, {{0, 0, true, 0, true},
                         {1, 0, false, 0, false},
                         {1, 1, true, 1, true},
                         {5, 4, false, 4, false},
                         {5, 5, true, 5, true},
                         {5, 6, true, 6, true}});
  CHECK(barrier{}.need(at(7), staleness{}) == at(7));
  CHECK(barrier{}.cache_need(at(7), staleness{}) == at(7));
  CHECK(barrier{}.bound() == staleness{0});
}

TEST_CASE("admission: SSP(0) admits as BSP does (rules §2)") {
  bounded_staleness const p{0};
  check_rows(p, {{0, 0, true, 0, true},
                 {1, 0, false, 0, false},
                 {1, 1, true, 1, true},
                 {5, 4, false, 4, false},
                 {5, 5, true, 5, true}});
  for (std::int64_t c = 0; c < 20; ++c) {
    CHECK(p.need(at(c), p.bound()) == barrier{}.need(at(c), {}));
    CHECK(p.cache_need(at(c), p.bound()) == barrier{}.cache_need(at(c), {}));
  }
  CHECK(p.bound() == barrier{}.bound());
}

TEST_CASE("admission: SSP(3) answers when c <= c_min + 3, a copy serves while r >= c - 3 "
          "(rules §2)") {
  check_rows(bounded_staleness{3}, {{0, 0, true, 0, true},
                                    {3, 0, true, 0, true},
                                    {4, 0, false, 0, false},
                                    {4, 1, true, 1, true},
                                    {10, 6, false, 6, false},
                                    {10, 7, true, 7, true},
                                    {10, 10, true, 10, true}});
  CHECK(bounded_staleness{3}.need(at(10), staleness{3}) == at(7));
  CHECK(bounded_staleness{3}.need(at(1), staleness{3}) == at(-2));
  CHECK(bounded_staleness{3}.bound() == staleness{3});
}

TEST_CASE("admission: ASP always answers, and a copy never serves a new clock (rules §2)") {
  check_rows(unbounded{}, {{0, 0, true, 0, false},
                           {1, 0, true, 1, false},
                           {1'000'000, 0, true, 1'000'000, false}});
  CHECK(unbounded{}.need(at(1'000'000), staleness::infinite()) == clock_index::lowest());
  CHECK(unbounded{}.cache_need(at(5), staleness::infinite()) == clock_index::highest());
  CHECK(unbounded{}.bound().is_infinite());
}

TEST_CASE("admission: SSP(infinite) waits no more than ASP, but lets copies serve (rules §2)") {
  bounded_staleness const p{staleness::infinite()};
  CHECK(p.need(at(1'000'000), p.bound()) == clock_index::lowest());
  CHECK(p.cache_need(at(1'000'000), p.bound()) == clock_index::lowest());
}

TEST_CASE("admission: a read may ask for less staleness than the protocol's, not for more "
          "(rules §2)") {
  bounded_staleness const p{3};
  CHECK(p.need(at(10), staleness{0}) == at(10));
  CHECK(p.need(at(10), staleness{1}) == at(9));
  CHECK(p.cache_need(at(10), staleness{1}) == at(9));
  CHECK(p.need(at(10), staleness{7}) == at(7));
  CHECK(p.cache_need(at(10), staleness{7}) == at(7));
  CHECK(p.need(at(10), staleness::infinite()) == at(7));
  CHECK(barrier{}.need(at(10), staleness{5}) == at(10));
  CHECK(barrier{}.cache_need(at(10), staleness{5}) == at(10));
  CHECK(unbounded{}.need(at(10), staleness{2}) == at(8));
}

TEST_CASE("admission: thresholds grow with the clock, fall with the staleness, and never "
          "exceed c") {
  auto const check = [](auto const& p) {
    for (std::int64_t c = 0; c < 12; ++c)
      for (std::int64_t s = 0; s < 6; ++s) {
        CHECK(p.need(at(c), s) <= at(c));
        CHECK(p.need(at(c), s) <= p.need(at(c + 1), s));
        CHECK(p.need(at(c), s + 1) <= p.need(at(c), s));
        CHECK(p.cache_need(at(c), s) <= p.cache_need(at(c + 1), s));
        CHECK(p.cache_need(at(c), s + 1) <= p.cache_need(at(c), s));
      }
  };
  check(barrier{});
  check(bounded_staleness{0});
  check(bounded_staleness{3});
  check(bounded_staleness{staleness::infinite()});
  check(unbounded{});
}
