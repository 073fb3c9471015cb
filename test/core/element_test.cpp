// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/element.hpp>

#include <catch2/catch.hpp>

#include <concepts>
#include <cstdint>
#include <string>
#include <type_traits>

using namespace rubato;

namespace {

static_assert(parameter<float> && parameter<double> && parameter<std::int32_t> && parameter<std::int64_t>);
static_assert(!parameter<bool> && !parameter<char> && !parameter<std::uint32_t> && !parameter<float const> &&
              !parameter<long double>);

static_assert(element_type_of<float>() == element_type::float32);
static_assert(element_type_of<double>() == element_type::float64);
static_assert(element_type_of<std::int32_t>() == element_type::int32);
static_assert(element_type_of<std::int64_t>() == element_type::int64);

}  // namespace

TEMPLATE_TEST_CASE("element_type: a value says of a type what the type does, and leads back to it", "",
                   float, double, std::int32_t, std::int64_t) {
  constexpr element_type t = element_type_of<TestType>();
  CHECK(size_of(t) == sizeof(TestType));
  CHECK(is_integral(t) == std::is_integral_v<TestType>);
  CHECK(with_element(t, []<class T>() { return std::same_as<T, TestType>; }));
  int calls = 0;
  with_element(t, [&]<class T>() { ++calls; });
  CHECK(calls == 1);
}

TEST_CASE("element_type: each has a name") {
  CHECK(std::string(to_string(element_type::float32)) == "float");
  CHECK(std::string(to_string(element_type::float64)) == "double");
  CHECK(std::string(to_string(element_type::int32)) == "int32");
  CHECK(std::string(to_string(element_type::int64)) == "int64");
  CHECK(std::string(to_string(static_cast<element_type>(9))) == "unknown");
}
