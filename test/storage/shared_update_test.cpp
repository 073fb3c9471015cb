// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/storage/shared_update.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

using namespace rubato;

namespace {

/// A whole update of `pool` with `size` times the same number.
update_buffer filled(update_pool const& pool, std::size_t size, std::int32_t number) {
  update_buffer b = pool.take();
  b->whole = true;
  b->values.resize_bytes(size * sizeof number);
  std::ranges::fill(b->values.as<std::int32_t>(), number);
  return b;
}

}  // namespace

TEST_CASE("shared_update: one that refers to nothing is an update without rows", "[storage][shared_update]") {
  shared_update const none;
  CHECK(none.empty());
  CHECK(none->rows.empty());
  CHECK(none->values.empty());
  CHECK_FALSE(none->whole);
  CHECK_FALSE(update_buffer());
}

TEST_CASE("update_pool: a buffer that nobody refers to is used again", "[storage][shared_update]") {
  update_pool const pool;
  shared_update a = filled(pool, 7, 1);
  shared_update b = filled(pool, 7, 2);
  shared_update const reader = a;
  update const* const first = a.get();
  CHECK(reader.get() == first);
  a = {};
  shared_update const c = filled(pool, 7, 3);
  CHECK(c.get() != first);  // somebody reads it still
  CHECK(std::ranges::count(reader->values.as<std::int32_t>(), 1) == 7);
  update const* const second = b.get();
  b = {};
  update_buffer const d = pool.take();
  CHECK(&*d == second);
}

namespace {

class counted_memory final : public block_memory {
 public:
  [[nodiscard]] void* take(std::size_t bytes) noexcept override {
    there += bytes;
    return ::operator new(bytes, std::align_val_t{64}, std::nothrow);
  }
  void give(void* at, std::size_t bytes) noexcept override {
    there -= bytes;
    ::operator delete(at, std::align_val_t{64});
  }
  std::size_t there = 0;
};

}  // namespace

TEST_CASE("update_pool: buffers that are made from some time on have their values elsewhere",
          "[storage][shared_update]") {
  auto const memory = std::make_shared<counted_memory>();
  {
    auto pool = std::make_unique<update_pool>();
    shared_update before = filled(*pool, 7, 1);
    pool->use(memory);
    shared_update const after = filled(*pool, 7, 2);
    CHECK(memory->there == 28);
    before = {};
    shared_update again = filled(*pool, 7, 3);  // the one that was made before
    CHECK(memory->there == 28);
    shared_update const more = filled(*pool, 7, 4);
    CHECK(memory->there == 56);
    pool.reset();
    again = {};
    CHECK(std::ranges::count(after->values.as<std::int32_t>(), 2) == 7);
    CHECK(memory->there == 56);
  }
  CHECK(memory->there == 0);
  CHECK(memory.use_count() == 1);
}

TEST_CASE("update_pool: buffers from before there was memory elsewhere, or any more of it, are the last choice",
          "[storage][shared_update]") {
  auto const memory = std::make_shared<counted_memory>();
  update_pool const pool;
  shared_update on_the_heap = filled(pool, 7, 1);
  pool.use(memory);
  shared_update there = filled(pool, 7, 2), too = filled(pool, 7, 3);
  update const* const last = on_the_heap.get();
  there = {};
  on_the_heap = {};
  too = {};
  for (int i = 0; i < 3; ++i) {  // again and again
    shared_update const first = filled(pool, 7, 4), second = filled(pool, 7, 5), third = filled(pool, 7, 6);
    CHECK(first->values.is_elsewhere());
    CHECK(second->values.is_elsewhere());
    CHECK(third.get() == last);
  }
  CHECK(memory->there == 56);
}

TEST_CASE("update_pool: a keyed update comes back empty", "[storage][shared_update]") {
  update_pool const pool;
  {
    update_buffer b = pool.take();
    CHECK(b->empty());
    b->rows = {3, 5};
    b->values.assign_zeros(2 * sizeof(float));
    CHECK_FALSE(shared_update(std::move(b)).empty());
  }
  update_buffer const again = pool.take();
  CHECK(again->rows.empty());
  CHECK(again->values.empty());
}

