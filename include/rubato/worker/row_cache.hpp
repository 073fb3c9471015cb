// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/storage/block.hpp"

namespace rubato {

/// When and how something was fetched: what the cache column of the admission rules is asked about.
struct fetch_mark {
  clock_index server_clock = clock_index::lowest();  ///< `c_min` at the server that answered
  clock_index at = clock_index::lowest();            ///< the reader's clock then
  clock_index need = clock_index::lowest();          ///< what the read had needed
  std::uint64_t fetch = 0;                           ///< which of the reader's fetches, from 1
};

/// The rows that a worker has fetched by key, as it sees them: its own later pushes are added in
/// place (read-my-writes). O(1) per row.
template <class T>
class row_cache {
 public:
  struct entry {
    fetch_mark mark;
    std::size_t slot;
  };

  explicit row_cache(std::size_t width) : width_(width) {}

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  [[nodiscard]] entry const* find(key k) const noexcept {
    auto const at = entries_.find(k.value());
    return at == entries_.end() ? nullptr : &at->second;
  }
  [[nodiscard]] T* values(entry const& e) noexcept { return values_.data() + e.slot * width_; }

  /// Stores a fetched row; one fetched at an older server clock never takes a newer one's place.
  /// Returns where its values are, fetched or kept.
  T* put(key k, fetch_mark mark, T const* from) {
    // Room first, as there may be none: then no entry points to values that are not.
    values_.resize(std::max(values_.size(), (entries_.size() + 1) * width_));
    auto const [at, fresh] = entries_.try_emplace(k.value(), entry{mark, entries_.size()});
    entry& e = at.value();
    newest_ = std::max(newest_, mark.server_clock);
    if (fresh || mark.server_clock >= e.mark.server_clock) {
      e.mark = mark;
      std::copy_n(from, width_, values(e));
    }
    return values(e);
  }

  /// Adds an own push to a row that is here.
  void add(key k, T const* delta) noexcept {
    if (entry const* e = find(k)) detail::add_row(values(*e), delta, width_);
  }
  /// The same for a push of all rows: `delta_of(k)` is the row's part of it.
  template <class F>
  void add_all(F delta_of) noexcept {
    for (auto const& [k, e] : entries_) add(key{k}, delta_of(key{k}));
  }

  void clear() {
    if (entries_.empty()) return;
    detail::clear(entries_);
    values_.clear();
    newest_ = clock_index::lowest();
  }
  /// Forgets the rows once none of them was fetched at this server clock or later.
  void clear_unless_from(clock_index server_clock) {
    if (newest_ < server_clock) clear();
  }

 private:
  std::size_t width_;
  detail::row_map<entry> entries_;
  std::vector<T> values_;
  clock_index newest_ = clock_index::lowest();  // the greatest server clock among the entries
};

}  // namespace rubato
