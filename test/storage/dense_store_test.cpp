// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/dense_store.hpp>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <thread>
#include <vector>

#include <rubato/core/null_mutex.hpp>
#include <rubato/core/random.hpp>
#include <rubato/storage/concepts.hpp>

using namespace rubato;

namespace {

static_assert(table_store<dense_store<float, null_mutex>>);
static_assert(table_store<dense_store<std::int64_t, std::mutex>>);

template <class T>
constexpr std::size_t chunk = dense_store<T, null_mutex>::chunk_bytes / sizeof(T);

template <class T>
dense_store<T, null_mutex> counting_store(std::uint64_t rows, std::size_t width) {
  return dense_store<T, null_mutex>(rows, width, [](std::size_t first, std::size_t n, T* out) {
    std::iota(out, out + n, static_cast<T>(first));
  });
}

template <class T, class Mutex>
std::vector<T> all_of(dense_store<T, Mutex> const& store, std::size_t elements) {
  dense_snapshot<T> state;
  store.snapshot(state);
  std::vector<T> out(elements);
  state.copy(0, elements, out.data());
  return out;
}

/// Where the chunks of a state lie in memory.
template <class T>
std::vector<T const*> places(dense_snapshot<T> const& state, std::size_t elements) {
  std::vector<T const*> at;
  state.for_each_piece(0, elements, [&](T const* data, std::size_t, std::size_t) {
    at.push_back(data);
  });
  return at;
}

template <class T>
T draw(random_stream& random) {
  if constexpr (std::is_integral_v<T>) return static_cast<T>(random.below(1000)) - 500;
  else return static_cast<T>(random.uniform() - 0.5);
}

template <class T>
update<T> random_whole(std::size_t elements, random_stream& random) {
  update<T> u{.whole = true, .rows = {}, .values = std::vector<T>(elements)};
  for (T& x : u.values) x = draw<T>(random);
  return u;
}

template <class T>
update<T> random_keyed(std::uint64_t rows, std::size_t width, random_stream& random) {
  std::set<std::uint64_t> some{0, rows - 1};
  for (int i = 0; i < 20; ++i) some.insert(random.below(rows));
  update<T> u{.whole = false, .rows = {}, .values = {}};
  for (std::uint64_t const row : some) {  // in no particular order
    if (row % 2 == 0) u.rows.push_back(row);
    else u.rows.insert(u.rows.begin(), row);
  }
  u.values.resize(u.rows.size() * width);
  for (T& x : u.values) x = draw<T>(random);
  return u;
}

/// The plain loop.
template <class T>
void add(std::vector<T>& w, update<T> const& u, std::size_t width, double weight) {
  auto const scale = static_cast<T>(weight);
  if (u.whole) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] += scale * u.values[i];
    return;
  }
  for (std::size_t i = 0; i < u.rows.size(); ++i)
    for (std::size_t j = 0; j < width; ++j)
      w[static_cast<std::size_t>(u.rows[i]) * width + j] += scale * u.values[i * width + j];
}

template <class T>
void check_folds_like_a_loop(std::uint64_t rows, std::size_t width) {
  INFO(rows << " rows of " << width);
  std::size_t const elements = static_cast<std::size_t>(rows) * width;
  auto store = counting_store<T>(rows, width);
  std::vector<T> expected(elements);
  std::iota(expected.begin(), expected.end(), T{0});
  REQUIRE(all_of(store, elements) == expected);

  random_stream random(rows + width);
  std::vector<update<T>> updates;
  for (int i = 0; i < 9; ++i)
    updates.push_back(i % 4 == 1 || i % 4 == 2 ? random_keyed<T>(rows, width, random)
                                               : random_whole<T>(elements, random));
  updates.push_back({});  // an empty part
  std::vector<weighted_update<T>> step;
  double weight = 1.0;
  for (auto const& u : updates) {
    step.push_back({&u, weight});
    add(expected, u, width, weight);
    if (!std::is_integral_v<T>) weight /= 3.0;
  }
  store.fold(step, std::nullopt);
  REQUIRE(all_of(store, elements) == expected);

  dense_snapshot<T> held;  // so that the next folds must make copies
  store.snapshot(held);
  std::vector<T> const before = expected;
  store.fold(std::span(step).first(3), std::nullopt);
  for (std::size_t i = 0; i < 3; ++i) add(expected, updates[i], width, step[i].weight);
  REQUIRE(all_of(store, elements) == expected);
  std::vector<T> seen(elements);
  held.copy(0, elements, seen.data());
  REQUIRE(seen == before);

  std::vector<std::uint64_t> const some{rows - 1, 0, rows / 2};
  std::vector<T> read(3 * width);
  store.read(some, read.data());
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < width; ++j)
      REQUIRE(read[i * width + j] == expected[static_cast<std::size_t>(some[i]) * width + j]);
}

}  // namespace

