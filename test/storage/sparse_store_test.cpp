// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/sparse_store.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <thread>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/storage/concepts.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>

#include "failing_memory.hpp"
#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::weighted;

namespace {

static_assert(table_store<sparse_store<float>> && table_store<sparse_store<std::int64_t>>);
static_assert(concurrent_store<sparse_store<double>> && !sharing_store<sparse_store<double>>);

// Table specs: the models, and what just misses them.
static_assert(table_spec<dense<std::int64_t, sum>> && table_spec<sparse<std::int32_t, sum>>);
static_assert(parameter<float> && parameter<double> && parameter<std::int32_t> &&
              parameter<std::int64_t>);
static_assert(!parameter<bool> && !parameter<char> && !parameter<std::uint32_t> &&
              !parameter<float const> && !parameter<long double>);
struct no_width : dense<float> {
  void width();
};
struct no_store {
  using value_type = float;
  using merge_type = merge_of_protocol;
  static constexpr bool bounded = true;
  std::uint64_t rows = 0;
  std::size_t width = 1;
  std::span<float const> init = {};
  bool check_finite = false;
  range_hash partition{};
  update_filter filter{};
  std::uint64_t cached_rows = 0;
};
struct some_store : no_store {
  struct store;
};
static_assert(!table_spec<no_width> && !table_spec<no_store> && !table_spec<int>);
static_assert(table_spec<some_store>);  // a store matters where servers are made

// So for stores.
struct whole_store {
  using value_type = float;
  static constexpr bool bounded = true;
  explicit whole_store(store_shape const&);
  void assign(row_values<float> const&);
  void fold(std::span<weighted_update<float> const>);
  void read(std::span<std::uint64_t const>, float*) const;
  void copy(std::uint64_t, std::uint64_t, float*) const;
  std::size_t bytes() const;
};
struct store_without_copy : whole_store {
  using whole_store::whole_store;
  void copy();
};
struct store_without_collect : whole_store {
  static constexpr bool bounded = false;
  using whole_store::whole_store;
};
struct store_of_chars : whole_store {
  using value_type = char;
  using whole_store::whole_store;
};
struct store_of_no_shape : whole_store {
  store_of_no_shape();
};
static_assert(table_store<whole_store> && !concurrent_store<whole_store> &&
              !sharing_store<whole_store>);
static_assert(!table_store<store_without_copy> && !table_store<store_without_collect> &&
              !table_store<store_of_chars> && !table_store<store_of_no_shape>);
static_assert(!table_store<std::vector<float>>);

template <class T>
void fold_one(sparse_store<T>& store, update const& u, double weight = 1.0) {
  auto const step = weighted<T>(u, weight);
  store.fold({&step, 1});
}

/// The touched rows, in the order in which the store tells them.
template <class T>
struct touched_rows {
  explicit touched_rows(sparse_store<T> const& store) { store.collect(keys, values); }
  std::vector<std::uint64_t> keys;
  std::vector<T> values;
};

/// The same by key.
template <class T>
std::map<std::uint64_t, std::vector<T>> sorted(touched_rows<T> const& rows, std::size_t width) {
  REQUIRE(rows.values.size() == rows.keys.size() * width);
  std::map<std::uint64_t, std::vector<T>> all;
  for (std::size_t i = 0; i < rows.keys.size(); ++i) {
    auto const from = rows.values.begin() + static_cast<std::ptrdiff_t>(i * width);
    REQUIRE(all.try_emplace(rows.keys[i], from, from + static_cast<std::ptrdiff_t>(width)).second);
  }
  return all;
}

}  // namespace

TEST_CASE("sparse_store: untouched rows read as zero, and reading does not touch them") {
  sparse_store<double> const store({.width = 3});
  std::vector<std::uint64_t> const rows{5, 0, ~std::uint64_t{0}};
  std::vector<double> out(9, 7.0);
  store.read(rows, out.data());
  CHECK(out == std::vector<double>(9));
  CHECK(touched_rows(store).keys.empty());
  CHECK(store.bytes() == 0);
}

