// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <rubato/storage/update.hpp>
#include <utility>
#include <vector>

namespace rubato::test {

template <class T>
[[nodiscard]] update<T> keyed(std::vector<std::uint64_t> rows, std::vector<T> values) {
  return {.whole = false, .rows = std::move(rows), .values = std::move(values)};
}
template <class T>
[[nodiscard]] update<T> whole(std::vector<T> values) {
  return {.whole = true, .rows = {}, .values = std::move(values)};
}

}  // namespace rubato::test