TEMPLATE_TEST_CASE("dense_store: folding equals a sequential loop bit for bit, in the order given",
                   "", float, double, std::int64_t) {
  constexpr std::size_t n = chunk<TestType>;
  for (std::uint64_t const rows : {std::size_t{1}, std::size_t{2}, n - 1, n, n + 1, 2 * n + 3})
    check_folds_like_a_loop<TestType>(rows, 1);
  for (std::size_t const width : {std::size_t{3}, std::size_t{7}, n / 2, n - 1, n, n + 1})
    for (std::uint64_t const rows : {1U, 2U, 5U}) check_folds_like_a_loop<TestType>(rows, width);
  check_folds_like_a_loop<TestType>(n / 3 + 1, 3);
}

TEST_CASE("dense_store: a part of a state copies as the whole does") {
  constexpr std::size_t n = chunk<float>;
  auto const store = counting_store<float>(2 * n + 5, 1);
  dense_snapshot<float> state;
  CHECK(state.empty());
  store.snapshot(state);
  CHECK_FALSE(state.empty());
  CHECK(state.bytes() == (2 * n + 5) * sizeof(float));
  for (std::size_t const first : {std::size_t{0}, n - 1, n, n + 1, 2 * n - 1})
    for (std::size_t const count : {std::size_t{0}, std::size_t{1}, std::size_t{4}}) {
      std::vector<float> out(count);
      state.copy(first, count, out.data());
      for (std::size_t i = 0; i < count; ++i) REQUIRE(out[i] == static_cast<float>(first + i));
    }
}

TEST_CASE("dense_store: readers share the memory of a state, and folds write in place again once "
          "they are gone") {
  constexpr std::size_t n = chunk<float>;
  std::size_t const elements = 3 * n;
  auto store = counting_store<float>(elements, 1);
  dense_snapshot<float> first;
  dense_snapshot<float> second;
  store.snapshot(first);
  store.snapshot(second);
  auto const home = places(first, elements);
  CHECK(home.size() == 3);
  CHECK(places(second, elements) == home);

  // A fold that touches the middle chunk moves that one only, and the old states stay.
  update<float> const touch{.whole = false, .rows = {n + 7}, .values = {1.0F}};
  weighted_update<float> const step{&touch, 1.0};
  store.fold({&step, 1}, std::nullopt);
  dense_snapshot<float> third;
  store.snapshot(third);
  auto const moved = places(third, elements);
  CHECK(moved[0] == home[0]);
  CHECK(moved[1] != home[1]);
  CHECK(moved[2] == home[2]);
  CHECK(places(first, elements) == home);
  float x = 0;
  first.copy(n + 7, 1, &x);
  CHECK(x == static_cast<float>(n + 7));
  third.copy(n + 7, 1, &x);
  CHECK(x == static_cast<float>(n + 7) + 1.0F);

  // Nobody looks any more: nothing moves.
  first.clear();
  second.clear();
  third.clear();
  update<float> const all{.whole = true, .rows = {}, .values = std::vector<float>(elements, 1.0F)};
  weighted_update<float> const whole_step{&all, 1.0};
  store.fold({&whole_step, 1}, std::nullopt);
  store.fold({&step, 1}, std::nullopt);
  store.snapshot(third);
  CHECK(places(third, elements) == moved);
}

TEST_CASE("dense_store: a whole fold moves every chunk that somebody looks at, and only those") {
  constexpr std::size_t n = chunk<double>;
  auto store = counting_store<double>(2 * n, 1);
  dense_snapshot<double> held;
  store.snapshot(held);
  auto const home = places(held, 2 * n);
  update<double> const all{.whole = true, .rows = {}, .values = std::vector<double>(2 * n, 0.5)};
  weighted_update<double> const step{&all, 1.0};
  store.fold({&step, 1}, std::nullopt);
  dense_snapshot<double> now;
  store.snapshot(now);
  auto const moved = places(now, 2 * n);
  CHECK(moved[0] != home[0]);
  CHECK(moved[1] != home[1]);
  CHECK(store.bytes() == 2 * n * sizeof(double));
}

