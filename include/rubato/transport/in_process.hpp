// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rubato/cluster/system.hpp"
#include "rubato/core/error.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/transport/concepts.hpp"
#include "rubato/transport/first_failure.hpp"
#include "rubato/transport/run_stopped.hpp"
#include "rubato/worker/worker.hpp"

namespace rubato {

template <protocol Protocol, table_spec... Tables>
class in_process_runtime;
template <class Node>
class in_process_peers;

/// Workers are threads of this process and call the shards directly: no queue, no serialization;
/// parameters are copied once, from the store into the user's memory.
struct in_process {
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;
  /// How many times as long each worker takes for a step, by rank; what is missing counts 1. The
  /// worker sleeps for the difference: for trying out heterogeneity on one machine.
  std::vector<double> slowness = {};
  std::uint64_t seed = 1;  ///< of the workers' random streams

  template <protocol Protocol, table_spec... Tables>
  using runtime = in_process_runtime<Protocol, Tables...>;
  template <class Node>
  using peer_runtime = in_process_peers<Node>;

  /// @throws option_error
  void check() const {
    if (workers == 0) throw option_error("in_process: workers must be at least 1");
    for (double const f : slowness)
      if (!(f >= 1) || !std::isfinite(f))
        throw option_error("in_process: slowness must be finite and 1 or more, for each worker");
  }
};

/// Runs a body on threads. Made by `cluster`.
template <protocol Protocol, table_spec... Tables>
class in_process_runtime {
 public:
  using system_type = system<std::mutex, Protocol, Tables...>;
  using message = typename system_type::message;
  class endpoint_type;
  using worker_type = worker<endpoint_type, system_type>;

  in_process_runtime(in_process options, Protocol p, Tables... tables)
      : options_(std::move(options)),
        system_(std::move(p), options_.servers, std::move(tables)...) {
    options_.check();
  }
  ~in_process_runtime() { finish_threads(); }
  in_process_runtime(in_process_runtime const&) = delete;
  in_process_runtime& operator=(in_process_runtime const&) = delete;

  [[nodiscard]] system_type const& servers() const noexcept { return system_; }
  [[nodiscard]] std::uint32_t workers() const noexcept { return options_.workers; }

  /// Runs `body(worker&)` on every worker and returns when all have ended. A body that throws ends
  /// the run for all of them, and its exception is rethrown here. `loss` is what the pace's conductor
  /// asks for.
  run_report run(std::function<void(worker_type&)> body, std::function<double()> loss = {}) {
    static_assert(endpoint<endpoint_type, system_type>);
    if (busy_.exchange(true))
      throw usage_error(errc::bad_option, "run: a run of this cluster is under way already");
    idle_at_exit const idle{busy_};
    begin(std::move(body), std::move(loss));
    for (std::uint32_t i = 0; i < options_.workers; ++i) enlist();
    try {
      std::lock_guard const guard(lock_);
      for (auto& p : participants_) launch(*p);
      if constexpr (system_type::conducted) threads_.emplace_back([this] { conduct(); });
    } catch (...) {  // no thread to be had: those that run would wait for it for ever
      fail(std::current_exception());
    }
    wait_for_all();
    end_conductor();
    finish_threads();
    failure_.rethrow();
    return report();
  }

  /// Starts one more worker with the body of the run under way; callable from any thread.
  /// Returns its rank. @throws usage_error when no run is under way
  std::uint32_t add_worker() {
    std::lock_guard const joining(joining_);
    {
      std::lock_guard const guard(lock_);
      if (running_ == 0)
        throw usage_error(errc::stale_handle, "add_worker: no run is under way");
      ++running_;  // holds the run open until the joiner is in
    }
    try {
      participant& p = enlist();
      std::lock_guard const guard(lock_);
      launch(p);
      --running_;
      return p.handle.rank();
    } catch (...) {  // the shards may wait for a worker that will never run
      fail(std::current_exception());
      std::lock_guard const guard(lock_);
      if (--running_ == 0) all_ended_.notify_all();
      throw;
    }
  }

  /// Ends the run: every worker's next call unwinds its body, and `run` returns.
  void stop() noexcept {
    std::lock_guard const guard(lock_);
    stopping_.store(true, std::memory_order_relaxed);
    for (auto& p : participants_) p->link.wake();
  }

  /// Time since the run began.
  [[nodiscard]] time_point now() const {
    return time_point(std::chrono::steady_clock::now() - began_);
  }

