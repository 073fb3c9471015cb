// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/storage/block.hpp"
#include "rubato/storage/update.hpp"

namespace rubato {

/// All rows of a dense store at one moment, chunk by chunk; frozen, and shared with the store until
/// it folds again. Each chunk is whole; under eager visibility chunks may differ by commits that
/// were being folded meanwhile.
template <class T>
class dense_snapshot {
 public:
  [[nodiscard]] bool empty() const noexcept { return chunks_.empty(); }
  void clear() noexcept { chunks_.clear(); }

  /// Copies `count` elements from element `first` (row × width) on.
  void copy(std::size_t first, std::size_t count, T* out) const noexcept {
    for_each_piece(first, count, [&](T const* from, std::size_t n, std::size_t offset) {
      std::copy_n(from, n, out + offset);
    });
  }

  /// Calls `piece(data, n, offset)` for each contiguous stretch of the elements asked for.
  template <class F>
  void for_each_piece(std::size_t first, std::size_t count, F piece) const {
    for (std::size_t done = 0; done < count;) {
      std::size_t const chunk = (first + done) / chunk_size_;
      std::size_t const at = (first + done) % chunk_size_;
      std::size_t const n = std::min(count - done, chunk_size_ - at);
      piece(chunks_[chunk].data() + at, n, done);
      done += n;
    }
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t total = 0;
    for (auto const& c : chunks_) total += c.size() * sizeof(T);
    return total;
  }

 private:
  template <class, class>
  friend class dense_store;
  std::size_t chunk_size_ = 1;
  boost::container::small_vector<block_ref<T>, 1> chunks_;  // small tables have one
};

/// Contiguous rows in chunks of about 64 KiB, each with a lock of its own.
///
/// A reader takes references to the chunks and copies without any lock; a fold writes in place
/// where nobody refers to a chunk, and into a new one otherwise. Memory is one set of parameters,
/// plus one for each older state that somebody still holds, plus one when the merge has velocity.
template <class T, class Mutex>
class dense_store {
 public:
  using value_type = T;
  using snapshot_type = dense_snapshot<T>;
  static constexpr std::size_t chunk_bytes = 64 * 1024;

  /// `init(first, count, out)` fills elements; called chunk by chunk.
  template <class Init>
  dense_store(std::uint64_t rows, std::size_t width, Init init)
      : width_(width),
        elements_(static_cast<std::size_t>(rows) * width),
        chunk_size_(std::max<std::size_t>(1, chunk_bytes / (width * sizeof(T))) * width),
        chunk_count_((elements_ + chunk_size_ - 1) / chunk_size_),
        chunks_(std::make_unique<chunk[]>(chunk_count_)) {
    for (std::size_t c = 0; c < chunk_count_; ++c) {
      block_ref<T> values(size_of(c));
      init(c * chunk_size_, size_of(c), values.mutable_data());
      chunks_[c].values = std::move(values);
    }
  }

  void fold(std::span<weighted_update<T> const> step, std::optional<double> decay) {
    if (decay) return fold_with_velocity(step, *decay);
    while (!step.empty()) {
      auto const whole_end = std::ranges::find_if(step, [](auto const& u) { return !u.part->whole; });
      auto const whole = static_cast<std::size_t>(whole_end - step.begin());
      if (whole != 0) {
        fold_whole(step.first(whole));
        step = step.subspan(whole);
      } else {
        fold_keyed(step.front());
        step = step.subspan(1);
      }
    }
  }

  void read(std::span<std::uint64_t const> rows, T* out) const {
    for (std::uint64_t const row : rows) {
      std::size_t const at = static_cast<std::size_t>(row) * width_;
      chunk& c = chunks_[at / chunk_size_];
      std::lock_guard const guard(c.lock);
      std::copy_n(c.values.data() + at % chunk_size_, width_, out);
      out += width_;
    }
  }

  void snapshot(snapshot_type& out) const {
    out.chunk_size_ = chunk_size_;
    out.chunks_.resize(chunk_count_);
    for (std::size_t i = 0; i < chunk_count_; ++i) {
      std::lock_guard const guard(chunks_[i].lock);
      out.chunks_[i] = chunks_[i].values;
    }
  }

  [[nodiscard]] std::size_t bytes() const noexcept { return elements_ * sizeof(T); }
  [[nodiscard]] std::size_t width() const noexcept { return width_; }

