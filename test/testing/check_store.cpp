// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/testing/check_store.hpp>
//
#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <rubato/storage/dense_store.hpp>
#include <rubato/storage/sparse_store.hpp>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "testing/says.hpp"

using namespace rubato;
using test::says;
using testing::sentences;

namespace {

/// Plain rows in an array: all that a bounded store must be. Each test bends one thing of it.
struct plain {
  using value_type = float;
  static constexpr bool bounded = true;

  explicit plain(store_shape const& shape)
      : width(shape.width), values(static_cast<std::size_t>(shape.rows) * shape.width) {}

  template <class F>
  void for_each(row_values<float> const& u, F f) {
    std::size_t const count = u.values.size() / width;
    for (std::size_t i = 0; i < count; ++i) {
      std::uint64_t const row = u.keyed ? u.rows[i] : u.first + i;
      for (std::size_t c = 0; c < width; ++c)
        f(values[static_cast<std::size_t>(row) * width + c], u.values[i * width + c]);
    }
  }
  void assign(row_values<float> const& u) {
    for_each(u, [](float& to, float x) { to = x; });
  }
  void fold(std::span<weighted_update<float> const> step) {
    for (auto const& u : step)
      for_each(u, [&](float& to, float x) { to += static_cast<float>(u.weight) * x; });
  }
  void read(std::span<std::uint64_t const> rows, float* out) const {
    for (std::uint64_t const row : rows) copy(row, 1, out), out += width;
  }
  void copy(std::uint64_t first, std::uint64_t count, float* out) const {
    std::copy_n(values.data() + static_cast<std::size_t>(first) * width,
                static_cast<std::size_t>(count) * width, out);
  }
  [[nodiscard]] std::size_t bytes() const { return values.size() * sizeof(float); }

  std::size_t width;
  std::vector<float> values;
};

struct without_weights : plain {
  using plain::plain;
  void fold(std::span<weighted_update<float> const> step) {
    for (auto const& u : step) for_each(u, [](float& to, float x) { to += x; });
  }
};

struct with_one_update_a_step : plain {
  using plain::plain;
  void fold(std::span<weighted_update<float> const> step) { plain::fold(step.first(1)); }
};

struct that_adds_where_it_should_set : plain {
  using plain::plain;
  void assign(row_values<float> const& u) {
    for_each(u, [](float& to, float x) { to += x + 1; });
  }
};

struct that_sets_from_the_first_row_on : plain {
  using plain::plain;
  void assign(row_values<float> const& u) {
    row_values<float> from_first = u;
    from_first.first = 0;
    plain::assign(from_first);
  }
};

struct that_is_set_once : plain {
  using plain::plain;
  void assign(row_values<float> const& u) {
    if (!folded) plain::assign(u);
  }
  void fold(std::span<weighted_update<float> const> step) {
    folded = true;
    plain::fold(step);
  }
  bool folded = false;
};

struct of_whole_weights : plain {
  using plain::plain;
  void fold(std::span<weighted_update<float> const> step) {
    for (auto const& u : step)
      for_each(u, [&](float& to, float x) { to += static_cast<float>(static_cast<int>(u.weight)) * x; });
  }
};

struct of_whole_numbers : plain {
  using plain::plain;
  void fold(std::span<weighted_update<float> const> step) {
    plain::fold(step);
    for (float& x : values) x = std::round(x);
  }
};

struct that_cuts_keys : sparse_store<double> {
  using sparse_store::sparse_store;
  void fold(std::span<weighted_update<double> const> step) {
    for (weighted_update<double> u : step) {
      std::vector<std::uint64_t> cut(u.rows.begin(), u.rows.end());
      for (std::uint64_t& key : cut) key &= (std::uint64_t{1} << 40) - 1;
      u.rows = cut;
      sparse_store::fold(std::span<weighted_update<double> const>(&u, 1));
    }
  }
};

struct that_reads_in_order_of_rows : plain {
  using plain::plain;
  void read(std::span<std::uint64_t const> rows, float* out) const {
    std::vector<std::uint64_t> sorted(rows.begin(), rows.end());
    std::ranges::sort(sorted);
    plain::read(sorted, out);
  }
};

struct without_bytes : plain {
  using plain::plain;
  [[nodiscard]] std::size_t bytes() const { return 0; }
};

/// Keeps sums to three digits or so.
struct that_rounds : plain {
  using plain::plain;
  void fold(std::span<weighted_update<float> const> step) {
    plain::fold(step);
    for (float& x : values) {
      int exponent = 0;
      float const m = std::frexp(x, &exponent);
      x = std::ldexp(std::round(m * 16) / 16, exponent);
    }
  }
};

/// Gives its only chunk out and goes on writing into it.
struct that_thaws : plain {
  explicit that_thaws(store_shape const& shape) : plain(shape), block(bytes()) { show(); }
  void assign(row_values<float> const& u) { plain::assign(u), show(); }
  void fold(std::span<weighted_update<float> const> step) { plain::fold(step), show(); }
  [[nodiscard]] std::size_t chunks() const { return 1; }
  [[nodiscard]] block_ref chunk(std::size_t) const { return block; }
  void show() {
    auto* const to = const_cast<float*>(block.as<float>());
    std::ranges::copy(values, to);
  }
  block_ref block;
};

/// Gives out chunks of ten rows, whatever size readers go by.
struct that_shares_small_chunks : plain {
  explicit that_shares_small_chunks(store_shape const& shape) : plain(shape), width_(shape.width) {}
  [[nodiscard]] std::size_t chunks() const { return (values.size() / width_ + 9) / 10; }
  [[nodiscard]] block_ref chunk(std::size_t i) const {
    std::size_t const first = i * 10 * width_;
    std::size_t const count = std::min(values.size() - first, 10 * width_);
    block_ref made(count * sizeof(float));
    std::copy_n(values.data() + first, count, made.mutable_as<float>());
    return made;
  }