  class endpoint_type {
   public:
    endpoint_type(in_process_runtime& run, worker_id self, double slowness)
        : run_(run), self_(self), slowness_(slowness), idle_until_(run.now()) {}

    void post(server_id s, message m) {
      checkpoint();
      released_.clear();
      worker_id const from = m.from.worker;
      clock_index const stamp = m.stamp;
      if (refusal const r = run_.system_.server(s).commit(m, released_); r != refusal::none)
        throw error(errc::refused, "server " + std::to_string(s.value()) +
                                       ": a commit was refused, for " + to_string(r));
      if constexpr (system_type::synchronized)
        run_.report_progress(s, from, stamp.next(), released_);
      run_.release(released_);
    }

    template <std::size_t I>
    void request(server_id s, table_tag<I>, read_header const& read,
                 read_slot<typename system_type::template store_type<I>>& slot) {
      checkpoint();
      slot.arrived = slot.admitted = time_point::min();
      auto const [refused, done] = run_.system_.server(s).template admit<I>(read, slot);
      if (refused != refusal::none)
        throw error(errc::refused, "server " + std::to_string(s.value()) +
                                       ": a read was refused, for " + to_string(refused));
      if (done) return;
      slot.arrived = now();
      pending_.push_back({read, s, &slot, [](in_process_runtime& run, waiting const& w) {
        auto& waited = *static_cast<read_slot<typename system_type::template store_type<I>>*>(w.slot);
        waited.admitted = run.now();
        run.system_.server(w.server).template read_released<I>(w.read, waited);
      }});
    }

    void request_cut(read_header const& read, cut_slot& slot) {
      checkpoint();
      slot.arrived = slot.admitted = time_point::min();
      std::lock_guard const guard(run_.membership_);
      slot.cut = run_.system_.ask_cut(read, slot.pull);
      if (slot.cut) return;
      slot.arrived = now();
      pending_.push_back({read, {}, &slot, [](in_process_runtime& run, waiting const& w) {
        auto& waited = *static_cast<cut_slot*>(w.slot);
        waited.admitted = run.now();
        std::lock_guard const granting(run.membership_);
        waited.cut = run.system_.members().cuts().grant(w.read.from.worker, waited.pull);
      }});
    }

    void release_cut(worker_id self) {
      released_.clear();
      run_.release_cut(self, released_);
      run_.release(released_);
    }

    /// Sleeps until every waiting request has been released, then reads for itself.
    void wait() {
      if (pending_.empty()) return;
      {
        std::unique_lock guard(lock_);
        awake_.wait(guard, [&] { return released_count_ >= pending_.size() || run_.stopping(); });
        released_count_ -= std::min(released_count_, pending_.size());
      }
      checkpoint();
      for (waiting const& w : pending_) w.complete(run_, w);
      pending_.clear();
      idle_until_ = now();
    }

    [[nodiscard]] time_point now() const { return run_.now(); }

    /// Compute has taken its own time already; a slowed worker sleeps for the rest.
    void charge(double) {
      if (slowness_ > 1) {
        duration const busy = now() - idle_until_;
        std::unique_lock guard(lock_);
        awake_.wait_for(guard, seconds(to_seconds(busy) * (slowness_ - 1)),
                        [&] { return run_.stopping(); });
      }
      idle_until_ = now();
      checkpoint();
    }

    void pause(time_point until) {
      {
        std::unique_lock guard(lock_);
        run_.wait_until(awake_, guard, until, [&] { return run_.stopping(); });
      }
      idle_until_ = now();
      checkpoint();
    }

    void report_commit(clock_index now_at) {
      std::lock_guard const guard(run_.conducting_);
      run_.system_.conductor().commit(self_, now_at, now());
    }
    void report_loss(double loss) {
      if (run_.loss_) return;
      std::lock_guard const guard(run_.conducting_);
      run_.system_.conductor().observe(now(), loss);
    }
    [[nodiscard]] std::optional<typename system_type::pace_order> take_order() {
      if (!has_orders_.load(std::memory_order_acquire)) return std::nullopt;
      std::lock_guard const guard(lock_);
      std::optional const first = orders_.front();
      orders_.erase(orders_.begin());
      has_orders_.store(!orders_.empty(), std::memory_order_relaxed);
      return first;
    }

    void checkpoint() const {
      if (run_.stopping()) throw run_stopped{};
    }