TEST_CASE("sparse_store: memory grows with the touched rows, not with the possible keys") {
  sparse_store<double> store({.width = 4});
  random_stream random(1);
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 100; ++i) keys.push_back(i * 10'000 + random.below(10'000));
  update const u = keyed(keys, std::vector<double>(400, 1.0));
  fold_one(store, u);
  std::size_t const touched = store.bytes();
  CHECK(touched >= 100 * 4 * sizeof(double));
  CHECK(touched < 50'000);  // a million rows would be 32 MB

  std::vector<std::uint64_t> others;
  for (std::uint64_t k = 0; k < 5'000; ++k) others.push_back(k * 200 + 1);
  std::vector<double> out(others.size() * 4);
  store.read(others, out.data());
  fold_one(store, u);
  CHECK(store.bytes() == touched);
  std::map<std::uint64_t, std::vector<double>> expected;
  for (std::uint64_t const k : keys) expected[k].assign(4, 2.0);
  CHECK(sorted(touched_rows(store), 4) == expected);
}

TEMPLATE_TEST_CASE("sparse_store: folding equals a sequential loop over a map, bit for bit", "",
                   float, double, std::int64_t) {
  std::size_t const width = GENERATE(1U, 2U);
  threading const threads = GENERATE(threading::single, threading::multiple);
  sparse_store<TestType> store({.width = width, .threads = threads});
  std::map<std::uint64_t, std::vector<TestType>> expected;
  std::vector<std::uint64_t> const first{17, ~std::uint64_t{0}};
  std::vector<TestType> start{TestType{4}, TestType{5}, TestType{6}, TestType{7}};
  start.resize(2 * width);
  store.assign({.keyed = true, .rows = first, .values = start});
  auto const second = start.begin() + static_cast<std::ptrdiff_t>(width);
  expected[first[0]] = {start.begin(), second};
  expected[first[1]] = {second, start.end()};
  random_stream random(5);
  for (int i = 0; i < 50; ++i) {
    std::vector<std::uint64_t> rows;
    std::vector<TestType> values;
    std::uint64_t const count = i % 5 == 0 ? 300 : 8;  // many are folded in another order
    for (std::uint64_t j = 0; j < count; ++j) rows.push_back(j * 40 + random.below(40));
    for (std::size_t j = 0; j < width * count; ++j)
      values.push_back(static_cast<TestType>(1000.0 * random.uniform()));
    double const weight = std::is_integral_v<TestType> ? 1.0 : 1.0 / (i + 1.0);
    fold_one(store, keyed(rows, values), weight);
    for (std::size_t r = 0; r < rows.size(); ++r) {
      auto& row = expected[rows[r]];
      row.resize(width);
      for (std::size_t j = 0; j < width; ++j)
        row[j] += static_cast<TestType>(weight) * values[r * width + j];
    }
  }
  CHECK(sorted(touched_rows(store), width) == expected);
  std::vector<std::uint64_t> keys;
  std::vector<TestType> values;
  for (auto const& [k, row] : expected) {
    keys.push_back(k);
    values.insert(values.end(), row.begin(), row.end());
  }
  std::vector<TestType> read(values.size());
  store.read(keys, read.data());
  CHECK(read == values);
  // One row after the other, in another order, and with one that has not been touched between any two.
  std::vector<std::uint64_t> mixed;
  for (auto k = keys.rbegin(); k != keys.rend(); ++k) mixed.insert(mixed.end(), {*k, *k + 1'000'000});
  read.assign(mixed.size() * width, TestType{7});
  store.read(mixed, read.data());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    auto const row = read.begin() + static_cast<std::ptrdiff_t>(2 * i * width);
    auto const next = row + static_cast<std::ptrdiff_t>(width);
    REQUIRE(std::vector<TestType>(row, next) == expected[mixed[2 * i]]);
    REQUIRE(std::vector<TestType>(next, next + static_cast<std::ptrdiff_t>(width)) == std::vector<TestType>(width));
  }
}

TEST_CASE("sparse_store: what it collects comes after what is there already") {
  sparse_store<float> store({});
  fold_one(store, keyed<float>({6}, {2}));
  std::vector<std::uint64_t> keys{1};
  std::vector<float> values{3};
  store.collect(keys, values);
  CHECK(keys == std::vector<std::uint64_t>{1, 6});
  CHECK(values == std::vector<float>{3, 2});
}

TEST_CASE("sparse_store: where memory ends, what is collected has values for each row") {
  std::size_t const width = GENERATE(1U, 2U);
  std::size_t const ended = test::for_each_end_of_memory([&](auto attempt) {
    sparse_store<double> store({.width = width});
    std::vector<std::uint64_t> keys(50);
    std::iota(keys.begin(), keys.end(), std::uint64_t{0});
    update const u = keyed(keys, std::vector<double>(50 * width, 1.0));
    attempt([&] { fold_one(store, u); });
    touched_rows const all(store);
    REQUIRE(all.values.size() == all.keys.size() * width);
    fold_one(store, u);  // and all goes on
    auto const rows = sorted(touched_rows(store), width);
    REQUIRE(rows.size() == keys.size());
    for (auto const& [k, row] : rows) REQUIRE((row.front() == 1.0 || row.front() == 2.0));
  });
  CHECK((ended > 0 || !test::memory_can_end()));
}

TEST_CASE("sparse_store: concurrent folds lose nothing, and no reader sees a torn row") {
  std::size_t const width = GENERATE(1U, 64U);
  sparse_store<std::int64_t> store({.width = width});
  std::atomic<int> folding = 3;
  std::atomic<int> torn = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&store, &folding, t, width] {
        for (int i = 0; i < 200; ++i)
          fold_one(store, keyed({7, static_cast<std::uint64_t>(1000 * (t + 1) + i)},  // one new
                                std::vector<std::int64_t>(2 * width, 1)));
        --folding;
      });
    threads.emplace_back([&store, &folding, &torn, width] {
      std::vector<std::uint64_t> const rows{7, 1050};
      std::vector<std::int64_t> out(2 * width);
      do {
        store.read(rows, out.data());
        for (std::size_t i = 0; i < out.size(); ++i) torn += out[i] != out[i / width * width];
        touched_rows const all(store);
        for (std::size_t i = 0; i < all.values.size(); ++i)
          torn += all.values[i] != all.values[i / width * width];
      } while (folding != 0);
    });
  }
  CHECK(torn == 0);
  auto const all = sorted(touched_rows(store), width);
  CHECK(all.size() == 1 + 3 * 200);
  CHECK(all.at(7) == std::vector<std::int64_t>(width, 600));
}
