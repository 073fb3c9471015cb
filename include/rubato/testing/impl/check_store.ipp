// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "rubato/core/random.hpp"
#include "rubato/storage/update.hpp"
#include "rubato/testing/check_store.hpp"

namespace rubato::testing::detail {

/// What a store should hold: sums, and by how much, times the tolerance, they may be off.
class expected_rows {
 public:
  expected_rows(std::uint64_t rows, std::size_t width)
      : width_(width),
        sums_(static_cast<std::size_t>(rows) * width),
        magnitudes_(sums_.size()),
        slack_(sums_.size()) {}

  void set(std::uint64_t row, std::size_t column, double x) {
    std::size_t const i = at(row, column);
    sums_[i] = x;
    magnitudes_[i] = slack_[i] = std::abs(x);
  }
  void add(std::uint64_t row, std::size_t column, double x) {
    std::size_t const i = at(row, column);
    sums_[i] += x;
    magnitudes_[i] += std::abs(x);
    slack_[i] += magnitudes_[i];
  }
  /// What comes of adding 1 to each of its elements n times, from 0.
  void set_ones(std::uint64_t row, double n) {
    for (std::size_t i = at(row, 0); i < at(row + 1, 0); ++i) {
      sums_[i] = magnitudes_[i] = n;
      slack_[i] = n * (n + 1) / 2;
    }
  }
  [[nodiscard]] double sum(std::uint64_t row, std::size_t column) const { return sums_[at(row, column)]; }
  [[nodiscard]] double slack(std::uint64_t row, std::size_t column) const { return slack_[at(row, column)]; }
  [[nodiscard]] bool touched(std::uint64_t row) const {
    auto const first = magnitudes_.begin() + static_cast<std::ptrdiff_t>(at(row, 0));
    return std::any_of(first, first + static_cast<std::ptrdiff_t>(width_), [](double m) { return m != 0; });
  }

 private:
  [[nodiscard]] std::size_t at(std::uint64_t row, std::size_t column) const {
    return static_cast<std::size_t>(row) * width_ + column;
  }
  std::size_t width_;
  std::vector<double> sums_;
  std::vector<double> magnitudes_;  // sums of absolute values
  std::vector<double> slack_;       // the same, summed over all additions
};

/// The check of one store whose elements are T.
template <parameter T>
class store_checker {
 public:
  store_checker(table_host& host, bool bounded, store_check const& how)
      : host_(host), bounded_(bounded), how_(how), random_(how.seed), truth_(how.rows, how.width) {}

  sentences run(bool concurrent) {
    compare("at first");
    set_some();
    compare("after rows have been set");
    found_.expect(host_.bytes() != 0, "bytes() is 0 for a store that holds rows");
    for (int i = 0; i < 12; ++i) {
      fold_several(1 + static_cast<std::size_t>(random_.below(3)));
      compare("after a fold");
    }
    fold_with_velocity();
    set_some();  // as between runs
    compare("after rows have been set again");
    if (bounded_) set_run();
    compare("after consecutive rows have been set");
    check_frozen();
    if (concurrent) check_threads();
    return found_.take();
  }

 private:
  /// Rows as keys: those of a store that is not bounded may be any numbers, up to half of all.
  [[nodiscard]] std::uint64_t key_of(std::uint64_t row) const { return bounded_ ? row : row * spacing_ + 17; }
  /// Of which sums are exact: eighths where there are such.
  [[nodiscard]] T small_number() {
    if (std::is_integral_v<T>) return static_cast<T>(static_cast<double>(random_.below(9)) - 4);
    return static_cast<T>((static_cast<double>(random_.below(65)) - 32) / 8);
  }
  [[nodiscard]] double weight() {
    constexpr std::array<double, 5> weights{1, 2, 3, -1, 0.5};
    return weights[random_.below(std::is_integral_v<T> ? 4 : weights.size())];
  }

