// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/worker/row_cache.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <vector>

using namespace rubato;

namespace {

fetch_mark fetched(std::int64_t server_clock) {
  return {.server_clock = clock_index{server_clock}};
}

std::vector<float> row(row_cache<float>& cache, std::uint64_t k) {
  auto const* const e = cache.find(key{k});
  REQUIRE(e != nullptr);
  return {cache.values(*e), cache.values(*e) + 2};
}

using floats = std::vector<float>;

}  // namespace

TEST_CASE("row_cache: a row fetched at an older server clock never replaces a newer one (rules "
          "§2)") {
  row_cache<float> cache(2);
  CHECK(cache.find(key{5}) == nullptr);
  float const first[] = {1, 2};
  float const older[] = {3, 4};
  float const same[] = {5, 6};
  float const newer[] = {7, 8};
  CHECK(cache.put(key{5}, fetched(3), first)[1] == 2.0F);
  CHECK(cache.put(key{5}, fetched(2), older)[1] == 2.0F);
  CHECK(row(cache, 5) == floats{1, 2});
  CHECK(cache.find(key{5})->mark.server_clock == clock_index{3});
  CHECK(cache.put(key{5}, fetched(3), same)[1] == 6.0F);
  CHECK(cache.put(key{5}, fetched(9), newer)[1] == 8.0F);
  CHECK(cache.find(key{5})->mark.server_clock == clock_index{9});
}

TEST_CASE("row_cache: own pushes are added to the rows that are here, and to no others (SSP-2)") {
  row_cache<float> cache(2);
  float const values[] = {1, 2};
  for (std::uint64_t k = 0; k < 50; ++k) cache.put(key{k * 1000}, fetched(0), values);
  float const delta[] = {10, 20};
  cache.add(key{3000}, delta);
  cache.add(key{1}, delta);
  CHECK(row(cache, 3000) == floats{11, 22});
  CHECK(row(cache, 4000) == floats{1, 2});
  CHECK(cache.find(key{1}) == nullptr);
  std::vector<float> deltas(100, 0.5F);
  cache.add_all([&](key k) { return deltas.data() + k.value() / 500; });
  CHECK(row(cache, 3000) == floats{11.5F, 22.5F});
  CHECK(row(cache, 49'000) == floats{1.5F, 2.5F});
}

TEST_CASE("row_cache: forgets everything when it is cleared") {
  row_cache<float> cache(2);
  CHECK(cache.empty());
  float const values[] = {1, 2};
  cache.put(key{5}, fetched(7), values);
  CHECK_FALSE(cache.empty());
  cache.clear();
  CHECK(cache.empty());
  CHECK(cache.find(key{5}) == nullptr);
  float const others[] = {3, 4};
  cache.put(key{5}, fetched(1), others);
  CHECK(row(cache, 5) == floats{3, 4});
}

TEST_CASE("row_cache: with a capacity, the least recently used row goes (rules §3)") {
  row_cache<float> cache(2, 2);
  float const values[] = {1, 2};
  float const others[] = {3, 4};
  cache.put(key{1}, fetched(1), values);
  cache.put(key{2}, fetched(1), others);
  SECTION("the first one that came") { cache.put(key{3}, fetched(1), values); }
  SECTION("or was read") {
    CHECK(cache.use(key{2}) != nullptr);
    CHECK(cache.find(key{1}) != nullptr);  // which is no use
    cache.put(key{3}, fetched(1), values);
  }
  SECTION("or was fetched again") {
    cache.put(key{1}, fetched(1), values);
    cache.put(key{2}, fetched(0), values);  // older, so not taken, but used
    cache.put(key{3}, fetched(1), values);
  }
  CHECK(cache.size() == 2);
  CHECK(cache.find(key{1}) == nullptr);
  CHECK(row(cache, 2) == floats{3, 4});
  CHECK(row(cache, 3) == floats{1, 2});
  cache.add(key{2}, values);
  CHECK(row(cache, 2) == floats{4, 6});
  cache.clear();
  cache.put(key{9}, fetched(1), values);
  CHECK(row(cache, 9) == floats{1, 2});
  CHECK(cache.size() == 1);
}

TEST_CASE("row_cache: a capacity holds over many rows, and what is here is right") {
  constexpr std::size_t capacity = 7;
  row_cache<float> cache(2, capacity);
  for (std::uint64_t i = 0; i < 1000; ++i) {
    std::uint64_t const k = i * i % 31;
    auto const x = static_cast<float>(k);
    float const values[] = {x, -x};
    cache.put(key{k}, fetched(1), values);
    CHECK(cache.size() <= capacity);
    for (std::uint64_t other = 0; other < 31; ++other)
      if (cache.find(key{other}) != nullptr) {
        auto const y = static_cast<float>(other);
        CHECK(row(cache, other) == floats{y, -y});
      }
    CHECK(cache.find(key{k}) != nullptr);
  }
}

TEST_CASE("row_cache: says up to which fetch rows have been evicted") {
  row_cache<float> cache(2, 1);
  float const values[] = {1, 2};
  auto const of_fetch = [](std::uint64_t n) { return fetch_mark{.fetch = n}; };
  cache.put(key{1}, of_fetch(4), values);
  CHECK(cache.forgotten() == 0);
  cache.put(key{2}, of_fetch(5), values);
  CHECK(cache.forgotten() == 4);
  cache.put(key{3}, of_fetch(2), values);
  CHECK(cache.forgotten() == 5);
  cache.put(key{4}, of_fetch(6), values);
  CHECK(cache.forgotten() == 5);
  cache.clear();
  CHECK(cache.forgotten() == 0);
}
