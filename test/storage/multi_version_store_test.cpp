// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/multi_version_store.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <rubato/core/null_mutex.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/revise.hpp>
#include <rubato/storage/concepts.hpp>
#include <rubato/storage/multi_version.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::whole;

namespace {

template <class T>
using dense_versions = multi_version_store<dense_store<T, null_mutex>>;
template <class T>
using sparse_versions = multi_version_store<sparse_store<T, null_mutex>>;

static_assert(table_store<dense_versions<float>> && table_store<sparse_versions<double>>);
static_assert(table_store<multi_version_store<dense_store<std::int64_t, std::mutex>>>);
static_assert(table_store<multi_version_store<sparse_store<std::int32_t, std::mutex>>>);

constexpr multi_version counts{dense<std::int32_t, sum>{.rows = 7, .width = 2}};
static_assert(table_spec<std::remove_const_t<decltype(counts)>> && counts.rows == 7 &&
              counts.width == 2);
static_assert(std::same_as<multi_version<sparse<float>>::store<null_mutex>, sparse_versions<float>>);
static_assert(multi_version<dense<float>>::bounded && !multi_version<sparse<float>>::bounded);

/// What the merges of these tests have in common: a version is a stamp.
struct by_stamp {
  [[nodiscard]] version_index map(commit_info const& c) const noexcept {
    return version_index{c.stamp.value()};
  }
  [[nodiscard]] double weight(commit_info const&) const noexcept { return 1.0; }
  [[nodiscard]] version_index version_after(version_read const& r) const noexcept { return r.own; }
};

/// The sum of the last k clocks.
struct window_sum : by_stamp {
  explicit window_sum(std::int64_t clocks) : k(clocks) {}
  std::int64_t k;
  [[nodiscard]] double share(version_state const&) const noexcept { return 1.0; }
  [[nodiscard]] std::optional<double> expire(version_state const& v,
                                             version_window const& w) const noexcept {
    if (v.version.value() >= w.c_max.value() - k) return std::nullopt;
    return 0.0;
  }
};

/// Nothing is seen of a clock until all have finished it.
struct whole_clocks : by_stamp {
  [[nodiscard]] double share(version_state const&) const noexcept { return 0.0; }
  [[nodiscard]] std::optional<double> expire(version_state const& v,
                                             version_window const& w) const noexcept {
    if (v.version.value() >= w.c_min.value()) return std::nullopt;
    return 1.0;
  }
};

/// Shares that are exact, and 0 now and then.
struct odd_shares : by_stamp {
  [[nodiscard]] double share(version_state const& v) const noexcept { return v.updates % 3; }
  [[nodiscard]] std::optional<double> expire(version_state const& v,
                                             version_window const& w) const noexcept {
    if (v.version >= w.least) return std::nullopt;
    return share(v);
  }
};
static_assert(versioned_merge<window_sum> && versioned_merge<whole_clocks> &&
              versioned_merge<odd_shares>);

version_window least(std::int64_t v) { return {version_index{v}, {}, {}}; }
version_window clocks(std::int64_t c_min, std::int64_t c_max) {
  return {{}, clock_index{c_min}, clock_index{c_max}};
}

/// Elements 0, 1, 2, … where the base is dense.
template <class Store>
Store make_store(std::uint64_t rows, std::size_t width) {
  if constexpr (Store::bounded)
    return Store(rows, width, [](std::size_t first, std::size_t n, auto* out) {
      for (std::size_t i = 0; i < n; ++i)
        out[i] = static_cast<typename Store::value_type>((first + i) % 1000);
    });
  else
    return Store(width);
}

template <class Merge>
auto shares_of(Merge const& merge) {
  return [&merge](version_state const& v) { return merge.share(v); };
}

/// A state as rows that are not zero.
template <class T>
using row_map = std::map<std::uint64_t, std::vector<T>>;

template <class T>
void drop_zeros(row_map<T>& rows, std::size_t width) {
  std::erase_if(rows, [&](auto const& r) { return r.second == std::vector<T>(width); });
}

template <class T>
row_map<T> rows_of(dense_snapshot<T> const& state, std::uint64_t rows, std::size_t width) {
  row_map<T> out;
  for (std::uint64_t r = 0; r < rows; ++r) {
    out[r].resize(width);
    state.copy(static_cast<std::size_t>(r) * width, width, out[r].data());
  }
  drop_zeros(out, width);
  return out;
}
template <class T>
row_map<T> rows_of(sparse_snapshot<T> const& state, std::uint64_t, std::size_t width) {
  row_map<T> out;
  for (std::size_t i = 0; i < state.keys.size(); ++i) {
    REQUIRE((i == 0 || state.keys[i - 1] < state.keys[i]));
    auto const from = state.values.begin() + static_cast<std::ptrdiff_t>(i * width);
    out[state.keys[i]].assign(from, from + static_cast<std::ptrdiff_t>(width));
  }
  REQUIRE(state.values.size() == state.keys.size() * width);
  drop_zeros(out, width);
  return out;
}

template <class Store, class Merge>
auto state_of(Store const& store, Merge const& merge) {
  typename Store::snapshot_type state;
  store.snapshot(state, shares_of(merge));
  return state;
}

template <class Store, class Merge>
typename Store::value_type element(Store const& store, std::uint64_t row, Merge const& merge) {
  typename Store::value_type out = -1;
  store.read(std::vector<std::uint64_t>{row}, &out, shares_of(merge));
  return out;
}

std::vector<std::pair<std::int64_t, std::uint32_t>> live(auto const& store) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> out;
  for (version_state const& v : store.versions()) out.emplace_back(v.version.value(), v.updates);
  REQUIRE(store.live() == out.size());
  return out;
}
using live_list = std::vector<std::pair<std::int64_t, std::uint32_t>>;