 private:
  std::size_t width_;
};

/// Says that it does with several threads, and lets readers see half a row.
struct that_tears {
  using value_type = float;
  static constexpr bool bounded = true;
  static constexpr bool concurrent = true;

  explicit that_tears(store_shape const& shape)
      : width(shape.width),
        size(static_cast<std::size_t>(shape.rows) * shape.width),
        values(std::make_unique<std::atomic<float>[]>(size)) {}
  void write(row_values<float> const& u, float keep, float weight) {
    for (std::size_t i = 0; i < u.values.size(); ++i) {
      std::uint64_t const row = u.keyed ? u.rows[i / width] : u.first + i / width;
      auto& to = values[static_cast<std::size_t>(row) * width + i % width];
      to = keep * to + weight * u.values[i];
      if (i % (97 * width) == 0) std::this_thread::yield();
    }
  }
  void assign(row_values<float> const& u) { write(u, 0, 1); }
  void fold(std::span<weighted_update<float> const> step) {
    for (auto const& u : step) write(u, 1, static_cast<float>(u.weight));
  }
  void read(std::span<std::uint64_t const> rows, float* out) const {
    for (std::uint64_t const row : rows) copy(row, 1, out), out += width;
  }
  void copy(std::uint64_t first, std::uint64_t count, float* out) const {
    for (std::size_t i = 0; i < static_cast<std::size_t>(count) * width; ++i)
      out[i] = values[static_cast<std::size_t>(first) * width + i];
  }
  [[nodiscard]] std::size_t bytes() const { return size * sizeof(float); }

  std::size_t width;
  std::size_t size;
  std::unique_ptr<std::atomic<float>[]> values;
};

/// Of the rows that have been touched it names all but the first.
struct that_forgets_a_row : sparse_store<double> {
  using sparse_store::sparse_store;
  void collect(std::vector<std::uint64_t>& keys, std::vector<double>& values) const {
    std::size_t const width = 7;
    sparse_store::collect(keys, values);
    if (keys.empty()) return;
    keys.pop_back();
    values.resize(values.size() - width);
  }
};

/// Does with several threads, by a lock. Tests bend what it does when two of them meet.
struct behind_a_lock : plain {
  static constexpr bool concurrent = true;
  explicit behind_a_lock(store_shape const& shape) : plain(shape), width_(shape.width) {}

