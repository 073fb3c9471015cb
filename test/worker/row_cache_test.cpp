// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/row_cache.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace rubato;

namespace {

using floats = std::vector<float>;

/// Rows of two floats.
struct cache_of_pairs : row_cache<> {
  explicit cache_of_pairs(std::size_t capacity = 0) : row_cache(2 * sizeof(float), capacity) {}

  /// What is there afterwards.
  floats put(std::uint64_t k, std::int64_t server_clock, floats const& values, fetch_mark mark = {}) {
    std::byte const* const kept = row_cache::put(k, mark, clock_index{server_clock},
                                                 std::as_bytes(std::span(values)).data());
    auto const* const at = reinterpret_cast<float const*>(kept);
    return {at, at + 2};
  }
  floats row(std::uint64_t k) {
    entry const* const e = find(k);
    REQUIRE(e != nullptr);
    auto const* const at = reinterpret_cast<float const*>(values(*e));
    return {at, at + 2};
  }
};

}  // namespace

TEST_CASE("row_cache: a row fetched at an older server clock never replaces a newer one (rules "
          "§2)") {
  cache_of_pairs cache;
  CHECK(cache.find(5) == nullptr);
  CHECK(cache.put(5, 3, {1, 2}) == floats{1, 2});
  CHECK(cache.put(5, 2, {3, 4}) == floats{1, 2});
  CHECK(cache.row(5) == floats{1, 2});
  CHECK(cache.find(5)->mark.server_clock == clock_index{3});
  CHECK(cache.put(5, 3, {5, 6}) == floats{5, 6});
  CHECK(cache.put(5, 9, {7, 8}) == floats{7, 8});
  CHECK(cache.find(5)->mark.server_clock == clock_index{9});
}

TEST_CASE("row_cache: own pushes are added to the rows that are here, and to no others (SSP-2)") {
  cache_of_pairs cache;
  for (std::uint64_t k = 0; k < 50; ++k) cache.put(k * 1000, 0, {1, 2});
  float const delta[] = {10, 20};
  cache.add(3000, delta);
  cache.add(1, delta);
  CHECK(cache.row(3000) == floats{11, 22});
  CHECK(cache.row(4000) == floats{1, 2});
  CHECK(cache.find(1) == nullptr);
  floats deltas(2 * 50'000, 99.0F);
  for (std::size_t k = 0; k < 50'000; k += 1000) deltas[2 * k] = deltas[2 * k + 1] = 0.5F;
  cache.add_all(deltas.data());
  CHECK(cache.row(3000) == floats{11.5F, 22.5F});
  CHECK(cache.row(49'000) == floats{1.5F, 2.5F});
}

TEST_CASE("row_cache: forgets everything when it is cleared") {
  cache_of_pairs cache;
  CHECK(cache.empty());
  cache.put(5, 7, {1, 2});
  CHECK_FALSE(cache.empty());
  cache.clear();
  CHECK(cache.empty());
  CHECK(cache.find(5) == nullptr);
  cache.put(5, 1, {3, 4});
  CHECK(cache.row(5) == floats{3, 4});
}

TEST_CASE("row_cache: with a capacity, the least recently used row goes (rules §3)") {
  cache_of_pairs cache(2);
  cache.put(1, 1, {1, 2});
  cache.put(2, 1, {3, 4});
  SECTION("the first one that came") { cache.put(3, 1, {1, 2}); }
  SECTION("or was read") {
    CHECK(cache.use(2) != nullptr);
    CHECK(cache.find(1) != nullptr);  // which is no use
    cache.put(3, 1, {1, 2});
  }
  SECTION("or was fetched again") {
    cache.put(1, 1, {1, 2});
    cache.put(2, 0, {1, 2});  // older, so not taken, but used
    cache.put(3, 1, {1, 2});
  }
  CHECK(cache.size() == 2);
  CHECK(cache.find(1) == nullptr);
  CHECK(cache.row(2) == floats{3, 4});
  CHECK(cache.row(3) == floats{1, 2});
  float const delta[] = {1, 2};
  cache.add(2, delta);
  CHECK(cache.row(2) == floats{4, 6});
  cache.clear();
  cache.put(9, 1, {1, 2});
  CHECK(cache.row(9) == floats{1, 2});
  CHECK(cache.size() == 1);
}

TEST_CASE("row_cache: a capacity holds over many rows, and what is here is right") {
  constexpr std::size_t capacity = 7;
  cache_of_pairs cache(capacity);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    std::uint64_t const k = i * i % 31;
    auto const x = static_cast<float>(k);
    cache.put(k, 1, {x, -x});
    CHECK(cache.size() <= capacity);
    for (std::uint64_t other = 0; other < 31; ++other)
      if (cache.find(other) != nullptr) {
        auto const y = static_cast<float>(other);
        CHECK(cache.row(other) == floats{y, -y});
      }
    CHECK(cache.find(k) != nullptr);
  }
}

TEST_CASE("row_cache: says up to which fetch rows have been evicted") {
  cache_of_pairs cache(1);
  auto const put = [&](std::uint64_t k, std::uint64_t fetch) {
    cache.put(k, 0, {1, 2}, {.fetch = fetch});
  };
  put(1, 4);
  CHECK(cache.forgotten() == 0);
  put(2, 5);
  CHECK(cache.forgotten() == 4);
  put(3, 2);
  CHECK(cache.forgotten() == 5);
  put(4, 6);
  CHECK(cache.forgotten() == 5);
  cache.clear();
  CHECK(cache.forgotten() == 0);
}

TEST_CASE("freshness: a copy will do by its server clock, or as one of this clock that needed as much") {
  auto const mark = [](std::int64_t server_clock, std::int64_t at, std::int64_t need) {
    return fetch_mark{.server_clock = clock_index{server_clock},
                      .at = clock_index{at},
                      .need = clock_index{need}};
  };
  freshness const f{.clock = clock_index{7}, .need = clock_index{4}, .cache_need = clock_index{5}};
  CHECK(f.allows(mark(5, 0, 0)));
  CHECK_FALSE(f.allows(mark(4, 6, 9)));
  CHECK(f.allows(mark(4, 7, 4)));
  CHECK_FALSE(f.allows(mark(4, 7, 3)));
  CHECK_FALSE(f.allows(mark(4, 8, 4)));
}
