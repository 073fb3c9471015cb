// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/table_state.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include <rubato/storage/dense_store.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::elements_of;
using test::places;

namespace {

using numbers = std::vector<std::uint64_t>;
using floats = std::vector<float>;

constexpr std::size_t chunk = table_state::chunk_bytes(sizeof(float)) / sizeof(float);

floats counting(std::size_t n) {
  floats values(n);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

/// Receives 0, 1, 2, …; where it was told to write.
std::vector<std::byte*> receive(table_state& state, std::size_t elements, std::size_t width) {
  std::vector<std::byte*> at;
  state.receive(elements * sizeof(float), width * sizeof(float),
                [&](std::byte* to, std::size_t n, std::size_t offset) {
                  at.push_back(to);
                  std::iota(reinterpret_cast<float*>(to), reinterpret_cast<float*>(to + n),
                            static_cast<float>(offset / sizeof(float)));
                });
  return at;
}

void receive_rows(table_state& state, numbers const& keys, floats const& values) {
  std::size_t const width = keys.empty() ? 1 : values.size() / keys.size();
  state.receive_rows(keys.size(), width * sizeof(float), [&](std::span<std::uint64_t> to, std::byte* rows) {
    REQUIRE(to.size() == keys.size());
    std::ranges::copy(keys, to.begin());
    std::ranges::copy(values, reinterpret_cast<float*>(rows));
  });
}

numbers keys_of(table_state const& s) { return {s.keys().begin(), s.keys().end()}; }

floats row_values_of(table_state const& s, std::size_t count) {
  auto const* const from = reinterpret_cast<float const*>(s.row_values());
  return {from, from + count};
}

}  // namespace

TEST_CASE("table_state: a chunk is about 64 KiB of whole rows, and one row at least") {
  CHECK(table_state::chunk_bytes(4) == 65'536);
  CHECK(table_state::chunk_bytes(12) == 65'532);
  CHECK(table_state::chunk_bytes(40'000) == 40'000);
  CHECK(table_state::chunk_bytes(65'536) == 65'536);
  CHECK(table_state::chunk_bytes(65'540) == 65'540);
}

TEST_CASE("table_state: is received into pieces as a store would cut it, in memory used before") {
  std::size_t const width = 3;
  std::size_t const rows = chunk;
  std::size_t const elements = rows * width;
  dense_store<float> store({.rows = rows, .width = width});
  floats const all = counting(elements);
  store.assign({.values = all});
  table_state state;
  CHECK(state.empty());
  auto const first = receive(state, elements, width);
  CHECK_FALSE(state.empty());
  CHECK(elements_of<float>(state, 0, elements) == all);
  CHECK(state.bytes() == elements * sizeof(float));
  REQUIRE(first.size() == store.chunks());
  for (std::size_t i = 0; i < store.chunks(); ++i)
    CHECK(state.chunk(i).size_bytes() == store.chunk(i).size_bytes());

  state.clear();
  CHECK(state.empty());
  CHECK(receive(state, elements, width) == first);
  state.refer(store.chunks(), table_state::chunk_bytes(width * sizeof(float)),
              [&](std::size_t i) { return store.chunk(i); });
  // The store's own memory is neither written to nor kept.
  CHECK(places(state).front() == store.chunk(0).data());
  CHECK(receive(state, elements, width) == first);
  floats kept(5 * width);
  store.copy(0, 5, kept.data());
  CHECK(kept == counting(5 * width));

  table_state const sharer = state.share();
  CHECK(places(sharer) == std::vector<std::byte const*>(first.begin(), first.end()));
  CHECK(receive(state, elements, width).front() != first.front());
  CHECK(elements_of<float>(sharer, 0, elements) == all);
}

TEST_CASE("table_state: a smaller state takes no more chunks than it needs, and a larger one more") {
  table_state state;
  receive(state, 3 * chunk, 1);
  CHECK(state.chunks() == 3);
  receive(state, chunk + 2, 1);
  CHECK(state.chunks() == 2);
  CHECK(state.bytes() == (chunk + 2) * sizeof(float));
  CHECK(elements_of<float>(state, chunk - 1, 3) ==
        floats{static_cast<float>(chunk - 1), static_cast<float>(chunk), static_cast<float>(chunk + 1)});
  receive(state, 2 * chunk + 1, 1);
  CHECK(state.chunks() == 3);
  CHECK(elements_of<float>(state, 2 * chunk, 1)[0] == static_cast<float>(2 * chunk));
  receive(state, 0, 1);
  CHECK(state.empty());
}

TEST_CASE("table_state: pieces are the stretches of the bytes asked for") {
  table_state state;
  receive(state, 2 * chunk, 1);
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> offsets;
  state.for_each_piece((chunk - 1) * sizeof(float), 3 * sizeof(float),
                       [&](std::byte const* from, std::size_t n, std::size_t offset) {
                         sizes.push_back(n);
                         offsets.push_back(offset);
                         CHECK(*reinterpret_cast<float const*>(from) ==
                               static_cast<float>(chunk - 1 + offset / sizeof(float)));
                       });
  CHECK(sizes == std::vector<std::size_t>{4, 8});
  CHECK(offsets == std::vector<std::size_t>{0, 4});
}

TEST_CASE("table_state: touched rows have keys, and values in their order") {
  table_state state;
  receive_rows(state, {3, 900}, {1, 2, 3, 4});
  CHECK_FALSE(state.empty());
  CHECK(keys_of(state) == numbers{3, 900});
  CHECK(row_values_of(state, 4) == floats{1, 2, 3, 4});
  CHECK(state.bytes() == 2 * sizeof(std::uint64_t) + 4 * sizeof(float));
  CHECK(state.chunks() == 1);

  table_state const shared = state.share();
  receive_rows(state, {5, 6}, {9, 9, 9, 9});
  CHECK(keys_of(shared) == numbers{3, 900});
  CHECK(row_values_of(shared, 4) == floats{1, 2, 3, 4});
  CHECK(keys_of(state) == numbers{5, 6});

  state.clear();
  CHECK(state.empty());
  CHECK(state.keys().empty());
  CHECK(state.bytes() == 0);

  receive_rows(state, {}, {});  // that none has been touched is known, too
  CHECK_FALSE(state.empty());
  CHECK(state.keys().empty());
  CHECK(state.bytes() == 0);
}

TEST_CASE("table_state: swapped states are each other's, memory included") {
  table_state a;
  table_state b;
  auto const at = receive(a, 7, 1);
  receive_rows(b, {8}, {5});
  swap(a, b);
  CHECK(keys_of(a) == numbers{8});
  CHECK(row_values_of(a, 1) == floats{5});
  CHECK(b.keys().empty());
  CHECK(elements_of<float>(b, 0, 7) == counting(7));
  CHECK(b.chunk_bytes() == table_state::chunk_bytes(sizeof(float)));
  b.clear();
  CHECK(receive(b, 7, 1) == at);
  b.clear();
  swap(a, b);
  CHECK(receive(a, 7, 1) == at);
  // Also what waits while a state is a store's.
  dense_store<float> const store({.rows = 7, .width = 1});
  a.refer(store.chunks(), table_state::chunk_bytes(sizeof(float)), [&](std::size_t i) { return store.chunk(i); });
  swap(a, b);
  CHECK(receive(b, 7, 1) == at);
}
