// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/core/assert.hpp"
#include "rubato/server/shard_control.hpp"

namespace rubato {

void shard_control::begin_stage(stage_id stage) {
  log_ = {};
  stage_ = stage;
  progress_ = {};
  versions_ = {};
  newest_folded_ = clock_index{0};
  mark_.clear();
  mark_c_min_ = clock_index{0};
  marked_ = false;
  members_.clear();
  returned_ = 0;
  waiting_.clear();
  taken_below_ = clock_index{0};
  folded_below_ = clock_index{0};
  published_ = clock_index{0};
  counters_ = {};
}

void shard_control::begin_stage(stage_id stage, admission_rule admission, visibility_rule visibility,
                                bool versioned) {
  admission_ = std::move(admission);
  visibility_ = std::move(visibility);
  versioned_ = versioned;
  begin_stage(stage);
}

// ---- commits

refusal shard_control::accept(sender const& from, clock_index stamp, version_index of) {
  refusal const r = check(from, stamp, of);
  if (r == refusal::none) members_[from.worker.index()].received = stamp.next();
  else ++counters_.refused;
  return r;
}

refusal shard_control::check(sender const& from, clock_index stamp,
                             version_index version) const noexcept {
  if (refusal const r = check(from); r != refusal::none) return r;
  if (stamp != members_[from.worker.index()].received) return refusal::order;
  if (versioned_ && !versions_.accepts(from.worker, version)) return refusal::old_version;
  return refusal::none;
}

refusal shard_control::check(sender const& from) const noexcept {
  if (from.stage != stage_) return refusal::stage;
  if (from.worker.index() >= members_.size()) return refusal::stranger;
  member const& m = members_[from.worker.index()];
  if (m.state == standing::gone || m.state == standing::frozen) return refusal::stranger;
  return m.incarnation == from.incarnation ? refusal::none : refusal::incarnation;
}

commit_info shard_control::info(worker_id from, clock_index stamp,
                                version_index version) const noexcept {
  return {.from = from,
          .stamp = stamp,
          .c_min = progress_.floor(),
          .c_max = std::max(progress_.c_max(), progress_.floor()),
          .workers = static_cast<std::uint32_t>(std::max<std::size_t>(progress_.live() + returned_, 1)),
          .version = version};
}

void shard_control::hold(commit_message message) {
  version_index version{};
  if (versioned_) versions_.receive(message.from.worker, version = message.version);
  commit_info const at_arrival = info(message.from.worker, message.stamp, version);
  log_.add({at_arrival, std::move(message)});
}

void shard_control::complete(sender const& from, clock_index stamp) {
  ++counters_.commits;
  member& m = members_[from.worker.index()];
  if (m.state == standing::gone) return;  // dropped while it was being folded
  progress_.advance(from.worker, stamp.next());
  if (m.state == standing::leaving && m.received >= m.cut) retire(from.worker);
}

std::vector<shard_control::fold_group> shard_control::take_ready() {
  std::vector<fold_group> groups;
  bool const together = one_step_per_clock();
  for (auto& [stamp, commits] : take_from_log()) {
    for (auto& [worker, waiting] : commits) {
      if (groups.empty() || !together || &commits.begin()->second == &waiting) groups.emplace_back();
      // Where reads overlay the log, a commit's worth is settled.
      if (!synchronized()) waiting.info = info(worker, stamp, waiting.info.version);
      if (together) waiting.info.workers = static_cast<std::uint32_t>(commits.size());
      groups.back().commits.push_back(std::move(waiting));
    }
  }
  return groups;
}

void shard_control::note_folded(fold_group const& group) {
  for (held_commit const& c : group.commits) {
    newest_folded_ = std::max(newest_folded_, c.info.stamp.next());
    if (versioned_) versions_.fold(c.info.from, c.info.version);
  }
}

void shard_control::publish(std::vector<worker_id>& released) {
  folded_below_ = taken_below_;
  published_ = std::max(published_, progress_.floor());
  waiting_.release(published_, released);
}

commit_log::groups shard_control::take_from_log() {
  if (synchronized()) return take_below_mark();
  auto taken = log_.take_below(horizon_at(progress_.c_min()));
  // By the floor: when all have left the horizon is "never", which is not so for those who join.
  taken_below_ = std::max(taken_below_, horizon_at(progress_.floor()));
  return taken;
}

commit_log::groups shard_control::take_below_mark() {
  if (!std::exchange(marked_, false)) return {};
  return log_.take_if(
      [this](clock_index stamp, worker_id w) { return stamp < mark_of(w.index()); });
}

// ---- reads

bool shard_control::admit(read_header const& read) {
  clock_index const need = admission_.need(read.clock, read.bound, read.from.worker);
  if (need <= published_) return true;
  waiting_.enter(read.from.worker, read.clock, need);
  return false;
}

bool shard_control::holds(commit_cut const& cut) const noexcept {
  for (std::size_t w = 0; w < members_.size(); ++w) {
    clock_index const below = cut.of(worker_id{static_cast<std::uint32_t>(w)});
    if (below > members_[w].received || below < mark_of(w)) return false;
  }
  return true;
}

void shard_control::advance(commit_cut const& mark) {
  if (mark_.size() < mark.size()) mark_.resize(mark.size(), clock_index::lowest());
  for (std::size_t w = 0; w < mark.size(); ++w)
    mark_[w] = std::max(mark_[w], mark.of(worker_id{static_cast<std::uint32_t>(w)}));
  mark_c_min_ = std::max(mark_c_min_, mark.c_min());
  marked_ = true;
}

void shard_control::advance_to_all() {
  mark_.resize(std::max(mark_.size(), members_.size()), clock_index::lowest());
  for (std::size_t w = 0; w < members_.size(); ++w)
    mark_[w] = std::max(mark_[w], members_[w].received);
  marked_ = true;
}

version_window shard_control::window() const noexcept {
  clock_index const folded_c_min = synchronized() ? mark_c_min_ : progress_.floor();
  return {.least = versions_.least(), .c_min = folded_c_min, .c_max = newest_folded_};
}

// ---- membership

refusal shard_control::accept(membership_order const& o) noexcept {
  refusal const r = check(o);
  if (r == refusal::none) epoch_ = o.epoch;
  else ++counters_.refused;
  return r;
}

refusal shard_control::check(membership_order const& o) const noexcept {
  if (o.stage != stage_) return refusal::stage;
  if (o.epoch <= epoch_) return refusal::order;
  if (o.what == membership_order::kind::enlist) return refusal::none;
  if (o.worker.index() >= members_.size()) return refusal::stranger;
  return members_[o.worker.index()].incarnation == o.incarnation ? refusal::none
                                                                 : refusal::incarnation;
}

clock_index shard_control::enlist(worker_id w, incarnation_id incarnation) {
  if (w.index() >= members_.size()) members_.resize(w.index() + 1);
  clock_index const at = std::max(progress_.floor(), members_[w.index()].cut);
  if (progress_.contains(w)) progress_.leave(w);
  progress_.join(w, at);
  if (members_[w.index()].returned) --returned_;
  members_[w.index()] = {standing::live, incarnation, at, at, {}};
  if (versioned_) versions_.join(w, {});  // the merge says how far it is
  return at;
}

void shard_control::start(worker_id w, clock_index at, version_index first) {
  member& m = members_[w.index()];
  if (m.state != standing::live) return;
  RUBATO_ASSERT(at >= m.received);
  m.joined = m.received = at;
  progress_.advance(w, at);
  if (versioned_) versions_.raise(w, first);
}

clock_index shard_control::freeze(worker_id w) {
  member& m = members_[w.index()];
  if (m.state == standing::live) m.state = standing::frozen;
  return m.received;
}

void shard_control::drop(worker_id w, clock_index cut) {
  if (w.index() >= members_.size()) return;
  member& m = members_[w.index()];
  if (m.state == standing::gone) return;
  // A joiner that was lost before it began may have a cut below its first clock here.
  m.cut = std::max(cut, m.joined);
  if (m.state == standing::live && m.received < m.cut) {
    m.state = standing::leaving;
    return;
  }
  if (m.received > m.cut) {
    std::size_t const dropped = log_.drop(w, m.cut);
    if (versioned_) versions_.drop(w, dropped);
    auto const beyond = static_cast<std::uint64_t>(distance(m.cut, m.received));
    counters_.dropped += dropped;
    counters_.partly_folded += beyond - dropped;
  }
  retire(w);
}

bool shard_control::abandon(worker_id w) {
  if (w.index() >= members_.size() || members_[w.index()].state != standing::leaving) return false;
  retire(w);
  return true;
}

/// Who is lost is frozen first; all others have ended by themselves.
void shard_control::retire(worker_id w) {
  member& m = members_[w.index()];
  m.returned = m.state != standing::frozen;
  if (m.returned) ++returned_;
  m.state = standing::gone;
  waiting_.remove(w);
  progress_.leave(w);
  if (versioned_) versions_.leave(w);
}

}  // namespace rubato
