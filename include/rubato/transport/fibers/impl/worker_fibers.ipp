// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/prefetch.hpp"
#include "rubato/core/run_stopped.hpp"
#include "rubato/transport/fibers/worker_fibers.hpp"

namespace rubato::detail {

struct worker_fibers::worker_fiber final : worker_participant {
  worker_fiber(worker_fibers& run, sender const& self)
      : worker_participant(run, self), link(run, self.worker) {
    link.process_ = run.enter_process(self.worker.value());
    if (link.process_ != nullptr) link.fetches_.resize(run.servers_.size());
    attach(link, run.options_.scenario.seed);
  }
  worker_fiber(worker_fiber const&) = delete;
  worker_fiber& operator=(worker_fiber const&) = delete;
  ~worker_fiber() override { detach(); }
  void live() override {
    try {
      worker_participant::live();
    } catch (...) {
      if (link.dead_) throw run_stopped{};  // whatever the body makes of its death
      throw;
    }
  }

  sim::fiber_id fiber{};
  bool alive = true;                            ///< has neither ended nor crashed
  time_point crashed = time_point::max();
  fiber_endpoint link;
};

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
      link_draws_(~run.options_.scenario.seed, 2 * std::uint64_t{self.value()} + 1) {
  questions_.resize(run.servers_.size());
}

time_point fiber_endpoint::now() const { return run_.now(); }

void fiber_endpoint::checkpoint() {
  if (run_.stopping() || dead_) throw run_stopped{};
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
  if (auto* const cache = shared()) return cache->request(reader_, to, table, read, slot);
  read_ = read;
  questions_[to.index()] = {static_cast<std::uint32_t>(table), &slot};
  ++outstanding_;
  slot.arrived = slot.admitted = now();
  sim::transit const t = run_.network_.send(station(), to, slot.request_bytes(), now(), link_draws_);
  run_.queue_.push_in_turn(t.delivered, {worker_fibers::event::request, self_.value(), to.value(),
                                 static_cast<std::uint32_t>(table)});
}

void fiber_endpoint::wait() {
  waiting_ = true;
  while (waits_for_answers()) run_.fibers_->suspend();
  waiting_ = false;
  checkpoint();
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
  slot.arrived = slot.admitted = now();
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
    if (time_point(loss.at + options_.scenario.detection_delay) <= request.began) machines.push_back(loss.machine);
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
  p.fiber = fibers_->spawn([this, &p] { live(p); });
  footprints_.push_back({&p, p.handle().footprint(), p.handle().first_part(), p.fiber});
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
  fibers_->resume(p.fiber);
  if (fibers_->finished(p.fiber)) p.alive = false;
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
  fibers_->kill(p.fiber);
  p.alive = false;
  p.crashed = now();
  p.end();
  ++crashes_;
  note_end(now());
  control_.withdraw_cut(p.link.self_);
  queue_.push(now() + options_.scenario.detection_delay, {event::detect, p.link.self_.value(), 0, 0});
}

void worker_fibers::end_all() {
  std::string const who = !stopping() && any_alive() ? who_waits() : std::string();
  for (auto& p : participants_) {
    if (!p->alive) continue;
    p->alive = false;
    p->link.dead_ = true;
    fibers_->kill(p->fiber);
    p->end();
    note_end(now());
  }
  if (!who.empty()) fail(std::make_exception_ptr(deadlock_error(who)));
}

bool worker_fibers::any_alive() const noexcept {
  return std::ranges::any_of(participants_, [](auto const& p) { return p->alive; });
}

// ---- at a server

void worker_fibers::take_commit(event const& e) {
  under_way::commit c = under_way_.commits.take(e.detail);
  if (crashes_ != 0 && c.sent > participants_[e.worker]->crashed) return;  // cut off in the middle
  released_.clear();
  clock_index const next = c.message.stamp.next();
  if (local_) local_->note(server_id{e.server}, c.message);
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
  read_slot& slot = *p.link.questions_[e.server].slot;
  if (local_)
    if (time_point const there = local_->bring(s, e.detail, slot, now()); there > now()) return queue_.push(there, e);
  slot.arrived = now();
  auto const [refused, done] = servers_.server(s).admit(e.detail, p.link.read_, slot);
  if (done) answer(p, s, slot);
  if (refused != refusal::none) throw refused_read(e.server, e.worker, refused);
}

void worker_fibers::take_fetch(event const& e) {
  server_fetch* const f = under_way_.fetches.take(e.detail);
  worker_fiber& p = *participants_[e.worker];
  if (p.link.dead_) return;
  f->slot.arrived = now();
  auto const [refused, done] = servers_.server(f->server).admit(f->table, f->read, f->slot);
  if (refused != refusal::none) throw refused_read(e.server, e.worker, refused);
  if (done) answer(p, *f);
  else p.link.fetches_[e.server] = f;
}

void worker_fibers::release(server_id s) {
  for (worker_id const w : released_) {
    worker_fiber& p = *participants_[w.index()];
    if (p.link.dead_) continue;
    if (p.link.process_ != nullptr)
      if (server_fetch* const f = std::exchange(p.link.fetches_[s.index()], nullptr)) {
        servers_.server(s).read_released(f->table, f->read, f->slot);
        answer(p, *f);
        continue;
      }
    if (!p.alive) continue;
    auto const [table, slot] = p.link.questions_[s.index()];
    servers_.server(s).read_released(table, p.link.read_, *slot);
    answer(p, s, *slot);
  }
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
  return control_latency() + (s.index() < delays.size() ? delays[s.index()] : duration::zero());
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
  queue_.push(beginning_ ? prepared_ : now() + 2 * control_latency(), {event::launch, w.value(), 0, 0});
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
  queue_.push(now() + control_latency(), {event::quota, w.value(), 0, under_way_.pace_orders.put(conductor::order(order))});
  ++of_conductor_;
}

// ---- caches

void worker_fibers::warm_up(event const& next) const noexcept {
  if (next.worker >= footprints_.size()) return;  // the loss of a worker that has not joined
  footprint const& f = footprints_[next.worker];
  if (next.what == event::resume || next.what == event::reply) fibers_->warm_up(f.fiber);
  if (next.what == event::commit)
    return prefetch(&under_way_.commits[next.detail], 0, sizeof(under_way::commit));
  prefetch(f.participant, 0, sizeof(worker_fiber));
  prefetch(f.handle.data(), 0, std::ssize(f.handle));
  prefetch(f.replica, 0, 320);
}

// ---- reports

std::string worker_fibers::who_waits() const {
  std::string text = "deadlock: nobody can run.";
  for (std::uint32_t s = 0; s < servers_.size(); ++s)
    servers_.server(server_id{s}).inspect([&](shard_control const& control) {
      add_waiting(text, "server " + std::to_string(s), control.waiting(), control.published(),
                  control.workers());
    });
  stable_cuts const& cuts = control_.members().cuts();
  add_waiting(text, "the coordinator", cuts.waiting(), cuts.c_min(), cuts.workers());
  return text;
}

void worker_fibers::add_waiting(std::string& text, std::string const& where, waiting_room const& waiting,
                                clock_index c_min, progress const& clocks) const {
  for (auto const& t : waiting.tickets()) {
    text += " Worker " + std::to_string(t.worker.value()) + " at clock " +
            std::to_string(t.clock.value()) + " waits at " + where + " for c_min " +
            std::to_string(t.need.value()) + ", which is " + std::to_string(c_min.value());
    if (auto const slowest = slowest_worker(clocks))
      text += " because of worker " + std::to_string(slowest->value());
    text += ".";
  }
}

std::optional<worker_id> worker_fibers::slowest_worker(progress const& clocks) const {
  for (auto const& p : participants_)
    if (clocks.contains(p->link.self_) && clocks.of(p->link.self_) == clocks.c_min())
      return p->link.self_;
  return std::nullopt;
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
  r.events = events_;
  return r;
}

}  // namespace rubato::detail

