// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <limits>
#include <new>

namespace rubato::detail {

/// What the processor's larger pages hold, on most machines.
inline constexpr std::size_t large_page = std::size_t{2} * 1024 * 1024;

/// From how many bytes on an array is worth large pages: smaller ones are found as fast with the usual ones, and a page
/// that is touched in part should not enlarge an array by more than half of its size.
inline constexpr std::size_t large_array = 2 * large_page;
[[nodiscard]] constexpr bool worth_large_pages(std::size_t bytes) noexcept { return bytes >= large_array; }

/// Asks the system to give large pages for what of this memory consists of such, once it is touched. Where it has none,
/// or does not give them, nothing happens.
void ask_for_large_pages(void* at, std::size_t bytes) noexcept;

/// Memory for an array, at a large page's beginning where it is worth that. Throws std::bad_alloc.
///
/// Rows of a large array that are read or added to here and there are on as many pages as it has, and processors know
/// where a thousand or two of these are: that each row has its page looked up takes half as long as the row itself.
/// Large pages are fewer by 512. Memory is still used as it is touched, by as much as a large page at a time.
[[nodiscard]] inline void* allocate_array(std::size_t bytes) {
  if (!worth_large_pages(bytes)) return ::operator new(bytes);
  void* const at = ::operator new(bytes, std::align_val_t{large_page});
  ask_for_large_pages(at, bytes);
  return at;
}
/// @param bytes that it was made with
inline void deallocate_array(void* at, std::size_t bytes) noexcept {
  if (!worth_large_pages(bytes)) ::operator delete(at);
  else ::operator delete(at, std::align_val_t{large_page});
}

/// The same for containers.
template <class T>
struct array_allocator {
  using value_type = T;

  array_allocator() = default;
  template <class U>
  array_allocator(array_allocator<U> const&) noexcept {}  // NOLINT: as every allocator's

  [[nodiscard]] T* allocate(std::size_t n) {
    if (n > std::numeric_limits<std::size_t>::max() / sizeof(T)) throw std::bad_array_new_length();
    return static_cast<T*>(allocate_array(n * sizeof(T)));
  }
  void deallocate(T* at, std::size_t n) noexcept { deallocate_array(at, n * sizeof(T)); }

  template <class U>
  [[nodiscard]] bool operator==(array_allocator<U> const&) const noexcept {
    return true;
  }
};

}  // namespace rubato::detail
