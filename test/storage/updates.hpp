// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <rubato/storage/table_state.hpp>
#include <rubato/storage/update.hpp>
#include <span>
#include <utility>
#include <vector>

/// Updates and states as lists of elements.
namespace rubato::test {

template <parameter T>
[[nodiscard]] raw_array raw(std::vector<T> const& values) {
  raw_array bytes;
  bytes.append(std::as_bytes(std::span(values)));
  return bytes;
}
template <parameter T>
[[nodiscard]] update keyed(std::vector<std::uint64_t> rows, std::vector<T> const& values) {
  return {.whole = false, .rows = std::move(rows), .values = raw(values)};
}
template <parameter T>
[[nodiscard]] update whole(std::vector<T> const& values) {
  return {.whole = true, .rows = {}, .values = raw(values)};
}
template <parameter T>
[[nodiscard]] std::vector<T> values_of(update const& u) {
  auto const values = u.values.as<T>();
  return {values.begin(), values.end()};
}
/// For a fold. Refers to the update.
template <parameter T>
[[nodiscard]] weighted_update<T> weighted(update const& u, double weight) {
  return weighted_part{&u, weight}.as<T>();
}

/// Elements of a state that holds every row.
template <parameter T>
[[nodiscard]] std::vector<T> elements_of(table_state const& state, std::size_t first, std::size_t count) {
  std::vector<T> out(count);
  state.copy(first * sizeof(T), count * sizeof(T), reinterpret_cast<std::byte*>(out.data()));
  return out;
}
/// Where the chunks of a state lie in memory.
[[nodiscard]] inline std::vector<std::byte const*> places(table_state const& state) {
  std::vector<std::byte const*> at;
  for (std::size_t i = 0; i < state.chunks(); ++i) at.push_back(state.chunk(i).data());
  return at;
}

}  // namespace rubato::test