  /// All rows, or some of them in any order.
  [[nodiscard]] update make_update() {
    update u;
    u.whole = bounded_ && random_.chance(0.3);
    if (u.whole) fill(u, how_.rows);
    else {
      for (std::uint64_t row = 0; row < how_.rows; ++row)
        if (random_.chance(0.1)) u.rows.push_back(key_of(row));
      if (random_.chance(0.5)) random_.shuffle(std::span(u.rows));
      fill(u, u.rows.size());
    }
    return u;
  }
  void fill(update& u, std::uint64_t rows) {
    u.values.resize_bytes(static_cast<std::size_t>(rows) * how_.width * sizeof(T));
    for (T& x : u.values.as<T>()) x = small_number();
  }

  /// Calls `f(row, column, value)` for each element.
  template <class F>
  void for_each(update const& u, F f) const {
    auto const values = u.values.as<T>();
    std::size_t const rows = values.size() / how_.width;
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t c = 0; c < how_.width; ++c)
        f(u.whole ? i : row_of(u.rows[i]), c, static_cast<double>(values[i * how_.width + c]));
  }
  [[nodiscard]] std::uint64_t row_of(std::uint64_t k) const { return bounded_ ? k : (k - 17) / spacing_; }

  void set_run() {
    std::uint64_t const first = how_.rows / 3;
    update u;
    fill(u, how_.rows - first);
    host_.assign_run(first, u.values.bytes());
    auto const values = u.values.as<T>();
    for (std::size_t i = 0; i < values.size(); ++i)
      truth_.set(first + i / how_.width, i % how_.width, static_cast<double>(values[i]));
  }

  void set_some() {
    update const u = make_update();
    host_.assign(u);
    for_each(u, [&](auto row, auto c, double x) { truth_.set(row, c, x); });
  }

  void fold_several(std::size_t count) {
    std::vector<update> updates;
    for (std::size_t i = 0; i < count; ++i) updates.push_back(make_update());
    std::vector<weighted_part> step;
    for (update const& u : updates) {
      step.push_back({&u, weight()});
      for_each(u, [&](auto row, auto c, double x) { truth_.add(row, c, step.back().weight * x); });
    }
    host_.fold(step, std::nullopt);
    if (bounded_) fold_run();
  }

  void fold_run() {
    std::uint64_t const first = random_.below(how_.rows);
    std::uint64_t const count = 1 + random_.below(how_.rows - first);
    update u;
    fill(u, count);
    host_.fold_run(first, u.values.bytes(), 2);
    auto const values = u.values.as<T>();
    for (std::size_t i = 0; i < values.size(); ++i)
      truth_.add(first + i / how_.width, i % how_.width, 2 * static_cast<double>(values[i]));
  }

  /// v ← decay·v + u, rows ← rows + v: with an exact decay, and twice, so that the first step comes again.
  void fold_with_velocity() {
    if (std::is_integral_v<T>) return;
    update const u = make_update();
    weighted_part const one{&u, 1};
    host_.fold({&one, 1}, 0.5);
    for_each(u, [&](auto row, auto c, double x) { truth_.add(row, c, x); });
    update const none{};
    weighted_part const nothing{&none, 1};
    host_.fold({&nothing, 1}, 0.5);
    for_each(u, [&](auto row, auto c, double x) { truth_.add(row, c, 0.5 * x); });
    compare("after two steps of a velocity");
  }

  void expect_row(std::uint64_t row, T const* got, expected_rows const& truth, char const* how,
                  char const* when) {
    for (std::size_t c = 0; c < how_.width; ++c) {
      double const off = std::abs(static_cast<double>(got[c]) - truth.sum(row, c));
      found_.expect(off <= how_.tolerance * truth.slack(row, c), when, ", ", how, ": element ", c,
                    " of row ", row, " is ", got[c], ", expected ", truth.sum(row, c), " +- ",
                    how_.tolerance * truth.slack(row, c));
    }
  }

  void compare(char const* when) {
    read_some(when);
    table_state all;
    host_.snapshot(all, {});
    compare_state(all, truth_, when);
    if (bounded_) compare_chunks(when);
  }