    /// Called by the conductor.
    void give(typename system_type::pace_order const& order) {
      std::lock_guard const guard(lock_);
      orders_.push_back(order);
      has_orders_.store(true, std::memory_order_release);
    }
    /// Called by whoever releases this worker, or stops the run.
    void release_one() {
      {
        std::lock_guard const guard(lock_);
        ++released_count_;
      }
      awake_.notify_one();
    }
    void wake() {
      { std::lock_guard const guard(lock_); }
      awake_.notify_all();
    }

   private:
    struct waiting {
      read_header read;
      server_id server;
      void* slot;
      void (*complete)(in_process_runtime&, waiting const&);
    };

    in_process_runtime& run_;
    worker_id self_;
    double slowness_;
    time_point idle_until_;
    std::vector<waiting> pending_;
    std::vector<worker_id> released_;
    std::mutex lock_;
    std::condition_variable awake_;
    std::size_t released_count_ = 0;
    std::vector<typename system_type::pace_order> orders_;  ///< have arrived
    std::atomic<bool> has_orders_ = false;
  };

 private:
  struct participant {
    participant(in_process_runtime& run, double slowness, sender self, std::uint32_t rank)
        : link(run, self.worker, slowness), handle(link, run.system_, self, rank, run.options_.seed) {}
    endpoint_type link;
    worker_type handle;
    starting_point start{};
  };

