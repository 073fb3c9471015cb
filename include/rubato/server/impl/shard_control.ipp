// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
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
  credits_ = {};
  unseen_ = {};
  heeded_ = {};
  taken_below_ = clock_index{0};
  folded_below_ = clock_index{0};
  published_ = clock_index{0};
  rounds_ = {};
  unmade_ = {};
  awaited_ = 0;
  rounds_told_ = version_index{0};
  folds_ = 0;
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
  bool const is_of_a_round = version.value() >= 0 && version.value() <= rounds_.open().value() + rounds_ahead_max;
  if (by_rounds() && !is_of_a_round) return refusal::order;
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
          .version = version,
          .age = folds_ - members_[from.index()].read_at};
}

void shard_control::hold(commit_message message) {
  if (by_rounds()) return enter_round(std::move(message));
  version_index version{};
  if (versioned_) versions_.receive(message.from.worker, version = message.version);
  commit_info const at_arrival = info(message.from.worker, message.stamp, version);
  member& m = members_[message.from.worker.index()];
  std::uint64_t const computed_at = m.read_at;  // it may have read again by the fold
  take_renewal(m);
  log_.add({at_arrival, std::move(message), computed_at});
}

void shard_control::complete(sender const& from, clock_index stamp, double change) {
  ++counters_.commits;
  member& m = members_[from.worker.index()];
  if (!serial()) ++folds_;
  m.has_read = false;
  if (!serial()) take_renewal(m);
  if (m.state == standing::gone) return;  // dropped while it was being folded
  if (limits()) unseen_.fold(from.worker, folds_, change);
  progress_.advance(from.worker, stamp.next());
  heeded_.advance(from.worker, stamp.next());
  if (m.state == standing::leaving && m.received >= m.cut) retire(from.worker);
}

std::vector<shard_control::fold_group> shard_control::take_ready() {
  if (by_rounds()) return take_rounds();
  std::vector<fold_group> groups;
  bool const together = one_step_per_clock();
  for (auto& [stamp, commits] : take_from_log()) {
    for (auto& [worker, waiting] : commits) {
      if (groups.empty() || !together || &commits.begin()->second == &waiting) groups.emplace_back();
      // Where reads overlay the log, a commit's worth is settled.
      if (!synchronized()) {
        waiting.info = info(worker, stamp, waiting.info.version);
        waiting.info.age = folds_ + groups.size() - 1 - waiting.computed_at;  // those before it are folded by then
      }
      if (together) waiting.info.workers = static_cast<std::uint32_t>(commits.size());
      groups.back().commits.push_back(std::move(waiting));
    }
  }
  return groups;
}

void shard_control::note_folded(fold_group const& group) {
  ++folds_;
  for (held_commit const& c : group.commits) {
    newest_folded_ = std::max(newest_folded_, c.info.stamp.next());
    if (versioned_) versions_.fold(c.info.from, c.info.version);
  }
}

