// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <string>
#include <string_view>

#include "rubato/core/error.hpp"

namespace rubato::detail {

/// Whether a policy has a `check()`, which is then to be one that can be called.
template <class Policy>
consteval bool diagnose_check() {
  constexpr bool has_check = requires(Policy const& p) { p.check(); };
  static_assert(has_check || !requires(Policy& own) { own.check(); },
                "a policy's check() must be const, or it is never called");
  static_assert(!has_check || requires(Policy const& p) { { p.check() } -> std::same_as<void>; },
                "a policy's check() must be a const member function that gives nothing, and throws option_error");
  return has_check;
}

/// Lets a policy that has `check()` throw for options that cannot be meant.
template <class Policy>
void check_options([[maybe_unused]] Policy const& p) {
  if constexpr (diagnose_check<Policy>()) p.check();
}

/// The policy, once it has been checked.
template <class Policy>
[[nodiscard]] Policy checked(Policy p) {
  check_options(p);
  return p;
}

/// @throws option_error unless `good`
template <class Value>
void expect_option(bool good, std::string_view option, Value value, std::string_view expected) {
  if (good) return;
  std::array<char, 40> digits{};  // 1e-31 is not to be 0.000000
  auto const end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  throw option_error(std::string(option) + " is " + std::string(digits.data(), end) + ", expected " +
                     std::string(expected));
}

/// What is left of something in each step.
inline void expect_share(std::string_view option, double value) {
  expect_option(value >= 0 && value < 1, option, value, "0 or more, and below 1");
}

inline void expect_finite(std::string_view option, double value) {
  expect_option(std::isfinite(value), option, value, "a finite number");
}

}  // namespace rubato::detail
