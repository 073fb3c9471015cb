// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/dense_store.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <numeric>
#include <set>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/storage/concepts.hpp>

#include "seeds.hpp"
#include "storage/updates.hpp"

using namespace rubato;
using test::elements_of;
using test::keyed;
using test::places;
using test::raw;
using test::values_of;
using test::weighted;
using test::whole;

namespace {

static_assert(table_store<dense_store<float>> && table_store<dense_store<std::int64_t>>);
static_assert(concurrent_store<dense_store<double>> && sharing_store<dense_store<double>>);

template <class T>
constexpr std::size_t chunk = table_state::chunk_bytes(sizeof(T)) / sizeof(T);

template <class T>
dense_store<T> counting_store(std::uint64_t rows, std::size_t width, threading threads = threading::single) {
  dense_store<T> store({.rows = rows, .width = width, .threads = threads});
  std::vector<T> values(static_cast<std::size_t>(rows) * width);
  std::iota(values.begin(), values.end(), T{0});
  store.assign({.values = values});
  return store;
}

template <class T>
table_state frozen(dense_store<T> const& store, std::size_t width = 1) {
  table_state state;
  state.refer(store.chunks(), table_state::chunk_bytes(width * sizeof(T)),
              [&](std::size_t i) { return store.chunk(i); });
  return state;
}

template <class T>
std::vector<T> all_of(dense_store<T> const& store, std::size_t elements, std::size_t width = 1) {
  return elements_of<T>(frozen(store, width), 0, elements);
}

template <class T>
void fold_one(dense_store<T>& store, update const& u, double weight = 1.0) {
  auto const step = weighted<T>(u, weight);
  store.fold({&step, 1});
}

template <class T>
T draw(random_stream& random) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(random.below(1000)) - 500;
  else return static_cast<T>(random.uniform() - 0.5);
}

template <class T>
update random_whole(std::size_t elements, random_stream& random) {
  std::vector<T> values(elements);
  for (T& x : values) x = draw<T>(random);
  return whole(values);
}

template <class T>
update random_keyed(std::uint64_t rows, std::size_t width, random_stream& random) {
  std::set<std::uint64_t> some{0, rows - 1};
  for (int i = 0; i < 100; ++i) some.insert(random.below(rows));
  std::vector<std::uint64_t> listed(some.begin(), some.end());
  if (random.below(2) == 0) random.shuffle(std::span(listed));
  std::vector<T> values(listed.size() * width);
  for (T& x : values) x = draw<T>(random);
  return keyed(listed, values);
}

/// The plain loop.
template <class T>
void add(std::vector<T>& w, update const& u, std::size_t width, double weight) {
  auto const scale = static_cast<T>(weight);
  auto const values = u.values.as<T>();
  if (u.whole) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += scale * values[i];
    return;
  }
  for (std::size_t i = 0; i < u.rows.size(); ++i)
    for (std::size_t j = 0; j < width; ++j)
      w[static_cast<std::size_t>(u.rows[i]) * width + j] += scale * values[i * width + j];
}

template <class T>
void check_folds_like_a_loop(std::uint64_t rows, std::size_t width, int parts = 9,
                             threading threads = threading::multiple) {
  INFO(rows << " rows of " << width);
  std::size_t const elements = static_cast<std::size_t>(rows) * width;
  auto store = counting_store<T>(rows, width, threads);
  std::vector<T> expected(elements);
  std::iota(expected.begin(), expected.end(), T{0});
  REQUIRE(all_of(store, elements, width) == expected);

  random_stream random(rows + width);
  std::vector<update> updates;
  for (int i = 0; i < parts; ++i)
    updates.push_back(i % 4 == 1 || i % 4 == 2 ? random_keyed<T>(rows, width, random)
                                               : random_whole<T>(elements, random));
  updates.push_back({});  // an empty part
  std::vector<weighted_update<T>> step;
  double weight = 1.0;
  for (auto const& u : updates) {
    step.push_back(weighted<T>(u, weight));
    add(expected, u, width, weight);
    if (!std::is_integral_v<T>) weight /= 3.0;
  }
  store.fold(step);
  REQUIRE(all_of(store, elements, width) == expected);

  table_state const held = frozen(store, width);  // so that the next folds must make copies
  std::vector<T> const before = expected;
  store.fold(std::span(step).first(3));
  for (std::size_t i = 0; i < 3; ++i) add(expected, updates[i], width, step[i].weight);
  REQUIRE(all_of(store, elements, width) == expected);
  REQUIRE(elements_of<T>(held, 0, elements) == before);

  std::vector<std::uint64_t> some{rows - 1, 0, rows / 2};
  for (int i = 0; i < 100; ++i) some.push_back(random.below(rows));
  std::vector<T> read(some.size() * width);
  store.read(some, read.data());
  std::vector<T> expected_rows;
  for (std::uint64_t const row : some) {
    auto const first = expected.begin() + static_cast<std::ptrdiff_t>(row * width);
    expected_rows.insert(expected_rows.end(), first, first + static_cast<std::ptrdiff_t>(width));
  }
  REQUIRE(read == expected_rows);
}

}  // namespace