  /// Rows in the order in which they are asked for, some of them twice.
  void read_some(char const* when) {
    std::vector<std::uint64_t> rows;
    for (int i = 0; i < 40; ++i) rows.push_back(random_.below(how_.rows));
    rows.push_back(rows.front());
    std::vector<std::uint64_t> keys;
    for (std::uint64_t const row : rows) keys.push_back(key_of(row));
    std::vector<T> got(rows.size() * how_.width);
    host_.read(keys, reinterpret_cast<std::byte*>(got.data()), {});
    for (std::size_t i = 0; i < rows.size(); ++i)
      expect_row(rows[i], got.data() + i * how_.width, truth_, "read by row", when);
  }

  void compare_state(table_state const& state, expected_rows const& truth, char const* when) {
    std::size_t const row_bytes = how_.width * sizeof(T);
    if (!bounded_) return compare_touched(state, truth, when);
    std::size_t const expected = static_cast<std::size_t>(how_.rows) * row_bytes;
    found_.expect(state.bytes() == expected, when, ", read as a whole: ", state.bytes(),
                  " bytes, expected ", expected);
    if (state.bytes() != expected || !has_whole_chunks(state, when)) return;
    std::vector<T> row(how_.width);
    for (std::uint64_t i = 0; i < how_.rows; ++i) {
      state.copy(static_cast<std::size_t>(i) * row_bytes, row_bytes, reinterpret_cast<std::byte*>(row.data()));
      expect_row(i, row.data(), truth, "read as a whole", when);
    }
  }

  /// Who reads a state computes where a row is: by chunks of one size.
  [[nodiscard]] bool has_whole_chunks(table_state const& state, char const* when) {
    std::size_t left = state.bytes();
    for (std::size_t i = 0; i < state.chunks(); ++i) {
      std::size_t const expected = std::min(left, table_state::chunk_bytes(how_.width * sizeof(T)));
      std::size_t const got = state.chunk(i).size_bytes();
      if (!found_.expect(got == expected, when, ": chunk ", i, " has ", got, " bytes, expected ", expected))
        return false;
      left -= got;
    }
    return true;
  }

