// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "rubato/storage/arithmetic.hpp"
#include "rubato/storage/chunk_memory.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/dense_store.hpp"
#include "rubato/storage/paging.hpp"

namespace rubato {

/// All rows, of which a limited part is in memory. What it holds is what a `dense_store` holds, bit for bit.
/// Cost: as `dense_store`, and that of `chunk_memory` for each chunk that is not in memory. A read of everything
/// goes through all chunks.
template <parameter T>
class paged_store {
 public:
  using value_type = T;
  static constexpr bool bounded = true;
  static constexpr bool concurrent = true;

  /// @throws option_error
  explicit paged_store(store_shape const& s, paging const& limit = {})
      : width_(s.width),
        elements_(static_cast<std::size_t>(s.rows) * s.width),
        chunk_size_(rows_of_chunk(s, limit) * s.width),
        chunks_((elements_ + chunk_size_ - 1) / chunk_size_, chunk_size_ * sizeof(T), limit, s.threads) {}

  void assign(row_values<T> const& u) {
    if (!u.keyed) return assign_run(static_cast<std::size_t>(u.first) * width_, u.values);
    for (std::size_t i = 0; i < u.rows.size(); ++i)
      assign_run(static_cast<std::size_t>(u.rows[i]) * width_, u.values.subspan(i * width_, width_));
  }

  void fold(std::span<weighted_update<T> const> step) {
    for (auto const& u : step) {
      if (u.keyed) fold_keyed(u);
      else fold_run(u);
    }
  }

  void read(std::span<std::uint64_t const> rows, T* out) const {
    for (std::size_t i = 0; i < rows.size();) {
      std::size_t const number = chunk_of(rows[i]);
      chunks_.read(number, [&](std::byte const* bytes) {
        for (; i < rows.size() && chunk_of(rows[i]) == number; ++i, out += width_)
          copy_or_zero(bytes, static_cast<std::size_t>(rows[i]) * width_ % chunk_size_, width_, out);
      });
    }
  }

  void copy(std::uint64_t first, std::uint64_t count, T* out) const {
    for_each_piece(static_cast<std::size_t>(first) * width_, static_cast<std::size_t>(count) * width_,
                   [&](std::size_t chunk, std::size_t within, std::size_t n) {
                     chunks_.read(chunk, [&](std::byte const* bytes) { copy_or_zero(bytes, within, n, out); });
                     out += n;
                   });
  }

  [[nodiscard]] std::size_t bytes() const { return chunks_.bytes(); }
  [[nodiscard]] chunk_memory const& chunks() const noexcept { return chunks_; }

 private:
  static std::size_t rows_of_chunk(store_shape const& s, paging const& limit) {
    limit.check(s.width * sizeof(T));
    return limit.chunk_bytes / (s.width * sizeof(T));
  }
  [[nodiscard]] std::size_t chunk_of(std::uint64_t row) const noexcept {
    return static_cast<std::size_t>(row) * width_ / chunk_size_;
  }
  static void copy_or_zero(std::byte const* chunk, std::size_t within, std::size_t n, T* out) noexcept {
    if (chunk == nullptr) std::fill_n(out, n, T{});
    else std::copy_n(reinterpret_cast<T const*>(chunk) + within, n, out);
  }

  /// `piece(chunk, first element in it, count)`, from element `at` on.
  template <class F>
  void for_each_piece(std::size_t at, std::size_t count, F piece) const {
    for (std::size_t const end = at + count; at != end;) {
      std::size_t const n = std::min(end - at, chunk_size_ - at % chunk_size_);
      piece(at / chunk_size_, at % chunk_size_, n);
      at += n;
    }
  }

  void assign_run(std::size_t at, std::span<T const> values) {
    for_each_piece(at, values.size(), [&](std::size_t chunk, std::size_t within, std::size_t n) {
      chunks_.write(chunk, [&](std::byte* to) { std::copy_n(values.data(), n, reinterpret_cast<T*>(to) + within); });
      values = values.subspan(n);
    });
  }

  void fold_run(weighted_update<T> const& u) {
    T const* from = u.values.data();
    for_each_piece(static_cast<std::size_t>(u.first) * width_, u.values.size(),
                   [&](std::size_t chunk, std::size_t within, std::size_t n) {
                     chunks_.write(chunk, [&](std::byte* to) {
                       detail::add_scaled(reinterpret_cast<T*>(to) + within, from, n, u.weight);
                     });
                     from += n;
                   });
  }

  void fold_keyed(weighted_update<T> const& u) {
    for (std::size_t i = 0; i < u.rows.size();) {
      std::size_t const chunk = chunk_of(u.rows[i]);
      chunks_.write(chunk, [&](std::byte* to) {
        i = detail::add_rows_of_chunk(reinterpret_cast<T*>(to), chunk, chunk_size_, u, i, width_, u.weight);
      });
    }
  }

  std::size_t width_;
  std::size_t elements_;
  std::size_t chunk_size_;  ///< in elements, whole rows
  chunk_memory chunks_;
};

static_assert(concurrent_store<paged_store<float>>);

}  // namespace rubato