TEMPLATE_TEST_CASE("dense_store: folding equals a sequential loop bit for bit, in the order given",
                   "[unthreaded]", float, double, std::int64_t) {
  constexpr std::size_t n = chunk<TestType>;
  for (std::uint64_t const rows : {std::size_t{1}, std::size_t{2}, n - 1, n, n + 1, 2 * n + 3})
    check_folds_like_a_loop<TestType>(rows, 1);
  for (std::size_t const width : {std::size_t{3}, std::size_t{7}, n / 2, n - 1, n, n + 1})
    for (std::uint64_t const rows : {1U, 2U, 5U}) check_folds_like_a_loop<TestType>(rows, width);
  check_folds_like_a_loop<TestType>(n / 3 + 1, 3);
}

TEST_CASE("dense_store: folding equals a sequential loop bit for bit, where neighbors share locks",
          "[unthreaded]") {
  constexpr std::size_t n = chunk<float>;
  constexpr int parts = 4;  // two are whole and two are keyed
  // Few, as many as a whole update locks at once, and more.
  for (threading const threads : {threading::multiple, threading::single}) {
    check_folds_like_a_loop<float>(70 * n + 3, 1, parts, threads);
    check_folds_like_a_loop<float>(2 * 140 + 1, n / 2, parts, threads);
  }
  check_folds_like_a_loop<float>(260 * n + 3, 1, parts);
  check_folds_like_a_loop<std::int64_t>(70 * chunk<std::int64_t> + 3, 1, parts);
}

TEST_CASE("dense_store: a part of a state copies as the whole does") {
  constexpr std::size_t n = chunk<float>;
  auto const store = counting_store<float>(2 * n + 5, 1);
  table_state state;
  CHECK(state.empty());
  state = frozen(store);
  CHECK_FALSE(state.empty());
  CHECK(state.bytes() == (2 * n + 5) * sizeof(float));
  for (std::size_t const first : {std::size_t{0}, n - 1, n, n + 1, 2 * n - 1})
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{4}}) {
      auto const out = elements_of<float>(state, first, count);
      std::vector<float> copied(count);
      store.copy(first, count, copied.data());
      for (std::size_t i = 0; i < count; ++i) {
        REQUIRE(out[i] == static_cast<float>(first + i));
        REQUIRE(copied[i] == static_cast<float>(first + i));
      }
    }
}

TEST_CASE("dense_store: readers share the memory of a state, and folds write in place again once "
          "they are gone") {
  constexpr std::size_t n = chunk<float>;
  std::size_t const elements = 3 * n;
  auto store = counting_store<float>(elements, 1);
  table_state first = frozen(store);
  table_state second = frozen(store);
  auto const home = places(first);
  CHECK(home.size() == 3);
  CHECK(places(second) == home);

  // A fold that touches the middle chunk moves that one only, and the old states stay.
  update const touch = keyed<float>({n + 7}, {1.0F});
  fold_one(store, touch);
  table_state third = frozen(store);
  auto const moved = places(third);
  CHECK(moved[0] == home[0]);
  CHECK(moved[1] != home[1]);
  CHECK(moved[2] == home[2]);
  CHECK(places(first) == home);
  CHECK(elements_of<float>(first, n + 7, 1)[0] == static_cast<float>(n + 7));
  CHECK(elements_of<float>(third, n + 7, 1)[0] == static_cast<float>(n + 7) + 1.0F);

  // Nobody looks any more: nothing moves.
  first.clear();
  second.clear();
  third.clear();
  fold_one(store, whole(std::vector<float>(elements, 1.0F)));
  fold_one(store, touch);
  CHECK(places(frozen(store)) == moved);
}

