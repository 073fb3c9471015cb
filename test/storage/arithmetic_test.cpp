// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/arithmetic.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

using namespace rubato::detail;

TEMPLATE_TEST_CASE("add_scaled: is w + T(weight)*u, bit for bit, in place or into another array",
                   "", float, double, std::int64_t) {
  constexpr std::size_t n = 37;  // no multiple of a vector register
  TestType base[n];
  TestType from[n];
  for (std::size_t i = 0; i < n; ++i) {
    base[i] = static_cast<TestType>(1000.0 / static_cast<double>(i + 1));
    from[i] = static_cast<TestType>(777.0 / static_cast<double>(i + 3));
  }
  double const weight = std::is_integral_v<TestType> ? 1.0 : 1.0 / 3.0;
  TestType to[n];
  add_scaled_into(to, base, from, n, weight);
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(to[i] == base[i] + static_cast<TestType>(weight) * from[i]);
  }
  add_scaled(base, from, n, weight);
  for (std::size_t i = 0; i < n; ++i) CHECK(base[i] == to[i]);
}

TEMPLATE_TEST_CASE("arithmetic: every element is treated once, none beyond the end", "", float, double,
                   std::int32_t, std::int64_t) {
  constexpr std::size_t most = 2 * vector_elements + 1;
  TestType from[most];
  for (std::size_t i = 0; i < most; ++i) from[i] = static_cast<TestType>(i + 1);
  for (std::size_t n = 0; n <= most; ++n) {
    INFO(n);
    TestType set[most + 1] = {};
    set_scaled(set, from, n, 3.0);
    TestType multiplied[most + 1];
    TestType added[most + 1];
    for (TestType& x : multiplied) x = 2;
    for (TestType& x : added) x = 5;
    multiply(multiplied, n, 4.0);
    add_row(added, from, n, 2.0);
    for (std::size_t i = 0; i <= most; ++i) {
      auto const k = static_cast<TestType>(i + 1);
      REQUIRE(set[i] == (i < n ? 3 * k : TestType{0}));
      REQUIRE(multiplied[i] == (i < n ? TestType{8} : TestType{2}));
      REQUIRE(added[i] == (i < n ? 5 + 2 * k : TestType{5}));
    }
  }
}
