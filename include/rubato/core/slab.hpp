// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace rubato::detail {

/// Keeps values under small numbers until they are taken out, and reuses the places.
template <class T>
class slab {
 public:
  std::uint32_t put(T&& value) {
    if (free_.empty()) {
      values_.push_back(std::move(value));
      return static_cast<std::uint32_t>(values_.size() - 1);
    }
    std::uint32_t const at = free_.back();
    free_.pop_back();
    values_[at] = std::move(value);
    return at;
  }
  [[nodiscard]] T take(std::uint32_t at) {
    free_.push_back(at);
    return std::move(values_[at]);
  }

  [[nodiscard]] T const& operator[](std::uint32_t at) const noexcept { return values_[at]; }

 private:
  std::vector<T> values_;
  std::vector<std::uint32_t> free_;
};

}  // namespace rubato::detail
