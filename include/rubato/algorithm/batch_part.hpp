// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rubato/algorithm/feature_rarity.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/data/compact.hpp"
#include "rubato/data/view.hpp"

namespace rubato::algorithm {

/// Which coordinates of the parameters a step pulls and pushes.
enum class exchange {
  whole,   ///< all: for dense data, or where a part of a batch has most of the features
  by_key,  ///< those of the features that occur in the worker's part of the batch
};

/// A worker's part of a batch, and the coordinates that a step on it moves. Parts of all workers make up the
/// batch, and what they push adds up to the step of the whole batch: each counts by its share of the rows.
///
/// Refers to the batch's rows, or has a copy of its own of them. Belongs to one thread.
template <std::floating_point Real>
class batch_part {
 public:
  /// The part of worker `rank` of `count`; empty where there are more workers than rows.
  /// @param rarity of the features of the training data; of no meaning where everything is exchanged
  /// @param rows_mean rows of a batch, in the mean over all that the training data is cut into, of which the last may
  ///   have fewer; of no meaning where everything is exchanged
  /// Cost: O(1), by key O(n log n) for n stored values.
  batch_part(data::dataset_view batch, std::uint32_t rank, std::uint32_t count, exchange how,
             feature_rarity const& rarity, double rows_mean)
      : rows_(batch.shard(rank, count)), size_(batch.features()), whole_(how == exchange::whole) {
    if (!batch.empty()) share_ = static_cast<double>(rows_.size()) / static_cast<double>(batch.size());
    if (!whole_) renumber(rows_mean, rarity);
  }
  batch_part(batch_part const&) = delete;
  batch_part& operator=(batch_part const&) = delete;

  /// Its rows, whose features are numbered as the coordinates are.
  [[nodiscard]] data::dataset_view rows() const noexcept { return rows_; }
  /// How many coordinates it moves.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  /// Of the batch's rows, in [0, 1].
  [[nodiscard]] double share() const noexcept { return share_; }
  /// The rows of a table that its coordinates are; none where they are all.
  [[nodiscard]] std::span<key const> keys() const noexcept { return compact_.keys; }
  /// Whether its coordinates are all that there are.
  [[nodiscard]] bool is_whole() const noexcept { return whole_; }

  /// By how much this part counts what each row of the batch adds to every coordinate alike, such as a
  /// regulariser's gradient. Over all parts: 1 where everything is exchanged, else 1 in the mean over
  /// batches.
  [[nodiscard]] Real weight(std::size_t coordinate) const noexcept {
    return whole_ ? static_cast<Real>(share_) : weights_[coordinate];
  }

  /// Numbers that one gradient on it goes over.
  [[nodiscard]] double work() const noexcept {
    return static_cast<double>(rows_.nonzeros() + (whole_ ? size_ : 0));
  }

  /// Reads a table's values at its coordinates, one each; `out` gets their number.
  template <class Table>
  void pull(Table const& table, std::vector<Real>& out) const {
    out.resize(size_);
    if (whole_)
      table.pull(out);
    else
      table.pull(keys(), out);
  }
  /// Adds `delta` to a table's values at its coordinates, one each.
  template <class Table>
  void push(Table const& table, std::vector<Real> const& delta) const {
    if (whole_)
      table.push(delta);
    else
      table.push(keys(), delta);
  }
  /// Adds what `write` writes into a span of as many values: all of them. `room` is used where that cannot be the
  /// update.
  template <class Table, std::invocable<std::span<Real>> F>
  void push_in_place(Table const& table, std::vector<Real>& room, F const& write) const {
    if (whole_) return table.push_in_place(write);
    room.resize(size_);
    write(std::span(room));
    table.push(keys(), room);
  }

 private:
  void renumber(double rows_mean, feature_rarity const& rarity) {
    compact_ = data::compact(rows_);
    rows_ = compact_.rows.rows();
    size_ = compact_.keys.size();
    weights_.assign(size_, 0);
    for (data::example const row : rows_)
      for (auto const coordinate : row.indices) weights_[coordinate] += 1;
    for (std::size_t j = 0; j < size_; ++j)
      weights_[j] *= static_cast<Real>(rarity[compact_.keys[j].index()] / rows_mean);
  }

  data::dataset_view rows_;
  std::size_t size_;
  bool whole_;
  double share_ = 0;
  data::compact_batch compact_;
  std::vector<Real> weights_;
};

}  // namespace rubato::algorithm
