// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <list>
#include <span>
#include <utility>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/core/repeated_row.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/storage/arithmetic.hpp"

namespace rubato {

/// When and how something was fetched: what the cache column of the admission rules is asked about.
struct fetch_mark {
  clock_index server_clock = clock_index::lowest();  ///< `c_min` at the server that answered
  clock_index at = clock_index::lowest();            ///< the reader's clock then
  clock_index need = clock_index::lowest();          ///< what the read had needed
  std::uint64_t fetch = 0;                           ///< which of the reader's fetches, from 1
};

/// Which copies will do for a read: by the cache column of the rules for the first read of a clock, and
/// between commits also those fetched since the last one.
struct freshness {
  clock_index clock = clock_index::lowest();       ///< the reader's
  clock_index need = clock_index::lowest();        ///< what the read needs
  clock_index cache_need = clock_index::lowest();  ///< the least server clock of a copy

  [[nodiscard]] bool allows(fetch_mark const& m) const noexcept {
    return m.server_clock >= cache_need || (m.at == clock && m.need >= need);
  }
};

/// The rows that a worker, or a process, has fetched by key. A worker's are as it sees them: its own
/// later pushes are added in place (read-my-writes). O(1) per row.
///
/// With a capacity, the least recently used row makes room for another. Nothing is lost with it: what
/// has been pushed is not kept here alone.
template <class Mark = fetch_mark>
class row_cache {
 public:
  struct entry {
    Mark mark{};
    std::size_t slot = 0;
    std::list<std::uint64_t>::iterator use{};  ///< its place in the order; only with a capacity
  };

  /// `capacity` in rows; 0: no limit.
  explicit row_cache(std::size_t row_bytes, std::size_t capacity = 0)
      : row_bytes_(row_bytes), capacity_(capacity) {}

  [[nodiscard]] bool empty() const noexcept { return entries_.empty(); }
  [[nodiscard]] bool limited() const noexcept { return capacity_ != 0; }
  /// O(rows that are here · log keys) where the keys ascend, else O(keys).
  [[nodiscard]] bool has_none_of(std::span<std::uint64_t const> keys) const noexcept {
    if (entries_.empty()) return true;
    if (!detail::ascend(keys))
      return std::ranges::none_of(keys, [this](std::uint64_t k) { return entries_.contains(k); });
    return std::ranges::none_of(entries_, [&](auto const& e) { return std::ranges::binary_search(keys, e.first); });
  }

  [[nodiscard]] entry const* find(std::uint64_t k) const noexcept {
    if (entries_.empty()) return nullptr;
    auto const at = entries_.find(k);
    return at == entries_.end() ? nullptr : &at->second;
  }
  /// The same for whoever reads it, which makes it the last to be forgotten.
  [[nodiscard]] entry const* use(std::uint64_t k) noexcept {
    entry const* const e = find(k);
    if (e != nullptr && capacity_ != 0) order_.splice(order_.end(), order_, e->use);
    return e;
  }
  [[nodiscard]] std::byte* values(entry const& e) noexcept {
    return values_.data() + e.slot * row_bytes_;
  }
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

  /// Stores a fetched row; one fetched at an older server clock never takes a newer one's place.
  /// `mark` says all but the server's clock. Returns where the values are, fetched or kept.
  std::byte* put(std::uint64_t k, Mark const& mark, clock_index server_clock, std::byte const* from) {
    newest_ = std::max(newest_, server_clock);
    if (capacity_ != 0) return put_limited(k, mark, server_clock, from);
    make_room();
    auto const [at, is_new] = entries_.try_emplace(k);
    if (is_new) at.value().slot = entries_.size() - 1;
    return write(at.value(), is_new, mark, server_clock, from);
  }

  /// Adds an own push to a row that is here.
  template <parameter T>
  void add(std::uint64_t k, T const* delta) noexcept {
    if (entry const* e = find(k)) add_to(*e, delta);
  }
  /// The same for a push of all rows.
  template <parameter T>
  void add_all(T const* deltas) noexcept {
    if (entries_.empty()) return;
    for (auto const& [k, e] : entries_)
      add_to(e, deltas + static_cast<std::size_t>(k) * (row_bytes_ / sizeof(T)));
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
  template <parameter T>
  void add_to(entry const& e, T const* delta) noexcept {
    detail::add_row(reinterpret_cast<T*>(values(e)), delta, row_bytes_ / sizeof(T));
  }

  std::byte* write(entry& e, bool is_new, Mark const& mark, clock_index server_clock, std::byte const* from) {
    if (!is_new && server_clock < e.mark.server_clock) return values(e);
    e.mark = mark;
    e.mark.server_clock = server_clock;
    return static_cast<std::byte*>(std::memcpy(values(e), from, row_bytes_));
  }

  std::byte* put_limited(std::uint64_t k, Mark const& mark, clock_index server_clock, std::byte const* from) {
    if (use(k) != nullptr) return write(entries_.find(k).value(), false, mark, server_clock, from);
    std::list<std::uint64_t> place;
    entry fresh{{}, room(place), {}};
    fresh.use = place.begin();
    place.front() = k;
    entry& e = entries_.emplace(k, std::move(fresh)).first.value();
    order_.splice(order_.end(), place);
    return write(e, true, mark, server_clock, from);
  }

  /// A place for one more row: that of the least recently used one, if there may be no more. `place` gets
  /// an element for the order. Takes memory only where nothing has to go, and before anything is changed.
  std::size_t room(std::list<std::uint64_t>& place) {
    if (entries_.size() >= capacity_) {
      auto const oldest = entries_.find(order_.front());
      std::size_t const slot = oldest->second.slot;
      if constexpr (requires { oldest->second.mark.fetch; })
        forgotten_ = std::max(forgotten_, oldest->second.mark.fetch);
      entries_.erase(oldest);
      place.splice(place.end(), order_, order_.begin());
      return slot;
    }
    place.emplace_back();
    make_room();
    return entries_.size();
  }

  /// For one row more than there are.
  void make_room() {
    if (values_.size_bytes() == entries_.size() * row_bytes_) (void)values_.extend(row_bytes_);
  }

  std::uint64_t forgotten_ = 0;
  clock_index newest_ = clock_index::lowest();  // the greatest server clock among the entries
  detail::row_map<entry> entries_;
  raw_array values_;
  std::size_t row_bytes_;
  std::size_t capacity_;
  std::list<std::uint64_t> order_;  // least recently used first; empty without a capacity
};

}  // namespace rubato
