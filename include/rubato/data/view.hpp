// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <utility>
#include <vector>

namespace rubato::data {

/// One row of a data set. `indices` are 0-based and strictly increasing; `indices[k]` belongs to
/// `values[k]`. A view: valid as long as the dataset (or any copy of it) lives.
struct example {
  float label;  ///< what is to be predicted
  std::span<std::uint32_t const> indices;  ///< features whose values are stored; all others are 0
  std::span<float const> values;  ///< of these features
};

/// A share of the rows, in (0, 1]: `shard.batches(fraction{0.1})` makes ten batches.
struct fraction {
  double of_rows;  ///< of a worker's rows, in (0, 1]
};

/// How rows are dealt out to workers.
enum class sharding {
  contiguous,  ///< blocks of neighbouring rows: the best locality; shuffle once at load
  strided,     ///< every n-th row: an even deal even when the file is sorted by label
};

namespace detail {

/// Compressed sparse rows; row i is [offsets[i], offsets[i + 1]) of indices and values.
struct csr {
  std::vector<float> labels;
  std::vector<std::size_t> offsets{0};
  std::vector<std::uint32_t> indices;
  std::vector<float> values;
  std::size_t features = 0;
};

struct part {
  std::size_t first;
  std::size_t count;
};

/// Part `i` of `n` things cut into `parts`: sizes differ by at most one, the larger ones first.
[[nodiscard]] constexpr part even_part(std::size_t n, std::size_t parts, std::size_t i) noexcept {
  std::size_t const size = n / parts;
  std::size_t const larger = n % parts;
  return {i * size + std::min(i, larger), size + (i < larger ? 1 : 0)};
}

/// Random access over a view with `operator[]`. Holds a copy of the view, so it may outlive it.
template <class View>
class view_iterator {
 public:
  using value_type = decltype(std::declval<View const&>()[0]);
  using reference = value_type;
  using difference_type = std::ptrdiff_t;
  using iterator_concept = std::random_access_iterator_tag;
  using iterator_category = std::input_iterator_tag;  // elements are made on the fly

  view_iterator() = default;
  view_iterator(View const& view, std::size_t at) noexcept
      : view_(view), at_(static_cast<difference_type>(at)) {}

  [[nodiscard]] reference operator*() const noexcept { return (*this)[0]; }
  [[nodiscard]] reference operator[](difference_type n) const noexcept {
    return view_[static_cast<std::size_t>(at_ + n)];
  }

  view_iterator& operator+=(difference_type n) noexcept {
    at_ += n;
    return *this;
  }
  view_iterator& operator-=(difference_type n) noexcept { return *this += -n; }
  view_iterator& operator++() noexcept { return *this += 1; }
  view_iterator& operator--() noexcept { return *this -= 1; }
  view_iterator operator++(int) noexcept {
    auto const before = *this;
    ++*this;
    return before;
  }
  view_iterator operator--(int) noexcept {
    auto const before = *this;
    --*this;
    return before;
  }

  friend view_iterator operator+(view_iterator i, difference_type n) noexcept { return i += n; }
  friend view_iterator operator+(difference_type n, view_iterator i) noexcept { return i += n; }
  friend view_iterator operator-(view_iterator i, difference_type n) noexcept { return i -= n; }
  friend difference_type operator-(view_iterator const& a, view_iterator const& b) noexcept {
    return a.at_ - b.at_;
  }
  friend bool operator==(view_iterator const& a, view_iterator const& b) noexcept {
    return a.at_ == b.at_;
  }
  friend auto operator<=>(view_iterator const& a, view_iterator const& b) noexcept {
    return a.at_ <=> b.at_;
  }

 private:
  View view_{};
  difference_type at_ = 0;
};

}  // namespace detail

class batch_range;

/// Some rows of a data set, in order: all of them, a worker's shard, or one mini-batch.
///
/// A random-access range of `example`, four words big; pass it by value. It stays valid as long as
/// the dataset that it came from, or a copy of that dataset, lives. May be empty: it then has no
/// examples, no batches, and still its number of features.
///
/// Thread safety: const access from any number of threads; the rows never change.
class dataset_view {
 public:
  using iterator = detail::view_iterator<dataset_view>;

