// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/storage/block.hpp"
#include "rubato/storage/update.hpp"

namespace rubato {

namespace detail {

/// The array, writable; a copy takes its place when somebody else refers to it.
template <class T>
T* writable(block_ref<T>& values) {
  if (!values.unique()) {
    block_ref<T> copy(values.size());
    std::copy_n(values.data(), values.size(), copy.mutable_data());
    values = std::move(copy);
  }
  return values.mutable_data();
}

/// to ← to + weight·from; where a copy must be made, in the same pass.
template <class T>
void add_scaled(block_ref<T>& to, T const* from, double weight) {
  if (to.unique()) return add_scaled(to.mutable_data(), from, to.size(), weight);
  block_ref<T> next(to.size());
  add_scaled_into(next.mutable_data(), to.data(), from, to.size(), weight);
  to = std::move(next);
}

/// How many rows from `rows[first]` on follow one another, up to `limit`.
[[nodiscard]] inline std::size_t consecutive(std::span<std::uint64_t const> rows, std::size_t first,
                                             std::size_t limit) noexcept {
  limit = std::min(limit, rows.size() - first);
  std::size_t n = 1;
  while (n < limit && rows[first + n] == rows[first] + n) ++n;
  return n;
}

/// Adds a keyed update's rows from `u.rows[i]` on to their chunk `to`, as long as they are in the
/// same one; returns the index of the first that is not. Consecutive rows are added in one go.
template <class T>
std::size_t add_rows_of_chunk(T* to, std::size_t chunk_size, update<T> const& u, std::size_t i,
                              std::size_t width, double weight) noexcept {
  auto const element = [&] { return static_cast<std::size_t>(u.rows[i]) * width; };
  std::size_t const chunk = element() / chunk_size;
  do {
    std::size_t const at = element() % chunk_size;
    std::size_t const n = consecutive(u.rows, i, (chunk_size - at) / width);
    add_row(to + at, u.values.data() + i * width, n * width, weight);
    i += n;
  } while (i < u.rows.size() && element() / chunk_size == chunk);
  return i;
}

inline constexpr std::size_t chunk_bytes = 64 * 1024;

/// Elements in a chunk: about as many, in whole rows.
template <class T>
[[nodiscard]] constexpr std::size_t chunk_elements(std::size_t width) noexcept {
  return std::max<std::size_t>(1, chunk_bytes / (width * sizeof(T))) * width;
}

}  // namespace detail

template <class T>
class dense_snapshot;

/// A state and what it counts in a sum of such.
template <class T>
struct weighted_snapshot {
  dense_snapshot<T> const* part;
  double weight;
};

/// All rows of a dense store at one moment, chunk by chunk; frozen, and shared with the store until
/// it folds again. Each chunk is whole; under eager visibility chunks may differ by commits that
/// were being folded meanwhile.
///
/// Its holder may add to it: chunks that anybody else refers to are copied then, and only those.
template <class T>
class dense_snapshot {
 public:
  [[nodiscard]] bool empty() const noexcept { return chunks_.empty(); }
  /// Gives up the state. Memory that a store has no part in is kept for the next one.
  void clear() noexcept {
    if (received_) chunks_.swap(spare_);
    chunks_.clear();
    received_ = false;
  }
  /// The same state once more; the memory stays this one's to use again.
  [[nodiscard]] dense_snapshot share() const {
    dense_snapshot s;
    s.chunk_size_ = chunk_size_;
    s.chunks_ = chunks_;
    return s;
  }
  friend void swap(dense_snapshot& a, dense_snapshot& b) noexcept {
    std::swap(a.chunk_size_, b.chunk_size_);
    std::swap(a.received_, b.received_);
    a.chunks_.swap(b.chunks_);
    a.spare_.swap(b.spare_);
  }

  /// Copies `count` elements from element `first` (row × width) on.
  void copy(std::size_t first, std::size_t count, T* out) const noexcept {
    for_each_piece(first, count, [&](T const* from, std::size_t n, std::size_t offset) {
      std::copy_n(from, n, out + offset);
    });
  }

  /// Becomes a state of `elements` elements, to be written by the caller: `pieces(data, n)` gets each
  /// stretch. Memory of a state that nobody else refers to is used again.
  template <class F>
  void receive(std::size_t elements, std::size_t width, F pieces) {
    chunk_size_ = detail::chunk_elements<T>(width);
    if (!received_) chunks_.swap(spare_);
    received_ = true;
    chunks_.resize((elements + chunk_size_ - 1) / chunk_size_);
    for (std::size_t i = 0; i < chunks_.size(); ++i) {
      std::size_t const n = std::min(chunk_size_, elements - i * chunk_size_);
      block_ref<T>& c = chunks_[i];
      if (!c || c.size() != n || !c.unique()) c = block_ref<T>(n);
      pieces(c.mutable_data(), n);
    }
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

  void add(update<T> const& u, double weight, std::size_t width) {
    if (u.whole) {
      T const* from = u.values.data();
      for (auto& c : chunks_) {
        detail::add_scaled(c, from, weight);
        from += c.size();
      }
      RUBATO_ASSERT(from == u.values.data() + u.values.size());
      return;
    }
    for (std::size_t i = 0; i < u.rows.size();) {
      auto& c = chunks_[static_cast<std::size_t>(u.rows[i]) * width / chunk_size_];
      i = detail::add_rows_of_chunk(detail::writable(c), chunk_size_, u, i, width, weight);
    }
  }

  /// Adds states of stores with as many rows and elements in a row. Chunk by chunk, so that a chunk
  /// stays in the cache while all of them are added to it.
  void add(std::span<weighted_snapshot<T> const> others) {
    for (std::size_t i = 0; i < chunks_.size(); ++i)
      for (auto const& other : others) {
        RUBATO_ASSERT(other.part->chunks_[i].size() == chunks_[i].size());
        detail::add_scaled(chunks_[i], other.part->chunks_[i].data(), other.weight);
      }
  }
  void add(dense_snapshot const& other, double weight) {
    weighted_snapshot<T> const one{&other, weight};
    add({&one, 1});
  }

  void add_row(std::uint64_t row, T const* from, std::size_t width, double weight) {
    std::size_t const at = static_cast<std::size_t>(row) * width;
    T* const chunk = detail::writable(chunks_[at / chunk_size_]);
    detail::add_row(chunk + at % chunk_size_, from, width, weight);
  }

  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t total = 0;
    for (auto const& c : chunks_) total += c.size() * sizeof(T);
    return total;
  }

