// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/multi_version_store.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/revise.hpp>
#include <rubato/storage/concepts.hpp>
#include <rubato/storage/dense_store.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/storage/sparse_store.hpp>
#include <rubato/storage/store_host.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::places;
using test::weighted;
using test::whole;

namespace {

template <class T>
using dense_versions = multi_version_store<dense_store<T>>;
template <class T>
using sparse_versions = multi_version_store<sparse_store<T>>;

static_assert(table_store<dense_versions<float>> && table_store<sparse_versions<double>>);
static_assert(table_store<dense_versions<std::int64_t>> && table_store<sparse_versions<std::int32_t>>);
static_assert(sharing_store<dense_versions<float>> && !concurrent_store<dense_versions<float>>);

constexpr multi_version counts{dense<std::int32_t, sum>{.rows = 7, .width = 2}};
static_assert(table_spec<std::remove_const_t<decltype(counts)>> && counts.rows == 7 &&
              counts.width == 2);
static_assert(std::same_as<multi_version<sparse<float>>::store, sparse_versions<float>>);
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

/// A state as rows that are not zero.
template <class T>
using row_map = std::map<std::uint64_t, std::vector<T>>;

template <class T>
void drop_zeros(row_map<T>& rows, std::size_t width) {
  std::erase_if(rows, [&](auto const& r) { return r.second == std::vector<T>(width); });
}

template <class T>
row_map<T> rows_in(table_state const& state, bool bounded, std::uint64_t rows, std::size_t width) {
  row_map<T> out;
  if (bounded) {
    for (std::uint64_t r = 0; r < rows; ++r)
      out[r] = test::elements_of<T>(state, static_cast<std::size_t>(r) * width, width);
  } else {
    auto const keys = state.keys();
    REQUIRE(std::ranges::adjacent_find(keys, std::greater_equal{}) == keys.end());
    REQUIRE(state.chunk(0).size_bytes() == keys.size() * width * sizeof(T));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      T const* const from = state.chunk(0).as<T>() + i * width;
      out[keys[i]].assign(from, from + width);
    }
  }
  drop_zeros(out, width);
  return out;
}

/// A store, and its host, through which it is read. Elements 0, 1, 2, … where the base is dense.
template <class Store>
struct hosted {
  using value_type = typename Store::value_type;
  static constexpr bool bounded = Store::bounded;

  hosted(std::uint64_t row_count, std::size_t row_width)
      : rows(row_count),
        width(row_width),
        host({.rows = rows, .width = width, .threads = threading::single}) {
    if constexpr (bounded) {
      std::vector<value_type> values(static_cast<std::size_t>(rows) * width);
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<value_type>(i % 1000);
      host.assign(whole(values));
    }
  }

  void add(std::int64_t v, update const& u, double weight = 1.0) {
    host.add_version(version_index{v}, u, weight);
  }
  template <class Merge>
  void expire(Merge const& merge, version_window const& w) {
    host.expire([&](version_state const& v) { return merge.expire(v, w); });
  }
  /// Folds every version with what it counts: a stage is over.
  template <class Merge>
  void settle(Merge const& merge) {
    host.expire([&](version_state const& v) { return std::optional(merge.share(v)); });
  }

  template <class Merge>
  table_state state(Merge const& merge) const {
    version_share const share = [&](version_state const& v) { return merge.share(v); };
    table_state out;
    host.snapshot(out, {.share = &share});
    return out;
  }
  template <class Merge>
  std::vector<value_type> read(std::vector<std::uint64_t> const& some, Merge const& merge) const {
    version_share const share = [&](version_state const& v) { return merge.share(v); };
    std::vector<value_type> out(some.size() * width, value_type{77});
    host.read(some, reinterpret_cast<std::byte*>(out.data()), {.share = &share});
    return out;
  }
  template <class Merge>
  value_type element(std::uint64_t row, Merge const& merge) const {
    return read({row}, merge).front();
  }
  row_map<value_type> rows_of(table_state const& state) const {
    return ::rows_in<value_type>(state, bounded, rows, width);
  }
  Store const& store() const { return host.store(); }

  std::uint64_t rows;
  std::size_t width;
  store_host<Store> host;
};

