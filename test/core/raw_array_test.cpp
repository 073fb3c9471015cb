// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/core/raw_array.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

using rubato::raw_array;

namespace {

raw_array array_of(std::vector<std::int32_t> const& values) {
  raw_array a;
  a.append(std::as_bytes(std::span(values)));
  return a;
}
std::vector<std::int32_t> values_of(raw_array const& a) {
  auto const all = a.as<std::int32_t>();
  return {all.begin(), all.end()};
}

using ints = std::vector<std::int32_t>;

}  // namespace

TEST_CASE("raw_array: grows at its end, and keeps what is there") {
  raw_array a;
  CHECK(a.empty());
  CHECK(a.size_bytes() == 0);
  ints expected;
  for (std::int32_t i = 0; i < 1000; ++i) {
    *reinterpret_cast<std::int32_t*>(a.extend(4)) = i;
    expected.push_back(i);
  }
  CHECK_FALSE(a.empty());
  CHECK(a.size_bytes() == 4000);
  CHECK(values_of(a) == expected);
  a.append(std::as_bytes(std::span(expected)));
  a.append({});
  CHECK(a.size_bytes() == 8000);
  CHECK(a.as<std::int32_t>()[1999] == 999);
  CHECK(a.bytes().data() == a.data());
  CHECK(a.bytes().size() == 8000);
}

namespace {

/// Gives what it is asked for once; counts what is given back.
class one_block final : public rubato::block_memory {
 public:
  [[nodiscard]] void* take(std::size_t bytes) noexcept override {
    if (given != 0 || bytes > sizeof block) return nullptr;
    given = bytes;
    return block;
  }
  void give(void* at, std::size_t bytes) noexcept override {
    if (at == block) returned += bytes;
  }
  alignas(64) std::byte block[256];
  std::size_t given = 0;
  std::size_t returned = 0;
};

}  // namespace

TEST_CASE("raw_array: memory from elsewhere is used as long as there is some, and given back once") {
  auto const memory = std::make_shared<one_block>();
  {
    raw_array a(memory);
    CHECK(memory.use_count() == 2);
    a.resize_bytes(64);
    CHECK(a.data() == memory->block);
    a.resize_bytes(16);
    std::ranges::fill(a.as<std::int32_t>(), 7);
    raw_array b = std::move(a);
    CHECK(b.data() == memory->block);
    CHECK(memory->returned == 0);
    raw_array const copy = b;
    CHECK(copy.data() != memory->block);
    CHECK(values_of(copy) == ints(4, 7));
    b.resize_bytes(128);  // there is no more
    CHECK(b.data() != memory->block);
    CHECK(ints(b.as<std::int32_t>().begin(), b.as<std::int32_t>().begin() + 4) == ints(4, 7));
    CHECK(memory->returned == 64);
    b = array_of({1});
    CHECK(memory.use_count() == 1);
  }
  CHECK(memory->returned == 64);
}

TEST_CASE("raw_array: what is borrowed is given back by its last owner, and never copied") {
  auto const memory = std::make_shared<one_block>();
  ints const values{1, 2, 3};
  {
    raw_array a;
    a = raw_array::borrowed(memory, std::as_bytes(std::span(values)).data(), 12);
    raw_array const b = std::move(a);
    CHECK(b.data() == std::as_bytes(std::span(values)).data());
    CHECK(values_of(b) == values);
    CHECK(memory.use_count() == 2);
  }
  CHECK(memory.use_count() == 1);
}

TEST_CASE("raw_array: a reserve is one allocation, and so is what is used again") {
  raw_array a;
  a.reserve_bytes(400);
  CHECK(a.empty());
  std::byte* const at = a.data();
  REQUIRE(at != nullptr);
  for (int i = 0; i < 100; ++i) (void)a.extend(4);
  CHECK(a.data() == at);
  a.clear();
  CHECK(a.empty());
  a.resize_bytes(400);
  CHECK(a.data() == at);
  a.reserve_bytes(10);
  CHECK(a.data() == at);
  CHECK(a.size_bytes() == 400);
}

TEST_CASE("raw_array: a new size keeps what it has in common with the old, zeros keep nothing") {
  raw_array a = array_of({1, 2, 3, 4});
  a.resize_bytes(8);
  CHECK(values_of(a) == ints{1, 2});
  a.resize_bytes(4000);
  CHECK(a.as<std::int32_t>()[1] == 2);
  a.resize_bytes(8);
  CHECK(values_of(a) == ints{1, 2});
  a.assign_zeros(12);
  CHECK(values_of(a) == ints{0, 0, 0});
}

TEST_CASE("raw_array: a copy is an array of its own, and a moved one is empty") {
  raw_array a = array_of({5, 6});
  raw_array b = a;
  b.as<std::int32_t>()[0] = 7;
  CHECK(values_of(a) == ints{5, 6});
  CHECK(values_of(b) == ints{7, 6});
  std::byte const* const at = a.data();
  raw_array c = std::move(a);
  CHECK(c.data() == at);
  CHECK(a.empty());  // NOLINT: it says so
  CHECK(a.data() == nullptr);
  a.append(c.bytes());  // and may be filled
  CHECK(values_of(a) == ints{5, 6});
  b = std::move(c);
  CHECK(b.data() == at);
  raw_array const& same = b;
  b = same;
  CHECK(values_of(b) == ints{5, 6});
  CHECK(raw_array(raw_array()).empty());
}

TEMPLATE_TEST_CASE("raw_array: elements are aligned, and as many as their bytes say", "", float, double,
                   std::int32_t, std::int64_t) {
  raw_array a;
  CHECK(a.as<TestType>().empty());
  (void)a.extend(3 * sizeof(TestType));
  CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % alignof(TestType) == 0);
  CHECK(a.as<TestType>().size() == 3);
  std::ranges::fill(a.as<TestType>(), TestType{9});
  raw_array const& frozen = a;
  CHECK(frozen.as<TestType>()[2] == TestType{9});
}