/// Where the chunks of a state lie in memory.
template <class T>
std::vector<T const*> places(dense_snapshot<T> const& state, std::size_t elements) {
  std::vector<T const*> at;
  state.for_each_piece(0, elements,
                       [&](T const* data, std::size_t, std::size_t) { at.push_back(data); });
  return at;
}

/// base, and the sums of the versions, row by row.
template <class T>
struct plain_model {
  struct version {
    std::uint32_t updates = 0;
    row_map<T> rows{};
  };
  std::size_t width;
  row_map<T> base{};
  std::map<std::int64_t, version> versions{};

  void add_to(row_map<T>& to, std::uint64_t row, T const* from, T weight) const {
    auto& at = to.try_emplace(row, width).first->second;
    for (std::size_t j = 0; j < width; ++j) at[j] += weight * from[j];
  }
  void add(std::int64_t v, update<T> const& u, T weight) {
    ++versions[v].updates;
    for (std::size_t i = 0; i < u.values.size() / width; ++i)
      add_to(versions[v].rows, u.whole ? i : u.rows[i], u.values.data() + i * width, weight);
  }
  template <class Merge>
  row_map<T> state(Merge const& merge) const {
    row_map<T> out = base;
    for (auto const& [v, state] : versions) {
      auto const s = static_cast<T>(merge.share({version_index{v}, state.updates}));
      for (auto const& [row, values] : state.rows) add_to(out, row, values.data(), s);
    }
    drop_zeros(out, width);
    return out;
  }
  template <class Merge>
  void expire(Merge const& merge, version_window const& w) {
    for (auto at = versions.begin(); at != versions.end();) {
      auto const r = merge.expire({version_index{at->first}, at->second.updates}, w);
      if (!r) {
        ++at;
        continue;
      }
      for (auto const& [row, values] : at->second.rows)
        add_to(base, row, values.data(), static_cast<T>(*r));
      at = versions.erase(at);
    }
  }
};

template <class T>
update<T> random_update(std::uint64_t rows, std::size_t width, bool may_be_whole,
                        random_stream& random) {
  update<T> u{};
  auto const draw = [&] { return static_cast<T>(random.below(20)) - T{10}; };
  std::uint64_t const kind = random.below(8);
  if (kind == 0) return u;
  if (kind <= 2 && may_be_whole) {
    u.whole = true;
    u.values.resize(static_cast<std::size_t>(rows) * width);
    for (T& x : u.values)
      if (kind == 1 || random.below(20) == 0) x = draw();
    return u;
  }
  std::set<std::uint64_t> some;
  std::uint64_t const most = kind == 3 ? rows : 6;
  for (std::uint64_t i = 0; i < most; ++i) some.insert(random.below(rows));
  for (std::uint64_t const row : some) {
    u.rows.insert(row % 2 == 0 ? u.rows.end() : u.rows.begin(), row);
    for (std::size_t j = 0; j < width; ++j) u.values.push_back(draw());
  }
  return u;
}

