// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/store_host.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include <rubato/storage/dense_store.hpp>
#include <rubato/storage/sparse_store.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::elements_of;
using test::keyed;
using test::places;
using test::whole;

namespace {

using doubles = std::vector<double>;
using row_list = std::vector<std::uint64_t>;

/// The shortest store: all rows in one array, which nobody shares.
struct plain_store {
  using value_type = double;
  static constexpr bool bounded = true;

  explicit plain_store(store_shape const& s)
      : width(s.width), values(static_cast<std::size_t>(s.rows) * s.width) {}
  void assign(row_values<double> const& u) {
    for_each_row(u, [&](double* to, double const* from) { std::copy_n(from, width, to); });
  }
  void fold(std::span<weighted_update<double> const> step) {
    for (auto const& u : step)
      for_each_row(u, [&](double* to, double const* from) {
        for (std::size_t i = 0; i < width; ++i) to[i] += u.weight * from[i];
      });
  }
  void read(std::span<std::uint64_t const> rows, double* out) const {
    for (std::uint64_t const row : rows)
      out = std::copy_n(values.data() + static_cast<std::size_t>(row) * width, width, out);
  }
  void copy(std::uint64_t first, std::uint64_t count, double* out) const {
    std::copy_n(values.data() + static_cast<std::size_t>(first) * width,
                static_cast<std::size_t>(count) * width, out);
  }
  [[nodiscard]] std::size_t bytes() const { return values.size() * sizeof(double); }

  template <class F>
  void for_each_row(row_values<double> const& u, F f) {
    for (std::size_t i = 0; i < u.values.size() / width; ++i)
      f(values.data() + static_cast<std::size_t>(u.keyed ? u.rows[i] : u.first + i) * width,
        u.values.data() + i * width);
  }

  std::size_t width;
  doubles values;
};
static_assert(table_store<plain_store> && !sharing_store<plain_store> && !concurrent_store<plain_store>);

/// The same of touched rows, told in the order opposite to that of their keys.
struct plain_map {
  using value_type = double;
  static constexpr bool bounded = false;

  explicit plain_map(store_shape const& s) : width(s.width) {}
  void assign(row_values<double> const& u) {
    for (std::size_t i = 0; i < u.rows.size(); ++i)
      rows[u.rows[i]].assign(u.values.data() + i * width, u.values.data() + (i + 1) * width);
  }
  void fold(std::span<weighted_update<double> const> step) {
    for (auto const& u : step)
      for (std::size_t i = 0; i < u.rows.size() * width; ++i) {
        auto& row = rows[u.rows[i / width]];
        row.resize(width);
        row[i % width] += u.weight * u.values[i];
      }
  }
  void read(std::span<std::uint64_t const> listed, double* out) const {
    for (std::uint64_t const k : listed) {
      auto const at = rows.find(k);
      out = at == rows.end() ? std::fill_n(out, width, 0.0)
                             : std::copy_n(at->second.data(), width, out);
    }
  }
  void collect(row_list& keys, doubles& values) const {
    for (auto const& [k, row] : rows) {
      keys.push_back(k);
      values.insert(values.end(), row.begin(), row.end());
    }
  }
  [[nodiscard]] std::size_t bytes() const { return rows.size() * width * sizeof(double); }

  std::size_t width;
  std::map<std::uint64_t, doubles, std::greater<>> rows;
};

/// Says how many calls have come while another one was under way.
struct sensitive_store : plain_store {
  explicit sensitive_store(store_shape const& s) : plain_store(s), kept(s.rows * sizeof(double)) {}

  void fold(std::span<weighted_update<double> const> step) {
    call const c(*this);
    plain_store::fold(step);
  }
  void read(std::span<std::uint64_t const> rows, double* out) const {
    call const c(*this);
    plain_store::read(rows, out);
  }
  [[nodiscard]] std::size_t chunks() const { return 1; }
  [[nodiscard]] block_ref chunk(std::size_t) const {
    call const c(*this);
    return kept;
  }
  [[nodiscard]] std::size_t bytes() const {
    call const c(*this);
    return 1;
  }

