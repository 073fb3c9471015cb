// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/core/assert.hpp"
#include "rubato/server/coordinator.hpp"

namespace rubato {

refusal coordinator::check(sender const& from) const noexcept {
  if (from.stage != stage_) return refusal::stage;
  auto const found = members_.find(from.worker);
  if (found == members_.end() || found->second.now != state::live) return refusal::stranger;
  return found->second.incarnation == from.incarnation ? refusal::none : refusal::incarnation;
}

void coordinator::begin_stage(stage_id stage, bool grants_cuts) {
  stage_ = stage;
  grants_cuts_ = grants_cuts;
  members_.clear();
  cuts_.begin_stage();
}

membership_order coordinator::join(worker_id w, incarnation_id incarnation) {
  clock_index const at = grants_cuts_ ? cuts_.join(w) : clock_index::lowest();
  members_[w] = {state::joining, incarnation, servers_, at, {}};
  return order(membership_order::kind::enlist, w, {});
}

membership_order coordinator::leave(worker_id w, clock_index at) {
  tell_cuts(&stable_cuts::leave, w, at);
  return order(membership_order::kind::drop, w, at, true);
}

std::optional<membership_order> coordinator::lose(worker_id w) {
  auto const found = members_.find(w);
  if (found == members_.end() || found->second.now == state::losing) return std::nullopt;
  found->second.now = state::losing;
  found->second.missing = servers_;
  found->second.clock = clock_index::highest();
  tell_cuts(&stable_cuts::forget, w);
  return order(membership_order::kind::freeze, w, {});
}

std::optional<membership_order> coordinator::report(membership_order const& about,
                                                     membership_report const& said) {
  auto const found = members_.find(about.worker);
  if (found == members_.end() || about.stage != stage_) return std::nullopt;
  member& m = found->second;
  if (m.incarnation != about.incarnation) return std::nullopt;  // of an earlier life
  bool const joining = about.what == membership_order::kind::enlist;
  if (m.now != (joining ? state::joining : state::losing)) return std::nullopt;  // overtaken
  m.clock = joining ? std::max(m.clock, said.clock) : std::min(m.clock, said.clock);
  m.version = std::max(m.version, said.version);
  if (--m.missing != 0) return std::nullopt;
  return joining ? started(about.worker, m) : dropped(about.worker, m);
}

membership_order coordinator::started(worker_id w, member& m) {
  m.now = state::live;
  tell_cuts(&stable_cuts::start, w, m.clock);
  membership_order o = order(membership_order::kind::start, w, m.clock);
  // Where reads are synchronized, shards have folded less than the joiner's clock says.
  o.version = std::max(m.version, version_index{m.clock.value()});
  return o;
}

membership_order coordinator::dropped(worker_id w, member const& m) {
  tell_cuts(&stable_cuts::lose, w, m.clock);
  return order(membership_order::kind::drop, w, m.clock, true);
}

membership_order coordinator::order(membership_order::kind what, worker_id w, clock_index at,
                       bool last) {
  auto const found = members_.find(w);
  RUBATO_ASSERT(found != members_.end());
  epoch_ = epoch_id{epoch_.value() + 1};
  membership_order const o{what, w, found->second.incarnation, at, epoch_, stage_, {}};
  if (last) members_.erase(found);
  return o;
}

}  // namespace rubato
