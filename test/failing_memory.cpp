// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "failing_memory.hpp"

#include <cstdlib>
#include <limits>

#include "seeds.hpp"

namespace rubato::test {
namespace {
constexpr std::size_t endless = std::numeric_limits<std::size_t>::max();
thread_local std::size_t requests_left = endless;
}  // namespace

bool memory_can_end() noexcept { return !sanitized(); }

end_of_memory::end_of_memory(std::size_t after) noexcept { requests_left = after; }
end_of_memory::~end_of_memory() { requests_left = endless; }

}  // namespace rubato::test

#ifndef RUBATO_TEST_SANITIZED

namespace {
void* checked(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void count_request() {
  using rubato::test::requests_left;
  if (requests_left == rubato::test::endless) return;
  if (requests_left == 0) throw std::bad_alloc();
  --requests_left;
}
}  // namespace

void* operator new(std::size_t bytes) {
  count_request();
  return checked(std::malloc(bytes == 0 ? 1 : bytes));
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  count_request();
  auto const to = static_cast<std::size_t>(alignment);
  return checked(std::aligned_alloc(to, (bytes + to - 1) / to * to));
}
void operator delete(void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { std::free(at); }

#endif
