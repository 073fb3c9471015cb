// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include <rubato/data/view.hpp>

namespace rubato::data {

struct held_out;

/// Labelled sparse examples that never change once built; made by `dataset_builder`,
/// `read_libsvm` or `make_synthetic`.
///
/// Copies share the rows: copying costs O(1), and a view stays valid as long as any copy lives.
/// Memory: 12 bytes per row (on 64-bit machines) and 8 per stored value; up to twice that straight
/// from a builder that was not told the sizes.
///
/// Thread safety: the rows are immutable, so any number of threads may read the same object.
///
/// \code
/// auto const [train, test] = read_libsvm("a9a").split(0.2, 42);
/// auto const mixed = train.shuffled(42);
/// for (auto batch : mixed.shard(rank, workers).batches(fraction{0.1})) ...
/// \endcode
class dataset {
 public:
  /// No rows and no features.
  dataset();
  // Copied where others are moved, so that a moved-from data set still has its rows.
  /// Copies share the rows: O(1).
  dataset(dataset const&) noexcept = default;
  dataset& operator=(dataset const&) noexcept = default;

  /// Number of rows.
  [[nodiscard]] std::size_t size() const noexcept { return rows_->labels.size(); }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  /// Length of a weight vector for this data: every index is less than this.
  [[nodiscard]] std::size_t features() const noexcept { return rows_->features; }
  /// Number of stored values, explicit zeros included.
  [[nodiscard]] std::size_t nonzeros() const noexcept { return rows_->values.size(); }
  /// The label of each row.
  [[nodiscard]] std::span<float const> labels() const noexcept { return rows_->labels; }
  /// Row `i`, which must be less than `size()`.
  [[nodiscard]] example operator[](std::size_t i) const noexcept { return dataset_view(*rows_)[i]; }

  /// All rows. Views are not to be had from a temporary, whose rows would be gone at once.
  [[nodiscard]] dataset_view rows() const& noexcept { return dataset_view(*rows_); }
  dataset_view rows() const&& = delete;
  /// A data set may be passed wherever a view is expected.
  operator dataset_view() const& noexcept { return rows(); }
  operator dataset_view() const&& = delete;
  /// The rows of worker `rank` of `count`; see `dataset_view::shard`.
  [[nodiscard]] dataset_view shard(std::size_t rank, std::size_t count,
                                   sharding how = sharding::contiguous) const& {
    return rows().shard(rank, count, how);
  }
  dataset_view shard(std::size_t, std::size_t, sharding = sharding::contiguous) const&& = delete;

  /// The same rows in a random order that depends on `seed` and `size()` only. The rows are copied,
  /// so that later passes read memory in sequence. Cost: O(size() + nonzeros()).
  [[nodiscard]] dataset shuffled(std::uint64_t seed) const;

  /// Cuts at random into disjoint train and test sets; round(test_share * size()) rows go to the
  /// test set, both keep the order and the number of features. Rows are copied.
  /// Throws option_error when `test_share` is not in [0, 1].
  [[nodiscard]] held_out split(double test_share, std::uint64_t seed) const;

  /// The given rows, in the given order, repetitions allowed. Throws option_error on a row that
  /// does not exist.
  [[nodiscard]] dataset gather(std::span<std::size_t const> rows) const;

 private:
  friend class dataset_builder;
  explicit dataset(detail::csr&& rows);

  std::shared_ptr<detail::csr const> rows_;  // never null
};

/// What `dataset::split` returns.
struct held_out {
  dataset train;  ///< the rows to train on
  dataset test;  ///< the rows held out, to judge by
};

/// Collects rows, checks them, and hands them over as a `dataset`.
class dataset_builder {
 public:
  /// With `features` 0 the data set is as wide as its largest index asks for; otherwise it has
  /// exactly that many features. At most 2^32; throws option_error beyond.
  explicit dataset_builder(std::size_t features = 0);

  /// Appends a row; indices are 0-based. Throws data_error, and leaves the builder as it was, when
  /// the spans differ in length, indices do not strictly increase or reach the fixed number of
  /// features, or the label or a value is not finite.
  void add(float label, std::span<std::uint32_t const> indices, std::span<float const> values);

  /// Makes room for that many rows and stored values.
  void reserve(std::size_t rows, std::size_t nonzeros);

  /// Replaces every label `y` collected so far by `map(y)`, which must be finite.
  template <class Map>
  void map_labels(Map map) {
    for (float& label : rows_.labels) label = map(label);
  }

  [[nodiscard]] std::size_t size() const noexcept { return rows_.labels.size(); }

  /// The data set. The builder is empty afterwards and may be used again.
  [[nodiscard]] dataset build();

 private:
  void check(float label, std::span<std::uint32_t const> indices,
             std::span<float const> values) const;

  std::size_t features_fixed_;
  detail::csr rows_;
};

}  // namespace rubato::data
