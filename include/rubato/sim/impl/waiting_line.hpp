// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace rubato::sim {

/// Events with their places in an order, first in, first out, in one piece of memory: what is looked at next is what
/// the cache fetches by itself. Used by `event_queue`. Amortised constant time.
template <class Entry, class Event>
class waiting_line {
 public:
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }

  // @pre there are that many
  [[nodiscard]] Entry const& first() const noexcept { return entry(0); }
  [[nodiscard]] Entry const& last() const noexcept { return entry(size_ - 1); }
  [[nodiscard]] Entry const& entry(std::size_t i) const noexcept { return at(i).first; }
  [[nodiscard]] Entry& entry(std::size_t i) noexcept { return ring_[(first_ + i) & (ring_.size() - 1)].first; }
  [[nodiscard]] Event const& event(std::size_t i) const noexcept { return at(i).second; }

  void push(Entry e, Event&& event_of_it) {
    if (size_ == ring_.size()) grow();
    ring_[(first_ + size_) & (ring_.size() - 1)] = {e, std::move(event_of_it)};
    ++size_;
  }
  [[nodiscard]] Event pop() noexcept {
    Event next = std::move(ring_[first_].second);
    first_ = (first_ + 1) & (ring_.size() - 1);
    --size_;
    return next;
  }

 private:
  using place = std::pair<Entry, Event>;

  [[nodiscard]] place const& at(std::size_t i) const noexcept { return ring_[(first_ + i) & (ring_.size() - 1)]; }

  void grow() {
    std::vector<place> larger(std::max<std::size_t>(64, 2 * ring_.size()));
    for (std::size_t i = 0; i < size_; ++i) larger[i] = std::move(ring_[(first_ + i) & (ring_.size() - 1)]);
    ring_.swap(larger);
    first_ = 0;
  }

  std::vector<place> ring_;  // a power of two of places, or none
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace rubato::sim