template <class Store>
void check_against_model(std::uint64_t rows, std::size_t width, std::uint64_t seed) {
  INFO(rows << " rows of " << width << ", seed " << seed);
  using T = typename Store::value_type;
  random_stream random(seed);
  auto store = make_store<Store>(rows, width);
  odd_shares const merge;
  typename Store::snapshot_type begin;
  store.snapshot(begin);
  plain_model<T> model{.width = width, .base = rows_of(begin, rows, width)};
  std::int64_t oldest = 0;
  std::list<std::pair<typename Store::snapshot_type, row_map<T>>> held;
  for (int i = 0; i < 60; ++i) {
    std::int64_t const v = oldest - 1 + static_cast<std::int64_t>(random.below(6));
    auto const u = random_update<T>(rows, width, Store::bounded, random);
    auto const weight = static_cast<double>(1 + random.below(2));
    store.add(version_index{v}, u, weight);
    model.add(v, u, static_cast<T>(weight));
    if (random.below(4) == 0) ++oldest;
    store.expire(merge, least(oldest));
    model.expire(merge, least(oldest));

    live_list expected_live;
    for (auto const& [version, state] : model.versions)
      expected_live.emplace_back(version, state.updates);
    REQUIRE(live(store) == expected_live);
    auto const expected = model.state(merge);
    auto& [state, values_then] = held.emplace_back();
    store.snapshot(state, shares_of(merge));
    values_then = expected;
    REQUIRE(rows_of(state, rows, width) == expected);

    std::vector<std::uint64_t> some{0, rows - 1, 0};  // one of them twice
    for (int k = 0; k < 5; ++k) some.push_back(random.below(rows));
    std::vector<T> out(some.size() * width, T{77});
    store.read(some, out.data(), shares_of(merge));
    for (std::size_t k = 0; k < some.size(); ++k) {
      auto const at = expected.find(some[k]);
      auto const from = out.begin() + static_cast<std::ptrdiff_t>(k * width);
      REQUIRE(std::vector<T>(from, from + static_cast<std::ptrdiff_t>(width)) ==
              (at == expected.end() ? std::vector<T>(width) : at->second));
    }
    if (held.size() > 5) held.pop_front();
    for (auto const& [old, values] : held) REQUIRE(rows_of(old, rows, width) == values);
  }
  auto const end = model.state(merge);
  store.settle(merge);
  CHECK(store.live() == 0);
  CHECK(store.bytes() == store.base().bytes());
  typename Store::snapshot_type settled;
  store.snapshot(settled);
  CHECK(rows_of(settled, rows, width) == end);
}

/// Calls `f(v, row 0's value)` through keyed updates, and through whole ones where there are such.
template <class Store, class F>
void for_each_form(F f) {
  using T = typename Store::value_type;
  f(make_store<Store>(100, 1), [](T x) { return keyed<T>({0}, {x}); });
  if constexpr (Store::bounded) {
    f(make_store<Store>(1, 1), [](T x) { return keyed<T>({0}, {x}); });  // dense at once
    f(make_store<Store>(3, 1), [](T x) { return whole<T>({x, x, x}); });
  }
}

}  // namespace

TEMPLATE_TEST_CASE("multi_version_store: a late update revises what its version counted (V1)", "",
                   dense_versions<double>, sparse_versions<double>) {
  for_each_form<TestType>([](auto store, auto u) {
    double const a = 12, b = 24, c = 60, d = 120, e = 240, f = 480;
    revise const merge;
    auto const add = [&](std::int64_t v, double x) { store.add(version_index{v}, u(x), 1.0); };
    add(0, a);
    add(1, b);
    add(0, c);
    add(0, d);
    add(2, e);
    store.expire(merge, least(0));
    CHECK(element(store, 0, merge) == (a + c + d) / 3 + b + e);
    CHECK(live(store) == live_list{{0, 3}, {1, 1}, {2, 1}});
    add(0, f);
    store.expire(merge, least(1));
    CHECK(live(store) == live_list{{1, 1}, {2, 1}});
    CHECK(element(store, 0, merge) == (a + c + d + f) / 4 + b + e);
    store.settle(merge);
    CHECK(live(store).empty());
    double out = 0;
    store.read(std::vector<std::uint64_t>{0}, &out);
    CHECK(out == (a + c + d + f) / 4 + b + e);
  });
}

