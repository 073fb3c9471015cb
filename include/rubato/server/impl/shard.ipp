// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/server/shard.hpp"
#include "rubato/server/shard_view.hpp"
#include "rubato/storage/arithmetic.hpp"

namespace rubato {

shard::shard(blueprint const& plan, server_id self, threading t, block_memory* memory)
    : plan_(plan),
      lock_(t),
      control_(plan.protocol().admission, plan.protocol().visibility, plan.versioned()) {
  for (table_blueprint const& table : plan.tables()) hosts_.push_back(table.make_host(self, t, memory));
}

void shard::begin_stage(stage_id stage, std::size_t protocol, bool changes_tables, recovery what) {
  guard_type guard(lock_);
  end_stage(guard);
  if (changes_tables) change_tables(plan_.changes(protocol));
  recover(what);
  protocol_ = protocol;
  rules const& p = plan_.protocol(protocol);
  control_.begin_stage(stage, p.admission, p.visibility, plan_.versioned(protocol));
  versions_peak_ = 0;
  folding_ = false;
}

void shard::forget_values() {
  guard_type guard(lock_);
  for (auto const& h : hosts_) h->clear();
}

void shard::change_tables(table_changes const& c) {
  auto const row_bytes = [this](std::size_t table) { return plan_.table(table).row_bytes(); };
  auto const bounded = [this](std::size_t table) { return plan_.table(table).bounded(); };
  for (table_copy const& one : c.copied)
    copy_table(*hosts_[one.to], *hosts_[one.from], bounded(one.to), row_bytes(one.to));
  for (std::size_t const table : c.cleared) hosts_[table]->clear();
  for (table_function const& f : c.applied)
    apply_to_table(*hosts_[f.table], f, bounded(f.table), row_bytes(f.table));
}

/// Where a store shares its chunks, what is kept takes memory for those that change. A first attempt has nothing to go
/// back to, also if it is asked to.
void shard::recover(recovery what) {
  if (what == recovery::restore && kept_.size() == hosts_.size()) {
    for (std::size_t i = 0; i < hosts_.size(); ++i) {
      restore_table(*hosts_[i], kept_[i].rows, plan_.table(i).bounded(), plan_.table(i).row_bytes());
      if (kept_[i].beside) hosts_[i]->restore_beside(kept_[i].beside);
    }
    return;
  }
  kept_.clear();
  if (what == recovery::none) return;
  for (auto const& h : hosts_) {
    h->snapshot(kept_.emplace_back().rows, {});
    kept_.back().beside = h->keep_beside();
  }
}

/// By the rules of the stage that ends.
void shard::end_stage(guard_type& guard) {
  if (control_.synchronized()) {
    control_.advance_to_all();
    fold_ready(guard);
  }
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (merge(i).versioned())
      hosts_[i]->expire([&](version_state const& v) { return merge(i).share(v); });
}

// ---- commits

refusal shard::commit(commit_message&& m, std::vector<worker_id>& released) {
  guard_type guard(lock_);
  // Where nothing is held back nobody may commit faster than it can be folded.
  if (control_.serial() && !control_.holds_back()) await_folds(guard);
  if (refusal const r = control_.accept(m.from, m.stamp, m.version); r != refusal::none) return r;
  sender const from = m.from;
  clock_index const stamp = m.stamp;
  control_.note_arrival(from.worker, m.arrived);
  double change = 0;
  if (control_.serial()) {
    control_.hold(std::move(m));
  } else {
    commit_info const info = control_.info(from.worker, stamp, m.version);
    guard.unlock();
    // Folded before the clock moves: whoever the new clock lets in sees the commit whole.
    for (std::size_t i = 0; i < hosts_.size(); ++i) fold_one(i, info, *m.parts[i]);
    if (control_.limits()) change = greatest_change(info, m);
    guard.lock();
  }
  control_.complete(from, stamp, change);
  settle(guard, released);
  return refusal::none;
}

bool shard::folds_runs(std::size_t table) const noexcept {
  return !control_.serial() && !control_.limits() && plan_.table(table).bounded() && !merge(table).decay() &&
         merge(table).elements() == nullptr;
}

bool shard::streams(std::size_t table) const noexcept {
  return !control_.serial() && plan_.table(table).bounded() && !merge(table).keeps_copies();
}

refusal shard::check(sender const& from, clock_index stamp, version_index version) const {
  std::lock_guard const guard(lock_);
  return control_.check(from, stamp, version);
}

void shard::count_refused() {
  std::lock_guard const guard(lock_);
  control_.count_refused();
}

double shard::weigh(std::size_t table, sender const& from, clock_index stamp,
                    version_index version) const {
  std::lock_guard const guard(lock_);
  return worth(table, control_.info(from.worker, stamp, version));
}

void shard::fold_run(std::size_t table, std::uint64_t first, std::span<std::byte const> values,
                     double weight) {
  hosts_[table]->fold_run(first, values, weight);
}

void shard::count_partly_folded() {
  std::lock_guard const guard(lock_);
  control_.count_partly_folded();
}

// ---- reads

// Flattened, like what a replica does with rows: of a read of one row, calls took more time than work.
[[gnu::flatten]]
std::pair<refusal, bool> shard::admit(std::size_t table, read_header const& header, read_slot& slot,
                                      std::vector<worker_id>& released) {
  guard_type guard(lock_);
  refusal r = control_.check(header.from);
  if (control_.synchronized()) {
    if (r == refusal::none && (!header.cut || !control_.holds(*header.cut))) r = refusal::cut;
    if (r != refusal::none) return {r, false};
  } else {
    bool const let_in = r == refusal::none && control_.admit(header);
    if (control_.limits()) control_.publish(released);
    if (!let_in) return {r, false};
  }
  answer(guard, table, header, slot);
  return {r, true};
}

void shard::read_released(std::size_t table, read_header const& header, read_slot& slot) {
  guard_type guard(lock_);
  answer(guard, table, header, slot);
}

namespace detail {
/// A worker gets what a codec leaves of the values, whether there is a wire or not.
inline void round(read_slot& slot, coding const& answers) {
  slot.coded = coded_answer(slot, answers);
  if (slot.asked == selection::rows) return answers.round(slot.values.bytes());
  for (std::size_t i = 0; i < slot.state.chunks(); ++i) {
    block_ref const& kept = slot.state.chunk(i);  // the store's
    block_ref rounded(kept.size_bytes());
    std::memcpy(rounded.mutable_data(), kept.data(), kept.size_bytes());
    answers.round({rounded.mutable_data(), rounded.size_bytes()});
    slot.state.chunk(i) = std::move(rounded);
  }
}

inline void fill(read_slot& slot, table_host const& host, table_blueprint const& table, table_view const& seen) {
  if (slot.asked == selection::nothing) return;
  if (slot.asked == selection::all) {
    host.snapshot(slot.state, seen);
  } else {
    slot.values.resize_bytes(slot.rows.size() * table.row_bytes());
    host.read(slot.rows, slot.values.data(), seen);
  }
  if (coding const& answers = slot.asked == selection::rows ? table.answers_by_key() : table.answers())
    round(slot, answers);
}
}  // namespace detail

/// Whose copy a read is of, where there are any.
std::optional<own_copy> shard::copy_of(std::size_t table, worker_id reader) const noexcept {
  merge_rule const& m = merge(table);
  if (!m.keeps_copies()) return std::nullopt;
  return own_copy{reader, m.elements()};
}

void shard::answer(guard_type& guard, std::size_t table, read_header const& header, read_slot& slot) {
  if (control_.serial()) {
    await_folds(guard);
    return answer_under_lock(table, header, slot);
  }
  slot.stamp = control_.stamp_for(header.from.worker);
  if (slot.gives_rows()) control_.note_read(header);
  guard.unlock();
  detail::fill(slot, *hosts_[table], plan_.table(table), {.own = copy_of(table, header.from.worker)});
}

void shard::answer_under_lock(std::size_t table, read_header const& header, read_slot& slot) {
  worker_id const reader = header.from.worker;
  bool const synchronized = control_.synchronized();
  shard_view const view(table, *hosts_[table], merge(table), control_,
                        synchronized ? header.cut.get() : nullptr);
  slot.stamp = synchronized ? control_.stamp_for(reader, *header.cut) : control_.stamp_for(reader);
  table_view seen = view.seen();
  seen.own = copy_of(table, reader);
  detail::fill(slot, *hosts_[table], plan_.table(table), seen);
  if (slot.gives_rows()) control_.note_read(header);
  if (control_.versioned())
    raise_version(table, reader, slot, synchronized ? view.seen_by(reader) : control_.reading(reader));
}

/// V moves on for whoever has read rows of a table that keeps versions, and old ones may be over.
void shard::raise_version(std::size_t table, worker_id reader, read_slot& slot, version_read const& seen) {
  if (merge(table).versioned() && slot.gives_rows()) {
    control_.raise_version(reader, merge(table).version_after(seen));
    expire();
  }
  slot.stamp.version = control_.versions().of(reader);
}

void shard::withdraw(worker_id reader) {
  std::lock_guard const guard(lock_);
  control_.withdraw(reader);
}

void shard::observe(std::size_t table, table_state& out) const {
  guard_type guard(lock_);
  if (!control_.serial()) {
    guard.unlock();
    return hosts_[table]->snapshot(out, {});
  }
  await_folds(guard);
  shard_view const view(table, *hosts_[table], merge(table), control_, nullptr);
  hosts_[table]->snapshot(out, view.seen());
}

// ---- membership

void shard::abandon(worker_id leaver, std::vector<worker_id>& released) {
  guard_type guard(lock_);
  if (control_.abandon(leaver)) settle(guard, released);
}

void shard::advance(stage_id stage, commit_cut const& mark, std::vector<worker_id>& released) {
  guard_type guard(lock_);
  if (stage != control_.stage()) return;
  control_.advance(mark);
  settle(guard, released);
}

std::optional<membership_report> shard::order(membership_order const& o,
                                              std::vector<worker_id>& released) {
  guard_type guard(lock_);
  std::optional<membership_report> report;
  if (control_.accept(o) != refusal::none) return report;
  switch (o.what) {
    case membership_order::kind::enlist: report = enlist(o); break;
    case membership_order::kind::freeze: report = {.clock = control_.freeze(o.worker)}; break;
    case membership_order::kind::start: control_.start(o.worker, o.clock, o.version); break;
    case membership_order::kind::drop: control_.drop(o.worker, o.clock); break;
  }
  settle(guard, released);
  return report;
}

membership_report shard::enlist(membership_order const& o) {
  membership_report report{.clock = control_.enlist(o.worker, o.incarnation)};
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (merge(i).keeps_copies()) hosts_[i]->forget_copy(o.worker);
  if (control_.by_rounds()) report.version = control_.round();
  if (!control_.versioned()) return report;
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (merge(i).versioned())
      control_.raise_version(o.worker, merge(i).version_after(control_.reading(o.worker)));
  report.version = control_.versions().of(o.worker);
  return report;
}

// ---- folds

/// Folds what has become ready, then lets in who may go on. One thread folds at a time, to keep
/// the order; what another one adds meanwhile, the folder finds when it looks again.
void shard::settle(guard_type& guard, std::vector<worker_id>& released) {
  if (control_.serial()) {
    if (folding_) return;
    folding_ = true;
    try {
      fold_ready(guard);
      expire();  // by a leave, for one
    } catch (...) {
      if (!guard.owns_lock()) guard.lock();
      end_folding();
      throw;
    }
    end_folding();
  }
  control_.publish(released);
}

void shard::fold_ready(guard_type& guard) {
  for (auto ready = control_.take_ready(); !ready.empty(); ready = control_.take_ready())
    for (auto const& group : ready) {
      guard.unlock();
      fold(group.commits);
      guard.lock();
      control_.note_folded(group);
      expire();
      note_versions();
    }
}

void shard::note_versions() {
  if (!control_.versioned()) return;
  std::size_t live = 0;
  for (auto const& h : hosts_) live += h->live_versions();
  versions_peak_ = std::max(versions_peak_, live);
}

/// Versions that no commit can belong to any more go into the base.
void shard::expire() {
  if (!control_.versioned()) return;
  version_window const window = control_.window();
  for (std::size_t i = 0; i < hosts_.size(); ++i)
    if (merge(i).versioned())
      hosts_[i]->expire([&](version_state const& v) { return merge(i).expire(v, window); });
}

void shard::end_folding() {
  folding_ = false;
  folded_.notify_all();
}

/// One update that is weighed with what is no number would make all parameters none.
double shard::worth(std::size_t table, commit_info const& info) const {
  double const weight = merge(table).weight(info);
  if (!std::isfinite(weight)) [[unlikely]]
    throw option_error("table " + std::to_string(table) + ": its merge gives the weight " + std::to_string(weight) +
                       " to commit " + std::to_string(info.stamp.value()) + " of worker " +
                       std::to_string(info.from.value()) + ", expected a finite number");
  return weight;
}

void shard::fold(std::span<held_commit const> commits) {
  for (std::size_t i = 0; i < hosts_.size(); ++i) fold_table(i, commits);
}

void shard::fold_table(std::size_t table, std::span<held_commit const> commits) {
  merge_rule const& m = merge(table);
  table_host& to = *hosts_[table];
  if (m.versioned()) {
    // Empty parts count too: every server and table counts the same updates of a version.
    for (held_commit const& c : commits)
      to.add_version(m.map(c.info), *c.message.parts[table], worth(table, c.info));
    return;
  }
  if (m.keeps_copies()) {  // of whoever commits: a step each
    for (held_commit const& c : commits) fold_one(table, c.info, *c.message.parts[table]);
    return;
  }
  if (commits.size() == 1)
    return fold_one(table, commits.front().info, *commits.front().message.parts[table]);
  std::vector<weighted_part> many;
  many.reserve(commits.size());
  for (held_commit const& c : commits)
    many.push_back({c.message.parts[table].get(), worth(table, c.info)});
  if (m.elements() != nullptr) to.step(many, {m.elements(), {}, commits.back().info.workers});
  else to.fold(many, m.decay());
}

/// The common case, which allocates nothing.
void shard::fold_one(std::size_t table, commit_info const& info, update const& part) {
  merge_rule const& m = merge(table);
  bool const is_step = m.elements() != nullptr;
  if (!m.decay() && !is_step && part.empty()) return;
  weighted_part const one{&part, worth(table, info)};
  if (is_step) hosts_[table]->step({&one, 1}, {m.elements(), info.from, info.workers});
  else hosts_[table]->fold({&one, 1}, m.decay());
}

/// By which it moves an element at most, which a weight alone must say.
double shard::greatest_change(commit_info const& info, commit_message const& m) const {
  double greatest = 0;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    double const size = with_element(plan_.table(i).element(), [&]<parameter T>() {
      auto const values = m.parts[i]->template as<T>().values;
      return detail::greatest_magnitude(values.data(), values.size());
    });
    if (size == 0) continue;
    double const change = size * std::abs(worth(i, info));
    if (std::isnan(change)) return change;
    greatest = std::max(greatest, change);
  }
  return greatest;
}

// ---- reports

shard_memory shard::memory() const {
  guard_type guard(lock_);
  await_folds(guard);
  shard_memory m;
  for (auto const& h : hosts_) {
    m.parameters += h->bytes();
    m.versions += h->live_versions();
  }
  control_.for_each_held([&](held_commit const& h) { m.log += h.message.held_bytes(); });
  return m;
}

std::size_t shard::versions_peak() const {
  std::lock_guard const guard(lock_);
  return versions_peak_;
}

}  // namespace rubato
