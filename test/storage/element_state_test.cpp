// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/storage/element_state.hpp>

#include <catch2/catch.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/storage/dense_store.hpp>
#include <rubato/storage/ordered_store.hpp>
#include <rubato/storage/paged_store.hpp>
#include <rubato/storage/sparse_store.hpp>
#include <rubato/storage/store_host.hpp>

#include "storage/updates.hpp"

using namespace rubato;
using test::keyed;
using test::whole;

namespace {

/// Reads all that there is to read, and keeps two values that begin at 1 and 2.
template <bool Lazy, worker_copy Copy = worker_copy::none>
struct mixes {
  static constexpr std::size_t slots = 2;
  static constexpr bool lazy = Lazy;
  static constexpr worker_copy copy = Copy;
  [[nodiscard]] double weight(commit_info const&) const noexcept { return 1; }
  [[nodiscard]] double initial(std::size_t slot) const noexcept { return slot == 0 ? 1 : 2; }
  template <std::floating_point T, class... Kept>
  [[nodiscard]] T step(fold_step at, T w, T d, Kept&... kept) const noexcept {
    T const change = d + (... + kept) * T(0.125) - w * T(0.25) + T(at.number % 3) * T(at.workers);
    ((kept = kept * T(0.5) + d), ...);
    return change;
  }
};
static_assert(element_merge<mixes<true>> && element_merge<mixes<false, worker_copy::as_read>>);

/// Counts each worker's steps in its copy.
struct counts_steps {
  static constexpr std::size_t slots = 1;
  static constexpr worker_copy copy = worker_copy::elastic;
  [[nodiscard]] double weight(commit_info const&) const noexcept { return 1; }
  template <std::floating_point T>
  [[nodiscard]] T step(fold_step, T, T d, T& mine, T& sum) const noexcept {
    mine += 1;
    sum += d;
    return d;
  }
};

/// What `mixes` does, row by row and one element at a time.
template <class Merge, class T>
struct by_rows {
  struct row {
    std::vector<T> w, copy;
    std::vector<std::vector<T>> slots;
  };
  std::uint64_t bounded_rows;  // 0: not bounded
  std::size_t width;
  std::map<std::uint64_t, row> rows = {};
  std::int64_t number = 0;