TEMPLATE_TEST_CASE("multi_version_store: empty updates count", "", dense_versions<double>,
                   sparse_versions<double>) {
  for_each_form<TestType>([](auto store, auto u) {
    revise const merge;
    store.add(version_index{4}, {}, 1.0);
    CHECK(live(store) == live_list{{4, 1}});
    CHECK(store.version_bytes() == 0);
    CHECK(element(store, 0, merge) == 0);
    store.add(version_index{4}, u(12.0), 1.0);
    store.add(version_index{4}, {}, 1.0);
    CHECK(element(store, 0, merge) == 4.0);
    store.expire(merge, least(5));
    CHECK(element(store, 0, merge) == 4.0);
  });
}

TEMPLATE_TEST_CASE("multi_version_store: counts over a sliding window of clocks", "",
                   dense_versions<std::int64_t>, sparse_versions<std::int64_t>) {
  for_each_form<TestType>([](auto store, auto u) {
    window_sum const merge(3);
    for (std::int64_t c = 0; c < 10; ++c) {
      store.add(version_index{c}, u(c), 1.0);
      store.add(version_index{c}, u(1000), 1.0);
      store.expire(merge, clocks(0, c + 1));
      std::int64_t const n = std::min<std::int64_t>(c + 1, 3);
      CHECK(element(store, 0, merge) == 1000 * n + c * n - n * (n - 1) / 2);
      CHECK(store.live() == static_cast<std::size_t>(n));
    }
    store.expire(merge, clocks(0, 100));
    CHECK(element(store, 0, merge) == 0);
  });
}

TEMPLATE_TEST_CASE("multi_version_store: updates held back until their clock is complete", "",
                   dense_versions<float>, sparse_versions<float>) {
  for_each_form<TestType>([](auto store, auto u) {
    whole_clocks const merge;
    store.add(version_index{0}, u(1), 1.0);
    store.add(version_index{1}, u(2), 1.0);
    store.add(version_index{0}, u(4), 1.0);
    store.expire(merge, clocks(0, 2));
    CHECK(element(store, 0, merge) == 0);
    store.expire(merge, clocks(1, 2));
    CHECK(element(store, 0, merge) == 5);
    store.expire(merge, clocks(2, 2));
    CHECK(element(store, 0, merge) == 7);
    CHECK(store.live() == 0);
  });
}

TEST_CASE("multi_version_store: equals a plain map of versions over a dense base") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    check_against_model<dense_versions<float>>(1, 2, seed);
    check_against_model<dense_versions<float>>(40, 1, seed);
    check_against_model<dense_versions<double>>(33, 3, seed);
    check_against_model<dense_versions<std::int64_t>>(20, 2, seed);
  }
  check_against_model<dense_versions<double>>(300, 100, 5);  // several chunks
}

TEST_CASE("multi_version_store: equals a plain map of versions over a sparse base") {
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    check_against_model<sparse_versions<float>>(1, 2, seed);
    check_against_model<sparse_versions<double>>(500, 3, seed);
    check_against_model<sparse_versions<std::int32_t>>(20, 1, seed);
  }
}

TEST_CASE("multi_version_store: versions may come in any order, and anew after they expired") {
  auto store = make_store<dense_versions<double>>(10, 1);
  revise const merge;
  for (std::int64_t const v : {5, -3, 7, 0, 5, -3, 6})
    store.add(version_index{v}, keyed<double>({0}, {12.0}), 1.0);
  CHECK(live(store) == live_list{{-3, 2}, {0, 1}, {5, 2}, {6, 1}, {7, 1}});
  CHECK(element(store, 0, merge) == 5 * 12.0);
  store.expire(merge, least(6));
  CHECK(live(store) == live_list{{6, 1}, {7, 1}});
  store.add(version_index{5}, keyed<double>({0}, {6.0}), 1.0);
  CHECK(live(store) == live_list{{5, 1}, {6, 1}, {7, 1}});
  CHECK(element(store, 0, merge) == 66.0);
}

TEST_CASE("multi_version_store: a merge without versions folds into the base") {
  auto store = make_store<dense_versions<double>>(3, 1);
  auto const u = whole<double>({1, 1, 1});
  weighted_update<double> const step{&u, 2.0};
  store.fold({&step, 1}, std::nullopt);
  CHECK(store.live() == 0);
  std::vector<double> out(2);
  store.read(std::vector<std::uint64_t>{2, 0}, out.data());
  CHECK(out == std::vector<double>{4, 2});

  auto sparse = make_store<sparse_versions<double>>(0, 1);
  sparse.set(9, std::vector<double>{5});
  CHECK(element(sparse, 9, revise{}) == 5.0);
}

