// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <memory>

#include "rubato/server/stable_cuts.hpp"

namespace rubato {

clock_index stable_cuts::join(worker_id w) {
  if (w.index() >= members_.size()) members_.resize(w.index() + 1);
  if (progress_.contains(w)) progress_.leave(w);  // an earlier life
  clock_index const at = std::max(progress_.floor(), members_[w.index()].stable);
  members_[w.index()] = {std::vector<clock_index>(servers_, at), at, std::nullopt};
  progress_.join(w, at);
  current_.reset();
  return at;
}

void stable_cuts::start(worker_id w, clock_index at) {
  member& m = members_[w.index()];
  std::ranges::fill(m.received, at);
  advance(w, at);
}

void stable_cuts::leave(worker_id w, clock_index cut) {
  members_[w.index()].cut = cut;
  forget(w);
  settle(w);
}

void stable_cuts::lose(worker_id w, clock_index cut) {
  std::ranges::fill(members_[w.index()].received, cut);
  advance(w, cut);
  leave(w, cut);
}

void stable_cuts::forget(worker_id w) {
  waiting_.remove(w);
  release(w);
}

void stable_cuts::report(server_id s, worker_id w, clock_index clock) {
  if (w.index() >= members_.size() || !progress_.contains(w)) return;
  member& m = members_[w.index()];
  m.received[s.index()] = std::max(m.received[s.index()], clock);
  advance(w, std::ranges::min(m.received));
  settle(w);
}

bool stable_cuts::admit(worker_id w, clock_index clock, clock_index need) {
  if (need <= c_min()) return true;
  waiting_.enter(w, clock, need);
  return false;
}

shared_cut stable_cuts::grant(worker_id w, bool pull) {
  if (!current_) current_ = make_current();
  if (pull) {
    release(w);
    under_way_.emplace_back(w, current_);
  }
  return current_;
}

void stable_cuts::release(worker_id w) {
  auto const at = std::ranges::find(under_way_, w, &std::pair<worker_id, shared_cut>::first);
  if (at != under_way_.end()) under_way_.erase(at);
}

shared_cut stable_cuts::take_mark() {
  // With the last worker gone, all that is left is to be folded.
  if (advanced_ < progress_.live()) return nullptr;
  if (under_way_.empty() && !current_) current_ = make_current();
  shared_cut const next = under_way_.empty() ? current_ : under_way_.front().second;
  if (next == mark_) return nullptr;
  mark_ = next;
  advanced_ = 0;
  return mark_;
}

void stable_cuts::advance(worker_id w, clock_index to) {
  member& m = members_[w.index()];
  if (m.cut) to = std::min(to, *m.cut);
  if (to <= m.stable) return;
  advanced_ += static_cast<std::size_t>(distance(m.stable, to));
  m.stable = to;
  current_.reset();
  if (!progress_.contains(w)) return;
  progress_.advance(w, to);
  waiting_.release(c_min(), released_);
}

void stable_cuts::settle(worker_id w) {
  member const& m = members_[w.index()];
  if (!m.cut || m.stable < *m.cut || !progress_.contains(w)) return;
  progress_.leave(w);
  current_.reset();
  waiting_.release(c_min(), released_);
}

shared_cut stable_cuts::make_current() const {
  std::vector<clock_index> below;
  below.reserve(members_.size());
  for (member const& m : members_) below.push_back(m.stable);
  return std::make_shared<commit_cut const>(std::move(below), progress_.floor());
}

}  // namespace rubato
