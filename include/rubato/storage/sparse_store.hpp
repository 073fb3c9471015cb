// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <type_traits>
#include <vector>

#include "rubato/core/brief_mutex.hpp"
#include "rubato/core/large_pages.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/core/optional_mutex.hpp"
#include "rubato/core/prefetch.hpp"
#include "rubato/core/row_index.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato {

/// A hash of the rows that have been touched; every other row reads as zero and takes no memory.
///
/// Rows are spread over stripes, each with a lock of its own. Fold and read cost O(rows × width).
template <parameter T>
class sparse_store {
 public:
  using value_type = T;
  static constexpr bool bounded = false;
  static constexpr bool concurrent = true;

  explicit sparse_store(store_shape const& s) : width_(s.width), threads_(s.threads), hash_shift_(shift_of(s.threads)) {
    for (stripe& one : stripes_) one.lock.set(s.threads);
  }

  void assign(row_values<T> const& u) {
    for_each_row<true>(u.rows, [&](T* to, std::size_t i, auto width) {
      std::copy_n(u.values.data() + i * width, std::size_t{width}, to);
    });
  }

  void fold(std::span<weighted_update<T> const> step) {
    for (auto const& u : step)
      for_each_row<true>(u.rows, [&](T* to, std::size_t i, auto width) {
        detail::add_row(to, u.values.data() + i * width, width, u.weight);
      });
  }

  void read(std::span<std::uint64_t const> rows, T* out) const {
    for_each_row<false>(rows, [out](T const* from, std::size_t i, auto width) {
      if (from == nullptr) std::fill_n(out + i * width, std::size_t{width}, T{});
      else std::copy_n(from, std::size_t{width}, out + i * width);
    });
  }

  void collect(std::vector<std::uint64_t>& keys, std::vector<T>& values) const {
    for (stripe& s : stripes_) {
      std::lock_guard const guard(s.lock);
      std::size_t const first = keys.size();
      keys.resize(first + s.size());
      if (width_ == 1) {
        std::size_t next = first;
        values.resize(values.size() + s.size());
        T* value_of = values.data() + values.size() - s.size();
        s.ones.for_each([&](std::uint64_t row, T value) {
          keys[next++] = row;
          *value_of++ = value;
        });
      } else {
        s.slots.for_each([&](std::uint64_t row, std::size_t slot) { keys[first + slot] = row; });
        T const* const from = s.values.data();  // behind these may be one of a row for which there was no room
        values.insert(values.end(), from, from + s.size() * width_);
      }
    }
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t total = 0;
    for (stripe& s : stripes_) {
      std::lock_guard const guard(s.lock);
      total += s.ones.bytes() + s.slots.bytes() + s.values.capacity() * sizeof(T);
    }
    return total;
  }

 private:
  /// Begins a cache line: two workers would take each other's neighbors away.
  struct alignas(64) stripe {
    brief_mutex lock;
    // Rows of one element have it where they are found: elsewhere it would be memory of its own to wait for.
    detail::row_index<T> ones;
    detail::row_index<std::size_t> slots;  // of wider ones, where their values are
    std::vector<T, detail::array_allocator<T>> values;

    [[nodiscard]] std::size_t size() const noexcept { return ones.size() + slots.size(); }
  };
  static constexpr std::size_t no_slot = ~std::size_t{0};
  /// A row of a list.
  struct entry {
    std::uint64_t hash;
    std::size_t place;  ///< in the list
  };

  /// Few: each that another worker has had since is fetched from its core, for a part of a list's rows.
  static constexpr std::size_t stripes = 8;
  /// For one thread: their arrays are large enough for large pages earlier, and still grow in turn, not all at once.
  static constexpr std::size_t stripes_of_one_thread = 4;

  [[nodiscard]] static constexpr int shift_of(threading t) noexcept {
    return 64 - std::countr_zero(t == threading::single ? stripes_of_one_thread : stripes);
  }
  /// By the upper bits: the stripe's own table goes by the lower ones of the same hash.
  [[nodiscard]] std::size_t number_of_stripe(std::uint64_t hash) const noexcept { return hash >> hash_shift_; }
  [[nodiscard]] stripe& stripe_of(entry const& e) const noexcept { return stripes_[number_of_stripe(e.hash)]; }

