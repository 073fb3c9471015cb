// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "rubato/core/assert.hpp"
#include "rubato/core/prefetch.hpp"
#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/block.hpp"
#include "rubato/storage/chunk_locks.hpp"
#include "rubato/storage/chunk_region.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/stored_chunk.hpp"
#include "rubato/storage/table_state.hpp"
#include "rubato/storage/writable_chunk.hpp"

namespace rubato {

/// Contiguous rows in chunks of about 64 KiB, each with a lock of its own; the chunks of a large table share 8 to 16,
/// so that a thousand rows from all over it take few.
///
/// A reader takes references to the chunks and copies without any lock; a fold writes in place
/// where nobody refers to a chunk, and into a new one otherwise. Memory is one set of parameters,
/// plus one for each older state that somebody still holds. Chunks of a large table lie side by side, in large pages
/// where the system has them.
template <parameter T>
class dense_store {
 public:
  using value_type = T;
  static constexpr bool bounded = true;
  static constexpr bool concurrent = true;

  explicit dense_store(store_shape const& s)
      : width_(s.width),
        elements_(static_cast<std::size_t>(s.rows) * s.width),
        chunk_size_(table_state::chunk_bytes(s.width * sizeof(T)) / sizeof(T)),
        chunk_shift_(std::has_single_bit(chunk_size_) ? std::countr_zero(chunk_size_) : 0),
        chunk_count_((elements_ + chunk_size_ - 1) / chunk_size_),
        region_(s.memory == nullptr ? detail::chunk_region::make(chunk_count_, chunk_size_ * sizeof(T)) : nullptr),
        memory_(s.memory == nullptr ? region_.get() : s.memory),
        chunks_(std::make_unique<stored[]>(chunk_count_)),
        locks_(chunk_count_, s.threads) {
    for (std::size_t i = 0; i < chunk_count_; ++i) {
      std::size_t const n = std::min(chunk_size_, elements_ - i * chunk_size_);
      block_ref values(n * sizeof(T), memory_);
      std::fill_n(values.mutable_as<T>(), n, T{});
      chunks_[i].values = std::move(values);
      chunks_[i].note_values();
    }
  }

  void assign(row_values<T> const& u) {
    if (!u.keyed) return assign_run(static_cast<std::size_t>(u.first) * width_, u.values);
    for (std::size_t i = 0; i < u.rows.size(); ++i)
      assign_run(static_cast<std::size_t>(u.rows[i]) * width_, u.values.subspan(i * width_, width_));
  }

  void fold(std::span<weighted_update<T> const> step) {
    auto const is_whole = [this](weighted_update<T> const& u) { return !u.keyed && u.values.size() == elements_; };
    while (!step.empty()) {
      auto const end = std::ranges::find_if_not(step, is_whole);
      if (auto const whole = static_cast<std::size_t>(end - step.begin())) {
        fold_whole(step.first(whole));
        step = step.subspan(whole);
        continue;
      }
      if (step.front().keyed) fold_keyed(step.front());
      else fold_run(step.front());
      step = step.subspan(1);
    }
  }

  void read(std::span<std::uint64_t const> rows, T* out) const {
    std::size_t locked = 0;
    for (std::size_t i = 0; i < rows.size();) {
      if (++locked > locks_.most_in_order()) return read_scattered(rows.subspan(i), out + i * width_);
      std::size_t const group = group_of(rows[i]);
      std::lock_guard const guard(locks_[group]);
      i = width_ == 1 ? read_ones(group, rows, i, out) : read_rows(group, rows, i, out);
    }
  }

  void copy(std::uint64_t first, std::uint64_t count, T* out) const {
    std::size_t at = static_cast<std::size_t>(first) * width_;
    std::size_t const end = at + static_cast<std::size_t>(count) * width_;
    while (at != end) {
      block_ref const c = chunk(at / chunk_size_);
      std::size_t const n = std::min(end - at, c.size<T>() - at % chunk_size_);
      out = std::copy_n(c.as<T>() + at % chunk_size_, n, out);
      at += n;
    }
  }

  [[nodiscard]] std::size_t chunks() const noexcept { return chunk_count_; }
  [[nodiscard]] block_ref chunk(std::size_t i) const {
    std::lock_guard const guard(lock_of(i));
    return chunks_[i].values;
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return elements_ * sizeof(T); }

 private:
  using stored = detail::stored_chunk<T>;

