// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/velocity.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/storage/dense_store.hpp>
#include <rubato/storage/sparse_store.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::weighted;
using test::whole;

namespace {

/// A store and its velocity.
template <class Store>
struct moving {
  using value_type = typename Store::value_type;

  explicit moving(store_shape const& shape) : store(shape), v(shape) {}

  void fold(update const& u, double weight, double decay) {
    auto const step = weighted<value_type>(u, weight);
    v.fold(store, {&step, 1}, decay);
  }
  value_type at(std::uint64_t row) const {
    value_type out = -1;
    store.read({&row, 1}, &out);
    return out;
  }

  Store store;
  velocity<Store> v;
};

template <class T>
std::vector<T> all_of(dense_store<T> const& store, std::uint64_t rows, std::size_t width) {
  std::vector<T> out(static_cast<std::size_t>(rows) * width);
  store.copy(0, rows, out.data());
  return out;
}

}  // namespace

TEMPLATE_TEST_CASE("velocity: each fold is one velocity step (003 Eq. 1), over a dense store", "",
                   float, double) {
  std::uint64_t const rows = table_state::chunk_bytes(sizeof(TestType)) / sizeof(TestType) / 2 + 3;
  std::size_t const width = 3;
  std::size_t const elements = static_cast<std::size_t>(rows) * width;
  moving<dense_store<TestType>> m({.rows = rows, .width = width});
  std::vector<TestType> w(elements);
  std::iota(w.begin(), w.end(), TestType{0});
  m.store.assign({.values = w});
  std::vector<TestType> v(elements);
  random_stream random(3);
  constexpr double mu = 0.75;
  constexpr double eta = 1.0 / 3.0;
  auto const draw = [&](std::size_t n) {
    std::vector<TestType> values(n);
    for (TestType& x : values) x = static_cast<TestType>(random.uniform() - 0.5);
    return values;
  };
  for (int t = 0; t < 5; ++t) {
    std::vector<TestType> const all = draw(elements);
    std::vector<std::uint64_t> const some{rows - 1, random.below(rows / 2) + 1, 0};
    std::vector<TestType> const few = draw(some.size() * width);
    update const of_all = whole(all);
    update const of_some = keyed(some, few);
    std::vector<weighted_update<TestType>> step;
    if (t != 2)  // one step without any update
      step = {weighted<TestType>(of_all, eta), weighted<TestType>(of_some, 1.0)};
    m.v.fold(m.store, step, mu);
    for (TestType& x : v) x *= static_cast<TestType>(mu);
    if (t != 2) {
      for (std::size_t i = 0; i < elements; ++i) v[i] += static_cast<TestType>(eta) * all[i];
      for (std::size_t i = 0; i < few.size(); ++i)
        v[static_cast<std::size_t>(some[i / width]) * width + i % width] += few[i];
    }
    for (std::size_t i = 0; i < elements; ++i) w[i] += v[i];
    REQUIRE(all_of(m.store, rows, width) == w);
  }
}

TEST_CASE("velocity: a step leaves older states as they were") {
  moving<dense_store<double>> m({.rows = 4});
  std::vector<double> const start{0, 1, 2, 3};
  m.store.assign({.values = start});
  block_ref const held = m.store.chunk(0);
  update const u = whole<double>({1, 1, 1, 1});
  m.fold(u, 1.0, 0.5);
  m.fold(u, 1.0, 0.5);
  CHECK(std::vector<double>(held.as<double>(), held.as<double>() + 4) == start);
  CHECK(all_of(m.store, 4, 1) == std::vector<double>{2.5, 3.5, 4.5, 5.5});
}

TEST_CASE("velocity: a run moves its rows, and the others go on") {
  moving<dense_store<double>> m({.rows = 4, .width = 2});
  std::vector<double> const values{1, 2, 3, 4};
  weighted_update<double> const run{{.first = 1, .values = values}, 2.0};
  m.v.fold(m.store, {&run, 1}, 0.5);
  CHECK(all_of(m.store, 4, 2) == std::vector<double>{0, 0, 2, 4, 6, 8, 0, 0});
  m.v.fold(m.store, {}, 0.5);
  CHECK(all_of(m.store, 4, 2) == std::vector<double>{0, 0, 3, 6, 9, 12, 0, 0});
}

TEST_CASE("velocity: a server without rows has none") {
  moving<dense_store<float>> m({.rows = 0, .width = 4});
  m.fold({}, 1.0, 0.5);
  m.v.fold(m.store, {}, 0.5);
  CHECK(m.v.bytes() == 0);
}

TEST_CASE("velocity: every touched row of a sparse store moves in each step (003 Eq. 1)") {
  moving<sparse_store<double>> m({});
  std::vector<std::uint64_t> const rows{9};
  std::vector<double> const ten{10.0};
  m.store.assign({.keyed = true, .rows = rows, .values = ten});
  CHECK(m.v.bytes() == 0);
  m.fold(keyed<double>({1}, {8.0}), 1.0, 0.5);  // v1 = 8
  CHECK(m.at(1) == 8.0);
  CHECK(m.at(9) == 10.0);
  m.fold(keyed<double>({2, 9}, {4.0, 1.0}), 0.5, 0.5);  // v1 = 4, v2 = 2, v9 = 0.5
  CHECK(m.at(1) == 12.0);
  CHECK(m.at(2) == 2.0);
  CHECK(m.at(9) == 10.5);
  m.fold({}, 1.0, 0.5);  // halves
  CHECK(m.at(1) == 14.0);
  CHECK(m.at(2) == 3.0);
  CHECK(m.at(9) == 10.75);
  CHECK(m.at(3) == 0.0);
}

TEST_CASE("velocity: takes memory once there is a step, of all rows or of those touched") {
  moving<dense_store<double>> bounded({.rows = 100, .width = 2});
  CHECK(bounded.v.bytes() == 0);
  bounded.fold(keyed<double>({7}, {1, 1}), 1.0, 0.5);
  CHECK(bounded.v.bytes() == 100 * 2 * sizeof(double));
  moving<sparse_store<double>> open({.width = 2});
  open.fold(keyed<double>({7}, {1, 1}), 1.0, 0.5);
  CHECK(open.v.bytes() >= 2 * sizeof(double) + sizeof(std::uint64_t));
  CHECK(open.v.bytes() < 10 * sizeof(double));
}

TEST_CASE("velocity: concurrent steps are serial") {
  moving<dense_store<std::int64_t>> m({.rows = 3});
  constexpr int folds = 500;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&m] {
        update const u = whole<std::int64_t>({1, 2, 3});
        for (int i = 0; i < folds; ++i) m.fold(u, 1.0, 1.0);
      });
  }
  // With a decay of 1 the velocity is the sum so far: 1 + 2 + … + n.
  constexpr std::int64_t n = 3 * folds;
  CHECK(all_of(m.store, 3, 1) ==
        std::vector<std::int64_t>{n * (n + 1) / 2, n * (n + 1), 3 * n * (n + 1) / 2});
}
