// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/task/stage_scheduler.hpp"

namespace rubato {

std::uint32_t workers_of(placement const& p) noexcept { return std::accumulate(p.begin(), p.end(), 0U); }

void schedule_options::check() const {
  if (free_workers == 0) throw option_error("schedule: free_workers must be at least 1");
  if (period <= duration::zero()) throw option_error("schedule: period must be above 0 ns");
  if (!(aging >= 0) || !std::isfinite(aging)) throw option_error("schedule: aging must be finite and not below 0");
  if (std::isnan(starving)) throw option_error("schedule: starving must be a number");
}

stage_scheduler::stage_scheduler(schedule_options const& options) : options_(options) { options_.check(); }

// ---- nodes

void stage_scheduler::add_node(node_id n, std::uint32_t workers) {
  if (nodes_.size() <= n.index()) nodes_.resize(n.index() + 1);
  RUBATO_ASSERT(!nodes_[n.index()].here);
  nodes_[n.index()] = {.workers = workers, .here = true};
}

std::vector<task_id> stage_scheduler::remove_node(node_id n) {
  RUBATO_ASSERT(n.index() < nodes_.size() && nodes_[n.index()].here);
  std::vector<task_id> hit;
  for (auto& [t, where] : running_)
    if (n.index() < where.size() && where[n.index()] != 0) {
      where[n.index()] = 0;
      hit.push_back(t);
    }
  for (auto& [t, r] : waiting_)  // they choose anew among those that are left
    if (n.index() < r.lock.size() && r.lock[n.index()] != 0) unlock(r);
  nodes_[n.index()] = {};
  has_lost_nodes_ = true;
  return hit;
}

bool stage_scheduler::is_hopeless(task_id t) const {
  auto const at = waiting_.find(t);
  return at != waiting_.end() && !place(t, at->second.demand, room(true));
}

std::uint32_t stage_scheduler::capacity() const noexcept { return workers_of(room(true)); }

std::uint32_t stage_scheduler::capacity_of_one_node() const noexcept {
  std::uint32_t most = 0;
  for (node const& n : nodes_) most = std::max(most, n.workers);
  return most;
}

std::uint32_t stage_scheduler::free_workers() const noexcept {
  std::uint32_t free = 0;
  for (node const& n : nodes_) free += n.workers - n.busy;
  return free;
}

// ---- stages

void stage_scheduler::check(stage_demand demand) const {
  if (!demand.where.empty()) demand.workers = workers_of(demand.where);
  if (demand.workers == 0) throw option_error("stage: workers must be at least 1");
  if (!place({}, demand, room(true))) throw_no_room(demand);
}

void stage_scheduler::ask(task_id t, stage_demand demand, time_point now) {
  RUBATO_ASSERT(!waiting_.contains(t) && !running_.contains(t));
  check(demand);
  if (!demand.where.empty()) demand.workers = workers_of(demand.where);
  if (!demand.where.empty()) demand.where.resize(nodes_.size());  // with nobody on the others
  waiting_.emplace(t, request{std::move(demand), now, asked_++, {}});
}

void stage_scheduler::throw_no_room(stage_demand const& d) const {
  std::string const sentence =
      "stage: there is no room for " + std::to_string(d.workers) +
      (!d.where.empty() ? " workers where it asks for them" : d.one_node ? " workers on one node" : " workers") +
      ", all nodes together have " + std::to_string(capacity()) +
      (d.one_node ? ", one at most " + std::to_string(capacity_of_one_node()) : "");
  if (has_lost_nodes_) throw lost_error(sentence + "; others have been lost");
  throw option_error(sentence);
}

void stage_scheduler::revise(task_id t, std::uint32_t workers) {
  request& r = waiting_.at(t);
  RUBATO_ASSERT(workers != 0 && r.demand.where.empty());
  if (workers == r.demand.workers) return;
  unlock(r);  // it chooses anew
  r.demand.workers = workers;
}

void stage_scheduler::withdraw(task_id t) {
  auto const at = waiting_.find(t);
  if (at == waiting_.end()) return;
  unlock(at->second);
  std::erase(starving_, t);
  waiting_.erase(at);
}

void stage_scheduler::finish(task_id t) {
  auto const at = running_.find(t);
  if (at == running_.end()) return;
  for (std::size_t n = 0; n < at->second.size(); ++n) nodes_[n].busy -= at->second[n];
  running_.erase(at);
}

bool stage_scheduler::due(time_point now) const noexcept {
  return !waiting_.empty() && (free_workers() >= options_.free_workers || now >= next_time());
}

time_point stage_scheduler::next_time() const noexcept {
  return waiting_.empty() ? time_point::max() : scheduled_ + options_.period;
}

std::vector<stage_scheduler::grant> stage_scheduler::schedule(time_point now) {
  scheduled_ = now;
  std::vector<grant> granted;
  note_starving(now);
  bool locked = false;  // for one that has to wait
  for (std::size_t i = 0; i < starving_.size();) {
    task_id const t = starving_[i];
    request& r = waiting_.at(t);
    if (r.lock.empty())
      if (auto where = place(t, r.demand, room(false))) lock(r, std::move(*where));
    if (r.lock.empty())  // nowhere now: it keeps what comes free where it would run if all were
      if (auto where = place(t, r.demand, room(true)); where && !locked) lock(r, std::move(*where));
    if (r.lock.empty() || !is_free(r.lock)) {
      locked = locked || !r.lock.empty();
      ++i;
      continue;
    }
    placement where = r.lock;
    granted.push_back(start(t, std::move(where)));
  }
  std::vector<task_id> others;
  for (auto const& [t, r] : waiting_)
    if (std::ranges::find(starving_, t) == starving_.end()) others.push_back(t);
  std::ranges::sort(others, [&](task_id a, task_id b) {
    request const& ra = waiting_.at(a);
    request const& rb = waiting_.at(b);
    double const pa = priority_of(ra, now);
    double const pb = priority_of(rb, now);
    return pa != pb ? pa > pb : ra.order < rb.order;
  });
  for (task_id const t : others)
    if (auto where = place(t, waiting_.at(t).demand, room(false))) granted.push_back(start(t, std::move(*where)));
  return granted;
}

std::uint64_t stage_scheduler::last_use(task_id t, node_id n) const noexcept {
  auto const at = history_.find(t);
  return at == history_.end() || n.index() >= at->second.size() ? 0 : at->second[n.index()];
}

// ---- which, and where

double stage_scheduler::priority_of(request const& r, time_point now) const noexcept {
  return r.demand.priority + options_.aging * to_seconds(now - r.since);
}

/// Those that begin to starve at the same time do so in the order in which they asked.
void stage_scheduler::note_starving(time_point now) {
  std::vector<std::pair<std::uint64_t, task_id>> fresh;
  for (auto const& [t, r] : waiting_)
    if (priority_of(r, now) > options_.starving && std::ranges::find(starving_, t) == starving_.end())
      fresh.emplace_back(r.order, t);
  std::ranges::sort(fresh);
  for (auto const& [order, t] : fresh) starving_.push_back(t);
}

/// What is free on each node and not kept for others; or all that there is.
placement stage_scheduler::room(bool all) const {
  placement p;
  for (node const& n : nodes_) {
    std::uint32_t const free = n.workers - n.busy;
    p.push_back(all ? n.workers : free - std::min(free, n.locked));
  }
  return p;
}

/// The node with the tables first, then those with training data, then those that the task has used least recently.
std::vector<std::uint32_t> stage_scheduler::by_preference(task_id t, stage_demand const& d,
                                                          placement const& room) const {
  std::vector<std::uint32_t> order;
  for (std::uint32_t n = 0; n < room.size(); ++n)
    if (room[n] != 0) order.push_back(n);
  auto const rank = [&](std::uint32_t n) {
    bool const far = !d.data.empty() && std::ranges::find(d.data, node_id{n}) == d.data.end();
    return std::tuple(d.home != node_id{n}, far, last_use(t, node_id{n}), n);
  };
  std::ranges::sort(order, {}, rank);
  return order;
}

std::optional<placement> stage_scheduler::place(task_id t, stage_demand const& d, placement const& room) const {
  if (!d.where.empty()) {
    for (std::size_t n = 0; n < d.where.size(); ++n)
      if (d.where[n] > (n < room.size() ? room[n] : 0)) return std::nullopt;
    return d.where;
  }
  if (workers_of(room) < d.workers) return std::nullopt;
  std::vector<std::uint32_t> order = by_preference(t, d, room);
  if (d.spread) return spread(d.workers, order, room);
  placement where(nodes_.size(), 0);
  for (std::uint32_t const n : order)
    if (room[n] >= d.workers) {
      where[n] = d.workers;
      return where;
    }
  if (d.one_node) return std::nullopt;
  // On as few as possible: the largest first, the last where it just fits would save no node.
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::uint32_t n) { return room[n]; });
  std::uint32_t left = d.workers;
  for (std::uint32_t const n : order) {
    where[n] = std::min(left, room[n]);
    left -= where[n];
    if (left == 0) break;
  }
  return where;
}

