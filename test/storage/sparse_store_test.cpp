// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/sparse_store.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <rubato/core/null_mutex.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/storage/concepts.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/storage/sparse.hpp>

using namespace rubato;

namespace {

static_assert(table_store<sparse_store<float, null_mutex>>);
static_assert(table_store<sparse_store<std::int64_t, std::mutex>>);

// Table specs: the models, and what just misses them.
static_assert(table_spec<dense<std::int64_t, sum>> && table_spec<sparse<std::int32_t, sum>>);
static_assert(parameter<float> && parameter<double> && parameter<std::int32_t> &&
              parameter<std::int64_t>);
static_assert(!parameter<bool> && !parameter<char> && !parameter<std::uint32_t> &&
              !parameter<float const> && !parameter<long double>);
struct no_width : dense<float> {
  void width();
};
struct store_without_snapshot : dense<float> {
  template <class>
  struct store {
    using value_type = float;
    using snapshot_type = int;
    void fold(std::span<weighted_update<float> const>, std::optional<double>);
    void read(std::span<std::uint64_t const>, float*) const;
    std::size_t bytes() const;
  };
};
static_assert(!table_spec<no_width> && !table_spec<store_without_snapshot> && !table_spec<int>);
static_assert(!table_store<std::vector<float>>);

using store_type = sparse_store<double, null_mutex>;

template <class T, class Mutex>
void fold_one(sparse_store<T, Mutex>& store, update<T> const& u, double weight = 1.0,
              std::optional<double> decay = {}) {
  weighted_update<T> const step{&u, weight};
  store.fold({&step, 1}, decay);
}

}  // namespace

TEST_CASE("sparse_store: untouched rows read as zero, and reading does not touch them") {
  store_type store(3);
  std::vector<std::uint64_t> const rows{5, 0, ~std::uint64_t{0}};
  std::vector<double> out(9, 7.0);
  store.read(rows, out.data());
  CHECK(out == std::vector<double>(9));
  sparse_snapshot<double> state;
  store.snapshot(state);
  CHECK(state.empty());
  CHECK(store.bytes() == 0);
}

TEST_CASE("sparse_store: memory grows with the touched rows, not with the possible keys") {
  store_type store(4);
  random_stream random(1);
  update<double> u{};
  for (std::uint64_t i = 0; i < 100; ++i) u.rows.push_back(i * 10'000 + random.below(10'000));
  u.values.assign(400, 1.0);
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
  sparse_snapshot<double> state;
  store.snapshot(state);
  CHECK(state.keys == u.rows);
  CHECK(state.values == std::vector<double>(400, 2.0));
  CHECK(state.bytes() == 100 * sizeof(std::uint64_t) + 400 * sizeof(double));
}

TEMPLATE_TEST_CASE("sparse_store: folding equals a sequential loop over a map, bit for bit", "",
                   float, double, std::int64_t) {
  constexpr std::size_t width = 2;
  sparse_store<TestType, null_mutex> store(width);
  std::map<std::uint64_t, std::vector<TestType>> expected;
  std::vector<TestType> const start{TestType{4}, TestType{5}};
  store.set(17, start);
  expected[17] = start;
  random_stream random(5);
  for (int i = 0; i < 50; ++i) {
    update<TestType> u{};
    for (std::uint64_t j = 0; j < 8; ++j) u.rows.push_back(j * 40 + random.below(40));
    for (std::size_t j = 0; j < 16; ++j)
      u.values.push_back(static_cast<TestType>(1000.0 * random.uniform()));
    double const weight = std::is_integral_v<TestType> ? 1.0 : 1.0 / (i + 1.0);
    fold_one(store, u, weight);
    for (std::size_t r = 0; r < u.rows.size(); ++r) {
      auto& row = expected[u.rows[r]];
      row.resize(width);
      for (std::size_t j = 0; j < width; ++j)
        row[j] += static_cast<TestType>(weight) * u.values[r * width + j];
    }
  }
  sparse_snapshot<TestType> state;
  store.snapshot(state);
  std::vector<std::uint64_t> keys;
  std::vector<TestType> values;
  for (auto const& [k, row] : expected) {
    keys.push_back(k);
    values.insert(values.end(), row.begin(), row.end());
  }
  CHECK(state.keys == keys);  // ascending
  CHECK(state.values == values);
  std::vector<TestType> read(values.size());
  store.read(keys, read.data());
  CHECK(read == values);
}

TEST_CASE("sparse_store: with a decay every touched row moves in each step (003 Eq. 1)") {
  sparse_store<double, null_mutex> store(1);
  store.set(9, std::vector<double>{10.0});
  auto const at = [&](std::uint64_t row) {
    double out = -1;
    store.read(std::vector<std::uint64_t>{row}, &out);
    return out;
  };
  update<double> const a{.whole = false, .rows = {1}, .values = {8.0}};
  update<double> const b{.whole = false, .rows = {2, 9}, .values = {4.0, 1.0}};
  update<double> const nothing{};
  fold_one(store, a, 1.0, 0.5);  // v1 = 8
  CHECK(at(1) == 8.0);
  CHECK(at(9) == 10.0);
  fold_one(store, b, 0.5, 0.5);  // v1 = 4, v2 = 2, v9 = 0.5
  CHECK(at(1) == 12.0);
  CHECK(at(2) == 2.0);
  CHECK(at(9) == 10.5);
  fold_one(store, nothing, 1.0, 0.5);  // halves
  CHECK(at(1) == 14.0);
  CHECK(at(2) == 3.0);
  CHECK(at(9) == 10.75);
  CHECK(at(3) == 0.0);
}

TEST_CASE("sparse_store: concurrent folds lose nothing, and no reader sees a torn row") {
  constexpr std::size_t width = 64;
  sparse_store<std::int64_t, std::mutex> store(width);
  std::atomic<int> folding = 3;
  std::atomic<int> torn = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&store, &folding, t] {
        for (int i = 0; i < 200; ++i) {
          update<std::int64_t> u{};
          u.rows = {7, static_cast<std::uint64_t>(1000 * (t + 1) + i)};  // one shared, one new
          u.values.assign(2 * width, 1);
          fold_one(store, u);
        }
        --folding;
      });
    threads.emplace_back([&store, &folding, &torn] {
      std::vector<std::uint64_t> const rows{7, 1050};
      std::vector<std::int64_t> out(2 * width);
      sparse_snapshot<std::int64_t> state;
      do {
        store.read(rows, out.data());
        for (std::size_t i = 0; i < out.size(); ++i) torn += out[i] != out[i / width * width];
        store.snapshot(state);
        for (std::size_t i = 0; i < state.values.size(); ++i)
          torn += state.values[i] != state.values[i / width * width];
      } while (folding != 0);
    });
  }
  CHECK(torn == 0);
  sparse_snapshot<std::int64_t> state;
  store.snapshot(state);
  CHECK(state.keys.size() == 1 + 3 * 200);
  CHECK(state.values[0] == 600);
}
