// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/peer/concepts.hpp"

namespace rubato {

/// An update as it waits to be reduced, with the tags that it came with.
template <class Payload>
struct queued_update {
  worker_id from{};
  iteration_index made{};
  Payload parameters{};
};

/// A peer's update queue, `UpdateQ(i)`: what its in-neighbors have sent, by iteration and sender.
///
/// It is kept as rotating slots: iteration k waits in slot `k mod slots`, which is of use again once
/// `drop_before` has passed k. So it holds the iterations `first()` … `first() + slots − 1`, and at
/// most one update of each sender in each: bounded by construction.
///
/// "Waits until m match" is the caller's business: there is no I/O here, so `dequeue` has to be
/// asked for what `size` says is there. Asking for more, an iteration out of range, or a second
/// update of one sender and iteration are errors of the caller, and asserted.
///
/// Cost: constant to enqueue, O(updates of the slots looked at) else. Memory: O(slots), besides the
/// updates. Not thread-safe.
/// Source: 002 §4.1, §6.1.
template <class Payload>
class update_queue {
 public:
  using entry = queued_update<Payload>;

  /// @param slots    max_ig + 1 under token queues; what the graph's distances allow without
  /// @param senders  the in-neighbors, the peer itself left out
  update_queue(std::size_t slots, std::size_t senders) : senders_(senders), slots_(slots) {
    RUBATO_ASSERT(slots >= 1);
  }

  /// The oldest iteration that may still be enqueued.
  [[nodiscard]] iteration_index first() const noexcept { return first_; }
  [[nodiscard]] std::size_t slots() const noexcept { return slots_.size(); }
  [[nodiscard]] bool in_range(iteration_index k) const noexcept {
    return k >= first_ && distance(first_, k) < static_cast<std::int64_t>(slots_.size());
  }
  [[nodiscard]] bool contains(iteration_index k, worker_id from) const {
    return in_range(k) && std::ranges::any_of(slot(k), [&](entry const& e) { return e.from == from; });
  }

  /// How many updates match both tags; a tag that is left out matches all.
  [[nodiscard]] std::size_t size(std::optional<iteration_index> k = {},
                                 std::optional<worker_id> from = {}) const {
    if (k && !from) return in_range(*k) ? slot(*k).size() : 0;
    std::size_t found = 0;
    for (std::vector<entry> const& s : slots_)
      found += static_cast<std::size_t>(
          std::ranges::count_if(s, [&](entry const& e) { return matches(e, k, from); }));
    return found;
  }

  void enqueue(iteration_index k, worker_id from, Payload parameters) {
    RUBATO_ASSERT(in_range(k));
    RUBATO_ASSERT(!contains(k, from));
    std::vector<entry>& s = slot(k);
    RUBATO_ASSERT(s.empty() || s.front().made == k);  // no slot mixes iterations
    RUBATO_ASSERT(s.size() < senders_);
    s.push_back({from, k, std::move(parameters)});
    peak_ = std::max(peak_, ++held_);
  }

  /// Takes the first m that match, the oldest iterations first, within one in order of arrival.
  /// @pre m ≤ size(k, from)
  [[nodiscard]] std::vector<entry> dequeue(std::size_t m, std::optional<iteration_index> k = {},
                                           std::optional<worker_id> from = {}) {
    std::vector<entry> taken;
    taken.reserve(m);
    for (std::size_t i = 0; i < slots_.size() && taken.size() < m; ++i) {
      std::vector<entry>& s = slot(first_ + staleness(static_cast<std::int64_t>(i)));
      std::erase_if(s, [&](entry& e) {
        if (taken.size() == m || !matches(e, k, from)) return false;
        taken.push_back(std::move(e));
        return true;
      });
    }
    RUBATO_ASSERT(taken.size() == m);
    held_ -= m;
    return taken;
  }

  /// Drops what is older than k, which becomes the first iteration awaited. Never goes back.
  void drop_before(iteration_index k) {
    std::int64_t const passed = distance(first_, k);
    auto const rotated = std::min(passed, static_cast<std::int64_t>(slots_.size()));
    for (std::int64_t i = 0; i < rotated; ++i) clear(slot(first_ + staleness(i)));
    if (passed > 0) first_ = k;
  }

  /// Drops what a lost neighbor has sent.
  void drop_from(worker_id lost) {
    for (std::vector<entry>& s : slots_)
      held_ -= std::erase_if(s, [&](entry const& e) { return e.from == lost; });
  }

  /// The most updates held at one time.
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }

 private:
  static bool matches(entry const& e, std::optional<iteration_index> k, std::optional<worker_id> from) {
    return (!k || e.made == *k) && (!from || e.from == *from);
  }
  [[nodiscard]] std::size_t place(iteration_index k) const noexcept {
    return static_cast<std::size_t>(k.value()) % slots_.size();
  }
  [[nodiscard]] std::vector<entry>& slot(iteration_index k) { return slots_[place(k)]; }
  [[nodiscard]] std::vector<entry> const& slot(iteration_index k) const { return slots_[place(k)]; }
  void clear(std::vector<entry>& s) {
    held_ -= s.size();
    s.clear();
  }

  std::size_t senders_;
  std::vector<std::vector<entry>> slots_;
  iteration_index first_{};
  std::size_t held_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace rubato
