// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/run_stopped.hpp"
#include "rubato/transport/fibers/impl/worker_fiber.hpp"

namespace rubato::detail {

// ---- a process

fiber_process::fiber_process(worker_fibers& run, blueprint const& plan, std::size_t protocol) : run_(run) {
  if (!plan.shares_reads(protocol)) return;
  cache_.emplace(plan, *this);
  cache_->begin_stage(protocol);
}

void fiber_process::ask(server_fetch& f) {
  worker_id const asker = f.read.from.worker;
  sim::transit const t = run_.network_.send(station(), f.server, f.slot.request_bytes(), run_.now(),
                                            run_.participants_[asker.index()]->link.link_draws_);
  run_.queue_.push_in_turn(t.delivered, {worker_fibers::event::fetch, asker.value(), f.server.value(),
                                 run_.under_way_.fetches.put(&f)});
}

// ---- a worker's end

fiber_endpoint::fiber_endpoint(worker_fibers& run, worker_id self)
    : run_(run),
      self_(self),
      speed_draws_(~run.options_.scenario.seed, 2 * std::uint64_t{self.value()}),
      link_draws_(~run.options_.scenario.seed, 2 * std::uint64_t{self.value()} + 1) {}

time_point fiber_endpoint::now() const { return run_.now(); }

void fiber_endpoint::checkpoint() {
  if (run_.stopping() || dead_) throw run_stopped{};
  if (run_.fibers_->current().value_or(fiber_) != fiber_) refuse_body();
}

/// All bodies are in one thread, so that nobody else would notice.
void fiber_endpoint::refuse_body() const {
  throw usage_error(errc::stale_handle, "worker " + std::to_string(self_.value()) +
                                            ": its handle was used from another worker's body; each uses its own");
}

void fiber_endpoint::post(server_id to, commit_message&& commit) {
  checkpoint();
  clock_index const next = commit.stamp.next();
  if (auto* const cache = shared()) cache->posting(reader_, to, next);
  sim::transit const t = run_.network_.send(station(), to, commit.bytes(), now(), link_draws_);
  if (auto* const cache = shared()) cache->posted(reader_, to, next);
  std::uint32_t const at = run_.under_way_.commits.put({std::move(commit), t.sent});
  run_.queue_.push_in_turn(t.delivered, {worker_fibers::event::commit, self_.value(), to.value(), at});
  if (t.sent > now()) sleep_until(t.sent);
}

void fiber_endpoint::request(server_id to, std::size_t table, read_header const& read, read_slot& slot) {
  checkpoint();
  if (auto* const cache = shared()) {
    slot.leave_to_process(read_slot::untold::on_its_way);
    return cache->request(reader_, to, table, read, slot);
  }
  read_ = read;
  std::uint32_t const number = add_question({&slot, to, static_cast<std::uint32_t>(table)});
  ++outstanding_;
  slot.arrived = time_point::max();  // still on its way
  slot.admitted = time_point::min();
  sim::transit const t = run_.network_.send(station(), to, slot.request_bytes(), now(), link_draws_);
  run_.queue_.push_in_turn(t.delivered, {worker_fibers::event::request, self_.value(), to.value(),
                                 number});
}

std::uint32_t fiber_endpoint::add_question(question const& q) {
  if (outstanding_ == 0) questions_.clear();
  if (q.server.index() >= first_at_.size()) first_at_.resize(run_.servers_.size());
  auto const number = static_cast<std::uint32_t>(questions_.size());
  std::uint32_t last = first_at(q.server);
  if (last == none) first_at_[q.server.index()] = number;
  else
    while (questions_[last].next != none) last = questions_[last].next;
  questions_.push_back(q);
  if (last != none) questions_[last].next = number;
  return number;
}

void fiber_endpoint::wait() {
  waiting_ = true;
  while (waits_for_answers()) run_.fibers_->suspend();
  waiting_ = false;
  checkpoint();
  (void)asked_.raise_failure();  // a read that is refused ends the simulation
}

void fiber_endpoint::charge(double work) {
  checkpoint();
  sleep_until(now() + run_.speed_.step(self_, work, now(), speed_draws_));
}

void fiber_endpoint::pause(time_point until) {
  checkpoint();
  if (until > now()) sleep_until(until);
}

void fiber_endpoint::request_cut(read_header const& read, cut_slot& slot) {
  checkpoint();
  read_ = read;
  cut_ = &slot;
  ++outstanding_;
  slot.arrived = time_point::max();  // still on its way
  slot.admitted = time_point::min();
  run_.queue_.push(now() + run_.control_latency(),
                   {worker_fibers::event::ask_cut, self_.value(), 0, 0});
}

void fiber_endpoint::release_cut() {
  checkpoint();
  run_.queue_.push(now() + run_.control_latency(),
                   {worker_fibers::event::release_cut, self_.value(), 0, 0});
}

void fiber_endpoint::report_commit(clock_index now_at) { report({self_, now_at, {}}); }

void fiber_endpoint::report_loss(double loss) {
  if (!run_.evaluates_loss()) report({self_, {}, loss});
}

void fiber_endpoint::report(pace_report const& said) {
  checkpoint();
  run_.queue_.push(now() + run_.control_latency(), {worker_fibers::event::note, self_.value(), 0,
                                                    run_.under_way_.notes.put(pace_report(said))});
}

std::optional<conductor::order> fiber_endpoint::take_order() {
  if (orders_.empty()) return std::nullopt;
  std::optional first = std::move(orders_.front());
  orders_.erase(orders_.begin());
  return first;
}

void fiber_endpoint::sleep_until(time_point t) {
  run_.queue_.push(t, {worker_fibers::event::resume, self_.value(), 0, 0});
  run_.fibers_->suspend();
}

}  // namespace rubato::detail