  dataset_view() = default;
  /// All rows; what data sets hand out.
  explicit dataset_view(detail::csr const& rows) noexcept
      : rows_(&rows), count_(rows.labels.size()) {}

  /// Number of rows.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Width of the *whole* data set: one more than the largest index it may hold.
  [[nodiscard]] std::size_t features() const noexcept { return rows_ ? rows_->features : 0; }
  /// Stored values in these rows. Cost: O(1) for neighbouring rows, O(size()) for strided ones.
  [[nodiscard]] std::size_t nonzeros() const noexcept;

  /// Row `i`, which must be less than `size()`.
  [[nodiscard]] example operator[](std::size_t i) const noexcept;

  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, count_}; }

  /// `count` rows from row `first` on; both are cut to what there is.
  [[nodiscard]] dataset_view slice(std::size_t first, std::size_t count) const noexcept;

  /// What worker `rank` of `count` trains on. Every row belongs to exactly one rank and sizes
  /// differ by at most one, so with more workers than rows some shards are empty. Throws
  /// option_error unless `rank < count`.
  [[nodiscard]] dataset_view shard(std::size_t rank, std::size_t count,
                                   sharding how = sharding::contiguous) const;

  /// Mini-batches of `batch_size` rows each; the last one has what is left. Together they are these
  /// rows in order; none is empty. Throws option_error when `batch_size` is 0.
  [[nodiscard]] batch_range batches(std::size_t batch_size) const;

  /// Mini-batches that each hold the given fraction of these rows: ceil(1 / fraction) of them, but
  /// never more than there are rows. Sizes differ by at most one; none is empty.
  /// Throws option_error when the fraction is not in (0, 1].
  [[nodiscard]] batch_range batches(fraction of) const;

  /// A bare 0.1 would silently become a batch size of 0: write `batches(fraction{0.1})`.
  template <std::floating_point Number>
  batch_range batches(Number) const = delete;

 private:
  detail::csr const* rows_ = nullptr;
  std::size_t first_ = 0;
  std::size_t stride_ = 1;
  std::size_t count_ = 0;
};

/// The mini-batches of a view: a random-access range of `dataset_view`, cheap to copy.
class batch_range {
 public:
  using iterator = detail::view_iterator<batch_range>;

  batch_range() = default;

  /// Number of batches; 0 exactly when there are no rows.
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

  /// Batch `i`, which must be less than `size()`.
  [[nodiscard]] dataset_view operator[](std::size_t i) const noexcept {
    auto const [first, count] = batch_size_ != 0 ? detail::part{i * batch_size_, batch_size_}
                                                 : detail::even_part(rows_.size(), count_, i);
    return rows_.slice(first, count);
  }

  /// The batch of local step `step` when the batches are run through over and over. An empty batch
  /// when there are none: a worker without rows must still step and commit, or others would wait
  /// for it for ever.
  [[nodiscard]] dataset_view at_step(std::size_t step) const noexcept {
    return count_ == 0 ? rows_ : (*this)[step % count_];
  }

  [[nodiscard]] iterator begin() const noexcept { return {*this, 0}; }
  [[nodiscard]] iterator end() const noexcept { return {*this, count_}; }

 private:
  friend class dataset_view;
  batch_range(dataset_view rows, std::size_t count, std::size_t batch_size) noexcept
      : rows_(rows), count_(count), batch_size_(batch_size) {}

  dataset_view rows_;
  std::size_t count_ = 0;
  std::size_t batch_size_ = 0;  // 0: cut evenly into count_ parts
};

inline example dataset_view::operator[](std::size_t i) const noexcept {
  std::size_t const row = first_ + i * stride_;
  std::size_t const begin = rows_->offsets[row];
  std::size_t const count = rows_->offsets[row + 1] - begin;
  return {rows_->labels[row], std::span(rows_->indices).subspan(begin, count),
          std::span(rows_->values).subspan(begin, count)};
}

inline dataset_view dataset_view::slice(std::size_t first, std::size_t count) const noexcept {
  dataset_view part = *this;
  first = std::min(first, count_);
  part.first_ = first_ + first * stride_;
  part.count_ = std::min(count, count_ - first);
  return part;
}

}  // namespace rubato::data
