// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "rubato/core/assert.hpp"
#include "rubato/core/element.hpp"

namespace rubato {

/// An array of parameters whose type only those know who compute with them; all others move bytes.
/// Grows like a vector, but that what is new is not initialised. Not synchronized.
class raw_array {
 public:
  raw_array() = default;
  raw_array(raw_array const& other) { append(other.bytes()); }
  raw_array(raw_array&& other) noexcept
      : data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  // Not one that takes a value: clang 14 never destroys that in `x = {}`.
  raw_array& operator=(raw_array const& other) { return *this = raw_array(other); }
  raw_array& operator=(raw_array&& other) noexcept {
    data_ = std::move(other.data_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  ~raw_array() = default;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_; }
  [[nodiscard]] std::byte* data() noexcept { return data_.get(); }
  [[nodiscard]] std::byte const* data() const noexcept { return data_.get(); }
  [[nodiscard]] std::span<std::byte> bytes() noexcept { return {data(), size_}; }
  [[nodiscard]] std::span<std::byte const> bytes() const noexcept { return {data(), size_}; }

  void reserve_bytes(std::size_t n) {
    if (n > capacity_) move_to(n);
  }
  void resize_bytes(std::size_t n) {
    reserve_bytes(n);
    size_ = n;
  }
  void assign_zeros(std::size_t n) {
    resize_bytes(n);
    std::fill_n(data(), n, std::byte{});
  }
  /// Room for `n` bytes more, to be written.
  [[nodiscard]] std::byte* extend(std::size_t n) {
    if (size_ + n > capacity_) move_to(std::max(size_ + n, 2 * capacity_));
    return data() + std::exchange(size_, size_ + n);
  }
  void append(std::span<std::byte const> more) {
    if (!more.empty()) std::memcpy(extend(more.size()), more.data(), more.size());
  }
  void clear() noexcept { size_ = 0; }

  /// The elements. @pre all of them have been of this type
  template <parameter T>
  [[nodiscard]] std::span<T> as() noexcept {
    RUBATO_ASSERT(size_ % sizeof(T) == 0);
    return {reinterpret_cast<T*>(data()), size_ / sizeof(T)};
  }
  template <parameter T>
  [[nodiscard]] std::span<T const> as() const noexcept {
    RUBATO_ASSERT(size_ % sizeof(T) == 0);
    return {reinterpret_cast<T const*>(data()), size_ / sizeof(T)};
  }

 private:
  void move_to(std::size_t capacity) {
    auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
    if (size_ != 0) std::memcpy(larger.get(), data(), size_);
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  std::unique_ptr<std::byte[]> data_;  // which new aligns for any of these types
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace rubato
