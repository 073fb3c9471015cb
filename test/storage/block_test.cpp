// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/block.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <rubato/storage/dense_store.hpp>

#include "failing_memory.hpp"

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

/// Memory for so many arrays of at most 1 KiB.
class small_memory final : public rubato::block_memory {
 public:
  explicit small_memory(std::size_t arrays) : arrays_(arrays) {}
  void* take(std::size_t bytes) noexcept override {
    if (free() == 0 || bytes > sizeof rooms_[0]) return nullptr;
    auto* const size = std::find(std::begin(sizes_), std::end(sizes_), std::size_t{0});
    *size = bytes;
    return rooms_[size - sizes_];
  }
  void give(void* at, std::size_t bytes) noexcept override {
    auto const i = static_cast<std::size_t>(static_cast<std::byte*>(at) - rooms_[0]) / sizeof rooms_[0];
    CHECK(at == rooms_[i]);
    CHECK(bytes == std::exchange(sizes_[i], 0));
  }
  [[nodiscard]] bool contains(std::byte const* at) const noexcept {
    auto const* const first = reinterpret_cast<std::byte const*>(&rooms_);
    return at >= first && at < first + sizeof rooms_;
  }
  [[nodiscard]] std::size_t free() const noexcept {
    auto const taken = std::count_if(std::begin(sizes_), std::end(sizes_), [](auto n) { return n != 0; });
    return arrays_ - static_cast<std::size_t>(taken);
  }

 private:
  alignas(64) std::byte rooms_[4][1024];
  std::size_t sizes_[4] = {};  ///< of those that are taken; else 0
  std::size_t arrays_;
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

TEST_CASE("block_ref: where other memory has no room it is on the heap") {
  small_memory memory(1);
  block_ref const large(2000, &memory);
  CHECK_FALSE(memory.contains(large.data()));
  CHECK_FALSE(large.is_elsewhere());
  block_ref a(100, &memory);
  CHECK(a.is_elsewhere());
  block_ref const b(100, &memory);
  CHECK_FALSE(memory.contains(b.data()));
  CHECK(b.size_bytes() == 100);
  a = {};
  CHECK(memory.free() == 1);
}

TEST_CASE("block_ref: as long as other memory has no room, what is on the heap takes no more of that") {
  small_memory full(0);
  block_ref now(100, &full);
  std::fill_n(now.mutable_as<float>(), 25, 0.0F);
  std::vector<float> const ones(25, 1.0F);
  std::size_t const times = rubato::test::for_each_end_of_memory([&](auto attempt) {
    attempt([&] {
      rubato::detail::add_scaled(now, ones.data(), 1.0, &full);
      (void)rubato::detail::writable<float>(now, &full);
    });
  });
  CHECK(times == 0);
}

TEST_CASE("block_ref: what changes is copied into the memory that it belongs to, and goes there when there is room") {
  constexpr std::size_t floats = 25;
  small_memory memory(2);
  block_ref now(floats * sizeof(float), &memory);
  std::fill_n(now.mutable_as<float>(), floats, 0.0F);
  std::vector<float> const ones(floats, 1.0F);
  bool const whole = GENERATE(true, false);
  auto const add = [&] {
    if (whole) return rubato::detail::add_scaled(now, ones.data(), 1.0, &memory);
    float* const values = rubato::detail::writable<float>(now, &memory);
    for (std::size_t i = 0; i < floats; ++i) values[i] += 1;
  };
  auto const is_all = [&](float x) {
    return std::all_of(now.as<float>(), now.as<float>() + floats, [x](float v) { return v == x; });
  };
  block_ref first = now;
  add();
  CHECK(memory.contains(now.data()));
  std::byte const* const where = now.data();
  block_ref const second = now;
  add();
  CHECK_FALSE(now.is_elsewhere());  // there was no room
  std::byte const* const on_the_heap = now.data();
  add();
  CHECK(now.data() == on_the_heap);
  CHECK(is_all(3));
  first = {};
  add();
  CHECK(memory.contains(now.data()));
  CHECK(now.data() != where);
  CHECK(is_all(4));
}
