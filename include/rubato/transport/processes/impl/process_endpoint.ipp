// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/processes/process_endpoint.hpp"

#include <algorithm>
#include <chrono>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

#include "rubato/core/run_stopped.hpp"
#include "rubato/transport/processes/outbound_frames.hpp"
#include "rubato/transport/processes/worker_process.hpp"

namespace rubato::detail {

process_endpoint::process_endpoint(worker_process& run, sender const& self)
    : run_(run), self_(self), questions_(run.plan(), run.options_.sparse_max) {}

time_point process_endpoint::now() const { return run_.now(); }
bool process_endpoint::scatters() const noexcept { return run_.shared() == nullptr; }
bool process_endpoint::shares_reads() const noexcept { return run_.shared() != nullptr; }

void process_endpoint::checkpoint() {
  if (run_.unwinds()) throw run_stopped{};
  if (run_.any_refused_.load(std::memory_order_acquire)) run_.throw_if_refused(self_.worker);
}

void process_endpoint::enlist(clock_index at) {
  if (auto* const cache = run_.shared()) reader_ = cache->enlist(asked_, self_.worker, at);
}

void process_endpoint::post(server_id s, commit_message&& m) {
  checkpoint();
  clock_index const next = m.stamp.next();
  if (auto* const cache = run_.shared()) cache->posting(*reader_, s, next);
  auto const at_once_max = run_.plan().protocol(run_.protocol()).visibility.holds_back()
                            ? std::numeric_limits<std::size_t>::max()
                            : update_memory::folded_at_once_max;
  run_.links_->post(s, std::make_shared<commit_frame const>(std::move(m), run_.plan().tables(),
                                                            run_.links_->seen_by(s), at_once_max));
  if (auto* const cache = run_.shared()) cache->posted(*reader_, s, next);
}

/// Who is thrown out while asking waits for no answer.
template <class F>
void process_endpoint::asking(F f) {
  try {
    checkpoint();
    f();
  } catch (...) {
    withdraw();
    asked_.forget();
    throw;
  }
}

void process_endpoint::withdraw() {
  unasked_.clear();
  if (reader_) run_.shared()->forget(*reader_);
  {
    std::lock_guard const mine(run_.links_->turns());
    cut_ = nullptr;  // first: a grant that comes later must find nothing to count down
  }
  run_.links_->withdraw(asked_);
}

void process_endpoint::request(server_id s, std::size_t table, read_header const& read, read_slot& slot) {
  asking([&] {
    if (auto* const cache = run_.shared()) {
      slot.leave_to_process(read_slot::untold::held_up);
      return cache->request(*reader_, s, table, read, slot);
    }
    slot.arrived = now();
    slot.admitted = time_point::min();  // as long as the server does not say when
    read_question& q = questions_.of(table, s);
    q.renew(read, slot, asked_);
    unasked_.push_back({s, &q});
  });
}

void process_endpoint::start() {
  asking([&] { run_.links_->start(unasked_); });
  unasked_.clear();
}

void process_endpoint::request_cut(read_header const& read, cut_slot& slot) {
  asking([&] {
    slot.arrived = now();
    slot.admitted = time_point::min();
    {
      std::lock_guard const mine(run_.links_->turns());
      cut_ = &slot;
      asked_.missing.fetch_add(1, std::memory_order_relaxed);
    }
    run_.links_->tell(wire::cut_request{read.from, read.clock, read.bound, slot.pull});
  });
}

void process_endpoint::release_cut() { run_.links_->tell(wire::cut_release{self_}); }

void process_endpoint::grant(wire::cut_grant const& m) {
  if (cut_ == nullptr) return;
  cut_slot& slot = *std::exchange(cut_, nullptr);
  slot.cut = std::make_shared<commit_cut const>(m.below, m.c_min);
  slot.admitted = slot.arrived + m.held;
  asked_.missing.fetch_sub(1, std::memory_order_release);
}

void process_endpoint::wait() {
  bool complete = false;
  asking([&] {
    complete = run_.links_->wait_for(
        asked_, [this] { return run_.unwinds() || run_.is_refused(self_.worker); }, unasked_);
  });
  unasked_.clear();
  if (!complete) withdraw();
  checkpoint();
  if (refusal const r = asked_.raise_failure(); r != refusal::none) run_.links_->raise(r);
}

void process_endpoint::pause(time_point until) {
  constexpr duration as_good_as_never = std::chrono::hours(24 * 365 * 100);
  run_.links_->turns().wait(
      [this] { return run_.unwinds(); },
      run_.began_.load(std::memory_order_relaxed) + std::min(until.since_start(), as_good_as_never));
  checkpoint();
}

void process_endpoint::report_commit(clock_index now_at) { report({self_.worker, now_at, {}}); }
void process_endpoint::report_loss(double loss) {
  if (!run_.evaluates_loss()) report({self_.worker, {}, loss});
}
void process_endpoint::report(pace_report const& said) {
  checkpoint();
  run_.links_->tell(wire::pace_note{self_.stage, said});
}

std::optional<conductor::order> process_endpoint::take_order() { return orders_.take(); }

void process_endpoint::give(conductor::order const& order) { orders_.give(order); }

}  // namespace rubato::detail
