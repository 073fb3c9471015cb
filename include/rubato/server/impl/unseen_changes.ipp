// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <limits>

#include "rubato/server/unseen_changes.hpp"

namespace rubato {

void unseen_changes::fold(worker_id w, std::uint64_t fold, double size) {
  of(w).own.push_back({fold, std::isnan(size) ? std::numeric_limits<double>::infinity() : size});
}

bool unseen_changes::ask(worker_id w, clock_index clock) {
  bool const computes = computing_.contains(w);
  if (computes && of(w).asked == clock) return false;  // what it has read first is older than what it reads now
  of(w).asked = clock;
  if (computes) computing_.leave(w);
  return true;
}

void unseen_changes::let_in(worker_id w, std::uint64_t folds) {
  computing_.join(w, clock_index{static_cast<std::int64_t>(folds)});
}

void unseen_changes::forget(worker_id w) {
  of(w) = {};
  if (computing_.contains(w)) computing_.leave(w);
}

clock_index unseen_changes::need(worker_id w, double limit) {
  auto& own = of(w).own;
  clock_index const known = seen();
  while (!own.empty() && clock_index{static_cast<std::int64_t>(own.front().fold)} <= known) own.pop_front();
  double sum = 0;
  for (auto at = own.rbegin(); at != own.rend(); ++at)
    if (!((sum += at->size) <= limit)) return clock_index{static_cast<std::int64_t>(at->fold)};
  return clock_index{0};
}

}  // namespace rubato
