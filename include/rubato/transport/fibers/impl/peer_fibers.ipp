// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/run_stopped.hpp"
#include "rubato/transport/fibers/peer_fibers.hpp"

namespace rubato {

namespace detail {

/// The end of a peer that is a fiber.
class peer_fibers::own_endpoint final : public peer_endpoint {
 public:
  own_endpoint(peer_fibers& run, std::uint32_t rank)
      : run_(run),
        self_(rank),
        speed_draws_(~run.scenario_.seed, 2 * std::uint64_t{rank}),
        link_draws_(~run.scenario_.seed, 2 * std::uint64_t{rank} + 1) {}

  void post(worker_id to, peer_message&& m) override {
    checkpoint();
    run_.send(self_, to, std::move(m));
  }
  void wait() override {
    waiting_ = true;
    while (!run_.node(self_.value()).can_go_on()) run_.fibers_->suspend();
    waiting_ = false;
    checkpoint();
  }
  [[nodiscard]] time_point now() const override { return run_.now(); }
  /// Lets the time pass that the scenario says, even if that is none: others get their turn.
  void charge(double work) override {
    checkpoint();
    run_.queue_.push(now() + run_.speed_.step(self_, work, now(), speed_draws_),
                     {event::resume, self_.value(), 0, 0});
    run_.fibers_->suspend();
  }
  void checkpoint() override {
    if (run_.stopping() || dead_) throw run_stopped{};
  }

 private:
  friend class peer_fibers;
  void lock() override {}
  void unlock() override {}

  peer_fibers& run_;
  worker_id self_;
  random_stream speed_draws_;
  random_stream link_draws_;
  bool waiting_ = false;
  bool dead_ = false;  ///< a body that swallows its death sends nothing more
};

struct peer_fibers::peer_fiber final : peer_participant {
  peer_fiber(peer_fibers& run, std::uint32_t rank) : peer_participant(run), to_others(run, rank) {
    attach(to_others, rank, run.scenario_.seed);
  }
  void live() override {
    try {
      peer_participant::live();
    } catch (...) {
      if (to_others.dead_) throw run_stopped{};  // whatever the body makes of its death
      throw;
    }
  }