TEST_CASE("dense_store: a whole fold moves every chunk that somebody looks at, and only those") {
  constexpr std::size_t n = chunk<double>;
  auto store = counting_store<double>(2 * n, 1);
  table_state const held = frozen(store);
  auto const home = places(held);
  fold_one(store, whole(std::vector<double>(2 * n, 0.5)));
  auto const moved = places(frozen(store));
  CHECK(moved[0] != home[0]);
  CHECK(moved[1] != home[1]);
  CHECK(store.bytes() == 2 * n * sizeof(double));
}

TEST_CASE("dense_store: a server without rows folds and reads nothing") {
  auto store = counting_store<float>(0, 4);
  fold_one(store, {});
  fold_one(store, whole<float>({}));
  CHECK(frozen(store, 4).bytes() == 0);
  CHECK(store.bytes() == 0);
}

TEST_CASE("dense_store: concurrent folds of the same and of distinct chunks lose nothing") {
  constexpr std::size_t n = chunk<std::int64_t>;
  std::size_t const elements = 3 * n;
  dense_store<std::int64_t> store({.rows = elements});
  constexpr int threads = 4;
  constexpr int folds = 50;
  {
    std::vector<std::jthread> folders;
    for (int t = 0; t < threads; ++t)
      folders.emplace_back([&store, t] {
        update const all = whole(std::vector<std::int64_t>(3 * n, t + 1));
        update const own_chunk =
            keyed<std::int64_t>({static_cast<std::uint64_t>(t % 3) * n + 5}, {100});
        for (int i = 0; i < folds; ++i) {
          weighted_update<std::int64_t> const step[] = {weighted<std::int64_t>(all, 1.0),
                                                        weighted<std::int64_t>(own_chunk, 1.0)};
          store.fold(step);
        }
      });
    folders.emplace_back([&store] {  // makes the others copy now and then
      for (int i = 0; i < folds; ++i) (void)frozen(store);
    });
  }
  std::vector<std::int64_t> expected(elements, folds * (1 + 2 + 3 + 4));
  for (int t = 0; t < threads; ++t)
    expected[static_cast<std::size_t>(t % 3) * n + 5] += folds * 100;
  CHECK(all_of(store, elements) == expected);
}

TEST_CASE("dense_store: a reader may let go of a chunk while a fold looks whether there is one") {
  int const folds = test::sanitized() ? 40'000 : 400'000;
  dense_store<std::int64_t> store({.rows = 16});
  std::atomic<bool> folding = true;
  std::jthread const reader([&] {
    while (folding) (void)store.chunk(0);
  });
  update const all = whole(std::vector<std::int64_t>(16, 1));
  update const some = keyed<std::int64_t>({3, 4}, {1, 1});
  for (int i = 0; i < folds; ++i) {
    fold_one(store, all);
    fold_one(store, some);
  }
  folding = false;
  CHECK(all_of(store, 5) == std::vector<std::int64_t>{folds, folds, folds, 2 * folds, 2 * folds});
}

TEST_CASE("dense_store: concurrent folds of rows from all over a large table lose nothing, nor do states change") {
  constexpr std::size_t n = chunk<std::int64_t>;
  constexpr std::uint64_t rows = 100 * n;  // neighbors share locks
  constexpr int folds = 60;
  constexpr int whole_folds = 10;
  dense_store<std::int64_t> store({.rows = rows});
  std::vector<std::uint64_t> some;
  for (std::uint64_t row = 7; row < rows; row += n / 3 + 1) some.push_back(row);
  update const ones = keyed(some, std::vector<std::int64_t>(some.size(), 1));
  std::vector<std::uint64_t> in_no_order;
  for (std::size_t i = 0; i < some.size(); ++i) in_no_order.push_back(some[i * 7919 % some.size()]);
  update const all_ones = whole(std::vector<std::int64_t>(rows, 1));
  update const scattered_ones = keyed(in_no_order, std::vector<std::int64_t>(some.size(), 1));
  std::atomic<int> changed = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 3; ++t)
      threads.emplace_back([&, t] {
        std::vector<std::int64_t> out(some.size());
        for (int i = 0; i < folds; ++i) {
          fold_one(store, t == 0 ? scattered_ones : ones);
          store.read(t == 1 ? in_no_order : some, out.data());
          for (std::int64_t const x : out) changed += x < i + 1;  // what it has added is there
        }
      });
    threads.emplace_back([&] {
      for (int i = 0; i < whole_folds; ++i) fold_one(store, all_ones);
    });
    threads.emplace_back([&] {
      for (int i = 0; i < folds; ++i) {
        std::size_t const at = static_cast<std::size_t>(i) % store.chunks();
        block_ref const held = store.chunk(at);
        std::vector<std::int64_t> const before(held.as<std::int64_t>(), held.as<std::int64_t>() + n);
        std::this_thread::yield();
        changed += !std::equal(before.begin(), before.end(), held.as<std::int64_t>());
      }
    });
  }
  CHECK(changed == 0);
  std::vector<std::int64_t> out(some.size());
  store.read(some, out.data());
  CHECK(out == std::vector<std::int64_t>(some.size(), 3 * folds + whole_folds));
}