std::vector<std::pair<std::int64_t, std::uint32_t>> live(auto const& hosted) {
  std::vector<std::pair<std::int64_t, std::uint32_t>> out;
  hosted.host.for_each_version(
      [&](version_state const& v) { out.emplace_back(v.version.value(), v.updates); });
  REQUIRE(hosted.host.live_versions() == out.size());
  REQUIRE(hosted.store().live() == out.size());
  return out;
}
using live_list = std::vector<std::pair<std::int64_t, std::uint32_t>>;

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
  void add(std::int64_t v, update const& u, T weight) {
    ++versions[v].updates;
    auto const values = u.values.as<T>();
    for (std::size_t i = 0; i < values.size() / width; ++i)
      add_to(versions[v].rows, u.whole ? i : u.rows[i], values.data() + i * width, weight);
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
update random_update(std::uint64_t rows, std::size_t width, bool may_be_whole,
                     random_stream& random) {
  auto const draw = [&] { return static_cast<T>(random.below(20)) - T{10}; };
  std::uint64_t const kind = random.below(8);
  if (kind == 0) return {};
  if (kind <= 2 && may_be_whole) {
    std::vector<T> values(static_cast<std::size_t>(rows) * width);
    for (T& x : values)
      if (kind == 1 || random.below(20) == 0) x = draw();
    return whole(values);
  }
  std::set<std::uint64_t> some;
  std::uint64_t const most = kind == 3 ? rows : 6;
  for (std::uint64_t i = 0; i < most; ++i) some.insert(random.below(rows));
  std::vector<std::uint64_t> listed;
  std::vector<T> values;
  for (std::uint64_t const row : some) {
    listed.insert(row % 2 == 0 ? listed.end() : listed.begin(), row);
    for (std::size_t j = 0; j < width; ++j) values.push_back(draw());
  }
  return keyed(std::move(listed), values);
}

template <class Store>
void check_against_model(std::uint64_t rows, std::size_t width, std::uint64_t seed) {
  INFO(rows << " rows of " << width << ", seed " << seed);
  using T = typename Store::value_type;
  random_stream random(seed);
  hosted<Store> store(rows, width);
  odd_shares const merge;
  plain_model<T> model{.width = width, .base = store.rows_of(store.state(merge))};
  std::int64_t oldest = 0;
  std::list<std::pair<table_state, row_map<T>>> held;
  for (int i = 0; i < 60; ++i) {
    std::int64_t const v = oldest - 1 + static_cast<std::int64_t>(random.below(6));
    auto const u = random_update<T>(rows, width, Store::bounded, random);
    auto const weight = static_cast<double>(1 + random.below(2));
    store.add(v, u, weight);
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
    state = store.state(merge);
    values_then = expected;
    REQUIRE(store.rows_of(state) == expected);

    std::vector<std::uint64_t> some{0, rows - 1, 0};  // one of them twice
    for (int k = 0; k < 5; ++k) some.push_back(random.below(rows));
    std::vector<T> const out = store.read(some, merge);
    for (std::size_t k = 0; k < some.size(); ++k) {
      auto const at = expected.find(some[k]);
      auto const from = out.begin() + static_cast<std::ptrdiff_t>(k * width);
      REQUIRE(std::vector<T>(from, from + static_cast<std::ptrdiff_t>(width)) ==
              (at == expected.end() ? std::vector<T>(width) : at->second));
    }
    if (held.size() > 5) held.pop_front();
    for (auto const& [old, values] : held) REQUIRE(store.rows_of(old) == values);
  }
  auto const end = model.state(merge);
  store.settle(merge);
  CHECK(store.host.live_versions() == 0);
  CHECK(store.host.bytes() == store.store().base().bytes());
  table_state settled;
  store.host.snapshot(settled, {});  // nobody is asked for shares
  CHECK(store.rows_of(settled) == end);
}

/// Calls `f(v, row 0's value)` through keyed updates, and through whole ones where there are such.
template <class Store, class F>
void for_each_form(F f) {
  using T = typename Store::value_type;
  f(hosted<Store>(100, 1), [](T x) { return keyed<T>({0}, {x}); });
  if constexpr (Store::bounded) {
    f(hosted<Store>(1, 1), [](T x) { return keyed<T>({0}, {x}); });  // dense at once
    f(hosted<Store>(3, 1), [](T x) { return whole<T>({x, x, x}); });
  }
}

}  // namespace