 private:
  template <class, class>
  friend class dense_store;
  using chunk_list = boost::container::small_vector<block_ref<T>, 1>;  // small tables have one

  std::size_t chunk_size_ = 1;
  chunk_list chunks_;
  chunk_list spare_;       ///< memory of states received before
  bool received_ = false;  ///< the chunks are this snapshot's own
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
  static constexpr std::size_t chunk_bytes = detail::chunk_bytes;

  /// `init(first, count, out)` fills elements; called chunk by chunk.
  template <class Init>
  dense_store(std::uint64_t rows, std::size_t width, Init init)
      : width_(width),
        elements_(static_cast<std::size_t>(rows) * width),
        chunk_size_(detail::chunk_elements<T>(width)),
        chunk_count_((elements_ + chunk_size_ - 1) / chunk_size_),
        chunks_(std::make_unique<chunk[]>(chunk_count_)) {
    for (std::size_t c = 0; c < chunk_count_; ++c) {
      block_ref<T> values(size_of(c));
      init(c * chunk_size_, size_of(c), values.mutable_data());
      chunks_[c].values = std::move(values);
    }
  }

  /// Sets all elements before the run. Not synchronized.
  void set_all(std::span<T const> values) {
    RUBATO_ASSERT(values.size() == elements_);
    for (std::size_t i = 0; i < chunk_count_; ++i)
      std::copy_n(values.data() + i * chunk_size_, size_of(i), detail::writable(chunks_[i].values));
  }

  void fold(std::span<weighted_update<T> const> step, std::optional<double> decay) {
    if (decay) return fold_with_velocity(step, *decay);
    while (!step.empty()) {
      auto const whole_end =
          std::ranges::find_if(step, [](auto const& u) { return !u.part->whole; });
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

  /// Folds all elements at once, given as the state of a store of this one's shape.
  void add_scaled(snapshot_type const& values, double weight) {
    for (std::size_t i = 0; i < chunk_count_; ++i) {
      RUBATO_ASSERT(values.chunks_[i].size() == size_of(i));
      std::lock_guard const guard(chunks_[i].lock);
      detail::add_scaled(chunks_[i].values, values.chunks_[i].data(), weight);
    }
  }

  /// Folds elements from `first` on: a piece of an update that is not here as a whole.
  void add_range(std::size_t first, std::span<T const> values, double weight) {
    while (!values.empty()) {
      chunk& c = chunks_[first / chunk_size_];
      std::size_t const at = first % chunk_size_;
      std::lock_guard const guard(c.lock);
      std::size_t const n = std::min(values.size(), c.values.size() - at);
      if (n == c.values.size()) detail::add_scaled(c.values, values.data(), weight);
      else detail::add_scaled(detail::writable(c.values) + at, values.data(), n, weight);
      values = values.subspan(n);
      first += n;
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
    out.clear();
    out.chunk_size_ = chunk_size_;
    out.chunks_.resize(chunk_count_);
    for (std::size_t i = 0; i < chunk_count_; ++i) {
      std::lock_guard const guard(chunks_[i].lock);
      out.chunks_[i] = chunks_[i].values;
    }
  }

  /// The chunks one by one, each as it is at that moment, for whoever would not hold all at once.
  [[nodiscard]] std::size_t chunks() const noexcept { return chunk_count_; }
  [[nodiscard]] block_ref<T> chunk_now(std::size_t i) const {
    std::lock_guard const guard(chunks_[i].lock);
    return chunks_[i].values;
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

  /// Chunk by chunk, so that a chunk stays in the cache while all updates are added to it.
  void fold_whole(std::span<weighted_update<T> const> step) {
    for (std::size_t i = 0; i < chunk_count_; ++i) {
      chunk& c = chunks_[i];
      auto const part = [&](weighted_update<T> const& u) {
        RUBATO_ASSERT(u.part->values.size() == elements_);
        return u.part->values.data() + i * chunk_size_;
      };
      std::lock_guard const guard(c.lock);
      for (auto const& u : step) detail::add_scaled(c.values, part(u), u.weight);
    }
  }

  void fold_keyed(weighted_update<T> const& u) {
    for (std::size_t i = 0; i < u.part->rows.size();) {
      chunk& c = chunks_[static_cast<std::size_t>(u.part->rows[i]) * width_ / chunk_size_];
      std::lock_guard const guard(c.lock);  // shared by neighbors
      i = detail::add_rows_of_chunk(detail::writable(c.values), chunk_size_, *u.part, i, width_,
                                    u.weight);
    }
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
        detail::add_row(velocity_.data() + static_cast<std::size_t>(row) * width_, from, width_,
                        u.weight);
        from += width_;
      }
    }
    for (std::size_t i = 0; i < chunk_count_; ++i) {
      std::lock_guard const guard(chunks_[i].lock);
      detail::add_scaled(chunks_[i].values, velocity_.data() + i * chunk_size_, 1.0);
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