namespace rubato {

namespace {

/// Machines of workers, by number, and how many workers each has.
std::map<std::uint32_t, std::uint32_t> machines_in(simulated const& s) {
  std::map<std::uint32_t, std::uint32_t> workers_on;
  std::size_t const placed = std::min<std::size_t>(s.workers, s.scenario.machine_of.size());
  for (std::size_t w = 0; w < placed; ++w) ++workers_on[s.scenario.machine_of[w]];
  std::uint32_t fresh = 0;  // the others have a machine each
  for (std::size_t w = placed; w < s.workers; ++w) {
    while (workers_on.contains(fresh)) ++fresh;
    workers_on[fresh] = 1;
  }
  return workers_on;
}

}  // namespace

std::vector<std::uint32_t> simulated::nodes() const {
  std::vector<std::uint32_t> all;
  for (auto const& [machine, count] : machines_in(*this)) all.push_back(count);
  return all;
}

std::vector<std::uint32_t> simulated::machines_of(std::span<std::uint32_t const> placement) const {
  auto const machines = machines_in(*this);
  if (placement.size() > machines.size())
    throw option_error("run: a placement on " + std::to_string(placement.size()) + " nodes, expected at most " +
                       std::to_string(machines.size()) + " machines");
  std::vector<std::uint32_t> all;
  auto machine = machines.begin();
  for (std::uint32_t const count : placement) all.insert(all.end(), count, (machine++)->first);
  return all;
}

std::vector<std::uint32_t> simulated::nodes_of(std::span<std::uint32_t const> machines) const {
  std::vector<std::uint32_t> all;
  std::uint32_t node = 0;
  for (auto const& [machine, count] : machines_in(*this)) {
    if (std::ranges::find(machines, machine) != machines.end()) all.push_back(node);
    ++node;
  }
  return all;
}

std::unique_ptr<simulated_runtime> simulated::open(run_setup setup) const {
  return std::make_unique<detail::worker_fibers>(*this, std::move(setup));
}

}  // namespace rubato
