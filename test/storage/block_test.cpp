// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/block.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <utility>

using rubato::block_ref;

TEST_CASE("block_ref: copies share the array, and it is unique again when they are gone") {
  block_ref<float> a(5);
  CHECK(a.size() == 5);
  CHECK(a.unique());
  a.mutable_data()[3] = 7.0F;
  {
    block_ref<float> const b = a;
    CHECK(b.data() == a.data());
    CHECK_FALSE(a.unique());
    CHECK(b.data()[3] == 7.0F);
  }
  CHECK(a.unique());
}

TEST_CASE("block_ref: moving hands the reference on, and assignment gives the old one up") {
  block_ref<std::int64_t> a(2);
  block_ref<std::int64_t> b(3);
  block_ref<std::int64_t> const old = b;
  std::int64_t const* const data = a.data();
  b = std::move(a);
  CHECK_FALSE(a);  // NOLINT: emptied, and says so
  CHECK(b.data() == data);
  CHECK(b.unique());
  CHECK(old.unique());
  CHECK_FALSE(block_ref<float>{});
}

TEST_CASE("block_ref: assigning to itself keeps the array") {
  block_ref<double> a(4);
  a.mutable_data()[0] = 1.5;
  auto const& same = a;
  a = same;
  CHECK(a.unique());
  CHECK(a.data()[0] == 1.5);
}

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
  rubato::detail::add_scaled_into(to, base, from, n, weight);
  for (std::size_t i = 0; i < n; ++i) {
    CHECK(to[i] == base[i] + static_cast<TestType>(weight) * from[i]);
  }
  rubato::detail::add_scaled(base, from, n, weight);
  for (std::size_t i = 0; i < n; ++i) CHECK(base[i] == to[i]);
}