TEMPLATE_TEST_CASE("dense_store: with a decay each fold is one velocity step (003 Eq. 1)", "",
                   float, double) {
  std::uint64_t const rows = chunk<TestType> / 2 + 3;
  std::size_t const width = 3;
  std::size_t const elements = static_cast<std::size_t>(rows) * width;
  auto store = counting_store<TestType>(rows, width);
  std::vector<TestType> w = all_of(store, elements);
  std::vector<TestType> v(elements);
  random_stream random(3);
  constexpr double mu = 0.75;
  constexpr double eta = 1.0 / 3.0;
  for (int t = 0; t < 5; ++t) {
    auto const whole = random_whole<TestType>(elements, random);
    auto const keyed = random_keyed<TestType>(rows, width, random);
    std::vector<weighted_update<TestType>> step;
    if (t != 2) step = {{&whole, eta}, {&keyed, 1.0}};  // one step without any update
    store.fold(step, mu);
    for (TestType& x : v) x *= static_cast<TestType>(mu);
    for (auto const& u : step) add(v, *u.part, width, u.weight);
    for (std::size_t i = 0; i < elements; ++i) w[i] += v[i];
    REQUIRE(all_of(store, elements) == w);
  }
}

TEST_CASE("dense_store: a velocity step leaves older states as they were") {
  auto store = counting_store<double>(4, 1);
  dense_snapshot<double> held;
  store.snapshot(held);
  update<double> const u{.whole = true, .rows = {}, .values = {1, 1, 1, 1}};
  weighted_update<double> const step{&u, 1.0};
  store.fold({&step, 1}, 0.5);
  store.fold({&step, 1}, 0.5);
  std::vector<double> seen(4);
  held.copy(0, 4, seen.data());
  CHECK(seen == std::vector<double>{0, 1, 2, 3});
  CHECK(all_of(store, 4) == std::vector<double>{2.5, 3.5, 4.5, 5.5});
}

TEST_CASE("dense_store: a server without rows folds and reads nothing") {
  auto store = counting_store<float>(0, 4);
  update<float> const nothing{};
  weighted_update<float> const step{&nothing, 1.0};
  store.fold({&step, 1}, std::nullopt);
  store.fold({&step, 1}, 0.5);
  dense_snapshot<float> state;
  store.snapshot(state);
  CHECK(state.bytes() == 0);
  CHECK(store.bytes() == 0);
}

TEST_CASE("dense_store: concurrent folds of the same and of distinct chunks lose nothing") {
  constexpr std::size_t n = chunk<std::int64_t>;
  std::size_t const elements = 3 * n;
  dense_store<std::int64_t, std::mutex> store(
      elements, 1, [](std::size_t, std::size_t count, std::int64_t* out) {
        std::fill_n(out, count, std::int64_t{0});
      });
  constexpr int threads = 4;
  constexpr int folds = 50;
  {
    std::vector<std::jthread> folders;
    for (int t = 0; t < threads; ++t)
      folders.emplace_back([&store, t] {
        update<std::int64_t> all{.whole = true, .rows = {}, .values = {}};
        all.values.assign(3 * n, t + 1);
        update<std::int64_t> const own_chunk{
            .whole = false, .rows = {static_cast<std::uint64_t>(t % 3) * n + 5}, .values = {100}};
        for (int i = 0; i < folds; ++i) {
          weighted_update<std::int64_t> const step[] = {{&all, 1.0}, {&own_chunk, 1.0}};
          store.fold(step, std::nullopt);
        }
      });
    folders.emplace_back([&store] {  // makes the others copy now and then
      for (int i = 0; i < folds; ++i) {
        dense_snapshot<std::int64_t> state;
        store.snapshot(state);
      }
    });
  }
  std::vector<std::int64_t> expected(elements, folds * (1 + 2 + 3 + 4));
  for (int t = 0; t < threads; ++t)
    expected[static_cast<std::size_t>(t % 3) * n + 5] += folds * 100;
  CHECK(all_of(store, elements) == expected);
}

