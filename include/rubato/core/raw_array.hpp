// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "rubato/core/assert.hpp"
#include "rubato/core/block_memory.hpp"
#include "rubato/core/element.hpp"

namespace rubato {

namespace detail {

/// Gives bytes back to where they came from.
struct byte_giver {
  block_memory* from = nullptr;  ///< none: the heap
  std::size_t bytes = 0;
  void operator()(std::byte* at) const noexcept {
    if (from != nullptr) from->give(at, bytes);
    else delete[] at;
  }
};

}  // namespace detail

/// An array of parameters whose type only those know who compute with them; all others move bytes.
/// Grows like a vector, but that what is new is not initialised. Not synchronized.
class raw_array {
 public:
  raw_array() = default;
  /// Takes its memory from there, where that has some, and else from the heap.
  explicit raw_array(std::shared_ptr<block_memory> from) noexcept : from_(std::move(from)) {}
  /// These bytes, which `from` gets back, and which may be such as nobody may write.
  [[nodiscard]] static raw_array borrowed(std::shared_ptr<block_memory> from, std::byte const* at, std::size_t bytes) {
    raw_array all;
    all.data_ = memory(const_cast<std::byte*>(at), {from.get(), bytes});
    all.from_ = std::move(from);
    all.size_ = all.capacity_ = bytes;
    return all;
  }
  /// A copy is on the heap.
  raw_array(raw_array const& other) { append(other.bytes()); }
  raw_array(raw_array&& other) noexcept
      : from_(std::move(other.from_)),
        data_(std::move(other.data_)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  // Not one that takes a value: clang 14 never destroys that in `x = {}`.
  raw_array& operator=(raw_array const& other) { return *this = raw_array(other); }
  raw_array& operator=(raw_array&& other) noexcept {
    data_ = std::move(other.data_);
    from_ = std::move(other.from_);  // after what came from there has been given back
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }
  ~raw_array() = default;

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size_bytes() const noexcept { return size_; }
  /// Whether what it has is such as nobody may write.
  [[nodiscard]] bool is_borrowed() const noexcept { return is_elsewhere() && from_->is_read_only(); }
  /// Whether what it has lies in other memory than the heap.
  [[nodiscard]] bool is_elsewhere() const noexcept { return data_.get_deleter().from != nullptr; }
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
  using memory = std::unique_ptr<std::byte[], detail::byte_giver>;

  [[nodiscard]] memory take(std::size_t bytes) const {
    if (from_)
      if (void* const at = from_->take(bytes)) return memory(static_cast<std::byte*>(at), {from_.get(), bytes});
    return memory(std::make_unique_for_overwrite<std::byte[]>(bytes).release());
  }
  void move_to(std::size_t capacity) {
    memory larger = take(capacity);
    if (size_ != 0) std::memcpy(larger.get(), data(), size_);
    data_ = std::move(larger);
    capacity_ = capacity;
  }

  std::shared_ptr<block_memory> from_;
  memory data_;  // which new aligns for any of these types
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace rubato
