// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <new>

namespace rubato::test {

/// Whether memory can be made to end: not under a sanitizer, which looks at `new` and `delete` itself.
[[nodiscard]] bool memory_can_end() noexcept;

/// While it lives, this thread's `new` gives memory so many times more, and then throws. Assert on what happened
/// afterwards, which takes memory.
class end_of_memory {
 public:
  explicit end_of_memory(std::size_t after) noexcept;
  end_of_memory(end_of_memory const&) = delete;
  end_of_memory& operator=(end_of_memory const&) = delete;
  ~end_of_memory();
};

/// Calls `f(attempt)` again and again, where `attempt(g)` calls `g` with memory that ends the first time that it wants
/// any, the second time, and so on, and says whether it has come to its end: until it has. @return how often it had not
template <class F>
std::size_t for_each_end_of_memory(F f) {
  bool is_enough = !memory_can_end();
  std::size_t n = 0;
  while (!is_enough) {
    f([&](auto g) {
      try {
        end_of_memory const ends(n);
        g();
        is_enough = true;
      } catch (std::bad_alloc const&) {
        ++n;
      }
      return is_enough;
    });
  }
  return n;
}

}  // namespace rubato::test