void shard_control::publish(std::vector<worker_id>& released) {
  folded_below_ = taken_below_;
  published_ = std::max(published_, progress_.floor());
  rounds_told_ = rounds_.open();
  heeded_.release(waiting_, released);
  if (limits()) {
    auto const before = static_cast<std::ptrdiff_t>(released.size());
    waiting_.release(unseen_.seen(), released);
    std::for_each(released.begin() + before, released.end(), [this](worker_id w) { unseen_.let_in(w, folds_); });
    return;
  }
  waiting_.release(admission_.by_round() ? clock_index{rounds_told_.value()} : published_, released);
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

// ---- rounds

/// Where a round has been made already by its worker, another commit for it is late, as if the round were over.
void shard_control::enter_round(commit_message&& message) {
  worker_id const from = message.from.worker;
  bool const drops = visibility_.rounds()->late == late_commit::drop;
  version_index const made_at = message.version;
  bool late = made_at < rounds_.open();
  if (admission_.by_round() && unmade_.contains(from)) {
    clock_index const next{made_at.value() + 1};
    late = late || next <= unmade_.of(from);
    bool const awaited = awaits(from);
    unmade_.advance(from, std::max(unmade_.of(from), next));
    if (awaited && !awaits(from)) --awaited_;
  }
  if (late && drops) {
    ++counters_.late;
    return;
  }
  commit_info const at_arrival = info(from, message.stamp, made_at);
  rounds_.add(drops ? made_at : rounds_.open(), {at_arrival, std::move(message)});
}

/// Whether the round under way cannot be over without this worker, where admission samples.
bool shard_control::awaits(worker_id w) const noexcept {
  return admission_.samples() && unmade_.contains(w) && unmade_.of(w).value() <= rounds_.open().value() &&
         admission_.takes_part(w, rounds_.open());
}

void shard_control::count_awaited() noexcept {
  if (!admission_.samples()) return;
  awaited_ = 0;
  for (std::uint32_t w = 0; w < members_.size(); ++w) awaited_ += awaits(worker_id{w}) ? 1U : 0U;
}

bool shard_control::round_is_over() const noexcept {
  if (rounds_.ready() >= visibility_.rounds()->size) return true;
  if (progress_.live() == 0) return !rounds_.empty();
  if (!admission_.by_round()) return false;
  return unmade_.c_min().value() > rounds_.open().value() || (admission_.samples() && awaited_ == 0);
}

std::vector<shard_control::fold_group> shard_control::take_rounds() {
  round_rule const& rule = *visibility_.rounds();
  std::vector<fold_group> groups;
  std::int64_t without_any = 0;  // in a row
  while (round_is_over()) {
    if (progress_.live() == 0) rounds_.skip_empty();
    version_index const round = rounds_.open();
    auto commits = rounds_.end_round(rule.size, rule.late == late_commit::fold, counters_.late);
    count_awaited();
    if (!commits.empty()) without_any = 0;
    else if (++without_any > rounds_ahead_max)
      throw option_error("protocol: by its admission none of the workers takes part in any of " +
                         std::to_string(rounds_ahead_max) + " rounds from round " +
                         std::to_string(round.value() - rounds_ahead_max) + " on, expected that each does again and again");
    if (commits.empty()) continue;
    ++counters_.rounds;
    for (held_commit& c : commits) {
      c.info = info(c.info.from, c.info.stamp, c.info.version);
      c.info.workers = static_cast<std::uint32_t>(commits.size());
      c.info.age = static_cast<std::uint64_t>(std::max<std::int64_t>(0, round.value() - c.info.version.value()));
    }
    groups.push_back({std::move(commits)});
  }
  return groups;
}

/// As a threshold among the rounds that have been folded. Where admission samples, of the first round that the reader
/// is drawn for and has made no commit for, over or not: so all servers answer the same, however far each is. Else one
/// that a lost worker's last commit has not reached would wait for a worker whom another lets sit out.
clock_index shard_control::needed_round(worker_id reader) const noexcept {
  std::int64_t const open = rounds_.open().value();
  std::int64_t round = unmade_.contains(reader) ? unmade_.of(reader).value() : open;
  if (admission_.samples())
    for (std::int64_t const end = std::max(round, open) + rounds_ahead_max; round < end; ++round)
      if (admission_.takes_part(reader, version_index{round})) break;
  return clock_index{std::max(round, open)};
}

// ---- reads

void shard_control::note_read(read_header const& read) noexcept {
  member& m = members_[read.from.worker.index()];
  if (read.renews) {
    if (m.renewed_at) RUBATO_RARE("copies are renewed again, since the answer was lost in a break");
    m.renewed_at = folds_;
    return;
  }
  if (!m.has_read) m.read_at = folds_;
  m.has_read = true;
}

/// Its commit has been looked at; the next one is of what it has renewed since the one before.
void shard_control::take_renewal(member& m) noexcept {
  if (m.renewed_at) m.read_at = *std::exchange(m.renewed_at, std::nullopt);
}

bool shard_control::admit(read_header const& read) {
  if (limits()) return admit_by_value(read);
  bool const by_round = admission_.by_round();
  clock_index const need = by_round ? needed_round(read.from.worker)
                                    : admission_.need(read.clock, read.bound, read.from.worker);
  if (need <= (by_round ? clock_index{rounds_told_.value()} : published_)) return true;
  if (admission_.heeds_some() && heeded_.admit(admission_, progress_, read.from.worker, read.clock, need)) return true;
  if (admission_.extends() && credits_.allows(admission_, progress_, published_, read.from.worker, read.clock,
                                              std::min(read.bound, admission_.bound())))
    return true;
  waiting_.enter(read.from.worker, read.clock, need);
  return false;
}

bool shard_control::admit_by_value(read_header const& read) {
  worker_id const reader = read.from.worker;
  if (!unseen_.ask(reader, read.clock)) return true;
  clock_index const need = unseen_.need(reader, admission_.limit(read.clock));
  if (need <= unseen_.seen()) {
    unseen_.let_in(reader, folds_);
    return true;
  }
  waiting_.enter(reader, read.clock, need);
  return false;
}

void shard_control::withdraw(worker_id reader) {
  waiting_.remove(reader);
  heeded_.remove(reader);
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
  heeded_.leave(w);
  if (admission_.extends()) credits_.forget(w);
  if (limits()) unseen_.forget(w);
  progress_.join(w, at);
  if (admission_.heeds_some()) heeded_.join(admission_, waiting_, w, at);
  if (members_[w.index()].returned) --returned_;
  members_[w.index()] = {standing::live, incarnation, at, at, {}};
  members_[w.index()].read_at = folds_;
  if (versioned_) versions_.join(w, {});  // the merge says how far it is
  if (by_rounds()) {
    if (unmade_.contains(w)) unmade_.leave(w);
    unmade_.join(w, std::max(unmade_.floor(), clock_index{rounds_.open().value()}));
    count_awaited();
  }
  return at;
}

void shard_control::start(worker_id w, clock_index at, version_index first) {
  member& m = members_[w.index()];
  if (m.state != standing::live) return;
  RUBATO_ASSERT(at >= m.received);
  m.joined = m.received = at;
  progress_.advance(w, at);
  heeded_.advance(w, at);
  if (versioned_) versions_.raise(w, first);
  if (!admission_.by_round()) return;
  // No server waits for it in a round before those that all of them have reached.
  unmade_.advance(w, std::max(unmade_.of(w), clock_index{first.value()}));
  count_awaited();
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
    std::size_t const dropped = log_.drop(w, m.cut) + rounds_.drop(w, m.cut);
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
  withdraw(w);
  progress_.leave(w);
  heeded_.leave(w);
  if (limits()) unseen_.forget(w);
  if (versioned_) versions_.leave(w);
  if (by_rounds()) {
    unmade_.leave(w);
    count_awaited();
  }
}

}  // namespace rubato