  struct call {
    explicit call(sensitive_store const& s) : store(s) {
      if (++store.inside != 1) ++store.overlaps;
      std::this_thread::yield();
    }
    ~call() { --store.inside; }
    sensitive_store const& store;
  };
  block_ref kept;
  mutable std::atomic<int> inside = 0;
  mutable std::atomic<int> overlaps = 0;
};
static_assert(sharing_store<sensitive_store> && !concurrent_store<sensitive_store>);

doubles read(table_host const& host, row_list const& rows, std::size_t width,
             table_view const& seen = {}) {
  doubles out(rows.size() * width, 77.0);
  host.read(rows, reinterpret_cast<std::byte*>(out.data()), seen);
  return out;
}
void fold(table_host& host, update const& u, double weight = 1.0, std::optional<double> decay = {}) {
  weighted_part const step{&u, weight};
  host.fold({&step, 1}, decay);
}
doubles row_values_of(table_state const& s) {
  auto const* const from = s.chunk(0).as<double>();
  return {from, from + s.chunk(0).size<double>()};
}
row_list keys_in(table_state const& s) { return {s.keys().begin(), s.keys().end()}; }

}  // namespace

TEMPLATE_TEST_CASE("store_host: rows are set, folded and read, whoever holds them", "", plain_store,
                   dense_store<double>) {
  store_host<TestType> host({.rows = 4, .width = 2});
  host.assign(whole<double>({0, 1, 2, 3, 4, 5, 6, 7}));
  host.assign(keyed<double>({3}, {8, 9}));
  update const a = whole<double>({1, 1, 1, 1, 1, 1, 1, 1});
  update const b = keyed<double>({2, 0}, {10, 20, 30, 40});
  weighted_part const step[] = {{&a, 2.0}, {&b, 0.5}};
  host.fold(step, std::nullopt);
  doubles const expected{17, 23, 4, 5, 11, 17, 10, 11};
  CHECK(read(host, {3, 0, 3}, 2) == doubles{10, 11, 17, 23, 10, 11});
  table_state state;
  host.snapshot(state, {});
  CHECK(elements_of<double>(state, 0, 8) == expected);
  fold(host, a);
  CHECK(elements_of<double>(state, 0, 8) == expected);  // frozen
  CHECK(read(host, {1}, 2) == doubles{5, 6});
  doubles const run{100, 200, 300, 400};
  host.fold_run(1, std::as_bytes(std::span(run)), 0.5);
  CHECK(read(host, {0, 1, 2, 3}, 2) == doubles{18, 24, 55, 106, 162, 218, 11, 12});
  CHECK(host.bytes() == 8 * sizeof(double));
}

TEMPLATE_TEST_CASE("store_host: the chunks are those of a snapshot, each as it is when it is asked for",
                   "", plain_store, dense_store<double>) {
  std::size_t const width = 3;
  std::size_t const in_chunk = table_state::chunk_bytes(width * sizeof(double)) / (width * sizeof(double));
  std::uint64_t const rows = 2 * in_chunk + 1;
  store_host<TestType> host({.rows = rows, .width = width});
  update const u = keyed<double>({0, rows - 1}, {1, 2, 3, 4, 5, 6});
  fold(host, u);
  REQUIRE(host.chunks() == 3);
  table_state state;
  host.snapshot(state, {});
  REQUIRE(state.chunks() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    block_ref const c = host.chunk(i);
    REQUIRE(c.size_bytes() == state.chunk(i).size_bytes());
    REQUIRE(std::equal(c.as<double>(), c.as<double>() + c.size<double>(), state.chunk(i).as<double>()));
  }
  CHECK(host.chunk(2).template size<double>() == width);
  block_ref const last = host.chunk(2);
  fold(host, u);
  CHECK(last.as<double>()[2] == 6);
  CHECK(host.chunk(2).template as<double>()[2] == 12);
}

TEST_CASE("store_host: cleared it is as new: rows, velocity and touched rows; what was read stays as it was") {
  store_host<dense_store<double>> dense({.rows = 3});
  update const u = whole<double>({1, 2, 3});
  fold(dense, u, 1.0, 0.5);
  table_state before;
  dense.snapshot(before, {});
  dense.clear();
  CHECK(elements_of<double>(before, 0, 3) == doubles{1, 2, 3});
  CHECK(read(dense, {0, 1, 2}, 1) == doubles{0, 0, 0});
  fold(dense, u, 1.0, 0.5);  // the first step of a velocity again
  CHECK(read(dense, {0, 1, 2}, 1) == doubles{1, 2, 3});

  store_host<sparse_store<double>> sparse({.width = 2});
  fold(sparse, keyed<double>({9}, {1, 2}));
  sparse.clear();
  table_state touched;
  sparse.snapshot(touched, {});
  CHECK(keys_in(touched).empty());
}

TEST_CASE("store_host: a server without rows has no chunks") {
  store_host<plain_store> const host({.rows = 0});
  CHECK(host.chunks() == 0);
  table_state state;
  host.snapshot(state, {});
  CHECK(state.empty());
}

