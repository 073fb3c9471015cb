// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <list>
#include <utility>
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

/// The rows that a worker, or a process, has fetched by key. A worker's are as it sees them: its own
/// later pushes are added in place (read-my-writes). O(1) per row.
///
/// With a capacity, the least recently used row makes room for another. Nothing is lost with it: what
/// has been pushed is not kept here alone.
template <class T, class Mark = fetch_mark>
class row_cache {
 public:
  struct entry {
    Mark mark;
    std::size_t slot;
    std::list<std::uint64_t>::iterator use{};  ///< its place in the order; only with a capacity
  };

  /// `capacity` in rows; 0: no limit.
  explicit row_cache(std::size_t width, std::size_t capacity = 0)
      : width_(width), capacity_(capacity) {}

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }

  [[nodiscard]] entry const* find(key k) const noexcept {
    auto const at = entries_.find(k.value());
    return at == entries_.end() ? nullptr : &at->second;
  }
  /// The same for whoever reads it, which makes it the last to be forgotten.
  [[nodiscard]] entry const* use(key k) noexcept {
    entry const* const e = find(k);
    if (e != nullptr && capacity_ != 0) order_.splice(order_.end(), order_, e->use);
    return e;
  }
  [[nodiscard]] T* values(entry const& e) noexcept { return values_.data() + e.slot * width_; }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  /// Stores a fetched row; one fetched at an older server clock never takes a newer one's place.
  /// Returns where its values are, fetched or kept.
  T* put(key k, Mark const& mark, T const* from) {
    newest_ = std::max(newest_, mark.server_clock);
    if (entry const* const known = use(k)) {
      entry& e = entries_.find(k.value()).value();
      if (mark.server_clock < known->mark.server_clock) return values(e);
      e.mark = mark;
      std::copy_n(from, width_, values(e));
      return values(e);
    }
    std::list<std::uint64_t> use;
    entry fresh{mark, room(use), {}};
    if (capacity_ != 0) {
      fresh.use = use.begin();
      use.front() = k.value();
    }
    T* const to = values(fresh);
    std::copy_n(from, width_, to);
    entries_.emplace(k.value(), std::move(fresh));
    order_.splice(order_.end(), use);
    return to;
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

  /// The last of the reader's fetches of which a row has been evicted; 0: none has been.
  [[nodiscard]] std::uint64_t forgotten() const noexcept { return forgotten_; }

  void clear() {
    forgotten_ = 0;
    if (entries_.empty()) return;
    detail::clear(entries_);
    order_.clear();
    values_.clear();
    newest_ = clock_index::lowest();
  }
  /// Forgets the rows once none of them was fetched at this server clock or later.
  void clear_unless_from(clock_index server_clock) {
    if (newest_ < server_clock) clear();
  }

 private:
  /// A place for one more row: that of the least recently used one, if there may be no more. With a
  /// capacity, `use` gets an element for its place in the order. Takes memory only where nothing has to
  /// go, and before anything is changed.
  std::size_t room(std::list<std::uint64_t>& use) {
    if (capacity_ != 0 && entries_.size() >= capacity_) {
      auto const oldest = entries_.find(order_.front());
      std::size_t const slot = oldest->second.slot;
      if constexpr (requires { oldest->second.mark.fetch; })
        forgotten_ = std::max(forgotten_, oldest->second.mark.fetch);
      entries_.erase(oldest);
      use.splice(use.end(), order_, order_.begin());
      return slot;
    }
    if (capacity_ != 0) use.emplace_back();
    values_.resize(std::max(values_.size(), (entries_.size() + 1) * width_));
    return entries_.size();
  }

  std::size_t width_;
  std::size_t capacity_;
  detail::row_map<entry> entries_;
  std::list<std::uint64_t> order_;  // least recently used first; empty without a capacity
  std::vector<T> values_;
  std::uint64_t forgotten_ = 0;
  clock_index newest_ = clock_index::lowest();  // the greatest server clock among the entries
};

}  // namespace rubato
