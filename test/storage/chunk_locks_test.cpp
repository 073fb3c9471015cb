// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/chunk_locks.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <future>
#include <span>
#include <vector>

using namespace rubato;
using detail::chunk_locks;

TEST_CASE("chunk_locks: each chunk has one: of its own, of 8 to 16 in a large array, the same as all for one thread") {
  for (std::size_t const chunks : {0u, 1u, 2u, 63u, 64u, 65u, 127u, 128u, 129u, 610u, 1000u, 5000u}) {
    INFO(chunks);
    chunk_locks const locks(chunks, threading::multiple);
    for (std::size_t i = 0; i < chunks; ++i) {
      REQUIRE(locks.group_of(i) < locks.count());
      REQUIRE(locks.end_of(locks.group_of(i)) > i);
      REQUIRE(locks.group_of(locks.end_of(locks.group_of(i))) == locks.group_of(i) + 1);
    }
    CHECK(locks.most_in_order() >= locks.count());
    CHECK(chunk_locks(chunks, threading::single).count() == 1);
    if (chunks == 0) continue;
    std::size_t const used = locks.group_of(chunks - 1) + 1;
    if (chunks <= 64) CHECK(used == chunks);
    else CHECK((used >= 8 && used <= 16));
  }
}

TEST_CASE("chunk_locks: rows in no order are gone through group by group, each place once and in the list's order") {
  chunk_locks const locks(100, threading::multiple);
  std::vector<std::uint64_t> const rows{7, 93, 8, 7, 99, 0, 93, 7, 50};
  auto const group_of = [&](std::uint64_t row) { return locks.group_of(row); };
  auto const is_free = [&](std::size_t group) {
    return std::async(std::launch::async, [&] {
             if (!locks[group].try_lock()) return false;
             locks[group].unlock();
             return true;
           }).get();
  };
  std::vector<std::vector<std::size_t>> groups;
  locks.for_each_group(rows, group_of, [&](std::span<std::size_t const> places) {
    groups.emplace_back(places.begin(), places.end());
    std::size_t const group = group_of(rows[places[0]]);
    for (std::size_t g = 0; g < locks.count(); ++g) CHECK(is_free(g) == (g != group));
  });
  CHECK(groups == std::vector<std::vector<std::size_t>>{{0, 3, 5, 7}, {2}, {8}, {1, 6}, {4}});
  locks.for_each_group({}, group_of, [](std::span<std::size_t const>) { FAIL("there are no rows"); });
}