 private:
  struct chunk {
    Mutex lock;
    block_ref<T> values;
  };

  [[nodiscard]] std::size_t size_of(std::size_t c) const noexcept {
    return std::min(chunk_size_, elements_ - c * chunk_size_);
  }

  /// The chunk's values, writable; a copy takes their place when somebody else refers to them.
  T* writable(chunk& c) {
    if (!c.values.unique()) {
      block_ref<T> copy(c.values.size());
      std::copy_n(c.values.data(), c.values.size(), copy.mutable_data());
      c.values = std::move(copy);
    }
    return c.values.mutable_data();
  }

  /// Chunk by chunk, so that a chunk stays in the cache while all updates are added to it.
  void fold_whole(std::span<weighted_update<T> const> step) {
    for (std::size_t i = 0; i < chunk_count_; ++i) {
      chunk& c = chunks_[i];
      std::size_t const n = size_of(i);
      auto const part = [&](weighted_update<T> const& u) {
        RUBATO_ASSERT(u.part->values.size() == elements_);
        return u.part->values.data() + i * chunk_size_;
      };
      std::lock_guard const guard(c.lock);
      auto rest = step;
      if (!c.values.unique()) {  // copying and adding in one pass
        block_ref<T> next(n);
        detail::add_scaled_into(next.mutable_data(), c.values.data(), part(rest.front()), n,
                                rest.front().weight);
        c.values = std::move(next);
        rest = rest.subspan(1);
      }
      for (auto const& u : rest)
        detail::add_scaled(c.values.mutable_data(), part(u), n, u.weight);
    }
  }

  void fold_keyed(weighted_update<T> const& u) {
    T const* from = u.part->values.data();
    for (std::size_t i = 0; i < u.part->rows.size();) {
      std::size_t const index = chunk_of(u.part->rows[i]);
      chunk& c = chunks_[index];
      std::lock_guard const guard(c.lock);
      T* const to = writable(c);
      do {  // neighbors share the lock, and consecutive rows are added in one go
        std::size_t const at = static_cast<std::size_t>(u.part->rows[i]) * width_ % chunk_size_;
        std::size_t const n = consecutive(u.part->rows, i, (chunk_size_ - at) / width_);
        detail::add_row(to + at, from, n * width_, u.weight);
        from += n * width_;
        i += n;
      } while (i < u.part->rows.size() && chunk_of(u.part->rows[i]) == index);
    }
  }

  /// How many rows from `rows[first]` on follow one another, up to `limit`.
  static std::size_t consecutive(std::span<std::uint64_t const> rows, std::size_t first,
                                 std::size_t limit) noexcept {
    limit = std::min(limit, rows.size() - first);
    std::size_t n = 1;
    while (n < limit && rows[first + n] == rows[first] + n) ++n;
    return n;
  }

  [[nodiscard]] std::size_t chunk_of(std::uint64_t row) const noexcept {
    return static_cast<std::size_t>(row) * width_ / chunk_size_;
  }

  /// Steps are serial: two that interleave would each add the other's update twice.
  void fold_with_velocity(std::span<weighted_update<T> const> step, double decay) {
    std::lock_guard const serial(velocity_lock_);
    if (velocity_.empty()) velocity_.resize(elements_);
    detail::array_view<T> v(velocity_.data(), static_cast<Eigen::Index>(elements_));
    v *= static_cast<T>(decay);
    for (auto const& u : step) {
      if (u.part->whole) {
        detail::add_scaled(velocity_.data(), u.part->values.data(), elements_, u.weight);
        continue;
      }
      T const* from = u.part->values.data();
      for (std::uint64_t const row : u.part->rows) {
        detail::add_row(velocity_.data() + static_cast<std::size_t>(row) * width_, from, width_, u.weight);
        from += width_;
      }
    }
    for (std::size_t i = 0; i < chunk_count_; ++i) {
      std::lock_guard const guard(chunks_[i].lock);
      detail::add_scaled(writable(chunks_[i]), velocity_.data() + i * chunk_size_, size_of(i), 1.0);
    }
  }

  std::size_t width_;
  std::size_t elements_;
  std::size_t chunk_size_;  ///< in elements, whole rows
  std::size_t chunk_count_;
  std::unique_ptr<chunk[]> chunks_;
  Mutex velocity_lock_;
  std::vector<T> velocity_;
};

}  // namespace rubato