  void fold(std::span<weighted_update<float> const> step) {
    std::lock_guard const guard(lock);
    plain::fold(step);
  }
  void read(std::span<std::uint64_t const> rows, float* out) const {
    for (std::uint64_t const row : rows) copy(row, 1, out), out += width_;
  }
  void copy(std::uint64_t first, std::uint64_t count, float* out) const {
    ++readers;
    {
      std::lock_guard const guard(lock);
      plain::copy(first, count, out);
    }
    --readers;
  }

  mutable std::mutex lock;
  mutable std::atomic<int> readers = 0;

 private:
  std::size_t width_;
};

struct that_drops_a_fold_beside_a_fold : behind_a_lock {
  using behind_a_lock::behind_a_lock;
  void fold(std::span<weighted_update<float> const> step) {
    if (folding.exchange(true)) return;
    behind_a_lock::fold(step);
    folding = false;
  }
  std::atomic<bool> folding = false;
};

struct that_drops_a_fold_beside_a_read : behind_a_lock {
  using behind_a_lock::behind_a_lock;
  void fold(std::span<weighted_update<float> const> step) {
    if (readers == 0) behind_a_lock::fold(step);
  }
};

static_assert(table_store<plain> && !concurrent_store<plain> && !sharing_store<plain>);
static_assert(sharing_store<that_thaws> && concurrent_store<that_tears>);

}  // namespace

TEST_CASE("check_store accepts what is shipped", "[testing]") {
  CHECK(testing::check_store<dense_store<float>>() == sentences{});
  CHECK(testing::check_store<dense_store<std::int32_t>>({.rows = 40, .width = 3}) == sentences{});
  CHECK(testing::check_store<sparse_store<double>>({.rows = 400, .width = 2}) == sentences{});
  CHECK(testing::check_store<sparse_store<std::int64_t>>({.rows = 40, .width = 1}) == sentences{});
  CHECK(testing::check_store<plain>() == sentences{});
}

TEST_CASE("check_store catches each broken promise", "[testing]") {
  testing::store_check const small{.rows = 60, .width = 3};
  CHECK(says(testing::check_store<without_weights>(small), "after a fold"));
  CHECK(says(testing::check_store<with_one_update_a_step>(small), "after a fold"));
  CHECK(says(testing::check_store<that_adds_where_it_should_set>(small), "after rows have been set"));
  CHECK(says(testing::check_store<that_reads_in_order_of_rows>(small), "read by row"));
  CHECK(says(testing::check_store<that_sets_from_the_first_row_on>(small), "after consecutive rows have been set"));
  CHECK(says(testing::check_store<that_is_set_once>(small), "after rows have been set again"));
  CHECK(says(testing::check_store<of_whole_weights>(small), "after a fold"));
  CHECK(says(testing::check_store<of_whole_numbers>(small), "after a fold"));
  CHECK(says(testing::check_store<that_cuts_keys>(small), "read by row"));
  CHECK(says(testing::check_store<without_bytes>(small), "bytes() is 0"));
  CHECK(says(testing::check_store<that_thaws>(small), "read before a fold"));
  CHECK(says(testing::check_store<that_shares_small_chunks>(small), "chunk 0 has 120 bytes, expected 720"));
  CHECK(says(testing::check_store<that_forgets_a_row>({.rows = 60, .width = 7}), "is missing"));
}

TEST_CASE("check_store allows a store to round by as much as it says", "[testing]") {
  testing::store_check how{.rows = 60, .width = 3};
  CHECK(says(testing::check_store<that_rounds>(how), "after a fold"));
  how.tolerance = 1.0 / 8;
  CHECK(testing::check_store<that_rounds>(how) == sentences{});
}

TEST_CASE("check_store sees rows that mix two states", "[testing][threads]") {
  CHECK(says(testing::check_store<that_tears>({.rows = 2000, .width = 5}), "mixes two states"));
}

TEST_CASE("check_store sees folds that are lost among threads", "[testing][threads]") {
  for (testing::store_check const how : {testing::store_check{}, {.rows = 60, .width = 3}}) {
    CHECK(testing::check_store<behind_a_lock>(how) == sentences{});
    CHECK(says(testing::check_store<that_drops_a_fold_beside_a_fold>(how), "folded side by side"));
    CHECK(says(testing::check_store<that_drops_a_fold_beside_a_read>(how), "folded side by side"));
  }
}
