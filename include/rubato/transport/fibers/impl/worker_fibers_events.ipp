// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/transport/fibers/impl/worker_fiber.hpp"

// What happens in a run, where it happens.

namespace rubato::detail {

// ---- at a server

void worker_fibers::take_commit(event const& e) {
  under_way::commit c = under_way_.commits.take(e.detail);
  if (crashes_ != 0 && c.sent > participants_[e.worker]->crashed) return;  // cut off in the middle
  released_.clear();
  clock_index const next = c.message.stamp.next();
  if (local_) local_->note(server_id{e.server}, c.message);
  c.message.arrived = now();
  refusal const r = servers_.server(server_id{e.server}).commit(std::move(c.message), released_);
  if (r != refusal::none && participants_[e.worker]->alive)
    throw error(errc::refused, "server " + std::to_string(e.server) + ": a commit of worker " +
                                   std::to_string(e.worker) + " was refused, for " + to_string(r));
  if (plan().synchronized(protocol()) && r == refusal::none)
    queue_.push(now() + control_latency(server_id{e.server}),
                {event::progress, e.worker, e.server, under_way_.progress.put(clock_index(next))});
  release(server_id{e.server});
}

namespace {
error refused_read(std::uint32_t server, std::uint32_t worker, refusal why) {
  return error(errc::refused, "server " + std::to_string(server) + ": a read of worker " + std::to_string(worker) +
                                  " was refused, for " + to_string(why));
}
}  // namespace

void worker_fibers::take_request(event const& e) {
  worker_fiber& p = *participants_[e.worker];
  if (!p.alive) return;
  server_id const s{e.server};
  fiber_endpoint::question& asked = p.link.questions_[e.detail];
  bool waits = false;
  p.link.for_each_at(s, [&](auto const& q) { waits = waits || q.held; });
  read_slot& slot = *asked.slot;
  if (local_)
    if (time_point const there = local_->bring(s, asked.table, slot, now()); there > now()) return queue_.push(there, e);
  slot.arrived = now();
  asked.held = waits;  // what lets in the first lets in all
  if (waits) return;
  released_.clear();
  auto const [refused, done] = servers_.server(s).admit(asked.table, p.link.read_, slot, released_);
  asked.held = !done;
  if (done) answer(p, s, slot);
  release(s);
  if (refused != refusal::none) throw refused_read(e.server, e.worker, refused);
}

void worker_fibers::take_fetch(event const& e) {
  server_fetch* const f = under_way_.fetches.take(e.detail);
  worker_fiber& p = *participants_[e.worker];
  if (p.link.dead_) return;
  f->slot.arrived = now();
  auto& held = p.link.fetches_;
  if (std::ranges::any_of(held, [f](auto const* o) { return o->server == f->server && o->read.goes_with(f->read); }))
    return held.push_back(f);
  released_.clear();
  auto const [refused, done] = servers_.server(f->server).admit(f->table, f->read, f->slot, released_);
  if (refused != refusal::none) throw refused_read(e.server, e.worker, refused);
  if (done) answer(p, *f);
  else held.push_back(f);
  release(f->server);
}

void worker_fibers::release(server_id s) {
  for (worker_id const w : released_) {
    worker_fiber& p = *participants_[w.index()];
    if (!p.link.dead_) release(p, s);
  }
}

/// All that wait for this server in the worker's name.
void worker_fibers::release(worker_fiber& p, server_id s) {
  auto& fetches = p.link.fetches_;
  auto const first = std::ranges::find(fetches, s, &server_fetch::server);
  if (first != fetches.end()) {
    read_header const read = (*first)->read;
    auto const goes = [&](server_fetch const* f) { return f->server == s && f->read.goes_with(read); };
    for (server_fetch* const f : fetches)
      if (goes(f)) {
        servers_.server(s).read_released(f->table, f->read, f->slot);
        answer(p, *f);
      }
    std::erase_if(fetches, goes);
    return;
  }
  if (!p.alive) return;
  p.link.for_each_at(s, [&](auto& q) {
    if (!std::exchange(q.held, false)) return;
    servers_.server(s).read_released(q.table, p.link.read_, *q.slot);
    answer(p, s, *q.slot);
  });
}

void worker_fibers::answer(worker_fiber& p, server_id s, read_slot& slot) {
  slot.admitted = now();
  worker_id const to = p.link.self_;
  sim::transit const t = network_.send(s, p.link.station(), slot.reply_bytes(), now(), p.link.link_draws_);
  queue_.push_in_turn(t.delivered, {event::reply, to.value(), s.value(), 0});
}

void worker_fibers::answer(worker_fiber& p, server_fetch& f) {
  f.slot.admitted = now();
  sim::transit const t =
      network_.send(f.server, p.link.station(), f.slot.reply_bytes(), now(), p.link.link_draws_);
  queue_.push_in_turn(t.delivered, {event::fetched, p.link.self_.value(), f.server.value(),
                                    under_way_.fetches.put(&f)});
}

void worker_fibers::take_order(event const& e) {
  membership_order const o = under_way_.orders.take(e.detail);
  released_.clear();
  auto const said = servers_.server(server_id{e.server}).order(o, released_);
  release(server_id{e.server});
  if (said)
    queue_.push(now() + control_latency(server_id{e.server}),
                {event::report, 0, 0, under_way_.reports.put({o, *said})});
}

void worker_fibers::take_mark(event const& e) {
  shared_cut const below = under_way_.marks.take(e.detail);
  released_.clear();
  servers_.server(server_id{e.server}).advance(stage_, *below, released_);
  release(server_id{e.server});
}

// ---- at a worker

void worker_fibers::take_reply(event const& e) {
  worker_fiber& p = *participants_[e.worker];
  if (p.alive && --p.link.outstanding_ == 0 && p.link.waiting_) go_on(p);
}

/// Whoever has waited for it goes on.
void worker_fibers::take_fetched(event const& e) {
  server_fetch* const f = under_way_.fetches.take(e.detail);
  fiber_endpoint& asker = participants_[e.worker]->link;
  if (asker.dead_) return;
  fiber_process& process = *asker.process_;
  f->done(refusal::none);
  for (std::size_t i = 0; i < process.workers().size(); ++i) {  // one that goes on may make others join
    worker_fiber& p = *participants_[process.workers()[i]];
    if (p.link.waiting_ && !p.link.waits_for_answers()) go_on(p);
  }
}

void worker_fibers::take_pace_order(event const& e) {
  --of_conductor_;
  conductor::order order = under_way_.pace_orders.take(e.detail);
  worker_fiber& p = *participants_[e.worker];
  if (p.alive) p.link.orders_.push_back(std::move(order));
}

// ---- at the coordinator

void worker_fibers::take_cut_request(event const& e) {
  worker_fiber& p = *participants_[e.worker];
  if (!p.alive) return;
  p.link.cut_->arrived = now();
  refusal const r = control_.ask_cut(p.link.read_, p.link.cut_->pull, now());
  if (r != refusal::none)
    throw error(errc::refused, "coordinator: a request of worker " + std::to_string(e.worker) +
                                   " was refused, for " + to_string(r));
}

void worker_fibers::take_note(event const& e) {
  pace_report const said = under_way_.notes.take(e.detail);
  if (said.loss) control_.observe(*said.loss, now());
  else control_.committed(said.from, said.clock, now());
}

/// The next time at which the conductor wants to be called, or to know the loss.
void worker_fibers::await_conductor() {
  time_point const next =
      evaluates_loss() ? std::min(control_.next_tick(), control_.next_sample()) : control_.next_tick();
  if (next == time_point::max()) return;
  queue_.push(std::max(next, now()), {event::tick, no_worker, 0, 0});
  ++of_conductor_;
}

void worker_fibers::tick() {
  --of_conductor_;
  if (!any_alive()) return;
  if (evaluates_loss() && control_.next_sample() <= now()) control_.observe(request_.loss(), now());
  control_.tick(now());
  await_conductor();
}

// ---- what the coordinator says

duration worker_fibers::control_latency() const noexcept {
  return options_.scenario.network.worker_link.latency;
}

/// Between the coordinator and a server.
duration worker_fibers::control_latency(server_id s) const noexcept {
  std::vector<duration> const& delays = options_.scenario.server_delay;
  duration const more = s.index() < delays.size() ? delays[s.index()] : duration::zero();
  return (time_point(control_latency()) + more).since_start();  // which does not overflow
}

/// The workers that a run begins with are known everywhere from its start on.
void worker_fibers::order(membership_order const& o) {
  for (std::uint32_t s = 0; s < servers_.size(); ++s) {
    if (!beginning_) {
      queue_.push(now() + control_latency(server_id{s}),
                  {event::order, 0, s, under_way_.orders.put(membership_order(o))});
      continue;
    }
    if (auto const said = servers_.server(server_id{s}).order(o, released_))
      control_.reported(o, *said, now());
  }
  if (o.what == membership_order::kind::start) control_.started(o, now());
}

void worker_fibers::start(worker_id w, starting_point const& at) {
  worker_fiber& p = *participants_[w.index()];
  p.start = at;
  if (auto* const cache = p.link.shared(); cache != nullptr && p.alive)
    p.link.reader_ = cache->enlist(p.link.asked_, w, at.clock);
  // A joiner hears of its clock when all shards know it.
  queue_.push(beginning_ ? prepared_ : now() + control_latency() + control_latency(), {event::launch, w.value(), 0, 0});
}

void worker_fibers::grant(worker_id w, shared_cut const& cut, duration) {
  worker_fiber& p = *participants_[w.index()];
  if (!p.alive) return;
  p.link.cut_->admitted = now();
  p.link.cut_->cut = cut;
  queue_.push(now() + control_latency(), {event::reply, w.value(), 0, 0});
}

void worker_fibers::mark(shared_cut const& below) {
  for (std::uint32_t s = 0; s < servers_.size(); ++s)
    queue_.push(now() + control_latency(server_id{s}),
                {event::mark, 0, s, under_way_.marks.put(shared_cut(below))});
}

void worker_fibers::command(worker_id w, conductor::order const& order) {
  queue_.push(now() + control_latency(),
              {event::quota, w.value(), 0, under_way_.pace_orders.put(conductor::order(order))});
  ++of_conductor_;
}

}  // namespace rubato::detail