TEMPLATE_TEST_CASE("multi_version_store: a late update revises what its version counted (V1)", "",
                   dense_versions<double>, sparse_versions<double>) {
  for_each_form<TestType>([](auto store, auto u) {
    double const a = 12, b = 24, c = 60, d = 120, e = 240, f = 480;
    revise const merge;
    auto const add = [&](std::int64_t v, double x) { store.add(v, u(x)); };
    add(0, a);
    add(1, b);
    add(0, c);
    add(0, d);
    add(2, e);
    store.expire(merge, least(0));
    CHECK(store.element(0, merge) == (a + c + d) / 3 + b + e);
    CHECK(live(store) == live_list{{0, 3}, {1, 1}, {2, 1}});
    add(0, f);
    store.expire(merge, least(1));
    CHECK(live(store) == live_list{{1, 1}, {2, 1}});
    CHECK(store.element(0, merge) == (a + c + d + f) / 4 + b + e);
    store.settle(merge);
    CHECK(live(store).empty());
    double out = 0;
    std::uint64_t const first = 0;
    store.host.read({&first, 1}, reinterpret_cast<std::byte*>(&out), {});
    CHECK(out == (a + c + d + f) / 4 + b + e);
  });
}

TEMPLATE_TEST_CASE("multi_version_store: empty updates count", "", dense_versions<double>,
                   sparse_versions<double>) {
  for_each_form<TestType>([](auto store, auto u) {
    revise const merge;
    store.add(4, {}, 1.0);
    CHECK(live(store) == live_list{{4, 1}});
    CHECK(store.store().version_bytes() == 0);
    CHECK(store.element(0, merge) == 0);
    store.add(4, u(12.0), 1.0);
    store.add(4, {}, 1.0);
    CHECK(store.element(0, merge) == 4.0);
    store.expire(merge, least(5));
    CHECK(store.element(0, merge) == 4.0);
  });
}

TEMPLATE_TEST_CASE("multi_version_store: counts over a sliding window of clocks", "",
                   dense_versions<std::int64_t>, sparse_versions<std::int64_t>) {
  for_each_form<TestType>([](auto store, auto u) {
    window_sum const merge(3);
    for (std::int64_t c = 0; c < 10; ++c) {
      store.add(c, u(c), 1.0);
      store.add(c, u(1000), 1.0);
      store.expire(merge, clocks(0, c + 1));
      std::int64_t const n = std::min<std::int64_t>(c + 1, 3);
      CHECK(store.element(0, merge) == 1000 * n + c * n - n * (n - 1) / 2);
      CHECK(store.host.live_versions() == static_cast<std::size_t>(n));
    }
    store.expire(merge, clocks(0, 100));
    CHECK(store.element(0, merge) == 0);
  });
}