  static constexpr std::size_t rows_ahead = 16;
  /// Whole updates of more are not kept under one lock: others would sleep until it is free.
  static constexpr std::size_t most_chunks_locked = 16;

  [[nodiscard]] std::size_t element_of(std::uint64_t r) const noexcept { return static_cast<std::size_t>(r) * width_; }
  [[nodiscard]] std::size_t chunk_of(std::size_t element) const noexcept {
    return chunk_shift_ != 0 ? element >> chunk_shift_ : element / chunk_size_;
  }
  [[nodiscard]] std::size_t group_of(std::uint64_t row) const noexcept {
    return locks_.group_of(chunk_of(element_of(row)));
  }
  [[nodiscard]] brief_mutex& lock_of(std::size_t i) const noexcept { return locks_[locks_.group_of(i)]; }
  /// Where a row begins, or began, for who wants it soon: locks would have each wait for the memory of the one before.
  [[nodiscard]] T const* about(std::uint64_t row) const noexcept {
    std::size_t const at = element_of(row);
    std::size_t const chunk = chunk_of(at);
    return chunks_[chunk].about.load(std::memory_order_relaxed) + (at - chunk * chunk_size_);
  }

  template <bool Write>
  void expect(std::uint64_t row) const noexcept {
    if constexpr (Write) detail::prefetch(about(row), 0, sizeof(T));
    else detail::prefetch_to_read(about(row));
  }

  [[nodiscard]] detail::single_rows<T> ones() const noexcept {
    RUBATO_ASSERT(width_ == 1);
    return {chunks_.get(), chunk_size_, locks_.shift()};
  }

  // ---- rows of one group, from the i-th of a list on; they return the first that is of another. Those of one element
  // have loops of their own: what others need for each row would be most of the work.

  std::size_t read_ones(std::size_t group, std::span<std::uint64_t const> rows, std::size_t i, T* out) const noexcept {
    detail::single_rows<T> const at = ones();
    for (std::size_t const n = rows.size(); i < n && at.group(rows[i]) == group; ++i) {
      if (i + rows_ahead < n) detail::prefetch_to_read(at(rows[i + rows_ahead]));
      out[i] = *at(rows[i]);
    }
    return i;
  }

  std::size_t read_rows(std::size_t group, std::span<std::uint64_t const> rows, std::size_t i, T* out) const noexcept {
    for (; i < rows.size() && group_of(rows[i]) == group; ++i) {
      if (i + rows_ahead < rows.size()) expect<false>(rows[i + rows_ahead]);
      std::copy_n(about(rows[i]), width_, out + i * width_);
    }
    return i;
  }

  void assign_run(std::size_t at, std::span<T const> values) {
    for (std::size_t done = 0; done < values.size();) {
      stored& chunk = chunks_[(at + done) / chunk_size_];
      block_ref& c = chunk.values;
      std::size_t const within = (at + done) % chunk_size_;
      std::size_t const n = std::min(values.size() - done, c.size<T>() - within);
      std::copy_n(values.data() + done, n, detail::writable<T>(c, memory_) + within);
      chunk.note_values();
      done += n;
    }
  }

  /// Chunk by chunk, so that a chunk stays in the cache while all updates are added to it.
  void fold_whole(std::span<weighted_update<T> const> step) {
    for (std::size_t i = 0; i < chunk_count_;) {
      std::size_t const group = locks_.group_of(i);
      std::size_t const end = std::min({chunk_count_, locks_.end_of(group), i + most_chunks_locked});
      std::lock_guard const guard(locks_[group]);
      for (; i < end; ++i) {
        stored& c = chunks_[i];
        for (auto const& u : step) detail::add_scaled(c.values, u.values.data() + i * chunk_size_, u.weight, memory_);
        c.note_values();
      }
    }
  }

  void fold_run(weighted_update<T> const& u) {
    std::size_t at = static_cast<std::size_t>(u.first) * width_;
    for (std::span<T const> values = u.values; !values.empty();) {
      stored& c = chunks_[at / chunk_size_];
      std::size_t const within = at % chunk_size_;
      std::lock_guard const guard(lock_of(at / chunk_size_));
      std::size_t const n = std::min(values.size(), c.values.template size<T>() - within);
      if (n == c.values.template size<T>()) detail::add_scaled(c.values, values.data(), u.weight, memory_);
      else detail::add_scaled(detail::writable<T>(c.values, memory_) + within, values.data(), n, u.weight);
      c.note_values();
      values = values.subspan(n);
      at += n;
    }
  }

