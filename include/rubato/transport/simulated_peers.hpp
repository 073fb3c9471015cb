// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/peer.hpp"
#include "rubato/sim/event_queue.hpp"
#include "rubato/sim/fibers.hpp"
#include "rubato/sim/network.hpp"
#include "rubato/sim/scenario.hpp"
#include "rubato/sim/speed.hpp"
#include "rubato/peer/endpoint.hpp"
#include "rubato/transport/first_failure.hpp"
#include "rubato/transport/run_stopped.hpp"
#include "rubato/transport/slab.hpp"

namespace rubato {

/// Runs peers in virtual time: each body is a fiber of one thread. Made by `peer_group`.
///
/// A message between peers is one event; so is the end of a computation. Sending holds nobody up: the
/// sender's network card does it while the peer goes on. O(log events) each, besides what nodes and
/// body do.
template <class Node>
class simulated_peers {
 public:
  class endpoint_type;
  using peer_type = peer<Node, endpoint_type>;
  using message = typename Node::message;

  /// `options` are those of `simulated`.
  template <class Options>
  simulated_peers(Options const& options, std::deque<Node>& nodes)
      : nodes_(nodes),
        scenario_(checked(options.scenario, nodes.size())),
        stack_bytes_(options.stack_bytes),
        speed_(scenario_.speed, nodes.size()),
        network_(new_network()) {}
  simulated_peers(simulated_peers const&) = delete;
  simulated_peers& operator=(simulated_peers const&) = delete;

  /// Runs `body(peer&)` on every peer, and returns when all have ended. A body that throws ends the
  /// run, and its exception is rethrown here.
  /// @throws deadlock_error when somebody waits and nothing can happen any more
  peer_report run(std::function<void(peer_type&)> body) {
    begin(std::move(body));
    try {
      while (!queue_.empty() && !stopping_) {
        handle(queue_.pop());
        ++events_;
        if (on_event_) on_event_();
      }
      end_all();
    } catch (...) {
      stopping_ = true;  // no deadlock: what was thrown says why
      end_all();
      throw;
    }
    failure_.rethrow();
    return report();
  }

  /// Ends the run: every peer's body is unwound, and `run` returns.
  void stop() noexcept { stopping_ = true; }
  [[nodiscard]] time_point now() const noexcept { return queue_.now(); }
  /// Calls `observer` after every event of a run: for checking invariants from outside.
  void on_event(std::function<void()> observer) { on_event_ = std::move(observer); }
  /// Whether the peer of this rank has died in the run under way, or in the last one.
  [[nodiscard]] bool crashed(std::uint32_t rank) const noexcept {
    return rank < participants_.size() && participants_[rank]->crashed != time_point::max();
  }
  /// Calls `f(node)` while nothing happens to it.
  template <class F>
  void look_at(std::uint32_t rank, F f) const {
    f(std::as_const(nodes_[rank]));
  }

  class endpoint_type {
   public:
    endpoint_type(simulated_peers& run, worker_id self)
        : run_(run),
          self_(self),
          speed_draws_(~run.scenario_.seed, 2 * std::uint64_t{self.value()}),
          link_draws_(~run.scenario_.seed, 2 * std::uint64_t{self.value()} + 1) {}

    template <class F>
    auto guard(F f) {
      return f();
    }
    void post(worker_id to, message m) {
      checkpoint();
      run_.send(self_, to, std::move(m));
    }
    void wait() {
      waiting_ = true;
      while (!run_.nodes_[self_.index()].can_go_on()) run_.fibers_->suspend();
      waiting_ = false;
      checkpoint();
    }
    [[nodiscard]] time_point now() const noexcept { return run_.now(); }
    /// Lets the time pass that the scenario says, even if that is none: others get their turn.
    void charge(double work) {
      checkpoint();
      run_.queue_.push(now() + run_.speed_.step(self_, work, now(), speed_draws_),
                       {event::resume, self_.value(), 0, 0});
      run_.fibers_->suspend();
    }
    void checkpoint() const {
      if (run_.stopping_ || dead_) throw run_stopped{};
    }

   private:
    friend class simulated_peers;
    simulated_peers& run_;
    worker_id self_;
    random_stream speed_draws_;
    random_stream link_draws_;
    bool waiting_ = false;
    bool dead_ = false;  ///< a body that swallows its death sends nothing more
  };

 private:
  struct participant {
    participant(simulated_peers& run, std::uint32_t rank, std::uint32_t count)
        : link(run, worker_id{rank}),
          handle(run.nodes_[rank], link, rank, count, run.scenario_.seed) {}
    endpoint_type link;
    peer_type handle;
    sim::fiber_id fiber{};
    bool alive = true;  ///< its body has neither ended nor died
    time_point crashed = time_point::max();
  };

  struct event {
    enum kind : std::uint32_t {
      resume,   ///< a peer's fiber goes on, or starts
      message,  ///< a message is at its peer
      crash,    ///< a peer dies
      detect,   ///< the others notice
    };
    kind what;
    std::uint32_t peer;
    std::uint32_t from;
    std::uint32_t detail;  ///< a place in the slab
  };

  struct under_way {
    message content{};
    time_point sent{};  ///< when its last byte has left; lost if the sender dies before
  };

  static sim::scenario checked(sim::scenario const& s, std::size_t peers) {
    s.validate(peers, 1);
    if (!s.joins.empty()) throw option_error("scenario: joins: peers do not join a run under way");
    if (!s.server_delay.empty())
      throw option_error("scenario: server_delay: there are no servers between peers");
    return s;
  }