TEMPLATE_TEST_CASE("multi_version_store: updates held back until their clock is complete", "",
                   dense_versions<float>, sparse_versions<float>) {
  for_each_form<TestType>([](auto store, auto u) {
    whole_clocks const merge;
    store.add(0, u(1), 1.0);
    store.add(1, u(2), 1.0);
    store.add(0, u(4), 1.0);
    store.expire(merge, clocks(0, 2));
    CHECK(store.element(0, merge) == 0);
    store.expire(merge, clocks(1, 2));
    CHECK(store.element(0, merge) == 5);
    store.expire(merge, clocks(2, 2));
    CHECK(store.element(0, merge) == 7);
    CHECK(store.host.live_versions() == 0);
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
  hosted<dense_versions<double>> store(10, 1);
  revise const merge;
  for (std::int64_t const v : {5, -3, 7, 0, 5, -3, 6})
    store.add(v, keyed<double>({0}, {12.0}), 1.0);
  CHECK(live(store) == live_list{{-3, 2}, {0, 1}, {5, 2}, {6, 1}, {7, 1}});
  CHECK(store.element(0, merge) == 5 * 12.0);
  store.expire(merge, least(6));
  CHECK(live(store) == live_list{{6, 1}, {7, 1}});
  store.add(5, keyed<double>({0}, {6.0}), 1.0);
  CHECK(live(store) == live_list{{5, 1}, {6, 1}, {7, 1}});
  CHECK(store.element(0, merge) == 66.0);
}

TEST_CASE("multi_version_store: a merge without versions folds into the base") {
  dense_versions<double> store({.rows = 3});
  std::vector<double> const start{0, 1, 2};
  store.assign({.values = start});
  auto const u = whole<double>({1, 1, 1});
  auto const step = weighted<double>(u, 2.0);
  store.fold({&step, 1});
  CHECK(store.live() == 0);
  std::vector<double> out(2);
  store.read(std::vector<std::uint64_t>{2, 0}, out.data());
  CHECK(out == std::vector<double>{4, 2});

  hosted<sparse_versions<double>> sparse(0, 1);
  sparse.host.assign(keyed<double>({9}, {5}));
  CHECK(sparse.element(9, revise{}) == 5.0);
}

TEST_CASE("multi_version_store: a version's memory is returned when it expires") {
  constexpr std::uint64_t rows = 10'000;
  hosted<dense_versions<float>> store(rows, 2);
  std::size_t const base = store.host.bytes();
  CHECK(base == rows * 2 * sizeof(float));
  store.add(0, keyed<float>({1, 2}, {1, 1, 1, 1}));
  std::size_t const sparse = store.store().version_bytes();
  CHECK(sparse >= 2 * 2 * sizeof(float));
  CHECK(sparse < base / 10);
  store.add(1, whole<float>(std::vector<float>(rows * 2, 1.0F)));
  CHECK(store.store().version_bytes() == sparse + base);
  CHECK(store.host.bytes() == 2 * base + sparse);
  store.expire(revise{}, least(1));
  CHECK(store.host.bytes() == 2 * base);
  store.expire(revise{}, least(2));
  CHECK(store.host.bytes() == base);
  CHECK(store.store().base().bytes() == base);

  hosted<sparse_versions<float>> open(0, 2);
  open.add(0, keyed<float>({1, 2}, {1, 1, 1, 1}));
  CHECK(open.store().version_bytes() != 0);
  CHECK(open.store().base().bytes() == 0);
  open.expire(window_sum(0), clocks(0, 9));  // dropped: the base gets no rows
  CHECK(open.host.bytes() == 0);
}

TEST_CASE("multi_version_store: a pull copies the chunks that live versions touch, and no other") {
  constexpr std::size_t n = table_state::chunk_bytes(sizeof(float)) / sizeof(float);
  std::size_t const elements = 3 * n;
  hosted<dense_versions<float>> store(elements, 1);
  table_state base;
  store.host.snapshot(base, {});
  auto const home = places(base);

  store.add(0, keyed<float>({n + 5}, {12.0F}));
  table_state const state = store.state(revise{});
  auto const seen = places(state);
  CHECK(seen[0] == home[0]);
  CHECK(seen[1] != home[1]);
  CHECK(seen[2] == home[2]);
  CHECK(places(store.state(whole_clocks{})) == home);  // shares of 0

  store.add(1, whole<float>(std::vector<float>(elements, 1.0F)));
  CHECK(places(store.state(whole_clocks{})) == home);
  table_state const revised = store.state(revise{});
  auto const all = places(revised);
  for (std::size_t i = 0; i < 3; ++i) CHECK(all[i] != home[i]);

  // Pulls leave the store's own chunks where they are.
  for (std::size_t i = 0; i < 3; ++i) CHECK(store.store().base().chunk(i).data() == home[i]);
}

TEST_CASE("multi_version_store: more local rows than 32 bits number are refused") {
  auto const make = [](std::uint64_t rows) { dense_versions<float> const store({.rows = rows}); };
  CHECK_THROWS_WITH(make(std::uint64_t{1} << 32),
                    Catch::Contains("4294967296") && Catch::Contains("4294967295"));
  CHECK_THROWS_AS(make(~std::uint64_t{0}), option_error);
  CHECK_NOTHROW(make(0));
  CHECK_NOTHROW(sparse_versions<float>({.rows = std::uint64_t{1} << 32}));  // there they are keys
}
