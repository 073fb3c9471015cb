// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <Eigen/Core>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace rubato {

/// A counted reference to an array of T in Eigen's aligned memory.
///
/// The array may be written only while `unique()` holds; whoever shares it sees it frozen. That is
/// how a pull costs no copy of its own: a store that has to fold into a shared block puts a new one
/// in its place. Counter and array are one allocation.
/// Thread safety: distinct references may be used concurrently, one reference may not.
template <class T>
class block_ref {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  block_ref() noexcept = default;
  /// A new array, uninitialised. Throws std::bad_alloc.
  explicit block_ref(std::size_t size)
      : block_(::new (Eigen::internal::aligned_malloc(sizeof(header) + size * sizeof(T)))
                   header(size)) {}

  block_ref(block_ref const& other) noexcept : block_(other.block_) {
    if (block_) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  block_ref(block_ref&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  block_ref& operator=(block_ref other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~block_ref() {
    if (block_ && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      std::destroy_at(block_);
      Eigen::internal::aligned_free(block_);
    }
  }

  [[nodiscard]] explicit operator bool() const noexcept { return block_ != nullptr; }
  /// Whether nobody else refers to the array. The acquire pairs with the release of those who did,
  /// so their reads are over before the caller writes.
  [[nodiscard]] bool unique() const noexcept {
    return block_->references.load(std::memory_order_acquire) == 1;
  }
  [[nodiscard]] std::size_t size() const noexcept { return block_->size; }
  [[nodiscard]] T const* data() const noexcept { return reinterpret_cast<T const*>(block_ + 1); }
  /// @pre `unique()`
  [[nodiscard]] T* mutable_data() noexcept { return reinterpret_cast<T*>(block_ + 1); }

 private:
  struct alignas(16) header {
    explicit header(std::size_t n) noexcept : size(n) {}
    std::size_t size;
    std::atomic<std::uint32_t> references{1};
  };
  static_assert(alignof(T) <= alignof(header));

  header* block_ = nullptr;
};

namespace detail {

template <class T>
using array_view = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
template <class T>
using const_array_view = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1> const>;

/// to ← to + weight·from
template <class T>
void add_scaled(T* to, T const* from, std::size_t n, double weight) noexcept {
  auto const size = static_cast<Eigen::Index>(n);
  array_view<T>(to, size) += static_cast<T>(weight) * const_array_view<T>(from, size);
}

/// The same for a row, which is short: one element, most often.
template <class T>
void add_row(T* to, T const* from, std::size_t width, double weight = 1.0) noexcept {
  if (width == 1) *to += static_cast<T>(weight) * *from;
  else add_scaled(to, from, width, weight);
}

/// to ← base + weight·from, in one pass
template <class T>
void add_scaled_into(T* to, T const* base, T const* from, std::size_t n, double weight) noexcept {
  auto const size = static_cast<Eigen::Index>(n);
  array_view<T>(to, size) =
      const_array_view<T>(base, size) + static_cast<T>(weight) * const_array_view<T>(from, size);
}

}  // namespace detail
}  // namespace rubato
