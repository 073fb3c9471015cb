// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/peer.hpp"
#include "rubato/peer/endpoint.hpp"
#include "rubato/transport/first_failure.hpp"
#include "rubato/transport/run_stopped.hpp"

namespace rubato {

/// Runs peers as threads of this process: a message is put where its receiver finds it, parameters are
/// not copied. Made by `peer_group`.
///
/// Each node has one lock, held while a message is taken or the peer asks what is next, not while it
/// computes or averages. Nobody holds two.
template <class Node>
class in_process_peers {
 public:
  class endpoint_type;
  using peer_type = peer<Node, endpoint_type>;
  using message = typename Node::message;

  /// `options` are those of `in_process`.
  template <class Options>
  in_process_peers(Options const& options, std::deque<Node>& nodes)
      : nodes_(nodes), locks_(nodes.size()), seed_(options.seed), slowness_(options.slowness) {
    options.check();
    if (slowness_.size() > nodes.size())
      throw option_error("in_process: slowness has " + std::to_string(slowness_.size()) +
                         " entries, but there are " + std::to_string(nodes.size()) + " peers");
    slowness_.resize(nodes.size(), 1.0);
  }
  in_process_peers(in_process_peers const&) = delete;
  in_process_peers& operator=(in_process_peers const&) = delete;

  /// Runs `body(peer&)` on every peer, and returns when all have ended. A body that throws ends the
  /// run for all of them, and its exception is rethrown here.
  peer_report run(std::function<void(peer_type&)> body) {
    if (busy_.exchange(true))
      throw usage_error(errc::bad_option, "run: a run of this group is under way already");
    idle_at_exit const idle{busy_};
    begin(std::move(body));
    std::vector<std::thread> threads;
    try {
      for (auto& p : participants_) threads.emplace_back([this, &p] { live(*p); });
    } catch (...) {  // no thread to be had: those that run would wait for it for ever
      fail(std::current_exception());
    }
    for (auto& t : threads) t.join();
    failure_.rethrow();
    return report();
  }

  /// Ends the run: every peer's next call unwinds its body, and `run` returns. From any thread.
  void stop() noexcept {
    stopping_.store(true, std::memory_order_relaxed);
    for (mailbox& m : locks_) {
      { std::lock_guard const guard(m.lock); }
      m.awake.notify_all();
    }
  }
  /// Time since the run began.
  [[nodiscard]] time_point now() const {
    return time_point(std::chrono::steady_clock::now() - began_.load(std::memory_order_relaxed));
  }
  /// Threads do not die.
  [[nodiscard]] static bool crashed(std::uint32_t) noexcept { return false; }
  /// Calls `f(node)` while nothing happens to it. From any thread.
  template <class F>
  void look_at(std::uint32_t rank, F f) const {
    std::lock_guard const guard(locks_[rank].lock);
    f(std::as_const(nodes_[rank]));
  }

  class endpoint_type {
   public:
    endpoint_type(in_process_peers& run, worker_id self)
        : run_(run), self_(self), idle_until_(run.now()) {}

    template <class F>
    auto guard(F f) {
      std::lock_guard const guard(mine().lock);
      return f();
    }
    void post(worker_id to, message m) {
      checkpoint();
      run_.send(self_, to, std::move(m));
    }
    void wait() {
      {
        std::unique_lock guard(mine().lock);
        mine().waiting = true;
        mine().awake.wait(guard, [&] { return node().can_go_on() || run_.stopping(); });
        mine().waiting = false;
      }
      checkpoint();
      idle_until_ = now();
    }
    [[nodiscard]] time_point now() const { return run_.now(); }
    /// Computing has taken its own time already; a slowed peer sleeps for the rest.
    void charge(double) {
      double const slowness = run_.slowness_[self_.index()];
      if (slowness > 1) {
        duration const busy = now() - idle_until_;
        std::unique_lock guard(mine().lock);
        mine().awake.wait_for(guard, seconds(to_seconds(busy) * (slowness - 1)),
                              [&] { return run_.stopping(); });
      }
      idle_until_ = now();
      checkpoint();
    }
    void checkpoint() const {
      if (run_.stopping()) throw run_stopped{};
    }

