// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/server/waiting_room.hpp"

namespace rubato {

namespace detail {
inline bool is_released_later(waiting_room::ticket const& a, waiting_room::ticket const& b) noexcept {
  return a.need != b.need ? a.need > b.need : a.sequence > b.sequence;
}
}  // namespace detail

void waiting_room::enter(worker_id w, clock_index clock, clock_index need) {
  heap_.push_back({need, next_sequence_++, w, clock});
  std::ranges::push_heap(heap_, detail::is_released_later);
}

void waiting_room::release_some(clock_index c_min, std::vector<worker_id>& released) {
  while (!heap_.empty() && heap_.front().need <= c_min) {
    released.push_back(heap_.front().worker);
    std::ranges::pop_heap(heap_, detail::is_released_later);
    heap_.pop_back();
  }
}

void waiting_room::remove(worker_id w) {
  if (std::erase_if(heap_, [w](ticket const& t) { return t.worker == w; }) != 0)
    std::ranges::make_heap(heap_, detail::is_released_later);
}

}  // namespace rubato
