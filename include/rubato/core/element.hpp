// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace rubato {

/// What parameters may be made of. Integers are for counts: only exact merges apply to them.
template <class T>
concept parameter = std::same_as<T, float> || std::same_as<T, double> ||
                    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t>;

/// The same as a value, for code that is compiled once for all of them.
enum class element_type : std::uint8_t { float32, float64, int32, int64 };

/// The name of T at run time.
template <parameter T>
[[nodiscard]] constexpr element_type element_type_of() noexcept {
  if constexpr (std::same_as<T, float>) return element_type::float32;
  if constexpr (std::same_as<T, double>) return element_type::float64;
  if constexpr (std::same_as<T, std::int32_t>) return element_type::int32;
  return element_type::int64;
}

/// Bytes of one element.
[[nodiscard]] constexpr std::size_t size_of(element_type t) noexcept {
  return t == element_type::float32 || t == element_type::int32 ? 4 : 8;
}
/// Whether only merges that are exact will do, see `exact_merge`.
[[nodiscard]] constexpr bool is_integral(element_type t) noexcept {
  return t == element_type::int32 || t == element_type::int64;
}
/// As `rubato-server --type` has it: float, double, int32 or int64.
[[nodiscard]] constexpr char const* to_string(element_type t) noexcept {
  switch (t) {
    case element_type::float32: return "float";
    case element_type::float64: return "double";
    case element_type::int32: return "int32";
    case element_type::int64: return "int64";
  }
  return "unknown";
}

/// Calls `f.template operator()<T>()` with the type that `t` stands for.
template <class F>
decltype(auto) with_element(element_type t, F&& f) {
  switch (t) {
    case element_type::float32: return f.template operator()<float>();
    case element_type::float64: return f.template operator()<double>();
    case element_type::int32: return f.template operator()<std::int32_t>();
    case element_type::int64: break;
  }
  return f.template operator()<std::int64_t>();
}

}  // namespace rubato