  struct idle_at_exit {
    std::atomic<bool>& busy;
    ~idle_at_exit() { busy = false; }
  };

  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_relaxed); }

  void begin(std::function<void(worker_type&)> body, std::function<double()> loss) {
    finish_threads();
    {
      std::lock_guard const guard(lock_);
      participants_.clear();
      stopping_ = false;
      failure_.forget();
      ended_ = {};
    }
    body_ = std::move(body);
    loss_ = std::move(loss);
    conducted_to_end_ = false;
    system_.begin_stage();
    began_ = std::chrono::steady_clock::now();
  }

  /// A new participant, known to all shards, its thread not yet started.
  participant& enlist() {
    participant* p = nullptr;
    {
      std::lock_guard const guard(lock_);
      auto const rank = static_cast<std::uint32_t>(participants_.size());
      double const slowness = rank < options_.slowness.size() ? options_.slowness[rank] : 1.0;
      participants_.push_back(std::make_unique<participant>(
          *this, slowness, sender{worker_id{rank}, {}, system_.stage()}, rank));
      p = participants_.back().get();
    }
    {
      std::lock_guard const guard(membership_);
      p->start = carry(system_.members().join(p->handle.id(), {}));
    }
    if constexpr (system_type::conducted) {
      std::lock_guard const guard(conducting_);
      pace_orders<typename system_type::pace_order> orders;
      system_.conductor().join(p->handle.id(), p->start.clock, now(), orders);
      deliver(orders);
    }
    return *p;
  }

  // ---- the conductor: the pace's half in the coordinator, in a thread of its own

  void conduct() {
    try {
      std::unique_lock guard(conducting_);
      auto& c = system_.conductor();
      while (!conducted_to_end_) {
        time_point const next = loss_ ? std::min(c.next_tick(), c.next_sample()) : c.next_tick();
        if (now() < next) {
          wait_until(conductor_, guard, next, [&] { return conducted_to_end_; });
          continue;
        }
        if (loss_ && c.next_sample() <= now()) observe_loss(guard);
        pace_orders<typename system_type::pace_order> orders;
        if (time_point const t = now(); c.next_tick() <= t) c.tick(t, orders);
        deliver(orders);
        guard.unlock();  // workers report in between even if the next tick is due already
        guard.lock();
      }
    } catch (...) {
      fail(std::current_exception());
    }
  }

  /// The workers go on reporting while the loss is computed.
  void observe_loss(std::unique_lock<std::mutex>& guard) {
    guard.unlock();
    time_point const at = now();
    double const loss = loss_();
    guard.lock();
    system_.conductor().observe(at, loss);
  }

  void deliver(pace_orders<typename system_type::pace_order> const& orders) {
    std::lock_guard const guard(lock_);
    for (auto const& [to, order] : orders) participants_[to.index()]->link.give(order);
  }

  void end_conductor() {
    {
      std::lock_guard const guard(conducting_);
      conducted_to_end_ = true;
    }
    conductor_.notify_all();
  }

  /// A deadline may be "never", or so late that no clock could count to it.
  template <class Until>
  void wait_until(std::condition_variable& sleep, std::unique_lock<std::mutex>& guard,
                  time_point deadline, Until until) const {
    constexpr duration as_good_as_never = std::chrono::hours(24 * 365 * 100);
    if (deadline.since_start() > as_good_as_never) sleep.wait(guard, until);
    else sleep.wait_until(guard, began_ + deadline.since_start(), until);
  }

  /// @pre `membership_` is held
  starting_point carry(membership_order const& o) {
    std::vector<worker_id> released;
    starting_point const last = system_.carry(o, released);
    if constexpr (system_type::synchronized) fold_below(follow_cuts(released), released);
    release(released);
    return last;
  }

  void report_progress(server_id s, worker_id w, clock_index received,
                       std::vector<worker_id>& released) {
    shared_cut mark;
    {
      std::lock_guard const guard(membership_);
      system_.members().cuts().report(s, w, received);
      mark = follow_cuts(released);
    }
    fold_below(mark, released);
  }
  void release_cut(worker_id w, std::vector<worker_id>& released) {
    shared_cut mark;
    {
      std::lock_guard const guard(membership_);
      system_.members().cuts().release(w);
      mark = follow_cuts(released);
    }
    fold_below(mark, released);
  }
  /// Adds whose cut requests may go on; returns a new mark, if there is one, for the servers.
  /// @pre `membership_` is held
  [[nodiscard]] shared_cut follow_cuts(std::vector<worker_id>& released) {
    for (worker_id const w : system_.members().cuts().take_released()) released.push_back(w);
    return system_.members().cuts().take_mark();
  }
  /// Not under `membership_`: folding takes its time, and marks may come late or overtake each other.
  void fold_below(shared_cut const& mark, std::vector<worker_id>& released) {
    if (mark) system_.fold_below(*mark, released);
  }

  /// @pre `lock_` is held
  void launch(participant& p) {
    threads_.emplace_back([this, &p] { live(p); });
    ++running_;
  }

  void live(participant& p) {
    try {
      p.handle.start(p.start, options_.workers);
      body_(p.handle);
      p.handle.finish();
    } catch (run_stopped const&) {
    } catch (...) {
      fail(std::current_exception());
    }
    p.handle.end();
    {
      std::lock_guard const guard(membership_);
      carry(system_.members().leave(p.handle.id(), p.handle.clock()));
    }
    if constexpr (system_type::conducted) {
      std::lock_guard const guard(conducting_);
      system_.conductor().leave(p.handle.id());
    }
    std::lock_guard const guard(lock_);
    ended_ = std::max(ended_, now());
    if (--running_ == 0) all_ended_.notify_all();
  }

  void fail(std::exception_ptr e) {
    {
      std::lock_guard const guard(lock_);
      failure_.note(std::move(e));
    }
    stop();
  }

  void release(std::span<worker_id const> workers) {
    if (workers.empty()) return;
    std::lock_guard const guard(lock_);
    for (worker_id const w : workers) participants_[w.index()]->link.release_one();
  }

  void wait_for_all() {
    std::unique_lock guard(lock_);
    all_ended_.wait(guard, [&] { return running_ == 0; });
  }

  void finish_threads() {
    for (auto& t : threads_) t.join();
    threads_.clear();
  }

  [[nodiscard]] run_report report() const {
    run_report r;
    r.elapsed = ended_.since_start();
    for (auto const& p : participants_) r.workers.push_back(p->handle.metrics());
    system_.add_counters(r);
    r.pace_changes = system_.pace_changes();
    return r;
  }

  in_process options_;
  system_type system_;
  std::function<void(worker_type&)> body_;
  std::chrono::steady_clock::time_point began_{};
  time_point ended_{};

  std::function<double()> loss_;
  std::mutex conducting_;  ///< the conductor, and
  std::condition_variable conductor_;
  bool conducted_to_end_ = false;

  std::mutex joining_;     ///< one joiner at a time
  std::mutex membership_;  ///< the coordinator
  std::mutex lock_;        ///< what follows
  std::condition_variable all_ended_;
  std::vector<std::unique_ptr<participant>> participants_;
  std::vector<std::thread> threads_;
  std::uint32_t running_ = 0;
  detail::first_failure failure_;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> busy_ = false;
};

}  // namespace rubato