  [[nodiscard]] sim::network new_network() const {
    return sim::network(scenario_.network, {}, scenario_.machine_of);
  }

  void begin(std::function<void(peer_type&)> body) {
    if (running_)
      throw usage_error(errc::bad_option, "run: a run of this group is under way already");
    body_ = std::move(body);
    participants_.clear();
    fibers_ = std::make_unique<sim::fiber_pool>(stack_bytes_);
    queue_ = {};
    messages_ = {};
    network_ = new_network();
    stopping_ = false;
    running_ = true;
    failure_.forget();
    ended_ = {};
    crashes_ = 0;
    events_ = 0;
    auto const count = static_cast<std::uint32_t>(nodes_.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      nodes_[i].reset();
      participants_.push_back(std::make_unique<participant>(*this, i, count));
      participant& p = *participants_.back();
      p.fiber = fibers_->spawn([this, &p] { body_(p.handle); });
      queue_.push(time_point{}, {event::resume, i, 0, 0});
    }
    for (auto const& c : scenario_.crashes)
      queue_.push(time_point(c.at), {event::crash, c.worker.value(), 0, 0});
  }

  void handle(event const& e) {
    switch (e.what) {
      case event::resume: return go_on(e.peer);
      case event::message: return arrive(e);
      case event::crash: return crash(e.peer);
      case event::detect:
        for (std::uint32_t i = 0; i < participants_.size(); ++i) {
          if (participants_[i]->crashed != time_point::max()) continue;
          nodes_[i].lose(worker_id{e.peer});
          wake(i);
        }
    }
  }

  void send(worker_id from, worker_id to, message m) {
    participant& p = *participants_[from.index()];
    std::uint64_t const bytes = Node::bytes(m);
    p.handle.count_sent(bytes);
    sim::transit const t = network_.send(from, to, bytes, now(), p.link.link_draws_);
    queue_.push(t.delivered,
                {event::message, to.value(), from.value(), messages_.put({std::move(m), t.sent})});
  }

  void arrive(event const& e) {
    under_way m = messages_.take(e.detail);
    if (m.sent > participants_[e.from]->crashed) return;  // cut off in the middle
    if (participants_[e.peer]->crashed != time_point::max()) return;
    outbox<message> answers;
    if (!nodes_[e.peer].deliver(worker_id{e.from}, std::move(m.content), answers))
      throw error(errc::refused, "peer " + std::to_string(e.peer) + ": a message of peer " +
                                     std::to_string(e.from) + " breaks the protocol");
    for (auto& [to, answer] : answers) send(worker_id{e.peer}, to, std::move(answer));
    wake(e.peer);
  }

  void wake(std::uint32_t rank) {
    if (participants_[rank]->link.waiting_ && nodes_[rank].can_go_on()) go_on(rank);
  }

  /// Lets a peer's fiber run until it waits or ends.
  void go_on(std::uint32_t rank) {
    participant& p = *participants_[rank];
    if (!p.alive) return;
    fibers_->resume(p.fiber);
    if (!fibers_->finished(p.fiber)) return;
    p.alive = false;
    p.handle.end();
    ended_ = now();
    if (auto const thrown = fibers_->failure(p.fiber)) {
      failure_.note(thrown);
      stopping_ = true;
    }
    outbox<message> out;
    nodes_[rank].leave(out);
    for (auto& [to, m] : out) send(worker_id{rank}, to, std::move(m));
  }

  void crash(std::uint32_t rank) {
    participant& p = *participants_[rank];
    if (!p.alive) return;
    p.link.dead_ = true;
    fibers_->kill(p.fiber);
    p.alive = false;
    p.crashed = now();
    p.handle.end();
    ++crashes_;
    ended_ = now();
    queue_.push(now() + scenario_.detection_delay, {event::detect, rank, 0, 0});
  }

  void end_all() {
    running_ = false;
    std::string waiting;
    for (std::uint32_t i = 0; i < participants_.size(); ++i) {
      participant& p = *participants_[i];
      if (!p.alive) continue;
      waiting += " Peer " + std::to_string(i) + " waits in iteration " +
                 std::to_string(nodes_[i].iteration()) + ".";
      p.alive = false;
      p.link.dead_ = true;
      fibers_->kill(p.fiber);
      p.handle.end();
      ended_ = now();
    }
    if (!stopping_ && !waiting.empty() && !failure_)
      throw deadlock_error("deadlock: nobody can run." + waiting);
  }

  [[nodiscard]] peer_report report() const {
    peer_report r;
    r.virtual_time = true;
    r.elapsed = ended_.since_start();
    for (auto const& p : participants_) r.peers.push_back(p->handle.metrics());
    r.crashes = crashes_;
    r.events = events_;
    return r;
  }

  std::deque<Node>& nodes_;
  sim::scenario scenario_;
  std::size_t stack_bytes_;
  sim::speed_model speed_;
  sim::network network_;
  sim::event_queue<event> queue_;
  detail::slab<under_way> messages_;
  std::vector<std::unique_ptr<participant>> participants_;
  std::unique_ptr<sim::fiber_pool> fibers_;  // after the participants: unwound before them
  std::function<void(peer_type&)> body_;
  std::function<void()> on_event_;
  time_point ended_{};
  std::uint64_t crashes_ = 0;
  std::uint64_t events_ = 0;
  bool stopping_ = false;
  bool running_ = false;
  detail::first_failure failure_;
};

}  // namespace rubato
