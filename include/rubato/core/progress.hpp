// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"

namespace rubato {

/// Every live worker's clock, with the least and the greatest of them.
///
/// A tournament tree over the workers' numbers: `c_min` and `c_max` are read in O(1); `join`,
/// `leave` and `advance` are O(log workers), and stop early where the extremes do not change.
/// Memory is O(greatest worker number). Not synchronized.
class progress {
 public:
  /// The least clock over the live workers; `clock_index::highest()` when there are none, for then
  /// nobody is waited for.
  [[nodiscard]] clock_index c_min() const noexcept { return root().least; }
  /// The greatest clock over the live workers; `clock_index::lowest()` when there are none.
  [[nodiscard]] clock_index c_max() const noexcept { return root().greatest; }
  /// How many workers take part.
  [[nodiscard]] std::size_t live() const noexcept { return live_; }

  /// The clock at which a joiner is registered: `c_min`, or the last one that was, when nobody is
  /// live. It never falls.
  [[nodiscard]] clock_index floor() const noexcept { return live_ == 0 ? floor_ : c_min(); }

  /// Who takes part has a number below it.
  [[nodiscard]] std::size_t places() const noexcept { return leaves_; }

  /// Whether w takes part.
  [[nodiscard]] bool contains(worker_id w) const noexcept {
    return w.index() < leaves_ && tree_[leaves_ + w.index()].least != clock_index::highest();
  }

  /// A worker whose clock is `c_min`: of several, the one of the least number. O(log workers). @pre `live()` is not 0
  [[nodiscard]] worker_id slowest() const noexcept {
    RUBATO_ASSERT(live_ != 0);
    std::size_t node = 1;
    while (node < leaves_) node = 2 * node + (tree_[2 * node].least == c_min() ? 0 : 1);
    return worker_id{static_cast<std::uint32_t>(node - leaves_)};
  }

  /// @pre `contains(w)`
  [[nodiscard]] clock_index of(worker_id w) const noexcept {
    RUBATO_ASSERT(contains(w));
    return tree_[leaves_ + w.index()].least;
  }

  /// @pre not `contains(w)`; `c` is not below `floor()`
  void join(worker_id w, clock_index c) {
    RUBATO_ASSERT(!contains(w));
    RUBATO_ASSERT(c >= floor());
    if (w.index() >= leaves_) grow(w.index() + 1);
    ++live_;
    set(w, {c, c});
    floor_ = std::max(floor_, c_min());
  }

  /// @pre `contains(w)`
  void leave(worker_id w) {
    RUBATO_ASSERT(contains(w));
    floor_ = std::max(floor_, c_min());
    --live_;
    set(w, {});
    if (live_ != 0) floor_ = std::max(floor_, c_min());
  }

  /// Sets a live worker's clock. @pre `c` is not below its clock
  void advance(worker_id w, clock_index c) {
    RUBATO_ASSERT(c >= of(w));
    set(w, {c, c});
  }

 private:
  struct range {
    clock_index least = clock_index::highest();
    clock_index greatest = clock_index::lowest();
    friend bool operator==(range const&, range const&) = default;
  };

  [[nodiscard]] range const& root() const noexcept { return tree_[1]; }

  [[nodiscard]] static range join_of(range const& a, range const& b) noexcept {
    return {std::min(a.least, b.least), std::max(a.greatest, b.greatest)};
  }

  void set(worker_id w, range r) noexcept {
    std::size_t node = leaves_ + w.index();
    tree_[node] = r;
    for (node /= 2; node != 0; node /= 2) {
      range const merged = join_of(tree_[2 * node], tree_[2 * node + 1]);
      if (tree_[node] == merged) return;
      tree_[node] = merged;
    }
  }

  void grow(std::size_t workers) {
    std::size_t const leaves = std::bit_ceil(std::max<std::size_t>(workers, 2));
    std::vector<range> tree(2 * leaves);
    std::copy_n(tree_.begin() + static_cast<std::ptrdiff_t>(leaves_), leaves_,
                tree.begin() + static_cast<std::ptrdiff_t>(leaves));
    for (std::size_t node = leaves - 1; node != 0; --node)
      tree[node] = join_of(tree[2 * node], tree[2 * node + 1]);
    tree_ = std::move(tree);
    leaves_ = leaves;
  }

  // Node 1 is the root, nodes leaves_ … 2·leaves_ − 1 are the workers.
  std::vector<range> tree_ = std::vector<range>(4);
  std::size_t leaves_ = 2;
  std::size_t live_ = 0;
  clock_index floor_{0};
};

}  // namespace rubato