TEST_CASE("multi_version_store: a version's memory is returned when it expires") {
  constexpr std::uint64_t rows = 10'000;
  auto store = make_store<dense_versions<float>>(rows, 2);
  std::size_t const base = store.bytes();
  CHECK(base == rows * 2 * sizeof(float));
  store.add(version_index{0}, keyed<float>({1, 2}, {1, 1, 1, 1}), 1.0);
  std::size_t const sparse = store.version_bytes();
  CHECK(sparse >= 2 * 2 * sizeof(float));
  CHECK(sparse < base / 10);
  store.add(version_index{1}, whole<float>(std::vector<float>(rows * 2, 1.0F)), 1.0);
  CHECK(store.version_bytes() == sparse + base);
  CHECK(store.bytes() == 2 * base + sparse);
  store.expire(revise{}, least(1));
  CHECK(store.bytes() == 2 * base);
  store.expire(revise{}, least(2));
  CHECK(store.bytes() == base);
  CHECK(store.base().bytes() == base);

  auto open = make_store<sparse_versions<float>>(0, 2);
  open.add(version_index{0}, keyed<float>({1, 2}, {1, 1, 1, 1}), 1.0);
  CHECK(open.version_bytes() != 0);
  CHECK(open.base().bytes() == 0);
  open.expire(window_sum(0), clocks(0, 9));  // dropped: the base gets no rows
  CHECK(open.bytes() == 0);
}

TEST_CASE("multi_version_store: a pull copies the chunks that live versions touch, and no other") {
  constexpr std::size_t n = dense_store<float, null_mutex>::chunk_bytes / sizeof(float);
  std::size_t const elements = 3 * n;
  auto store = make_store<dense_versions<float>>(elements, 1);
  dense_snapshot<float> base;
  store.snapshot(base);
  auto const home = places(base, elements);

  store.add(version_index{0}, keyed<float>({n + 5}, {12.0F}), 1.0);
  auto const state = state_of(store, revise{});
  auto const seen = places(state, elements);
  CHECK(seen[0] == home[0]);
  CHECK(seen[1] != home[1]);
  CHECK(seen[2] == home[2]);
  CHECK(places(state_of(store, whole_clocks{}), elements) == home);  // shares of 0

  store.add(version_index{1}, whole<float>(std::vector<float>(elements, 1.0F)), 1.0);
  CHECK(places(state_of(store, whole_clocks{}), elements) == home);
  auto const all = places(state_of(store, revise{}), elements);
  for (std::size_t i = 0; i < 3; ++i) CHECK(all[i] != home[i]);

  // Pulls leave the store's own chunks where they are.
  dense_snapshot<float> again;
  store.base().snapshot(again);
  CHECK(places(again, elements) == home);
}

TEST_CASE("multi_version_store: more local rows than 32 bits number are refused") {
  auto const make = [](std::uint64_t rows) {
    dense_versions<float> const store(rows, 1, [](std::size_t, std::size_t, float*) {});
  };
  CHECK_THROWS_WITH(make(std::uint64_t{1} << 32),
                    Catch::Contains("4294967296") && Catch::Contains("4294967295"));
  CHECK_THROWS_AS(make(~std::uint64_t{0}), option_error);
  CHECK_NOTHROW(make(0));
}