  row& at(std::uint64_t k) {
    auto const [place, fresh] = rows.try_emplace(k);
    std::vector<T> const zeros(width);
    if (fresh) place->second = {zeros, zeros, {std::vector<T>(width, T(1)), std::vector<T>(width, T(2))}};
    return place->second;
  }
  void step(std::vector<std::pair<update, double>> const& updates, std::uint32_t workers) {
    std::map<std::uint64_t, std::vector<T>> d;
    std::set<std::uint64_t> moved;
    bool all = !Merge::lazy;
    for (auto const& [u, weight] : updates) {
      auto const v = u.template as<T>();
      all = all || !v.keyed;
      std::size_t const n = v.values.size() / width;
      for (std::size_t i = 0; i < n; ++i) {
        std::uint64_t const k = v.keyed ? v.rows[i] : i;
        auto& sum = d.try_emplace(k, width).first->second;
        for (std::size_t x = 0; x < width; ++x) sum[x] += static_cast<T>(weight) * v.values[i * width + x];
        moved.insert(k);
      }
    }
    if (all && bounded_rows != 0)
      for (std::uint64_t k = 0; k < bounded_rows; ++k) moved.insert(k);
    else if (all)
      for (auto const& [k, r] : rows) moved.insert(k);
    for (std::uint64_t const k : moved) {
      row& r = at(k);
      for (std::size_t x = 0; x < width; ++x) {
        T const by = d.contains(k) ? d[k][x] : T(0);
        fold_step const now{.number = number, .workers = workers};
        if constexpr (Merge::copy != worker_copy::none)
          r.w[x] += Merge{}.step(now, T(r.w[x]), T(by), r.copy[x], r.slots[0][x], r.slots[1][x]);
        else
          r.w[x] += Merge{}.step(now, T(r.w[x]), T(by), r.slots[0][x], r.slots[1][x]);
      }
    }
    ++number;
  }
};

template <class Store, class Merge>
void compare(store_shape const& shape) {
  using T = typename Store::value_type;
  merge_rule const rule = Merge{};
  auto const host = make_host<Store>(shape);
  by_rows<Merge, T> expected{Store::bounded ? shape.rows : 0, shape.width};
  random_stream random(7);
  std::uint64_t const keys = Store::bounded ? shape.rows : 1000;
  auto const draw = [&](std::size_t n) {
    std::vector<T> values(n);
    for (T& x : values) x = static_cast<T>(static_cast<double>(random.below(64)) / 8 - 4);
    return values;
  };
  for (int t = 0; t < 30; ++t) {
    std::vector<std::pair<update, double>> updates;
    for (std::uint64_t u = random.below(4); u > 0; --u) {
      double const weight = random.chance(0.5) ? 1 : 0.5;
      if (Store::bounded && random.chance(0.3)) {
        updates.emplace_back(whole(draw(static_cast<std::size_t>(shape.rows) * shape.width)), weight);
        continue;
      }
      std::set<std::uint64_t> rows;
      for (std::uint64_t n = random.below(20); n > 0; --n) rows.insert(random.below(keys));
      std::vector<std::uint64_t> list(rows.rbegin(), rows.rend());
      updates.emplace_back(keyed(list, draw(list.size() * shape.width)), weight);
    }
    std::vector<weighted_part> parts;
    for (auto const& [u, weight] : updates) parts.push_back({&u, weight});
    auto const workers = static_cast<std::uint32_t>(t % 4 + 1);
    host->step(parts, {rule.elements(), worker_id{0}, workers});
    expected.step(updates, workers);
    std::vector<std::uint64_t> all;
    std::vector<T> want;
    for (auto const& [k, r] : expected.rows) {
      all.push_back(k);
      want.insert(want.end(), r.w.begin(), r.w.end());
    }
    std::vector<T> got(want.size());
    host->read(all, reinterpret_cast<std::byte*>(got.data()), {});
    REQUIRE(got == want);
  }
}

}  // namespace

TEST_CASE("element_state: steps of dense, paged, ordered and sparse tables are those of each row by itself",
          "[unthreaded]") {
  std::uint64_t const chunk = table_state::chunk_bytes(sizeof(double)) / sizeof(double);
  compare<dense_store<double>, mixes<false>>({.rows = chunk + 5});
  compare<dense_store<float>, mixes<true>>({.rows = 40, .width = 3});
  compare<dense_store<double>, mixes<true, worker_copy::elastic>>({.rows = 40, .width = 3});
  compare<dense_store<double>, mixes<false, worker_copy::as_read>>({.rows = 40});
  compare<paged_store<float>, mixes<false>>({.rows = 60, .width = 2});
  compare<paged_store<double>, mixes<true>>({.rows = 60, .width = 2});
  compare<sparse_store<double>, mixes<false>>({.width = 2});
  compare<sparse_store<float>, mixes<true>>({.width = 1});
  compare<ordered_store<double>, mixes<true>>({.width = 4});
}

TEST_CASE("element_state: a step's updates are added in their order, also where some list their rows") {
  merge_rule const rule = mixes<false>{};
  std::size_t const rows = table_state::chunk_bytes(sizeof(float)) / sizeof(float) + 2;
  auto const made_of = [&](bool listed) {
    auto const host = make_host<dense_store<float>>({.rows = rows});
    std::vector<float> const much(rows, 3e8F), less(rows, -3e8F), some(rows, 3);
    std::vector<std::uint64_t> keys;  // in no order
    for (std::uint64_t i = 0; i < rows; ++i) keys.push_back((i * 5 + 1) % rows);
    REQUIRE(rows % 5 != 0);
    std::vector<update> const all = {whole(much), whole(less), listed ? keyed(keys, some) : whole(some)};
    std::vector<weighted_part> parts;
    for (update const& u : all) parts.push_back({&u, 1});
    host->step(parts, {rule.elements(), worker_id{0}, 3});
    std::vector<std::uint64_t> every(rows);
    std::iota(every.begin(), every.end(), std::uint64_t{0});
    std::vector<float> w(rows);
    host->read(every, reinterpret_cast<std::byte*>(w.data()), {});
    return w;
  };
  std::vector<float> const w = made_of(true);
  CHECK((w == made_of(false)));
  CHECK((w == std::vector<float>(rows, 3 + 3 * 0.125F)));
}

