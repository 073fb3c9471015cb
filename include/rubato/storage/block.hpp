// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

#include "rubato/core/block_memory.hpp"
#include "rubato/core/element.hpp"

namespace rubato {

/// A counted reference to an array of parameters.
///
/// The array may be written only while `unique()` holds; whoever shares it sees it frozen. That is
/// how a pull costs no copy of its own: a store that has to fold into a shared block puts a new one
/// in its place. Counter and array are one allocation, on the heap unless other memory is named and
/// has room.
/// Thread safety: distinct references may be used concurrently, one reference may not.
class block_ref {
 public:
  block_ref() noexcept = default;
  /// A new array of so many bytes, uninitialised. Throws std::bad_alloc.
  explicit block_ref(std::size_t bytes, block_memory* from = nullptr) : block_(make(bytes, from)) {}
  /// The same in that memory alone; no array where it has no room.
  [[nodiscard]] static block_ref elsewhere(std::size_t bytes, block_memory& from) noexcept {
    block_ref made;
    made.block_ = make_elsewhere(bytes, from);
    return made;
  }

  /// Refers to the same array.
  block_ref(block_ref const& other) noexcept : block_(other.block_) {
    if (block_) block_->references.fetch_add(1, std::memory_order_relaxed);
  }
  /// Takes over; `other` refers to none.
  block_ref(block_ref&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  // Not one that takes a value: clang 14 never destroys that in `x = {}`.
  block_ref& operator=(block_ref const& other) noexcept { return *this = block_ref(other); }
  block_ref& operator=(block_ref&& other) noexcept {
    block_ref old;
    old.block_ = std::exchange(block_, std::exchange(other.block_, nullptr));
    return *this;
  }
  ~block_ref() {
    if (block_ && block_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      release(block_);
    }
  }

  [[nodiscard]] explicit operator bool() const noexcept { return block_ != nullptr; }
  /// Whether nobody else refers to the array. The acquire pairs with the release of those who did,
  /// so their reads are over before the caller writes.
  [[nodiscard]] bool unique() const noexcept {
    return block_->references.load(std::memory_order_acquire) == 1;
  }
  /// Whether it is in other memory than the heap. @pre there is one
  [[nodiscard]] bool is_elsewhere() const noexcept { return block_->from_elsewhere; }
  /// What an array of so many bytes takes there.
  [[nodiscard]] static constexpr std::size_t bytes_elsewhere(std::size_t bytes) noexcept { return front + bytes; }
  /// Of the array. @pre there is one
  [[nodiscard]] std::size_t size_bytes() const noexcept { return block_->bytes; }
  [[nodiscard]] std::byte const* data() const noexcept {
    return reinterpret_cast<std::byte const*>(block_ + 1);
  }
  /// @pre `unique()`
  [[nodiscard]] std::byte* mutable_data() noexcept {
    return reinterpret_cast<std::byte*>(block_ + 1);
  }

  /// The same as elements.
  template <parameter T>
  [[nodiscard]] std::size_t size() const noexcept {
    return block_->bytes / sizeof(T);
  }
  /// Its elements. @pre there is an array
  template <parameter T>
  [[nodiscard]] T const* as() const noexcept {
    return reinterpret_cast<T const*>(block_ + 1);
  }
  /// Its elements, to be written. @pre `unique()`
  template <parameter T>
  [[nodiscard]] T* mutable_as() noexcept {
    return reinterpret_cast<T*>(block_ + 1);
  }

 private:
  // Small ones, of which simulations have many, are not worth a cache line of their own.
  static constexpr std::align_val_t alignment{64};
  static constexpr std::size_t aligned_from = 1024;
  /// In memory from elsewhere: where that is, and the header, which ends where the array begins.
  static constexpr std::size_t front = 64;

  struct alignas(16) header {
    header(std::size_t n, bool elsewhere) noexcept : bytes(n), from_elsewhere(elsewhere) {}
    std::size_t bytes;
    std::atomic<std::uint32_t> references{1};
    bool from_elsewhere;
  };
  static_assert(sizeof(header) == 16);

  static header* make(std::size_t bytes, block_memory* from) {
    if (from != nullptr)
      if (header* const made = make_elsewhere(bytes, *from)) return made;
    return ::new (allocate(bytes)) header(bytes, false);
  }
  static header* make_elsewhere(std::size_t bytes, block_memory& from) noexcept {
    auto* const at = static_cast<std::byte*>(from.take(front + bytes));
    if (at == nullptr) return nullptr;
    ::new (at) block_memory*(&from);
    return ::new (at + front - sizeof(header)) header(bytes, true);
  }
  static void* allocate(std::size_t bytes) {
    std::size_t const total = sizeof(header) + bytes;
    return bytes < aligned_from ? ::operator new(total) : ::operator new(total, alignment);
  }
  static void release(header* h) noexcept {
    if (h->from_elsewhere) {
      std::byte* const at = reinterpret_cast<std::byte*>(h + 1) - front;
      (*reinterpret_cast<block_memory**>(at))->give(at, front + h->bytes);
    } else if (h->bytes < aligned_from) {
      ::operator delete(h);
    } else {
      ::operator delete(h, alignment);
    }
  }

  header* block_ = nullptr;
};

}  // namespace rubato
