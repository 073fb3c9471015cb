// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/machine_memory.hpp>

#include <catch2/catch.hpp>

#include <unistd.h>

#include <cstdint>

using namespace rubato;

TEST_CASE("machine_memory: what one process may come to have, at most memory and swap space") {
  auto const physical = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                        static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  CHECK(machine_memory() >= std::uint64_t{1} << 26);  // this test runs
  CHECK(machine_memory() / 4 < physical);             // swap spaces are not that large
}

TEST_CASE("text_of_bytes: in the greatest unit of which there is one") {
  CHECK(text_of_bytes(0) == "0 B");
  CHECK(text_of_bytes(1023) == "1023 B");
  CHECK(text_of_bytes(1024) == "1.0 KiB");
  CHECK(text_of_bytes(std::uint64_t{3} << 29) == "1.5 GiB");
  CHECK(text_of_bytes(~std::uint64_t{0}) == "16.0 EiB");
}
