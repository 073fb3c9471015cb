// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/chunk_region.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/core/large_pages.hpp>
#include <rubato/core/random.hpp>
#include <rubato/storage/dense_store.hpp>

#include "failing_memory.hpp"
#include "storage/updates.hpp"

using namespace rubato;

namespace {

constexpr std::size_t region_chunk = 64 * 1024;
constexpr std::size_t chunks = detail::large_array / region_chunk;
constexpr std::size_t elements_of_all = chunks * region_chunk / sizeof(float);

table_state state_of(dense_store<float> const& s) {
  table_state all;
  all.refer(s.chunks(), region_chunk, [&](std::size_t i) { return s.chunk(i); });
  return all;
}
/// How many of these lie where one of those does.
std::size_t in_common(std::vector<std::byte const*> a, std::vector<std::byte const*> b) {
  std::ranges::sort(a);
  std::ranges::sort(b);
  std::vector<std::byte const*> both;
  std::ranges::set_intersection(a, b, std::back_inserter(both));
  return both.size();
}

}  // namespace

TEST_CASE("chunk_region: what it has room for lies side by side, and what is given back is taken again") {
  CHECK_FALSE(detail::chunk_region::make(chunks / 2, region_chunk));
  auto const region = detail::chunk_region::make(chunks, region_chunk);
  REQUIRE(region);
  std::vector<block_ref> all;
  for (std::size_t i = 0; i < chunks; ++i) all.push_back(block_ref::elsewhere(region_chunk, *region));
  for (std::size_t i = 0; i < chunks; ++i) {
    REQUIRE(all[i]);
    std::fill_n(all[i].mutable_data(), region_chunk, static_cast<std::byte>(i));
    CHECK(reinterpret_cast<std::uintptr_t>(all[i].data()) % 64 == 0);
    if (i != 0) CHECK(all[i].data() - all[i - 1].data() == region_chunk + 64);
  }
  for (std::size_t i = 0; i < chunks; ++i)
    CHECK(std::all_of(all[i].data(), all[i].data() + region_chunk,
                      [i](auto x) { return x == static_cast<std::byte>(i); }));
  CHECK_FALSE(block_ref::elsewhere(region_chunk, *region));
  std::byte const* const where = all[5].data();
  all[5] = {};
  CHECK_FALSE(block_ref::elsewhere(region_chunk + 1, *region));  // too large for any place
  block_ref const again = block_ref::elsewhere(region_chunk / 2, *region);
  CHECK(again.data() == where);
}

TEST_CASE("chunk_region: lives as long as its store, or any chunk of it") {
  block_ref last;
  {
    auto const region = detail::chunk_region::make(chunks, region_chunk);
    last = block_ref::elsewhere(region_chunk, *region);
    std::fill_n(last.mutable_data(), region_chunk, std::byte{3});
  }
  CHECK(std::all_of(last.data(), last.data() + region_chunk, [](auto x) { return x == std::byte{3}; }));
}

// It is the thread sanitizer that sees a lock that is missing; without, it shows seldom.
TEST_CASE("chunk_region: threads that take chunks and give them back at once have none in common") {
  constexpr std::size_t most = chunks / 4;  // of each of four
  auto region = detail::chunk_region::make(chunks, region_chunk);
  REQUIRE(region);
  std::atomic<int> mixed = 0;
  std::atomic<int> refused = 0;
  std::barrier all_are_here(4);
  std::barrier all_are_done(5);
  auto const work = [&](std::size_t self) {
    random_stream random(self, 0xc4a);
    std::vector<block_ref> mine;
    auto const give_back = [&](std::size_t which) {
      std::byte const* const at = mine[which].data();
      if (std::any_of(at, at + 64, [&](auto x) { return x != static_cast<std::byte>(self); })) ++mixed;
      mine.erase(mine.begin() + static_cast<std::ptrdiff_t>(which));
    };
    all_are_here.arrive_and_wait();
    for (int i = 0; i < 50'000; ++i) {
      if (mine.empty() || (mine.size() < most && random.chance(0.6))) {
        mine.push_back(block_ref::elsewhere(region_chunk, *region));
        if (mine.back()) std::memset(mine.back().mutable_data(), static_cast<int>(self), 64);
        else ++refused, mine.pop_back();
      } else {
        give_back(random.below(mine.size()));
      }
    }
    all_are_done.arrive_and_wait();
    while (!mine.empty()) give_back(mine.size() - 1);
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t self = 1; self <= 4; ++self) threads.emplace_back(work, self);
    all_are_done.arrive_and_wait();
    region.reset();  // while they give the last ones back
  }
  CHECK(refused == 0);
  CHECK(mixed == 0);
}

TEST_CASE("dense_store: a large table's chunks stay side by side, while a state of them is kept as when none is") {
  dense_store<float> s({.rows = elements_of_all, .width = 1, .threads = threading::single});
  auto const places = test::places(state_of(s));
  auto [least, greatest] = std::ranges::minmax(places);
  CHECK(static_cast<std::size_t>(greatest - least) == (chunks - 1) * (region_chunk + 64));
  std::vector<float> const ones(elements_of_all, 1.0F);
  weighted_update<float> const u{{.keyed = false, .first = 0, .rows = {}, .values = ones}, 1.0};
  auto const fold = [&] { s.fold(std::span<weighted_update<float> const>(&u, 1)); };
  fold();
  CHECK(test::places(state_of(s)) == places);
  {
    table_state const kept = state_of(s);
    fold();
    CHECK(in_common(test::places(state_of(s)), places) == 0);
    CHECK(test::elements_of<float>(kept, elements_of_all - 2, 2) == std::vector<float>{1, 1});
  }
  fold();
  CHECK(in_common(test::places(state_of(s)), places) == chunks);  // there is room again
  CHECK(test::elements_of<float>(state_of(s), 0, 2) == std::vector<float>{3, 3});
}

TEST_CASE("dense_store: where there is no memory for a large table there is none of it") {
  std::size_t const times = test::for_each_end_of_memory([](auto attempt) {
    attempt([] { dense_store<float> const s({.rows = elements_of_all, .width = 1, .threads = threading::single}); });
  });
  CHECK((times > 2 || !test::memory_can_end()));
}