placement stage_scheduler::spread(std::uint32_t workers, std::span<std::uint32_t const> order,
                                  placement const& room) {
  placement where(room.size(), 0);
  for (std::uint32_t left = workers; left != 0;)
    for (std::uint32_t const n : order)
      if (left != 0 && where[n] < room[n]) ++where[n], --left;
  return where;
}

bool stage_scheduler::is_free(placement const& p) const noexcept {
  for (std::size_t n = 0; n < p.size(); ++n)
    if (p[n] > nodes_[n].workers - nodes_[n].busy) return false;
  return true;
}

void stage_scheduler::lock(request& r, placement where) {
  for (std::size_t n = 0; n < where.size(); ++n) nodes_[n].locked += where[n];
  r.lock = std::move(where);
}

void stage_scheduler::unlock(request& r) {
  for (std::size_t n = 0; n < r.lock.size(); ++n) nodes_[n].locked -= r.lock[n];
  r.lock.clear();
}

stage_scheduler::grant stage_scheduler::start(task_id t, placement where) {
  unlock(waiting_.at(t));
  waiting_.erase(t);
  std::erase(starving_, t);
  auto& used = history_[t];
  used.resize(nodes_.size(), 0);
  ++started_;
  for (std::size_t n = 0; n < where.size(); ++n) {
    nodes_[n].busy += where[n];
    if (where[n] != 0) used[n] = started_;
  }
  running_.emplace(t, where);
  return {t, std::move(where)};
}

}  // namespace rubato
