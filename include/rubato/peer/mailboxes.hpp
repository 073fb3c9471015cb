// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/peer/concepts.hpp"
#include "rubato/peer/update_queue.hpp"

namespace rubato {

/// What bounded staleness keeps in the update queue's place: of each in-neighbor the newest update,
/// which a newer arrival overwrites.
///
/// An update is *fresh* until it is taken. Whether a peer may go on depends on the newest ever
/// received, taken or not; what it reduces, on what is fresh.
///
/// Boxes are numbered as the in-neighbors are. Misuse is asserted. Constant time, `take` and
/// `drop_before` O(boxes). Not thread-safe. Source: 002 §4.4; rules §6.
template <class Payload>
class mailboxes {
 public:
  using entry = queued_update<Payload>;

  explicit mailboxes(std::size_t senders) : boxes_(senders) {}

  /// The iteration of the newest update ever received; −1 before the first.
  [[nodiscard]] iteration_index newest(std::size_t box) const noexcept { return boxes_[box].newest; }
  [[nodiscard]] bool fresh(std::size_t box) const noexcept { return boxes_[box].fresh; }

  /// @pre newer than all that this sender has sent before
  void put(std::size_t box, iteration_index k, worker_id from, Payload parameters) {
    state& b = boxes_[box];
    RUBATO_ASSERT(k > b.newest);
    if (!b.fresh) peak_ = std::max(peak_, ++held_);
    b.newest = k;
    b.fresh = true;
    b.update = {from, k, std::move(parameters)};
  }

  /// Takes what is fresh and not older than `oldest`.
  [[nodiscard]] std::vector<entry> take(iteration_index oldest) {
    std::vector<entry> taken;
    for (state& b : boxes_) {
      if (!b.fresh || b.newest < oldest) continue;
      taken.push_back(std::exchange(b.update, {}));
      empty(b);
    }
    return taken;
  }

  /// Drops what is fresh and older than k.
  void drop_before(iteration_index k) {
    for (state& b : boxes_)
      if (b.newest < k) empty(b);
  }
  /// Drops what a lost neighbor has sent.
  void drop(std::size_t box) { empty(boxes_[box]); }

  /// The updates held, and the most at one time.
  [[nodiscard]] std::size_t size() const noexcept { return held_; }
  [[nodiscard]] std::size_t peak() const noexcept { return peak_; }

 private:
  struct state {
    iteration_index newest{-1};
    bool fresh = false;
    entry update{};
  };
  void empty(state& b) {
    if (b.fresh) --held_;
    b.fresh = false;
    b.update = {};
  }

  std::vector<state> boxes_;
  std::size_t held_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace rubato