TEST_CASE("update_pool: a whole update comes back as large as it was, to be overwritten",
          "[storage][shared_update]") {
  update_pool const pool;
  (void)filled(pool, 7, 1);
  update_buffer const again = pool.take();
  CHECK(again->whole);
  CHECK(again->rows.empty());
  CHECK(again->values.size_bytes() == 7 * sizeof(std::int32_t));
}

TEST_CASE("update_pool: a buffer outlives its pool", "[storage][shared_update]") {
  std::optional<update_pool> pool(std::in_place);
  shared_update kept = filled(*pool, 1000, 15);
  (void)filled(*pool, 1000, 16);  // is at the pool when that goes
  pool.reset();
  REQUIRE(kept->values.size_bytes() == 1000 * sizeof(std::int32_t));
  CHECK(std::ranges::count(kept->values.as<std::int32_t>(), 15) == 1000);
  kept = {};  // the sanitizers see whether the last one clears up
}

TEST_CASE("update_pool: readers let go in threads of their own", "[storage][shared_update]") {
  update_pool const pool;
  int wrong = 0;
  for (int round = 0; round < 50; ++round) {
    shared_update const sent = filled(pool, 64, round);
    std::vector<int> sums(2);
    std::vector<std::thread> readers;
    for (std::size_t r = 0; r < 2; ++r)
      readers.emplace_back([mine = sent, &sum = sums[r]]() mutable {
        for (std::int32_t const x : mine->values.as<std::int32_t>()) sum += x;
        mine = {};
      });
    update_buffer const other = filled(pool, 64, -1);  // must not be what they read
    for (std::thread& t : readers) t.join();
    for (int const sum : sums) wrong += sum != 64 * round;
  }
  CHECK(wrong == 0);
}

TEST_CASE("shared_update: a buffer is given up to it, and so is its memory when all have let go",
          "[storage][shared_update]") {
  update_buffer b(update{.whole = false, .rows = {4}, .values = {}});
  b->values.assign_zeros(sizeof(float));
  update const* const written = &*b;
  shared_update a = std::move(b);
  CHECK_FALSE(b);  // NOLINT: it says so
  CHECK(a.get() == written);
  shared_update c = a;
  CHECK(c.get() == written);
  shared_update const d = std::move(a);
  CHECK(a.empty());  // NOLINT: it says so
  CHECK(a->rows.empty());
  CHECK(d.get() == written);
  auto const& same = c;
  c = same;
  CHECK(c->rows == std::vector<std::uint64_t>{4});
}

TEST_CASE("update_pool: a whole update comes back as large as it was, and copies of a pool share it",
          "[storage][shared_update]") {
  update_pool const pool;
  update_pool const copy = pool;
  std::byte const* const at = shared_update(filled(pool, 1000, 1))->values.data();
  update_buffer const again = copy.take();
  CHECK(again->values.data() == at);
  CHECK(again->values.size_bytes() == 1000 * sizeof(std::int32_t));
  CHECK(again->rows.empty());
  update_pool const other;
  CHECK(other.take()->values.empty());
}

TEST_CASE("shared_update: who has the only reference may write the update again", "[storage][shared_update]") {
  update_pool const pool;
  shared_update a = filled(pool, 7, 1);
  std::byte const* const at = a->values.data();
  shared_update other = a;
  CHECK_FALSE(a.take_if_alone());
  CHECK(a->values.data() == at);
  other = shared_update();
  update_buffer const again = a.take_if_alone();
  REQUIRE(again);
  CHECK(again->values.data() == at);
  CHECK(again->values.as<std::int32_t>()[6] == 1);
  CHECK(a->values.empty());
  CHECK_FALSE(a.take_if_alone());  // it refers to none now
}

namespace {
/// As another process's: what lies there may be looked at.
struct looked_at final : block_memory {
  [[nodiscard]] void* take(std::size_t) noexcept override { return nullptr; }
  void give(void*, std::size_t) noexcept override {}
  [[nodiscard]] bool is_read_only() const noexcept override { return true; }
};
}  // namespace

TEST_CASE("shared_update: who is alone may not write what may only be read") {
  std::vector<float> const there(3, 1.0F);
  auto const bytes = std::as_bytes(std::span(there));
  shared_update borrowed(update{
      .whole = true, .rows = {}, .values = raw_array::borrowed(std::make_shared<looked_at>(), bytes.data(), bytes.size())});
  CHECK_FALSE(borrowed.take_if_alone());
  CHECK(borrowed->values.data() == bytes.data());
}