TEST_CASE("dense_snapshot: adding copies shared chunks only, and leaves the others as they were") {
  constexpr std::size_t n = dense_store<double, null_mutex>::chunk_bytes / sizeof(double);
  std::size_t const elements = 2 * n + 3;
  auto const count = [](std::size_t first, std::size_t k, double* out) {
    std::iota(out, out + k, static_cast<double>(first));
  };
  dense_store<double, null_mutex> store(elements, 1, count);
  dense_snapshot<double> old, mine;
  store.snapshot(old);
  store.snapshot(mine);
  auto const home = places(old, elements);
  auto const at = [](dense_snapshot<double> const& s, std::size_t i) {
    double x = -1;
    s.copy(i, 1, &x);
    return x;
  };

  mine.add(keyed<double>({2 * n + 2, n + 1, n + 2, n}, {1, 2, 3, 4}), 2.0, 1);
  auto const moved = places(mine, elements);
  CHECK(moved[0] == home[0]);
  CHECK(moved[1] != home[1]);
  CHECK(moved[2] != home[2]);
  CHECK(at(mine, n) == static_cast<double>(n) + 8);
  CHECK(at(mine, n + 1) == static_cast<double>(n + 1) + 4);
  CHECK(at(mine, n + 2) == static_cast<double>(n + 2) + 6);
  CHECK(at(mine, 2 * n + 2) == static_cast<double>(2 * n + 2) + 2);

  mine.add(whole<double>(std::vector<double>(elements, 1.0)), 0.5, 1);
  auto const all_moved = places(mine, elements);
  CHECK(all_moved[0] != home[0]);
  CHECK(all_moved[1] == moved[1]);  // it was nobody else's
  mine.add(old, -1.0);
  mine.add_row(n, std::vector<double>{100}.data(), 1, 1.0);
  CHECK(places(mine, elements) == all_moved);
  CHECK(at(mine, 3) == 0.5);
  CHECK(at(mine, n) == 108.5);
  CHECK(at(mine, 2 * n + 2) == 2.5);

  store.add_scaled(mine, 2.0);  // two refer to the store's chunks
  dense_snapshot<double> now;
  store.snapshot(now);
  CHECK(at(now, 3) == 4.0);
  CHECK(at(now, n) == static_cast<double>(n) + 217);
  CHECK(places(old, elements) == home);
  for (std::size_t i = 0; i < elements; ++i) REQUIRE(at(old, i) == static_cast<double>(i));
}

TEST_CASE("sparse_snapshot: adding merges rows in ascending order") {
  sparse_snapshot<float> state;
  state.add({}, 2);
  CHECK(state.empty());
  auto const a = keyed<float>({7, 3, 900}, {1, 2, 3, 4, 5, 6});
  auto const b = keyed<float>({5, 7, 1}, {10, 10, 20, 20, 30, 30});
  std::vector<weighted_update<float>> parts{{&a, 1.0}};
  state.add(parts, 2);
  CHECK(state.keys == std::vector<std::uint64_t>{3, 7, 900});
  CHECK(state.values == std::vector<float>{3, 4, 1, 2, 5, 6});
  parts = {{&b, 2.0}, {&a, -1.0}, {&b, 0.5}};
  state.add(parts, 2);
  CHECK(state.keys == std::vector<std::uint64_t>{1, 3, 5, 7, 900});
  CHECK(state.values == std::vector<float>{75, 75, 0, 0, 25, 25, 50, 50, 0, 0});
}

TEST_CASE("sparse_snapshot: adding equals a map") {
  random_stream random(21);
  constexpr std::size_t width = 2;
  sparse_snapshot<std::int64_t> state;
  row_map<std::int64_t> expected;
  for (int i = 0; i < 50; ++i) {
    std::vector<update<std::int64_t>> updates;
    for (int k = 0; k < 3; ++k)
      updates.push_back(random_update<std::int64_t>(60, width, false, random));
    std::vector<weighted_update<std::int64_t>> parts;
    for (auto const& u : updates) {
      parts.push_back({&u, 2.0});
      for (std::size_t r = 0; r < u.rows.size(); ++r) {
        auto& row = expected[u.rows[r]];
        row.resize(width);
        for (std::size_t j = 0; j < width; ++j) row[j] += 2 * u.values[r * width + j];
      }
    }
    state.add(parts, width);
    REQUIRE(state.keys.size() == expected.size());
    auto nonzero = expected;
    drop_zeros(nonzero, width);
    REQUIRE(rows_of(state, 60, width) == nonzero);
  }
}

TEST_CASE("add_rows: rows that were read get what the updates hold for them") {
  std::vector<std::uint64_t> const rows{4, 1, 4, 0, 4};
  std::vector<double> values{1, 1, 2, 2, 1, 1, 0, 0, 1, 1};
  auto const a = keyed<double>({9, 4, 1}, {50, 50, 10, 11, 20, 21});
  auto const b = whole<double>({1, 2, 3, 4, 5, 6, 7, 8, 9, 10});
  auto const c = keyed<double>({1, 7}, {1, -1, 9, 9});
  update<double> const nothing{};
  std::vector<weighted_update<double>> const parts{{&a, 1.0}, {&b, 2.0}, {&nothing, 1.0}, {&c, 3.0}};
  add_rows<double>(rows, values.data(), 2, parts);
  CHECK(values == std::vector<double>{29, 32, 31, 28, 29, 32, 2, 4, 29, 32});

  auto const before = values;
  add_rows<double>(rows, values.data(), 2, {});
  CHECK(values == before);
  add_rows<double>({}, nullptr, 2, parts);
}
