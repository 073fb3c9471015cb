// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/run_stopped.hpp"
#include "rubato/core/start_thread.hpp"
#include "rubato/server/who_waits.hpp"
#include "rubato/transport/threads/worker_threads.hpp"

namespace rubato::detail {

struct worker_threads::worker_thread final : worker_participant {
  worker_thread(worker_threads& run, sender const& self, double slowness)
      : worker_participant(run, self), link(run, self.worker, slowness) {
    attach(link, run.options_.seed);
  }
  worker_thread(worker_thread const&) = delete;
  worker_thread& operator=(worker_thread const&) = delete;
  ~worker_thread() override { detach(); }
  void live() override {
    link.enlist(start.clock);
    worker_participant::live();
  }
  void end() override {
    link.withdraw();  // a prefetch may be under way
    worker_participant::end();
  }
  thread_endpoint link;
};

// ---- a worker's end

thread_endpoint::thread_endpoint(worker_threads& run, worker_id self, double slowness)
    : run_(run), self_(self), slowed_(slowness), idle_until_(run.now()), polls_(run.options_.busy_poll) {}

time_point thread_endpoint::now() const { return run_.now(); }

void thread_endpoint::checkpoint() {
  if (run_.stopping()) throw run_stopped{};
}

bool thread_endpoint::shares_reads() const noexcept { return run_.process_ != nullptr; }

void thread_endpoint::enlist(clock_index at) {
  if (run_.process_) reader_ = run_.process_->cache().enlist(asked_, self_, at);
}

/// Others may wait for what was asked in its name.
void thread_endpoint::withdraw() {
  if (!reader_) return;
  run_.process_->cache().forget(*reader_);
  run_.process_->settle(self_);
}

void thread_endpoint::post(server_id to, commit_message&& commit) {
  checkpoint();
  released_.clear();
  clock_index const next = commit.stamp.next();
  if (reader_) run_.process_->cache().posting(*reader_, to, next);
  if (run_.plan().protocol(run_.protocol()).admission.extends()) commit.arrived = now();
  if (refusal const r = run_.servers_.server(to).commit(std::move(commit), released_); r != refusal::none)
    throw error(errc::refused, "server " + std::to_string(to.value()) +
                                   ": a commit was refused, for " + to_string(r));
  if (reader_) run_.process_->cache().posted(*reader_, to, next);
  run_.release(released_);
  if (run_.plan().synchronized(run_.protocol()))
    run_.control([&] { run_.control_.progress(to, self_, next, now()); });
}

void thread_endpoint::request(server_id to, std::size_t table, read_header const& read, read_slot& slot) {
  checkpoint();
  if (reader_) {
    slot.leave_to_process(read_slot::untold::held_up);
    try {
      return run_.process_->cache().request(*reader_, to, table, read, slot);
    } catch (...) {
      run_.process_->wake();  // others may have waited for what this one was to ask, and hear that it failed
      throw;
    }
  }
  try {
    ask(to, table, read, slot);
  } catch (...) {  // what was asked before comes all the same, and may not count for what is asked next
    await_releases(std::exchange(tickets_, 0));
    pending_.clear();
    throw;
  }
}

void thread_endpoint::ask(server_id to, std::size_t table, read_header const& read, read_slot& slot) {
  slot.arrived = slot.admitted = time_point::min();
  if (joins(to, read)) {  // what lets in the first lets in all
    slot.arrived = now();
    pending_.push_back({read, to, table, &slot});
    return;
  }
  released_.clear();
  auto const [refused, done] = run_.servers_.server(to).admit(table, read, slot, released_);
  if (!released_.empty()) run_.release(released_);
  if (refused != refusal::none)
    throw error(errc::refused, "server " + std::to_string(to.value()) +
                                   ": a read was refused, for " + to_string(refused));
  if (done) return;
  slot.arrived = now();
  pending_.push_back({read, to, table, &slot});
  ++tickets_;
}

bool thread_endpoint::joins(server_id s, read_header const& read) const noexcept {
  return std::ranges::any_of(pending_, [&](waiting const& w) { return w.server == s && w.read.goes_with(read); });
}

void thread_endpoint::request_cut(read_header const& read, cut_slot& slot) {
  checkpoint();
  slot.arrived = slot.admitted = time_point::min();
  slot.cut = nullptr;
  refusal refused = refusal::none;
  run_.control([&] {
    cut_ = &slot;
    cut_waits_ = false;
    refused = run_.control_.ask_cut(read, slot.pull, now());
    cut_pending_ = cut_waits_ = refused == refusal::none && !slot.cut;
  });
  if (refused != refusal::none)
    throw error(errc::refused, std::string("a request for a cut was refused, for ") + to_string(refused));
  if (cut_pending_) slot.arrived = now();
}

void thread_endpoint::grant(shared_cut const& cut) {
  cut_->cut = cut;
  if (std::exchange(cut_waits_, false)) release_one();
}

void thread_endpoint::release_cut() {
  run_.control([&] { run_.control_.release_cut(self_, now()); });
}

/// Sleeps until every waiting request has been released, then reads for itself.
void thread_endpoint::wait() {
  if (reader_) return wait_for_process();
  bool const cut_is_missing = std::exchange(cut_pending_, false);
  std::size_t const missing = std::exchange(tickets_, 0) + (cut_is_missing ? 1 : 0);
  if (missing == 0) return;
  await_releases(missing);
  checkpoint();
  if (cut_is_missing) cut_->admitted = now();
  std::swap(pending_, reading_);
  pending_.clear();  // also if one of them fails
  for (waiting const& w : reading_) {
    w.slot->admitted = now();
    run_.servers_.server(w.server).read_released(w.table, w.read, *w.slot);
  }
  idle_until_ = now();
}

/// Or until the run is being stopped.
void thread_endpoint::await_releases(std::size_t missing) {
  auto const is_over = [&] { return released_count_.load(std::memory_order_acquire) >= missing || run_.stopping(); };
  if (!is_over()) polls_.wait(is_over, [&] { sleep_until_released(missing); });
  std::lock_guard const guard(lock_);
  released_count_ -= std::min(released_count_.load(), missing);
}

void thread_endpoint::sleep_until_released(std::size_t missing) {
  std::unique_lock guard(lock_);
  if (released_count_ >= missing || run_.stopping()) return;
  sleeps_for_ = missing;
  if (run_.falls_asleep()) {
    guard.unlock();
    run_.fail_of_deadlock();
    guard.lock();
  }
  awake_.wait(guard, [&] { return sleeps_for_ == 0 || run_.stopping(); });
  sleeps_for_ = 0;
}

void thread_endpoint::wait_for_process() {
  run_.process_->wait(asked_);
  if (asked_.missing.load(std::memory_order_acquire) != 0) run_.process_->cache().forget(*reader_);
  checkpoint();
  idle_until_ = now();
  if (refusal const r = asked_.raise_failure(); r != refusal::none)
    throw error(errc::refused, std::string("a read was refused, for ") + to_string(r));
}

void thread_endpoint::charge(double) {
  if (slowed_) {
    time_point const ended = now();
    {
      std::unique_lock guard(lock_);
      awake_.wait_for(guard, slowed_.pause_after(ended - idle_until_), [&] { return run_.stopping(); });
    }
    slowed_.paused_for(now() - ended);
  }
  idle_until_ = now();
  checkpoint();
}

void thread_endpoint::pause(time_point until) {
  {
    std::unique_lock guard(lock_);
    run_.wait_until(awake_, guard, until, [&] { return run_.stopping(); });
  }
  idle_until_ = now();
  checkpoint();
}

void thread_endpoint::report_commit(clock_index now_at) {
  run_.control([&] { run_.control_.committed(self_, now_at, now()); });
}

void thread_endpoint::report_loss(double loss) {
  if (!run_.evaluates_loss()) run_.control([&] { run_.control_.observe(loss, now()); });
}

std::optional<conductor::order> thread_endpoint::take_order() { return orders_.take(); }

void thread_endpoint::give(conductor::order const& order) { orders_.give(order); }

void thread_endpoint::release_one() {
  {
    std::lock_guard const guard(lock_);
    ++released_count_;
    if (sleeps_for_ != 0 && released_count_ >= sleeps_for_) {
      sleeps_for_ = 0;
      run_.is_woken();
    }
  }
  awake_.notify_one();
}

void thread_endpoint::wake() {
  { std::lock_guard const guard(lock_); }
  awake_.notify_all();
}

// ---- a run

worker_threads::worker_threads(in_process options, run_setup setup)
    : worker_run(std::move(setup), options.servers),
      options_(std::move(options)),
      servers_(plan(), threading::multiple),
      control_(plan().protocols(), options_.servers, *this) {
  options_.check();
  plan_.forget_initial_values();
}

worker_threads::~worker_threads() { join_threads(); }

run_report worker_threads::run(run_request request) {
  life::begin();
  if (is_to_stop(request)) {
    life::end();
    return stopped_before_it_began();
  }
  try {
    begin(std::move(request));
    for (std::uint32_t i = 0; i < count_; ++i) enlist();
    launch_all();
    if (control_.has_conductor())
      start_thread_of([] { return "the conductor"; }, [this] {
        std::lock_guard const guard(lock_);  // a body may add a worker already
        threads_.emplace_back([this] { conduct(); });
      });
  } catch (...) {  // no thread to be had: those that run would wait for it for ever
    fail(std::current_exception());
  }
  await_all();
  end_conductor();
  join_threads();
  life::end();
  return report();
}

void worker_threads::begin(run_request request) {
  {
    std::lock_guard const guard(lock_);
    participants_.clear();
  }
  accept(std::move(request));
  count_ = options_.workers;
  if (!request_.placement.empty()) count_ = request_.placement.front();
  if (request_.placement.size() > 1)
    throw option_error("run: a placement on " + std::to_string(request_.placement.size()) +
                       " nodes, expected one: threads are in one process");
  conducted_to_end_ = false;
  stage_ = stage_id{stage_.value() + 1};
  servers_.begin_stage(stage_, protocol(), request_.changes_tables);
  control_.begin(stage_, protocol());
  began_.store(std::chrono::steady_clock::now(), std::memory_order_relaxed);
  std::unique_ptr<thread_process> shared;
  if (options_.process_cache && plan().shares_reads(protocol()))
    shared = std::make_unique<thread_process>(plan(), protocol(), servers_, static_cast<life&>(*this),
                                              [this] { return now(); });
  std::lock_guard const guard(lock_);
  process_ = std::move(shared);
}

/// A new participant, known to all shards, its thread not yet started. One thread at a time does this, and
/// nobody else changes `participants_` while it does.
worker_threads::worker_thread& worker_threads::enlist() {
  auto const rank = static_cast<std::uint32_t>(participants_.size());
  double const slowness = rank < options_.slowness.size() ? options_.slowness[rank] : 1.0;
  auto made = std::make_unique<worker_thread>(*this, sender{worker_id{rank}, {}, stage_}, slowness);
  made->count = count_;
  worker_thread& p = *made;
  {
    std::lock_guard const guard(lock_);
    participants_.push_back(std::move(made));
  }
  control([&] { control_.join(p.handle().id(), {}); });
  return p;
}

/// @pre `lock_` is held
void worker_threads::launch(worker_thread& p) {
  enter();
  try {
    start_thread_of([&] { return "worker " + std::to_string(p.self().worker.index()); },
                    [&] { threads_.emplace_back([this, &p] { live(p); }); });
  } catch (...) {
    cancel();
    throw;
  }
}

/// None of them finds itself alone, and asleep, before all are there.
void worker_threads::launch_all() {
  enter();
  try {
    std::lock_guard const guard(lock_);
    for (auto& p : participants_) launch(*p);
  } catch (...) {
    fail(std::current_exception());  // before those who wait for the missing one take it for a deadlock
  }
  cancel();
}

std::uint32_t worker_threads::add_worker() {
  std::lock_guard const joining(joining_);
  if (!enter_if_running())  // holds the run open until the joiner is in
    throw usage_error(errc::stale_handle, "add_worker: no run is under way");
  try {
    worker_thread& p = enlist();
    {
      std::lock_guard const guard(lock_);
      launch(p);
    }
    cancel();
    return p.handle().rank();
  } catch (...) {  // the shards may wait for a worker that will never run
    fail(std::current_exception());
    cancel();
    throw;
  }
}

void worker_threads::left(worker_participant& p) {
  control([&] { control_.leave(p.handle().id(), p.handle().clock(), now()); });
}

void worker_threads::join_threads() {
  for (auto& t : threads_) t.join();
  threads_.clear();
}

void worker_threads::wake_all() noexcept {
  std::lock_guard const guard(lock_);
  if (process_) process_->wake();
  for (auto& p : participants_) p->link.wake();
}

std::string worker_threads::who_waits() const {
  std::string const at_servers = describe_waits(servers_);
  std::lock_guard const guard(controlling_);
  return at_servers + describe_waits(control_.members().cuts());
}

worker_threads::worker_thread& worker_threads::at(worker_id w) {
  std::lock_guard const guard(lock_);
  return *participants_[w.index()];
}

void worker_threads::release(std::span<worker_id const> workers) {
  for (worker_id const w : workers)
    if (process_) process_->released(w);
    else at(w).link.release_one();
}

run_report worker_threads::report() const {
  run_report r;
  r.elapsed = ended().since_start();
  for (auto const& p : participants_) r.workers.push_back(p->handle().metrics());
  servers_.add_counters(r);
  r.pace_changes.assign(control_.changes().begin(), control_.changes().end());
  r.stopped = was_stopped();
  return r;
}

// ---- the coordinator, called by whoever has something for it

/// Calls `f` under the coordinator's lock; then deals with what it said. Folding takes its time, so it is
/// done without the lock: marks may come late or overtake each other.
template <class F>
void worker_threads::control(F f) {
  std::unique_lock guard(controlling_);
  f();
  std::vector<shared_cut> const marks = std::exchange(marks_, {});
  std::vector<worker_id> released = std::exchange(released_by_orders_, {});
  guard.unlock();
  for (shared_cut const& m : marks) servers_.fold_below(stage_, *m, released);
  release(released);
}

/// Every shard carries it out at once.
void worker_threads::order(membership_order const& o) {
  for (std::uint32_t s = 0; s < servers_.size(); ++s)
    if (auto const said = servers_.server(server_id{s}).order(o, released_by_orders_))
      control_.reported(o, *said, now());
  if (o.what == membership_order::kind::start) control_.started(o, now());
}

void worker_threads::start(worker_id w, starting_point const& where) { at(w).start = where; }
void worker_threads::grant(worker_id w, shared_cut const& cut, duration) { at(w).link.grant(cut); }
void worker_threads::command(worker_id w, conductor::order const& order) { at(w).link.give(order); }

// ---- the conductor, in a thread of its own

void worker_threads::conduct() {
  try {
    std::unique_lock guard(controlling_);
    while (!conducted_to_end_) {
      time_point const next =
          evaluates_loss() ? std::min(control_.next_tick(), control_.next_sample()) : control_.next_tick();
      if (now() < next) {
        wait_until(conductor_, guard, next, [&] { return conducted_to_end_; });
        continue;
      }
      if (evaluates_loss() && control_.next_sample() <= now()) sample_loss(guard);
      control_.tick(now());
      guard.unlock();  // workers report in between even if the next tick is due already
      guard.lock();
    }
  } catch (...) {
    fail(std::current_exception());
  }
}

/// The workers go on reporting while the loss is computed.
void worker_threads::sample_loss(std::unique_lock<std::mutex>& guard) {
  guard.unlock();
  time_point const when = now();
  double const loss = request_.loss();
  guard.lock();
  control_.observe(loss, when);
}

void worker_threads::end_conductor() {
  {
    std::lock_guard const guard(controlling_);
    conducted_to_end_ = true;
  }
  conductor_.notify_all();
}

/// A deadline may be "never", or so late that no clock could count to it.
template <class Until>
void worker_threads::wait_until(std::condition_variable& sleep, std::unique_lock<std::mutex>& guard,
                                time_point deadline, Until until) const {
  constexpr duration as_good_as_never = std::chrono::hours(24 * 365 * 100);
  if (deadline.since_start() > as_good_as_never) sleep.wait(guard, until);
  else sleep.wait_until(guard, began_.load(std::memory_order_relaxed) + deadline.since_start(), until);
}

}  // namespace rubato::detail

namespace rubato {

void in_process::check() const {
  if (workers == 0) throw option_error("in_process: workers must be at least 1");
  for (double const f : slowness)
    if (!(f >= 1) || !std::isfinite(f))
      throw option_error("in_process: slowness must be finite and 1 or more, for each worker");
  if (busy_poll < busy_poll.zero() || busy_poll > longest_busy_poll)
    throw option_error("in_process: busy_poll must be between 0 and " + std::to_string(longest_busy_poll.count()) +
                       " microseconds, but is " + std::to_string(busy_poll.count()));
}

std::unique_ptr<runtime> in_process::open(run_setup setup) const {
  return std::make_unique<detail::worker_threads>(*this, std::move(setup));
}

}  // namespace rubato
