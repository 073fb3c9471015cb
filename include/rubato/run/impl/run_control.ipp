// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/run/run_control.hpp"

namespace rubato {

run_control::run_control(std::span<rules const> protocols, std::uint32_t servers, carrier& out)
    : protocols_(protocols.begin(), protocols.end()),
      rules_(&protocols_.front()),
      out_(out),
      members_(servers, synchronized()) {
  for (rules const& p : protocols_) (void)p.pace.make_conductor();  // said before anything begins
}

void run_control::begin(stage_id stage, std::size_t protocol) {
  rules_ = &protocols_[protocol];
  members_.begin_stage(stage, synchronized());
  waiting_cuts_.clear();
  workers_ = 0;
  conductor_ = rules_->pace.make_conductor();
}

// ---- membership

void run_control::join(worker_id w, incarnation_id incarnation) {
  workers_ = std::max(workers_, w.value() + 1);
  out_.order(members_.join(w, incarnation));
}

void run_control::reported(membership_order const& about, membership_report const& said,
                           time_point now) {
  if (auto const next = members_.report(about, said)) out_.order(*next);
  follow_cuts(now);
}

void run_control::started(membership_order const& start, time_point now) {
  if (conductor_) {
    conductor::orders orders;
    conductor_->join(start.worker, start.clock, now, orders);
    command(orders);
  }
  out_.start(start.worker, {start.clock, start.version});
}

void run_control::leave(worker_id w, clock_index at, time_point now) {
  out_.order(members_.leave(w, at));
  end_worker(w);
  follow_cuts(now);
}

void run_control::lose(worker_id w, time_point now) {
  if (auto const o = members_.lose(w)) out_.order(*o);
  end_worker(w);
  follow_cuts(now);
}

void run_control::end_worker(worker_id w) {
  waiting_cuts_.erase(w);
  if (conductor_) conductor_->leave(w);
}

// ---- synchronized reads

refusal run_control::ask_cut(read_header const& read, bool pull, time_point now) {
  worker_id const w = read.from.worker;
  if (refusal const r = members_.check(read.from); r != refusal::none) return r;
  stable_cuts& cuts = members_.cuts();
  if (waiting_cuts_.erase(w) != 0) cuts.forget(w);  // it asks again: the answer was lost
  if (cuts.admit(w, read.clock, rules_->admission.need(read.clock, read.bound, w)))
    out_.grant(w, cuts.grant(w, pull), {});
  else
    waiting_cuts_[w] = {pull, now};
  return refusal::none;
}

std::optional<std::pair<worker_id, time_point>> run_control::longest_wait() const {
  if (waiting_cuts_.empty()) return std::nullopt;
  auto const& longest =
      *std::ranges::min_element(waiting_cuts_, {}, [](auto const& entry) { return entry.second.since; });
  return std::pair(longest.first, longest.second.since);
}

void run_control::release_cut(worker_id w, time_point now) {
  members_.cuts().release(w);
  follow_cuts(now);
}

void run_control::progress(server_id s, worker_id w, clock_index clock, time_point now) {
  members_.cuts().report(s, w, clock);
  follow_cuts(now);
}

/// Lets in whose requests may go on, and tells the servers what may be folded.
void run_control::follow_cuts(time_point now) {
  if (!synchronized()) return;
  stable_cuts& cuts = members_.cuts();
  for (worker_id const w : cuts.take_released())
    if (auto const at = waiting_cuts_.find(w); at != waiting_cuts_.end()) {
      waiting_cut const ready = at->second;
      waiting_cuts_.erase(at);
      out_.grant(w, cuts.grant(w, ready.pull), now - ready.since);
    }
  if (shared_cut const below = cuts.take_mark()) out_.mark(below);
}

// ---- the conductor

void run_control::committed(worker_id w, clock_index now_at, time_point now) {
  if (conductor_) conductor_->commit(w, now_at, now);
}

void run_control::observe(double loss, time_point at) {
  if (conductor_) conductor_->observe(at, loss);
}

time_point run_control::next_tick() const {
  return conductor_ ? conductor_->next_tick() : time_point::max();
}

time_point run_control::next_sample() const {
  return conductor_ ? conductor_->next_sample() : time_point::max();
}

void run_control::tick(time_point now) {
  if (!conductor_) return;
  time_point const due = conductor_->next_tick();
  if (due > now) return;
  conductor::orders orders;
  conductor_->tick(now, orders);
  if (conductor_->next_tick() <= due)
    throw option_error("pace: its conductor's next_tick() stands still, expected a later one after each tick");
  command(orders);
}

std::span<pace_change const> run_control::changes() const {
  if (!conductor_) return {};
  return conductor_->changes();
}

void run_control::command(conductor::orders const& orders) {
  for (auto const& [to, order] : orders) {
    if (to.value() >= workers_)
      throw option_error("pace: its conductor orders worker " + std::to_string(to.value()) +
                         " to do something, expected one of " + std::to_string(workers_) + ", numbered from 0");
    out_.command(to, order);
  }
}

}  // namespace rubato
