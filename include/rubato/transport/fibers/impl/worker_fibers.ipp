// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/prefetch.hpp"
#include "rubato/server/who_waits.hpp"
#include "rubato/transport/fibers/impl/worker_fiber.hpp"

namespace rubato::detail {

// ---- a run

namespace {
/// The scenario's models rely on it from their making on.
simulated const& checked(simulated const& options) {
  options.scenario.validate(options.workers, options.servers);
  return options;
}

lost_error lost_tables(std::uint32_t machine) {
  return lost_error("machine " + std::to_string(machine) + " was lost, with the tables of its stage");
}
}  // namespace

worker_fibers::worker_fibers(simulated const& options, run_setup setup)
    : worker_run(std::move(setup), checked(options).servers),
      options_(options),
      servers_(plan(), threading::single),
      control_(plan().protocols(), options_.servers, *this),
      speed_(options_.scenario.speed, options_.workers),
      network_(options_.scenario.network),
      outside_(options_.scenario.network) {
  plan_.forget_initial_values();
}

worker_fibers::~worker_fibers() = default;

run_report worker_fibers::run(run_request request) {
  if (auto lost = lost_before(request)) {
    run_report r;
    r.virtual_time = true;
    r.lost_nodes = std::move(*lost);
    r.completed = completion::not_begun;
    return r;
  }
  life::begin();
  if (is_to_stop(request)) {
    life::end();
    run_report r = stopped_before_it_began();
    r.virtual_time = true;
    return r;
  }
  try {
    begin(std::move(request));
    process_events();
  } catch (...) {
    fail(std::current_exception());
  }
  end_all();
  if (local_ && !request_.keeps_tables && !stopping() && !has_failed())
    note_end(local_->give_back(servers_, outside_, ended()));
  bool const is_lost = local_ && std::ranges::count(lost_machines_, local_->machine()) != 0;
  if (stopping() || has_failed() || is_lost) local_.reset();
  life::end();
  return report();
}

/// The nodes of which it is known that they are lost, where the run was to have workers on one.
/// @throws lost_error when one has tables that are nowhere else
std::optional<std::vector<std::uint32_t>> worker_fibers::lost_before(run_request const& request) const {
  std::vector<std::uint32_t> machines;
  for (auto const& loss : options_.scenario.machine_losses)
    if (time_point(loss.at) + options_.scenario.detection_delay <= request.began) machines.push_back(loss.machine);
  if (tables_kept_ && local_ && std::ranges::count(machines, local_->machine()) != 0)
    throw lost_tables(local_->machine());
  auto nodes = options_.nodes_of(machines);
  auto const has_workers = [&](std::uint32_t n) { return n < request.placement.size() && request.placement[n] != 0; };
  if (std::ranges::none_of(nodes, has_workers)) return std::nullopt;
  return nodes;
}

void worker_fibers::begin(run_request request) {
  accept(std::move(request));
  participants_.clear();
  footprints_.clear();
  fibers_ = std::make_unique<sim::fiber_pool>(options_.stack_bytes);
  queue_ = {};
  under_way_ = {};
  of_conductor_ = 0;
  count_ = options_.workers;
  machine_of_ = options_.scenario.machine_of;
  if (!request_.placement.empty()) {
    machine_of_ = options_.machines_of(request_.placement);
    count_ = static_cast<std::uint32_t>(machine_of_.size());
  }
  make_processes();
  make_network();
  crashes_ = 0;
  events_ = 0;
  stage_ = stage_id{stage_.value() + 1};
  servers_.begin_stage(stage_, protocol(), request_.changes_tables, request_.recover);
  prepared_ = bring_tables();
  control_.begin(stage_, protocol());
  beginning_ = true;
  for (std::uint32_t i = 0; i < count_; ++i)
    control_.join(make_participant().handle().id(), {});
  beginning_ = false;
  await_conductor();
  for (auto const& c : options_.scenario.crashes)
    queue_.push(time_point(c.at), {event::crash, c.worker.value(), 0, 0});
  lost_machines_.clear();
  completed_ = completion::whole;
  for (auto const& loss : options_.scenario.machine_losses) {
    time_point const at = std::max(time_point(loss.at - request_.began.since_start()), now());
    queue_.push(at, {event::lose, no_worker, 0, loss.machine});
  }
  for (auto const& j : options_.scenario.joins)
    queue_.push(time_point(j.at), {event::join, 0, 0, 0});
}

worker_fibers::worker_fiber& worker_fibers::make_participant() {
  auto const rank = static_cast<std::uint32_t>(participants_.size());
  participants_.push_back(
      std::make_unique<worker_fiber>(*this, sender{worker_id{rank}, {}, stage_}));
  worker_fiber& p = *participants_.back();
  p.count = count_;
  enter();
  p.link.fiber_ = fibers_->spawn([this, &p] { live(p); });
  footprints_.push_back({&p, p.handle().footprint(), p.handle().first_part(), p.link.fiber_});
  return p;
}

/// In single-machine mode the tables are where the workers are, and it is another network that they come by.
void worker_fibers::make_network() {
  sim::scenario const& given = options_.scenario;
  network_ = sim::network(given.network, given.server_delay, machine_of_, given.server_machine_of);
  if (!request_.local) return local_.reset();
  (void)only_node(request_.placement);
  std::uint32_t const machine = machine_of_[0];
  sim::network_options inside = given.network;
  inside.header_bytes = 0;  // calls, no messages
  network_ = sim::network(inside, {}, machine_of_, std::vector<std::uint32_t>(servers_.size(), machine));
  // One more than there are workers, for the machine that the tables come from.
  std::vector<std::uint32_t> ends = machine_of_;
  ends.push_back(local_ ? local_->machine() : machine);
  outside_ = sim::network(given.network, given.server_delay, ends, given.server_machine_of);
}

/// Returns when the tables are there.
time_point worker_fibers::bring_tables() {
  bool const in_debt = std::exchange(tables_kept_, request_.keeps_tables);
  if (!request_.local) return now();
  std::uint32_t const machine = machine_of_[0];
  time_point ready = now();
  bool const goes_on = local_ && !request_.changes_tables && (in_debt || local_->machine() == machine);
  if (!goes_on) local_.emplace(plan(), *request_.local, machine, options_.scenario.seed);
  else if (local_->machine() != machine) ready = local_->move_to(machine, worker_id{count_}, servers_, outside_, ready);
  return local_->begin(*request_.local, servers_, outside_, ready);
}

void worker_fibers::make_processes() {
  processes_.clear();
  if (!options_.scenario.one_process_per_machine || request_.local) return;
  std::map<std::uint32_t, std::uint32_t> workers_on;
  for (std::uint32_t const machine : machine_of_)
    if (++workers_on[machine] == 2)
      processes_.emplace(machine, std::make_unique<fiber_process>(*this, plan(), protocol()));
}

/// The process that a worker is a thread of; none where it is alone on its machine.
fiber_process* worker_fibers::enter_process(std::uint32_t rank) {
  if (rank >= machine_of_.size()) return nullptr;
  auto const process = processes_.find(machine_of_[rank]);
  if (process == processes_.end()) return nullptr;
  process->second->add(rank);
  return process->second.get();
}

std::uint32_t worker_fibers::add_worker() {
  if (!is_running()) throw usage_error(errc::stale_handle, "add_worker: no run is under way");
  worker_fiber& p = make_participant();
  control_.join(p.handle().id(), {});
  return p.handle().rank();
}

void worker_fibers::process_events() {
  while (!only_the_conductor_goes_on() && !stopping()) {
    event const e = queue_.pop();
    if (footprints_.size() >= many_workers && queue_.size() > 1) look_up(queue_.second());
    if (!queue_.empty()) warm_up(queue_.top());
    handle(e);
    ++events_;
    if (on_event_) on_event_();
  }
}

void worker_fibers::handle(event const& e) {
  switch (e.what) {
    case event::resume:
    case event::launch: return go_on(*participants_[e.worker]);
    case event::commit: return take_commit(e);
    case event::request: return take_request(e);
    case event::reply: return take_reply(e);
    case event::fetch: return take_fetch(e);
    case event::fetched: return take_fetched(e);
    case event::order: return take_order(e);
    case event::report: {
      under_way::report const r = under_way_.reports.take(e.detail);
      return control_.reported(r.about, r.said, now());
    }
    case event::progress:
      return control_.progress(server_id{e.server}, worker_id{e.worker},
                               under_way_.progress.take(e.detail), now());
    case event::ask_cut: return take_cut_request(e);
    case event::release_cut: return control_.release_cut(worker_id{e.worker}, now());
    case event::mark: return take_mark(e);
    case event::left:
      return control_.leave(worker_id{e.worker}, participants_[e.worker]->handle().clock(), now());
    case event::crash: return crash(e.worker);
    case event::lose: return lose_machine(e.detail);
    case event::detect: return detect(e.worker);
    case event::join:
      if (any_alive()) add_worker();
      return;
    case event::note: return take_note(e);
    case event::tick: return tick();
    case event::quota: return take_pace_order(e);
  }
}

/// Lets a worker's fiber run until it waits or ends.
void worker_fibers::go_on(worker_fiber& p) {
  if (!p.alive) return;
  fibers_->resume(p.link.fiber_);
  if (fibers_->finished(p.link.fiber_)) p.alive = false;
  // With the last worker the run is over; what is under way still arrives.
}

void worker_fibers::left(worker_participant& p) {
  auto const& one = static_cast<worker_fiber&>(p);
  if (one.link.dead_) return;
  queue_.push(now() + control_latency(), {event::left, one.handle().rank(), 0, 0});
}

void worker_fibers::crash(std::uint32_t w) {
  if (w >= participants_.size() || !participants_[w]->alive) return;
  fiber_process* const process = participants_[w]->link.process_;
  if (process == nullptr) return kill(*participants_[w]);
  for (std::uint32_t const one : process->workers()) {
    worker_fiber& p = *participants_[one];
    if (p.alive) kill(p);
    p.link.dead_ = true;  // also one that has ended
  }
}

void worker_fibers::lose_machine(std::uint32_t machine) {
  if (!any_alive()) return;  // later than the run
  lost_machines_.push_back(machine);
  for (std::size_t w = 0; w < std::min(machine_of_.size(), participants_.size()); ++w) {
    if (machine_of_[w] != machine) continue;
    worker_fiber& p = *participants_[w];
    if (p.alive) {
      kill(p);
      completed_ = completion::cut_off;
    }
    p.link.dead_ = true;  // also one that has ended
  }
}

/// A run that can begin again elsewhere does not go on without those who were lost with their machine.
void worker_fibers::detect(std::uint32_t w) {
  bool const with_machine =
      w < machine_of_.size() && std::ranges::find(lost_machines_, machine_of_[w]) != lost_machines_.end();
  if (with_machine && request_.recover != recovery::none) {
    note_end(now());
    return life::stop();
  }
  if (with_machine && request_.local)
    return fail(std::make_exception_ptr(lost_tables(machine_of_[w])));
  control_.lose(worker_id{w}, now());
}

void worker_fibers::kill(worker_fiber& p) {
  p.link.dead_ = true;
  fibers_->kill(p.link.fiber_);
  p.alive = false;
  p.crashed = now();
  p.end();
  ++crashes_;
  note_end(now());
  control_.withdraw_cut(p.link.self_);
  queue_.push(now() + options_.scenario.detection_delay, {event::detect, p.link.self_.value(), 0, 0});
}

void worker_fibers::end_all() {
  bool const is_deadlock = !stopping() && any_alive();
  std::string const who = is_deadlock ? who_waits() : std::string();
  for (auto& p : participants_) {
    if (!p->alive) continue;
    p->alive = false;
    p->link.dead_ = true;
    fibers_->kill(p->link.fiber_);
    p->end();
    note_end(now());
  }
  if (is_deadlock) fail_of_deadlock(who);
}

bool worker_fibers::any_alive() const noexcept {
  return std::ranges::any_of(participants_, [](auto const& p) { return p->alive; });
}

// ---- caches

void worker_fibers::look_up(event const& soon) const noexcept {
  if (soon.worker >= footprints_.size()) return;  // the loss of a worker that has not joined
  prefetch(&footprints_[soon.worker], 0, sizeof(footprint));
  prefetch_to_read(&participants_[soon.worker]);
  fibers_->look_up(soon.worker);  // which are numbered as workers are
}

void worker_fibers::warm_up(event const& next) const noexcept {
  if (next.worker >= footprints_.size()) return;
  if (next.what == event::commit)
    return prefetch(&under_way_.commits[next.detail], 0, sizeof(under_way::commit));
  footprint const& f = footprints_[next.worker];
  constexpr std::ptrdiff_t rest = 448;  // of a replica, which lies before its part for the first server
  constexpr std::ptrdiff_t part = 400;  // that part
  constexpr std::ptrdiff_t own = 128;   // in it, what a worker alone uses comes before where its answers go
  constexpr std::ptrdiff_t start = 64;  // of a participant, the same
  if (next.what == event::request) {    // the worker goes on sleeping
    prefetch(f.participant, start, sizeof(worker_fiber));
    return prefetch(f.replica, own, part);
  }
  if (next.what == event::resume || next.what == event::reply) fibers_->warm_up(f.fiber);
  prefetch(f.participant, 0, sizeof(worker_fiber));
  prefetch(f.handle.data(), 0, std::ssize(f.handle));
  prefetch(f.replica, -rest, part);
}

// ---- reports

std::string worker_fibers::who_waits() const {
  return describe_waits(servers_) + describe_waits(control_.members().cuts());
}

run_report worker_fibers::report() const {
  run_report r;
  r.virtual_time = true;
  r.elapsed = ended().since_start();
  for (auto const& p : participants_) r.workers.push_back(p->handle().metrics());
  servers_.add_counters(r);
  r.pace_changes.assign(control_.changes().begin(), control_.changes().end());
  r.crashes = crashes_;
  r.lost_nodes = options_.nodes_of(lost_machines_);
  r.completed = completed_;
  r.stopped = was_stopped();
  r.events = events_;
  return r;
}

}  // namespace rubato::detail