  own_endpoint to_others;
  sim::fiber_id fiber{};
  bool alive = true;  ///< its body has neither ended nor died
  time_point crashed = time_point::max();
};

inline sim::scenario checked_for_peers(sim::scenario const& s, std::size_t peers) {
  s.validate(peers, 1);
  if (!s.joins.empty()) throw option_error("scenario: joins: peers do not join a run under way");
  if (!s.server_delay.empty())
    throw option_error("scenario: server_delay: there are no servers between peers");
  if (!s.server_machine_of.empty())
    throw option_error("scenario: server_machine_of: there are no servers between peers");
  if (s.one_process_per_machine)
    throw option_error("scenario: one_process_per_machine: peers have nothing that they could share");
  if (!s.machine_losses.empty())
    throw option_error("scenario: machine_losses: peers have no stages, expected `crashes`");
  return s;
}

peer_fibers::peer_fibers(simulated const& options, peer_setup setup)
    : peer_run(std::move(setup)),
      scenario_(checked_for_peers(options.scenario, count())),
      stack_bytes_(options.stack_bytes),
      speed_(scenario_.speed, count()),
      network_(new_network()) {}
peer_fibers::~peer_fibers() = default;

sim::network peer_fibers::new_network() const {
  return sim::network(scenario_.network, {}, scenario_.machine_of);
}

peer_report peer_fibers::run(body_type body) {
  life::begin();
  try {
    begin(std::move(body));
    while (!queue_.empty() && !stopping()) {
      handle(queue_.pop());
      ++events_;
      if (on_event_) on_event_();
    }
  } catch (...) {
    fail(std::current_exception());
  }
  end_all();
  life::end();
  return report();
}

void peer_fibers::begin(body_type body) {
  body_ = std::move(body);
  participants_.clear();
  fibers_ = std::make_unique<sim::fiber_pool>(stack_bytes_);
  queue_ = {};
  messages_ = {};
  network_ = new_network();
  crashes_ = 0;
  events_ = 0;
  for (std::uint32_t i = 0; i < count(); ++i) {
    node(i).reset();
    participants_.push_back(std::make_unique<peer_fiber>(*this, i));
    peer_fiber& p = *participants_.back();
    enter();
    p.fiber = fibers_->spawn([this, &p] { life::live(p); });
    queue_.push(time_point{}, {event::resume, i, 0, 0});
  }
  for (auto const& c : scenario_.crashes)
    queue_.push(time_point(c.at), {event::crash, c.worker.value(), 0, 0});
}

void peer_fibers::handle(event const& e) {
  switch (e.what) {
    case event::resume: return go_on(e.peer);
    case event::message: return arrive(e);
    case event::crash: return crash(e.peer);
    case event::detect:
      for (std::uint32_t i = 0; i < participants_.size(); ++i) {
        if (crashed(i)) continue;
        node(i).lose(worker_id{e.peer});
        wake(i);
      }
  }
}

void peer_fibers::send(worker_id from, worker_id to, peer_message&& m) {
  peer_fiber& p = *participants_[from.index()];
  std::uint64_t const bytes = node(from.value()).bytes(m);
  p.handle().count_sent(bytes);
  sim::transit const t = network_.send(from, to, bytes, now(), p.to_others.link_draws_);
  queue_.push_in_turn(t.delivered,
                      {event::message, to.value(), from.value(), messages_.put({std::move(m), t.sent})});
}

void peer_fibers::arrive(event const& e) {
  under_way m = messages_.take(e.detail);
  if (m.sent > participants_[e.from]->crashed) return;  // cut off in the middle
  if (crashed(e.peer)) return;
  outbox answers;
  if (!node(e.peer).deliver(worker_id{e.from}, std::move(m.content), answers))
    throw error(errc::refused, "peer " + std::to_string(e.peer) + ": a message of peer " +
                                   std::to_string(e.from) + " breaks the protocol");
  for (auto& [to, answer] : answers) send(worker_id{e.peer}, to, std::move(answer));
  wake(e.peer);
}

void peer_fibers::wake(std::uint32_t rank) {
  if (participants_[rank]->to_others.waiting_ && node(rank).can_go_on()) go_on(rank);
}

/// Lets a peer's fiber run until it waits or ends.
void peer_fibers::go_on(std::uint32_t rank) {
  peer_fiber& p = *participants_[rank];
  if (!p.alive) return;
  fibers_->resume(p.fiber);
  if (fibers_->finished(p.fiber)) p.alive = false;
}

void peer_fibers::left(peer_participant& p) {
  auto const& one = static_cast<peer_fiber&>(p);
  if (one.to_others.dead_) return;
  std::uint32_t const rank = one.handle().rank();
  outbox out;
  node(rank).leave(out);
  for (auto& [to, m] : out) send(worker_id{rank}, to, std::move(m));
}

void peer_fibers::crash(std::uint32_t rank) {
  peer_fiber& p = *participants_[rank];
  if (!p.alive) return;
  p.to_others.dead_ = true;
  fibers_->kill(p.fiber);
  p.alive = false;
  p.crashed = now();
  p.end();
  ++crashes_;
  note_end(now());
  queue_.push(now() + scenario_.detection_delay, {event::detect, rank, 0, 0});
}

bool peer_fibers::crashed(std::uint32_t rank) const noexcept {
  return rank < participants_.size() && participants_[rank]->crashed != time_point::max();
}

void peer_fibers::end_all() {
  std::string waiting;
  bool const ended_by_itself = !stopping();
  for (std::uint32_t i = 0; i < participants_.size(); ++i) {
    peer_fiber& p = *participants_[i];
    if (!p.alive) continue;
    waiting += "; " + describe_wait(i);
    p.alive = false;
    p.to_others.dead_ = true;
    fibers_->kill(p.fiber);
    p.end();
    note_end(now());
  }
  if (ended_by_itself && !waiting.empty()) fail_of_deadlock(waiting);
}

peer_report peer_fibers::report() const {
  peer_report r;
  r.virtual_time = true;
  r.elapsed = ended().since_start();
  for (auto const& p : participants_) r.peers.push_back(p->handle().metrics());
  r.crashes = crashes_;
  r.events = events_;
  return r;
}

}  // namespace detail

std::unique_ptr<simulated_peer_runtime> simulated::open_peers(peer_setup setup) const {
  setup.check_workers(workers);
  return std::make_unique<detail::peer_fibers>(*this, std::move(setup));
}

}  // namespace rubato