TEST_CASE("dense_store: a reader never sees a torn row, nor a torn chunk") {
  constexpr std::size_t width = 512;
  constexpr std::uint64_t rows = 64;
  dense_store<std::int64_t> store({.rows = rows, .width = width});
  std::atomic<int> folding = 2;
  std::atomic<int> torn = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&store, &folding, t] {
        update const u = t == 0 ? whole(std::vector<std::int64_t>(rows * width, 1))
                                : keyed({3, 4, 40}, std::vector<std::int64_t>(3 * width, 1));
        for (int i = 0; i < 100; ++i) fold_one(store, u);
        --folding;
      });
    threads.emplace_back([&store, &folding, &torn] {
      std::vector<std::uint64_t> const some{3, 40, 63};
      std::vector<std::int64_t> row(3 * width);
      do {
        store.read(some, row.data());
        for (std::size_t i = 0; i < row.size(); ++i) torn += row[i] != row[i / width * width];
        table_state const state = frozen(store, width);
        for (std::uint64_t const r : some) {
          auto const seen =
              elements_of<std::int64_t>(state, static_cast<std::size_t>(r) * width, width);
          for (std::size_t j = 0; j < width; ++j) torn += seen[j] != seen[0];
        }
      } while (folding != 0);
    });
  }
  CHECK(torn == 0);
  auto const end = all_of(store, rows * width, width);
  CHECK(end[0] == 100);
  CHECK(end[3 * width] == 200);
}

TEST_CASE("dense_store: all elements can be set at once; older states stay as they were") {
  std::size_t const n = 2 * chunk<float> + 5;
  auto store = counting_store<float>(n, 1);
  table_state const before = frozen(store);
  std::vector<float> next(n, 7);
  store.assign({.values = next});
  CHECK(all_of(store, n) == next);
  CHECK(elements_of<float>(before, n - 1, 1)[0] == static_cast<float>(n - 1));

  // So can some of them, in a run or by their rows.
  std::vector<float> const run(chunk<float> + 1, 8);
  store.assign({.first = chunk<float>, .values = run});
  std::fill_n(next.begin() + chunk<float>, run.size(), 8.0F);
  std::vector<std::uint64_t> const rows{n - 1, 3};
  std::vector<float> const listed{9, 10};
  store.assign({.keyed = true, .rows = rows, .values = listed});
  next[n - 1] = 9;
  next[3] = 10;
  CHECK(all_of(store, n) == next);
}

TEST_CASE("dense_store: chunks one by one are what they are at that moment") {
  std::size_t const n = 2 * chunk<float> + 5;
  auto store = counting_store<float>(n, 1);
  REQUIRE(store.chunks() == 3);
  block_ref const first = store.chunk(0);
  std::vector<float> const next(n, 7);
  store.assign({.values = next});
  CHECK(first.as<float>()[1] == 1);
  CHECK(store.chunk(0).as<float>()[1] == 7);
  CHECK(store.chunk(2).size<float>() == 5);
}

TEST_CASE("dense_store: an update folded run by run is the update folded at once") {
  constexpr std::size_t width = 3;
  std::size_t const rows = 5 * chunk<float> / width;
  std::size_t const elements = rows * width;
  auto at_once = counting_store<float>(rows, width);
  auto pieced = counting_store<float>(rows, width);
  random_stream random(3);
  update const u = random_whole<float>(elements, random);
  fold_one(at_once, u, 0.5);
  table_state const before = frozen(pieced, width);
  std::span<float const> const values = u.values.as<float>();
  for (std::size_t first = 0; first < rows;) {
    std::size_t const n =
        std::min<std::size_t>(rows - first, 1 + random.below(2 * chunk<float> / width));
    weighted_update<float> const piece{
        {.first = first, .values = values.subspan(first * width, n * width)}, 0.5};
    pieced.fold({&piece, 1});
    first += n;
  }
  CHECK(all_of(pieced, elements, width) == all_of(at_once, elements, width));
  CHECK(elements_of<float>(before, 0, elements) ==  // is frozen
        all_of(counting_store<float>(rows, width), elements, width));
}