  void fold_keyed(weighted_update<T> const& u) {
    std::size_t locked = 0;
    std::size_t expected = 0;  // so many have been asked for, where rows are of several elements
    for (std::size_t i = 0; i < u.rows.size();) {
      if (++locked > locks_.most_in_order()) return fold_scattered(u.rows.subspan(i), &u.values[i * width_], u.weight);
      std::size_t const group = group_of(u.rows[i]);
      std::lock_guard const guard(locks_[group]);
      i = width_ == 1 ? fold_ones(group, u, i) : fold_rows(group, u, i, expected);
    }
  }

  /// Looks at each row's chunk anew: where a chunk has one or two of them, no processor guesses when the next begins.
  [[gnu::noinline]] std::size_t fold_ones(std::size_t group, weighted_update<T> const& u, std::size_t i) {
    detail::single_rows<T> const at = ones();
    std::uint64_t const* const rows = u.rows.data();
    T const* const values = u.values.data();
    auto const weight = static_cast<T>(u.weight);
    stored* const chunks = chunks_.get();
    block_memory const* const memory = memory_;
    stored const* made = nullptr;  // the last one; where there is no place in the memory it would be made each time
    for (std::size_t const n = u.rows.size(); i < n && at.group(rows[i]) == group; ++i) {
      if (i + rows_ahead < n) detail::prefetch(at(rows[i + rows_ahead]), 0, sizeof(T));
      stored& c = chunks[at.chunk(rows[i])];
      if (!detail::stays_in_place(c.values, memory) && made != &c) [[unlikely]] {
        make_writable(c);
        made = &c;
      }
      c.values.template mutable_as<T>()[at.within(rows[i])] += weight * values[i];
    }
    return i;
  }

  std::size_t fold_rows(std::size_t group, weighted_update<T> const& u, std::size_t i, std::size_t& expected) {
    while (i < u.rows.size() && group_of(u.rows[i]) == group) {
      for (; expected < std::min(i + rows_ahead, u.rows.size()); ++expected) expect<true>(u.rows[expected]);
      std::size_t const chunk = chunk_of(element_of(u.rows[i]));
      i = detail::add_rows_of_chunk(writable(chunks_[chunk]), chunk, chunk_size_, u, i, width_, u.weight);
    }
    return i;
  }

  // ---- rows in no order, group by group

  /// Calls `f(place)` for each of the list's, under its lock.
  template <bool Write, class F>
  void for_each_scattered(std::span<std::uint64_t const> rows, F f) const {
    auto const group = [this](std::uint64_t row) { return group_of(row); };
    locks_.for_each_group(rows, group, [&](std::span<std::size_t const> places) {
      for (std::size_t k = 0; k < places.size(); ++k) {
        if (k + rows_ahead < places.size()) expect<Write>(rows[places[k + rows_ahead]]);
        f(places[k]);
      }
    });
  }

  [[gnu::noinline]] void read_scattered(std::span<std::uint64_t const> rows, T* out) const {
    for_each_scattered<false>(rows, [&](std::size_t i) { std::copy_n(about(rows[i]), width_, out + i * width_); });
  }

  [[gnu::noinline]] void fold_scattered(std::span<std::uint64_t const> rows, T const* values, double weight) {
    for_each_scattered<true>(rows, [&](std::size_t i) {
      std::size_t const at = element_of(rows[i]);
      std::size_t const chunk = chunk_of(at);
      detail::add_row(writable(chunks_[chunk]) + (at - chunk * chunk_size_), values + i * width_, width_, weight);
    });
  }

  // ---- under the lock

  [[nodiscard]] T* writable(stored& chunk) {
    T* const to = detail::writable<T>(chunk.values, memory_);
    chunk.note_values();
    return to;
  }
  /// Apart, so that a loop over rows keeps its registers.
  [[gnu::noinline, gnu::cold]] void make_writable(stored& chunk) { (void)writable(chunk); }

  std::size_t width_;
  std::size_t elements_;
  std::size_t chunk_size_;  ///< in elements, whole rows
  int chunk_shift_;         ///< log2 of it, where it is a power of two: divisions are slow; else 0
  std::size_t chunk_count_;
  detail::chunk_region::owner region_;  ///< of a large table; none where it is in other memory
  block_memory* memory_;                ///< that chunks are in, where there is room; none: the heap
  std::unique_ptr<stored[]> chunks_;
  detail::chunk_locks locks_;
};

static_assert(sharing_store<dense_store<float>> && concurrent_store<dense_store<float>>);

}  // namespace rubato