   private:
    auto& mine() const { return run_.locks_[self_.index()]; }
    Node& node() const { return run_.nodes_[self_.index()]; }

    in_process_peers& run_;
    worker_id self_;
    time_point idle_until_;
  };

 private:
  /// What stands between a node and the others.
  struct mailbox {
    std::mutex lock;
    std::condition_variable awake;
    bool waiting = false;
    std::uint64_t bytes_answered = 0;  ///< by the node, in the threads of those that asked
  };
  struct participant {
    participant(in_process_peers& run, std::uint32_t rank, std::uint32_t count)
        : link(run, worker_id{rank}), handle(run.nodes_[rank], link, rank, count, run.seed_) {}
    endpoint_type link;
    peer_type handle;
  };
  struct idle_at_exit {
    std::atomic<bool>& busy;
    ~idle_at_exit() { busy = false; }
  };

  [[nodiscard]] bool stopping() const noexcept { return stopping_.load(std::memory_order_relaxed); }

  void begin(std::function<void(peer_type&)> body) {
    body_ = std::move(body);
    stopping_ = false;
    failure_.forget();
    began_ = std::chrono::steady_clock::now();
    participants_.clear();
    auto const count = static_cast<std::uint32_t>(nodes_.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      {
        std::lock_guard const guard(locks_[i].lock);  // somebody may observe
        nodes_[i].reset();
        locks_[i].bytes_answered = 0;
      }
      participants_.push_back(std::make_unique<participant>(*this, i, count));
    }
    ended_ = {};
  }

  /// In the sender's thread; so are the answers.
  void send(worker_id from, worker_id to, message m) {
    participants_[from.index()]->handle.count_sent(Node::bytes(m));
    outbox<message> answers;
    deliver(from, to, std::move(m), answers);
    for (auto& [back, answer] : answers) {
      outbox<message> none;
      deliver(to, back, std::move(answer), none);
    }
  }
  void deliver(worker_id from, worker_id to, message m, outbox<message>& answers) {
    mailbox& at = locks_[to.index()];
    bool wake = false;
    {
      std::lock_guard const guard(at.lock);
      Node& node = nodes_[to.index()];
      if (!node.deliver(from, std::move(m), answers))
        throw error(errc::refused, "peer " + std::to_string(to.value()) + ": a message of peer " +
                                       std::to_string(from.value()) + " breaks the protocol");
      for (auto const& [back, answer] : answers) at.bytes_answered += Node::bytes(answer);
      wake = at.waiting && node.can_go_on();
    }
    if (wake) at.awake.notify_one();
  }

  void live(participant& p) {
    std::uint32_t const rank = p.handle.rank();
    try {
      body_(p.handle);
    } catch (run_stopped const&) {
    } catch (...) {
      fail(std::current_exception());
    }
    p.handle.end();
    if (!stopping()) try {  // else neighbors could take it for a loss before they notice
      outbox<message> out;
      {
        std::lock_guard const guard(locks_[rank].lock);
        nodes_[rank].leave(out);
      }
      for (auto& [to, m] : out) send(worker_id{rank}, to, std::move(m));
    } catch (...) {
      fail(std::current_exception());
    }
    std::lock_guard const guard(lock_);
    ended_ = std::max(ended_, now());
  }

  void fail(std::exception_ptr e) {
    {
      std::lock_guard const guard(lock_);
      failure_.note(std::move(e));
    }
    stop();
  }

  [[nodiscard]] peer_report report() const {
    peer_report r;
    r.elapsed = ended_.since_start();
    for (auto const& p : participants_) {
      r.peers.push_back(p->handle.metrics());
      r.peers.back().bytes_sent += locks_[p->handle.rank()].bytes_answered;
    }
    return r;
  }

  std::deque<Node>& nodes_;
  mutable std::deque<mailbox> locks_;  // by node
  std::uint64_t seed_;
  std::vector<double> slowness_;
  std::function<void(peer_type&)> body_;
  std::vector<std::unique_ptr<participant>> participants_;
  std::atomic<std::chrono::steady_clock::time_point> began_{};
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> busy_ = false;

  std::mutex lock_;  ///< what follows
  time_point ended_{};
  detail::first_failure failure_;
};

}  // namespace rubato
