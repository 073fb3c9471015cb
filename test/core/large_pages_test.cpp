// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/large_pages.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <new>
#include <sstream>
#include <string>
#include <vector>

using namespace rubato::detail;

namespace {

/// What the system says of the mapping that an address is in, "" where it says nothing: "rd wr mr mw me ac hg".
std::string flags_of_mapping(void const* at) {
  std::ifstream in("/proc/self/smaps");
  auto const address = reinterpret_cast<std::uintptr_t>(at);
  bool here = false;
  for (std::string line; std::getline(in, line);) {
    std::uintptr_t begin = 0, end = 0;
    char dash = 0;
    if (std::istringstream range(line); range >> std::hex >> begin >> dash >> end && dash == '-')
      here = address >= begin && address < end;
    if (here && line.starts_with("VmFlags:")) return line.substr(8) + ' ';
  }
  return {};
}

bool system_has_large_pages() {
  std::ifstream in("/sys/kernel/mm/transparent_hugepage/enabled");
  return in.good();
}

}  // namespace

TEST_CASE("large_pages: a large array begins where a large page does, and the system is asked for such") {
  std::size_t const bytes = 3 * large_page + 1000;
  void* const at = allocate_array(bytes);
  CHECK(reinterpret_cast<std::uintptr_t>(at) % large_page == 0);
  if (auto const flags = flags_of_mapping(at); system_has_large_pages() && !flags.empty())
    CHECK(flags.find(" hg ") != std::string::npos);
  std::fill_n(static_cast<std::byte*>(at), bytes, std::byte{7});
  deallocate_array(at, bytes);
}

TEST_CASE("large_pages: small arrays are on the heap as any are") {
  CHECK_FALSE(worth_large_pages(large_array - 1));
  CHECK(worth_large_pages(large_array));
  void* const at = allocate_array(large_page);
  std::fill_n(static_cast<std::byte*>(at), large_page, std::byte{7});
  deallocate_array(at, large_page);
}

TEST_CASE("large_pages: containers keep what they hold as they grow, and refuse what no memory has") {
  std::vector<std::uint32_t, array_allocator<std::uint32_t>> numbers;
  for (std::uint32_t i = 0; i < 3'000'000; ++i) numbers.push_back(i);
  for (std::uint32_t i = 0; i < 3'000'000; ++i)
    if (numbers[i] != i) FAIL(i);
  CHECK_THROWS_AS((void)array_allocator<std::uint64_t>().allocate(std::numeric_limits<std::size_t>::max() / 4),
                  std::bad_alloc);
}
