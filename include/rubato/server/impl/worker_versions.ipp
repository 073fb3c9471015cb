// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <limits>

#include "rubato/core/assert.hpp"
#include "rubato/server/worker_versions.hpp"

namespace rubato {

void worker_versions::join(worker_id w, version_index at) {
  if (w.index() >= members_.size()) members_.resize(w.index() + 1);
  member& m = members_[w.index()];
  m.next = std::max({at, m.next, version_index{bounds_.floor().value()}});
  m.gone = false;
  if (bounds_.contains(w)) settle(w);  // what an earlier life sent is still held back, and stays its least
  else bounds_.join(w, oldest(m));
}

void worker_versions::leave(worker_id w) {
  member& m = members_[w.index()];
  m.gone = true;
  if (m.held.empty() && bounds_.contains(w)) bounds_.leave(w);
}

void worker_versions::raise(worker_id w, version_index to) {
  member& m = members_[w.index()];
  m.next = std::max(m.next, to);
  settle(w);
}

bool worker_versions::accepts(worker_id w, version_index v) const noexcept {
  constexpr version_index most{std::numeric_limits<std::int64_t>::max() / 2};
  return v >= of(w) && v < most;
}

void worker_versions::receive(worker_id w, version_index v) {
  member& m = members_[w.index()];
  RUBATO_ASSERT(v >= m.next);
  m.next = after(v);
  m.held.push_back(v);
  settle(w);
}

void worker_versions::fold(worker_id w, version_index v) {
  member& m = members_[w.index()];
  RUBATO_ASSERT(!m.held.empty() && m.held.front() == v);
  m.held.erase(m.held.begin());
  top_ = std::max(top_, after(v));
  settle(w);
}

void worker_versions::drop(worker_id w, std::size_t count) {
  member& m = members_[w.index()];
  m.held.erase(m.held.end() - static_cast<std::ptrdiff_t>(count), m.held.end());
  settle(w);
}

void worker_versions::settle(worker_id w) {
  member const& m = members_[w.index()];
  if (!bounds_.contains(w)) return;
  if (m.held.empty() && m.gone) bounds_.leave(w);
  else bounds_.advance(w, oldest(m));
}

}  // namespace rubato
