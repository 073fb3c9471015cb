// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/block.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

using rubato::block_ref;

TEST_CASE("block_ref: copies share the array, and it is unique again when they are gone") {
  block_ref a(5 * sizeof(float));
  CHECK(a.size_bytes() == 20);
  CHECK(a.size<float>() == 5);
  CHECK(a.unique());
  a.mutable_as<float>()[3] = 7.0F;
  {
    block_ref const b = a;
    CHECK(b.data() == a.data());
    CHECK_FALSE(a.unique());
    CHECK(b.as<float>()[3] == 7.0F);
  }
  CHECK(a.unique());
}

TEST_CASE("block_ref: moving hands the reference on, and assignment gives the old one up") {
  block_ref a(2 * sizeof(std::int64_t));
  block_ref b(3 * sizeof(std::int64_t));
  block_ref const old = b;
  std::byte const* const data = a.data();
  b = std::move(a);
  CHECK_FALSE(a);  // NOLINT: emptied, and says so
  CHECK(b.data() == data);
  CHECK(b.unique());
  CHECK(old.unique());
  CHECK_FALSE(block_ref{});
}

TEST_CASE("block_ref: assigning to itself keeps the array") {
  block_ref a(4 * sizeof(double));
  a.mutable_as<double>()[0] = 1.5;
  auto const& same = a;
  a = same;
  CHECK(a.unique());
  CHECK(a.as<double>()[0] == 1.5);
}

TEST_CASE("block_ref: elements of any type are aligned, in small arrays and large ones") {
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{8}, std::size_t{1016}, std::size_t{1024},
                                  std::size_t{1} << 16}) {
    block_ref const a(bytes);
    INFO(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % alignof(std::int64_t) == 0);
    CHECK(a.size_bytes() == bytes);
    CHECK(static_cast<void const*>(a.as<double>()) == a.data());
  }
}

namespace {

/// Memory for so many arrays of at most 1 KiB, taken in their order.
class small_memory final : public rubato::block_memory {
 public:
  explicit small_memory(std::size_t arrays) : free_(arrays) {}
  void* take(std::size_t bytes) noexcept override {
    if (free_ == 0 || bytes > sizeof rooms_[0]) return nullptr;
    sizes_[--free_] = bytes;
    return rooms_[free_];
  }
  void give(void* at, std::size_t bytes) noexcept override {
    CHECK(at == rooms_[free_]);  // in the tests here
    CHECK(bytes == sizes_[free_]);
    ++free_;
  }
  [[nodiscard]] bool contains(std::byte const* at) const noexcept {
    return at >= rooms_[0] && at < rooms_[0] + sizeof rooms_;
  }
  [[nodiscard]] std::size_t free() const noexcept { return free_; }

 private:
  alignas(64) std::byte rooms_[4][1024];
  std::size_t sizes_[4] = {};
  std::size_t free_;
};

}  // namespace

TEST_CASE("block_ref: an array in other memory is given back when nobody refers to it") {
  small_memory memory(1);
  {
    block_ref a(100, &memory);
    CHECK(memory.contains(a.data()));
    CHECK(memory.contains(a.data() + 99));
    CHECK(reinterpret_cast<std::uintptr_t>(a.data()) % 64 == 0);
    CHECK(a.size_bytes() == 100);
    CHECK(a.unique());
    block_ref const b = a;
    a = {};
    CHECK(memory.free() == 0);
  }
  CHECK(memory.free() == 1);
}

TEST_CASE("block_ref: where other memory has no room it is on the heap, and so are those that are like it") {
  small_memory memory(1);
  block_ref const large(2000, &memory);
  CHECK_FALSE(memory.contains(large.data()));
  block_ref a(100, &memory);
  block_ref const b = a.another();
  CHECK_FALSE(memory.contains(b.data()));
  CHECK(b.size_bytes() == 100);
  a = {};
  CHECK(memory.free() == 1);
  CHECK_FALSE(memory.contains(b.another().data()));
}

TEST_CASE("block_ref: another one is from the same memory") {
  small_memory memory(2);
  block_ref const a(100, &memory);
  {
    block_ref const b = a.another();
    CHECK(memory.contains(b.data()));
    CHECK(b.data() != a.data());
    CHECK(b.size_bytes() == 100);
    CHECK(b.unique());
  }
  CHECK(memory.free() == 1);
}