TEST_CASE("element_state: a server without rows has nothing to move, and one that is read still has none") {
  merge_rule const rule = mixes<false, worker_copy::elastic>{};
  auto const host = make_host<dense_store<float>>({.rows = 0, .width = 4});
  update const none;
  weighted_part const part{&none, 1.0};
  host->step({&part, 1}, {rule.elements(), worker_id{3}, 1});
  table_state out;
  host->snapshot(out, {.own = own_copy{worker_id{3}, rule.elements()}});
  CHECK(out.bytes() == 0);
}

TEST_CASE("element_state: another type of merge begins anew, and so does a table that is cleared") {
  auto const host = make_host<dense_store<double>>({.rows = 1});
  update const one = whole<double>({1});
  weighted_part const part{&one, 1.0};
  merge_rule const lazy = mixes<true>{}, other = mixes<false>{};
  auto const stepped = [&](merge_rule const& rule) {
    std::uint64_t const row = 0;
    double before = 0, after = 0;
    host->read({&row, 1}, reinterpret_cast<std::byte*>(&before), {});
    host->step({&part, 1}, {rule.elements(), worker_id{0}, 1});
    host->read({&row, 1}, reinterpret_cast<std::byte*>(&after), {});
    return after - before + 0.25 * before;
  };
  double const fresh = 1 + 3 * 0.125, second = 1 + (1.5 + 2) * 0.125 + 1;
  CHECK(stepped(lazy) == fresh);
  CHECK(stepped(lazy) == second);
  CHECK(stepped(other) == fresh);
  CHECK(stepped(lazy) == fresh);
  host->clear();
  CHECK(stepped(lazy) == fresh);
  std::size_t const with_slots = host->bytes();
  host->clear();
  CHECK(host->bytes() < with_slots);
}

TEST_CASE("element_state: steps, reads and copies of several threads are one after the other", "[threads]") {
  merge_rule const rule{counts_steps{}};
  constexpr std::uint32_t threads = 3;
  constexpr int steps = 200;
  auto const host = make_host<dense_store<double>>({.rows = 100, .threads = threading::multiple});
  std::vector<std::thread> all;
  for (std::uint32_t w = 0; w < threads; ++w)
    all.emplace_back([&, w] {
      update const u = whole(std::vector<double>(100, 1.0));
      weighted_part const part{&u, 1.0};
      own_copy const own{worker_id{w}, rule.elements()};
      table_state state;
      std::uint64_t const row = 7;
      double seen = 0;
      host->snapshot(state, {.own = own});
      double const begin = test::elements_of<double>(state, 7, 1)[0];
      for (int n = 0; n < steps; ++n) {
        host->step({&part, 1}, {rule.elements(), worker_id{w}, threads});
        if (n % 2 == 0) host->read({&row, 1}, reinterpret_cast<std::byte*>(&seen), {.own = own});
        if (n % 50 == 0) host->snapshot(state, {});
        (void)host->bytes();
      }
      host->snapshot(state, {.own = own});
      if (test::elements_of<double>(state, 7, 1)[0] != begin + steps) std::terminate();
    });
  for (auto& t : all) t.join();
  std::uint64_t const row = 99;
  double sum = 0;
  host->read({&row, 1}, reinterpret_cast<std::byte*>(&sum), {});
  CHECK(sum == threads * steps);
}
