// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/server/heeded_waits.hpp"

namespace rubato {

bool heeded_waits::admit(admission_rule const& admission, progress const& clocks, worker_id reader, clock_index clock,
                         clock_index need) {
  std::size_t const workers = std::max(clocks.places(), reader.index() + 1);
  make_room(workers);
  std::uint32_t& missing = awaits_[reader.index()];
  for (std::uint32_t w = 0; w < workers; ++w) {
    worker_id const other{w};
    if (!clocks.contains(other) || clocks.of(other) >= need) continue;
    // Its own clock is behind where it has joined, and its start is not here yet.
    if (other != reader && !admission.heeds(reader, other, clock)) continue;
    awaited_by_[w].push_back({reader, need});
    ++missing;
  }
  return missing == 0;
}

void heeded_waits::join(admission_rule const& admission, waiting_room const& room, worker_id w, clock_index at) {
  make_room(w.index() + 1);
  for (waiting_room::ticket const& t : room.tickets()) {
    std::uint32_t& missing = awaits_[t.worker.index()];
    if (missing == 0 || t.worker == w || at >= t.need || !admission.heeds(t.worker, w, t.clock)) continue;
    awaited_by_[w.index()].push_back({t.worker, t.need});
    ++missing;
  }
}

void heeded_waits::make_room(std::size_t workers) {
  if (awaits_.size() < workers) awaits_.resize(workers);
  if (awaited_by_.size() < workers) awaited_by_.resize(workers);
}

void heeded_waits::advance(worker_id w, clock_index to) {
  if (w.index() >= awaited_by_.size()) return;
  std::erase_if(awaited_by_[w.index()], [&](claim const& c) {
    if (c.need > to) return false;
    if (--awaits_[c.reader.index()] == 0) free_.push_back(c.reader);
    return true;
  });
}

void heeded_waits::remove(worker_id reader) {
  if (reader.index() >= awaits_.size()) return;
  std::erase(free_, reader);
  if (std::exchange(awaits_[reader.index()], 0) == 0) return;
  for (auto& claims : awaited_by_) std::erase_if(claims, [reader](claim const& c) { return c.reader == reader; });
}

void heeded_waits::release(waiting_room& room, std::vector<worker_id>& released) {
  for (worker_id const w : free_) room.remove(w);
  released.insert(released.end(), free_.begin(), free_.end());
  free_.clear();
}

}  // namespace rubato