TEMPLATE_TEST_CASE("store_host: touched rows are told by ascending key", "", plain_map,
                   sparse_store<double>) {
  store_host<TestType> host({.width = 2});
  host.assign(keyed<double>({900, 3}, {1, 2, 3, 4}));
  fold(host, keyed<double>({40, 3}, {5, 6, 7, 8}), 2.0);
  table_state state;
  host.snapshot(state, {});
  CHECK(keys_in(state) == row_list{3, 40, 900});
  CHECK(row_values_of(state) == doubles{17, 20, 10, 12, 1, 2});
  CHECK(read(host, {40, 41}, 2) == doubles{10, 12, 0, 0});
  CHECK(host.chunks() == 0);
}

TEST_CASE("store_host: commits that are held back are read on top, in order, and change nothing") {
  update const a = keyed<double>({2, 0}, {1, 2});
  update const b = keyed<double>({2}, {8});
  weighted_part const above[] = {{&a, 2.0}, {&b, 0.5}};
  table_view const seen{.above = above};
  store_host<plain_store> bounded({.rows = 3});
  bounded.assign(whole<double>({10, 20, 30}));
  table_state state;
  bounded.snapshot(state, seen);
  CHECK(elements_of<double>(state, 0, 3) == doubles{14, 20, 36});
  CHECK(read(bounded, {2, 1, 2}, 1, seen) == doubles{36, 20, 36});
  CHECK(read(bounded, {0, 2}, 1) == doubles{10, 30});
  store_host<plain_map> open({});
  open.assign(keyed<double>({2}, {30}));
  table_state touched;
  open.snapshot(touched, seen);
  CHECK(keys_in(touched) == row_list{0, 2});
  CHECK(row_values_of(touched) == doubles{4, 36});
  CHECK(read(open, {0, 1, 2}, 1, seen) == doubles{4, 0, 36});
  CHECK(read(open, {0, 2}, 1) == doubles{0, 30});
}

TEST_CASE("store_host: a fold with a decay is a step of a velocity, also without updates") {
  store_host<plain_store> host({.rows = 2});
  CHECK(host.bytes() == 2 * sizeof(double));
  fold(host, whole<double>({8, 4}), 1.0, 0.5);
  CHECK(host.bytes() == 4 * sizeof(double));
  host.fold({}, 0.5);
  CHECK(read(host, {0, 1}, 1) == doubles{12, 6});
  fold(host, whole<double>({1, 1}));  // nothing of it stays
  host.fold({}, 0.5);
  CHECK(read(host, {0, 1}, 1) == doubles{15, 8});
}

TEST_CASE("store_host: a store without versions has none") {
  store_host<plain_store> host({.rows = 2});
  host.add_version(version_index{4}, whole<double>({1, 1}), 1.0);
  CHECK(host.live_versions() == 0);
  host.for_each_version([](version_state const&) { FAIL("there is no version"); });
  host.expire([](version_state const&) -> std::optional<double> {
    FAIL("there is no version");
    return 1.0;
  });
  CHECK(read(host, {0, 1}, 1) == doubles{0, 0});
}

TEST_CASE("store_host: one caller at a time, unless the store is concurrent") {
  store_host<sensitive_store> host({.rows = 2, .threads = threading::multiple});
  update const u = whole<double>({1, 1});
  std::atomic<bool> folding = true;
  {
    std::vector<std::jthread> threads;
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) fold(host, u, 1.0, i % 2 == 0 ? std::optional(1.0) : std::nullopt);
      folding = false;
    });
    threads.emplace_back([&] {
      table_state state;
      do {
        (void)read(host, {0, 1}, 1);
        host.snapshot(state, {});
        (void)host.chunk(0);
        (void)host.bytes();
      } while (folding);
    });
  }
  CHECK(host.store().overlaps == 0);
}

namespace {
/// Of the last row that it names there are no values.
struct map_that_forgets_values : plain_map {
  using plain_map::plain_map;
  void collect(std::vector<std::uint64_t>& keys, std::vector<double>& values) const {
    plain_map::collect(keys, values);
    if (!values.empty()) values.pop_back();
  }
};
}  // namespace

TEST_CASE("store_host: a store that names rows without values is an error, and nothing beyond them is read") {
  auto const host = make_host<map_that_forgets_values>({.rows = 0, .width = 2});
  update u{.whole = false, .rows = {7}, .values = {}};
  std::vector<double> const two{1, 2};
  u.values.append(std::as_bytes(std::span(two)));
  host->assign(u);
  table_state all;
  CHECK_THROWS_WITH(host->snapshot(all, {}), Catch::Contains("collect gave 1 values of 1 rows of 2"));
}