  void compare_touched(table_state const& state, expected_rows const& truth, char const* when) {
    auto const keys = state.keys();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      bool const known = keys[i] >= 17 && (keys[i] - 17) % spacing_ == 0 && row_of(keys[i]) < how_.rows;
      found_.expect(known && (i == 0 || keys[i - 1] < keys[i]), when, ", read as a whole: key ", keys[i],
                    ", which has not been touched or comes twice");
      if (known)
        expect_row(row_of(keys[i]), reinterpret_cast<T const*>(state.row_values()) + i * how_.width, truth,
                   "read as a whole", when);
    }
    for (std::uint64_t row = 0; row < how_.rows; ++row)
      found_.expect(!truth.touched(row) || std::ranges::binary_search(keys, key_of(row)), when,
                    ", read as a whole: row ", row, " is missing");
  }

  void compare_chunks(char const* when) {
    std::uint64_t row = 0;
    std::size_t const row_bytes = how_.width * sizeof(T);
    for (std::size_t i = 0; i < host_.chunks(); ++i) {
      block_ref const c = host_.chunk(i);
      found_.expect(c.size_bytes() % row_bytes == 0, "chunk ", i, " has ", c.size_bytes(),
                    " bytes, which are no whole rows");
      for (std::size_t at = 0; at + row_bytes <= c.size_bytes() && row < how_.rows; at += row_bytes)
        expect_row(row++, reinterpret_cast<T const*>(c.data() + at), truth_, "read by chunk", when);
    }
    found_.expect(row == how_.rows, "all chunks together have ", row, " rows, expected ", how_.rows);
  }

  void check_frozen() {
    table_state before;
    host_.snapshot(before, {});
    expected_rows const then = truth_;
    for (int i = 0; i < 3; ++i) fold_several(2);
    compare_state(before, then, "of a state read before a fold");
    compare("after a fold while a state was held");
  }

  static constexpr std::size_t folders = 3;
  static constexpr int fewest_rounds = 20;
  static constexpr int most_rounds = 20'000;  // all together are below 2^24, up to which floats count

  /// Several threads add 1 to each element of all rows, and each to rows of its own, over and over; this one looks.
  void check_threads() {
    host_.assign(rows_of(0, 1, T{0}));
    std::array<std::atomic<int>, folders> rounds{};
    std::atomic<bool> over = false;
    {
      std::array<std::jthread, folders> threads;
      for (std::size_t i = 0; i < folders; ++i)
        threads[i] = std::jthread([&, i] { fold_over_and_over(i, rounds[i], over); });
      look_for_torn_rows(rounds);
      over = true;
    }
    for (std::uint64_t row = 0; row < how_.rows; ++row) {
      int sum = rounds[row % folders];
      for (int const n : rounds) sum += n;
      truth_.set_ones(row, sum);
    }
    compare("after several threads have folded side by side");
  }

  void fold_over_and_over(std::size_t i, std::atomic<int>& rounds, std::atomic<bool> const& over) {
    update const all = rows_of(0, 1, T{1});
    update const own = rows_of(i, folders, T{1});
    while (!over && rounds < most_rounds) {
      for (update const* u : {&all, &own}) {
        weighted_part const one{u, 1};
        host_.fold({&one, 1}, std::nullopt);
      }
      ++rounds;
    }
  }

  /// Each element of every so-manieth row is x; all rows of a bounded store are not listed.
  [[nodiscard]] update rows_of(std::uint64_t first, std::uint64_t every, T x) const {
    update u;
    u.whole = bounded_ && every == 1;
    std::uint64_t rows = 0;
    for (std::uint64_t row = first; row < how_.rows; row += every, ++rows)
      if (!u.whole) u.rows.push_back(key_of(row));
    u.values.resize_bytes(static_cast<std::size_t>(rows) * how_.width * sizeof(T));
    std::ranges::fill(u.values.template as<T>(), x);
    return u;
  }

  /// For so long that threads meet within the store, also where they share one core and take turns.
  void look_for_torn_rows(std::array<std::atomic<int>, folders> const& rounds) {
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds(50);
    auto const few = [](int n) { return n < fewest_rounds; };
    do {
      look_at_some();
      look_at_all();
    } while (std::chrono::steady_clock::now() < until || std::ranges::any_of(rounds, few));
  }

  void look_at_some() {
    std::vector<std::uint64_t> keys;
    for (int i = 0; i < 40; ++i) keys.push_back(key_of(random_.below(how_.rows)));
    std::vector<T> got(keys.size() * how_.width);
    host_.read(keys, reinterpret_cast<std::byte*>(got.data()), {});
    expect_whole_rows(got);
  }

  void look_at_all() {
    table_state all;
    host_.snapshot(all, {});
    if (bounded_) {
      std::vector<T> got(all.bytes() / sizeof(T));
      all.copy(0, got.size() * sizeof(T), reinterpret_cast<std::byte*>(got.data()));
      expect_whole_rows(got);
    } else {
      expect_whole_rows({reinterpret_cast<T const*>(all.row_values()), all.keys().size() * how_.width});
    }
  }

  void expect_whole_rows(std::span<T const> got) {
    for (; got.size() >= how_.width; got = got.subspan(how_.width))
      found_.expect(std::ranges::all_of(got.first(how_.width), [&](T x) { return x == got.front(); }),
                    "a row mixes two states, although the store says that it is concurrent");
  }

  table_host& host_;
  bool bounded_;
  store_check how_;
  random_stream random_;
  std::uint64_t spacing_ = ((std::uint64_t{1} << 63) - 100) / how_.rows;  ///< of keys
  expected_rows truth_;
  findings found_;
};

sentences check_host(table_host& host, element_type element, bool bounded, bool concurrent,
                     store_check const& how) {
  return with_element(element, [&]<class T>() {
    return store_checker<T>(host, bounded, how).run(concurrent);
  });
}

}  // namespace rubato::testing::detail