  /// Calls `f(values, i, width)` for each row under its stripe's lock. One that has not been touched is made zero where
  /// this touches it; else its values are nullptr.
  template <bool Touch, class F>
  void for_each_row(std::span<std::uint64_t const> rows, F f) const {
    if (threads_ == threading::single) return for_each_in_order<Touch>(rows, f);
    constexpr std::size_t many = 4 * stripes;
    if (rows.size() >= many) return for_each_by_stripe<Touch>(rows, f);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      entry const e{detail::mix64(rows[i]), i};
      stripe& s = stripe_of(e);
      std::lock_guard const guard(s.lock);
      use<Touch>(rows, {&e, 1}, [&s](entry const&) -> stripe& { return s; }, f);
    }
  }

  template <bool Touch, class F>
  void for_each_in_order(std::span<std::uint64_t const> rows, F f) const {
    std::array<entry, rows_at_once> some;
    for (std::size_t i = 0; i < rows.size();) {
      std::size_t n = 0;
      for (; n < rows_at_once && i < rows.size(); ++n, ++i) some[n] = {detail::mix64(rows[i]), i};
      use<Touch>(rows, std::span<entry const>(some).first(n),
                 [this](entry const& e) -> stripe& { return stripe_of(e); }, f);
    }
  }

  /// Stripe by stripe: with a lock for each row, each would wait for the memory of the one before.
  template <bool Touch, class F>
  void for_each_by_stripe(std::span<std::uint64_t const> rows, F f) const {
    std::array<std::size_t, stripes + 1> ends{};
    for (std::uint64_t const row : rows) ++ends[number_of_stripe(detail::mix64(row)) + 1];
    for (std::size_t s = 0; s < stripes; ++s) ends[s + 1] += ends[s];
    auto const all = std::make_unique_for_overwrite<entry[]>(rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      std::uint64_t const hash = detail::mix64(rows[i]);
      all[ends[number_of_stripe(hash)]++] = {hash, i};
    }
    std::size_t at = 0;
    for (std::size_t i = 0; i < stripes; ++i) {
      if (at == ends[i]) continue;
      stripe& s = stripes_[i];
      std::lock_guard const guard(s.lock);
      for (std::size_t n = 0; at != ends[i]; at += n) {
        n = std::min(rows_at_once, ends[i] - at);
        use<Touch>(rows, {&all[at], n}, [&s](entry const&) -> stripe& { return s; }, f);
      }
    }
  }

  /// For a few rows of a list, under the locks: has all of them fetched before it waits for the first, and their values
  /// before it needs any. `of(entry)` is a row's stripe.
  template <bool Touch, class Of, class F>
  void use(std::span<std::uint64_t const> rows, std::span<entry const> some, Of of, F f) const {
    if (width_ == 1) {
      for (entry const& e : some) of(e).ones.expect(e.hash);
      for (entry const& e : some) f(one_of<Touch>(of(e), rows[e.place], e.hash), e.place, width_of_one);
      return;
    }
    std::array<std::size_t, rows_at_once> slots;
    for (entry const& e : some) of(e).slots.expect(e.hash);
    for (std::size_t k = 0; k < some.size(); ++k) {
      stripe& s = of(some[k]);
      slots[k] = slot_of<Touch>(s, rows[some[k].place], some[k].hash);
      if (slots[k] != no_slot) detail::prefetch(s.values.data() + slots[k] * width_, 0, sizeof(T));
    }
    for (std::size_t k = 0; k < some.size(); ++k) {
      T* const values = of(some[k]).values.data();
      f(slots[k] == no_slot ? nullptr : values + slots[k] * width_, some[k].place, width_);
    }
  }

  template <bool Touch>
  [[nodiscard]] static T* one_of(stripe& s, std::uint64_t row, std::uint64_t hash) {
    T* const known = s.ones.find(row, hash);
    return Touch && known == nullptr ? s.ones.add(row, hash, T{}) : known;
  }

  template <bool Touch>
  [[nodiscard]] std::size_t slot_of(stripe& s, std::uint64_t row, std::uint64_t hash) const {
    if (std::size_t const* const known = s.slots.find(row, hash)) return *known;
    if (!Touch) return no_slot;
    std::size_t const slot = s.slots.size();
    s.values.resize((slot + 1) * width_);  // first, as there may be no room
    return *s.slots.add(row, hash, slot);
  }

  static constexpr std::integral_constant<std::size_t, 1> width_of_one{};
  static constexpr std::size_t rows_at_once = 32;

  std::size_t width_;
  threading threads_;
  int hash_shift_;  ///< which leaves a stripe's number of a hash
  mutable std::array<stripe, stripes> stripes_;
};

static_assert(concurrent_store<sparse_store<float>>);

}  // namespace rubato