TEST_CASE("dense_store: a reader never sees a torn row, nor a torn chunk") {
  constexpr std::size_t width = 512;
  constexpr std::uint64_t rows = 64;
  dense_store<std::int64_t, std::mutex> store(
      rows, width, [](std::size_t, std::size_t count, std::int64_t* out) {
        std::fill_n(out, count, std::int64_t{0});
      });
  std::atomic<int> folding = 2;
  std::atomic<int> torn = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 2; ++t)
      threads.emplace_back([&store, &folding, t] {
        update<std::int64_t> u{.whole = t == 0, .rows = {}, .values = {}};
        if (t == 1) u.rows = {3, 4, 40};
        u.values.assign((t == 0 ? rows : 3) * width, 1);
        for (int i = 0; i < 100; ++i) {
          weighted_update<std::int64_t> const step{&u, 1.0};
          store.fold({&step, 1}, std::nullopt);
        }
        --folding;
      });
    threads.emplace_back([&store, &folding, &torn] {
      std::vector<std::uint64_t> const some{3, 40, 63};
      std::vector<std::int64_t> row(3 * width);
      dense_snapshot<std::int64_t> state;
      do {
        store.read(some, row.data());
        for (std::size_t i = 0; i < row.size(); ++i) torn += row[i] != row[i / width * width];
        store.snapshot(state);
        for (std::uint64_t const r : some) {
          state.copy(static_cast<std::size_t>(r) * width, width, row.data());
          for (std::size_t j = 0; j < width; ++j) torn += row[j] != row[0];
        }
      } while (folding != 0);
    });
  }
  CHECK(torn == 0);
  auto const end = all_of(store, rows * width);
  CHECK(end[0] == 100);
  CHECK(end[3 * width] == 200);
}

TEST_CASE("dense_store: all elements can be set at once; older states stay as they were") {
  std::size_t const n = 2 * chunk<float> + 5;
  auto store = counting_store<float>(n, 1);
  dense_snapshot<float> before;
  store.snapshot(before);
  std::vector<float> const next(n, 7);
  store.set_all(next);
  CHECK(all_of(store, n) == next);
  std::vector<float> old(n);
  before.copy(0, n, old.data());
  CHECK(old.back() == static_cast<float>(n - 1));
}

TEST_CASE("dense_store: chunks one by one are what they are at that moment") {
  std::size_t const n = 2 * chunk<float> + 5;
  auto store = counting_store<float>(n, 1);
  REQUIRE(store.chunks() == 3);
  auto const first = store.chunk_now(0);
  store.set_all(std::vector<float>(n, 7));
  CHECK(first.data()[1] == 1);
  CHECK(store.chunk_now(0).data()[1] == 7);
  CHECK(store.chunk_now(2).size() == 5);
}

TEST_CASE("dense_snapshot: a state is received into pieces as a store would cut it, in memory used before") {
  std::size_t const width = 3;
  std::size_t const rows = chunk<float>;
  auto const store = counting_store<float>(rows, width);
  dense_snapshot<float> state;
  float next = 0;
  std::vector<float*> at;
  auto const fill = [&](float* to, std::size_t n) {
    at.push_back(to);
    std::iota(to, to + n, next);
    next += static_cast<float>(n);
  };
  state.receive(rows * width, width, fill);
  std::vector<float> out(rows * width);
  state.copy(0, out.size(), out.data());
  CHECK(out == all_of(store, rows * width));
  CHECK(at.size() == store.chunks());

  auto const first = at;
  at.clear();
  state.clear();
  CHECK(state.empty());
  state.receive(rows * width, width, fill);
  CHECK(at == first);
  store.snapshot(state);  // the store's own memory is neither written to nor kept
  at.clear();
  state.receive(rows * width, width, fill);
  CHECK(at == first);
  CHECK(all_of(store, 5) == std::vector<float>{0, 1, 2, 3, 4});
  at.clear();
  dense_snapshot<float> const sharer = state;
  state.receive(rows * width, width, fill);
  CHECK(at.front() != first.front());
}

TEST_CASE("dense_store: an update folded piece by piece is the update folded at once") {
  constexpr std::size_t width = 3;
  std::size_t const elements = 5 * chunk<float> / width * width;
  auto whole = counting_store<float>(elements / width, width);
  auto pieced = counting_store<float>(elements / width, width);
  random_stream random(3);
  update<float> u;
  u.whole = true;
  for (std::size_t i = 0; i < elements; ++i) u.values.push_back(draw<float>(random));
  weighted_update<float> const step{&u, 0.5};
  whole.fold({&step, 1}, std::nullopt);
  dense_snapshot<float> before;
  pieced.snapshot(before);
  for (std::size_t first = 0; first < elements;) {
    std::size_t const n = std::min<std::size_t>(elements - first, 1 + random.below(2 * chunk<float>));
    pieced.add_range(first, std::span<float const>(u.values).subspan(first, n), 0.5);
    first += n;
  }
  CHECK(all_of(pieced, elements) == all_of(whole, elements));
  std::vector<float> old(elements);
  before.copy(0, elements, old.data());
  CHECK(old == all_of(counting_store<float>(elements / width, width), elements));  // is frozen
}
