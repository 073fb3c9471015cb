// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/cluster/system.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/null_mutex.hpp"
#include "rubato/core/random.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/sim/event_queue.hpp"
#include "rubato/sim/fibers.hpp"
#include "rubato/sim/network.hpp"
#include "rubato/sim/scenario.hpp"
#include "rubato/sim/speed.hpp"
#include "rubato/transport/concepts.hpp"
#include "rubato/transport/first_failure.hpp"
#include "rubato/transport/run_stopped.hpp"
#include "rubato/transport/slab.hpp"
#include "rubato/worker/worker.hpp"

namespace rubato {

template <protocol Protocol, table_spec... Tables>
class simulated_runtime;
template <class Node>
class simulated_peers;

/// Workers are fibers of one thread in virtual time. The training body really computes; how long
/// that took, and what the network did, the scenario says. Same seed, same run, event by event.
struct simulated {
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;
  sim::scenario scenario = {};
  std::size_t stack_bytes = 256 * 1024;  ///< of each worker's fiber

  template <protocol Protocol, table_spec... Tables>
  using runtime = simulated_runtime<Protocol, Tables...>;
  template <class Node>
  using peer_runtime = simulated_peers<Node>;
};

/// Runs a body in virtual time. Made by `cluster`.
///
/// One message between worker and server is one event; so is the end of a local step. O(log events)
/// each, besides what shards and body do.
template <protocol Protocol, table_spec... Tables>
class simulated_runtime {
 public:
  using system_type = system<null_mutex, Protocol, Tables...>;
  using message = typename system_type::message;
  class endpoint_type;
  using worker_type = worker<endpoint_type, system_type>;

  simulated_runtime(simulated options, Protocol p, Tables... tables)
      : options_(checked(std::move(options))),
        system_(std::move(p), options_.servers, std::move(tables)...),
        speed_(options_.scenario.speed, options_.workers),
        network_(options_.scenario.network, options_.scenario.server_delay,
                 options_.scenario.machine_of) {}
  simulated_runtime(simulated_runtime const&) = delete;
  simulated_runtime& operator=(simulated_runtime const&) = delete;

  [[nodiscard]] system_type const& servers() const noexcept { return system_; }
  [[nodiscard]] std::uint32_t workers() const noexcept { return options_.workers; }

  /// Runs `body(worker&)` on every worker and returns when all have ended. A body that throws ends
  /// the run, and its exception is rethrown here. `loss` is what the pace's conductor asks for.
  /// @throws deadlock_error when somebody waits and nothing can happen any more
  run_report run(std::function<void(worker_type&)> body, std::function<double()> loss = {}) {
    static_assert(endpoint<endpoint_type, system_type>);
    begin(std::move(body), std::move(loss));
    try {
      while (!only_the_conductor_goes_on() && !stopping_) {
        event const e = queue_.pop();
        if (!queue_.empty()) warm_up(queue_.top());
        handle(e);
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

  /// Starts one more worker with the body of the run under way: from a body, or an observer.
  /// @throws usage_error when no run is under way
  std::uint32_t add_worker() {
    if (!running_) throw usage_error(errc::stale_handle, "add_worker: no run is under way");
    participant& p = make_participant();
    send_order(system_.members().join(p.handle.id(), {}));
    return p.handle.rank();
  }

  /// Ends the run: every worker's body is unwound, and `run` returns.
  void stop() noexcept { stopping_ = true; }

  [[nodiscard]] time_point now() const noexcept { return queue_.now(); }

  /// Calls `observer` after every event of a run: for checking invariants from outside.
  void on_event(std::function<void()> observer) { on_event_ = std::move(observer); }

  class endpoint_type {
   public:
    endpoint_type(simulated_runtime& run, worker_id self)
        : run_(run),
          self_(self),
          speed_draws_(~run.options_.scenario.seed, 2 * std::uint64_t{self.value()}),
          link_draws_(~run.options_.scenario.seed, 2 * std::uint64_t{self.value()} + 1) {}

    void post(server_id s, message m) {
      checkpoint();
      sim::transit const t = run_.network_.send(self_, s, m.bytes(), now(), link_draws_);
      std::uint32_t const at = run_.commits_.put({std::move(m), t.sent});
      run_.queue_.push(t.delivered, {event::commit, self_.value(), s.value(), at});
      if (t.sent > now()) sleep_until(t.sent);
    }

    template <std::size_t I>
    void request(server_id s, table_tag<I>, read_header const& read,
                 read_slot<typename system_type::template store_type<I>>& slot) {
      checkpoint();
      read_ = read;
      ++outstanding_;
      slot.arrived = slot.admitted = now();
      sim::transit const t =
          run_.network_.send(self_, s, slot.request_bytes(), now(), link_draws_);
      run_.queue_.push(t.delivered, {event::request, self_.value(), s.value(), I});
    }

    void request_cut(read_header const& read, cut_slot& slot) {
      checkpoint();
      read_ = read;
      cut_ = &slot;
      ++outstanding_;
      slot.arrived = slot.admitted = now();
      run_.queue_.push(now() + run_.control_latency(), {event::ask_cut, self_.value(), 0, 0});
    }

    void release_cut(worker_id) {
      checkpoint();
      run_.queue_.push(now() + run_.control_latency(), {event::release_cut, self_.value(), 0, 0});
    }

    void wait() {
      waiting_ = true;
      while (outstanding_ != 0) run_.fibers_->suspend();
      waiting_ = false;
      checkpoint();
    }

    [[nodiscard]] time_point now() const noexcept { return run_.now(); }

    /// Lets the time pass that the scenario says, even if that is none: others get their turn.
    void charge(double work) {
      checkpoint();
      sleep_until(now() + run_.speed_.step(self_, work, now(), speed_draws_));
    }
    void pause(time_point until) {
      checkpoint();
      if (until > now()) sleep_until(until);
    }

    void report_commit(clock_index now_at) { report({self_, now_at, {}}); }
    void report_loss(double loss) {
      if (!run_.loss_) report({self_, {}, loss});
    }
    [[nodiscard]] std::optional<typename system_type::pace_order> take_order() {
      if (orders_.empty()) return std::nullopt;
      std::optional const first = orders_.front();
      orders_.erase(orders_.begin());
      return first;
    }

    void checkpoint() const {
      if (run_.stopping_ || dead_) throw run_stopped{};
    }

   private:
    friend class simulated_runtime;

    void report(pace_report const& said) {
      checkpoint();
      run_.queue_.push(now() + run_.control_latency(),
                       {event::note, self_.value(), 0, run_.notes_.put(said)});
    }

    void sleep_until(time_point t) {
      run_.queue_.push(t, {event::resume, self_.value(), 0, 0});
      run_.fibers_->suspend();
    }

    simulated_runtime& run_;
    worker_id self_;
    random_stream speed_draws_;
    random_stream link_draws_;
    read_header read_{};
    cut_slot* cut_ = nullptr;
    std::vector<typename system_type::pace_order> orders_;  ///< have arrived
    std::uint32_t outstanding_ = 0;
    bool waiting_ = false;
    bool dead_ = false;  ///< a body that swallows its death sends nothing more
  };

 private:
  struct participant {
    participant(simulated_runtime& run, sender self, std::uint32_t rank, std::uint64_t seed)
        : link(run, self.worker),
          handle(link, run.system_, self, rank, seed),
          table_waiting(run.system_.servers()) {}
    endpoint_type link;
    worker_type handle;
    sim::fiber_id fiber{};
    starting_point start{};
    bool alive = true;                            ///< has neither ended nor crashed
    time_point crashed = time_point::max();
    std::vector<std::uint32_t> table_waiting;     ///< by server: the table that a held read is about
  };

  /// Where a worker's memory is, to be found without touching any of it.
  struct footprint {
    participant const* worker;
    void const* replica;
    sim::fiber_id fiber;
  };

  struct event {
    enum kind : std::uint32_t {
      resume,   ///< a worker's fiber goes on
      launch,   ///< a worker's fiber starts
      commit,   ///< a commit is at its server
      request,  ///< a read is at its server
      reply,    ///< an answer is at its worker
      order,    ///< an order of the coordinator is at a server
      report,   ///< a server's report is at the coordinator
      progress, ///< a server's report of what it has received is at the coordinator
      ask_cut,  ///< a worker's request for a cut is at the coordinator
      release_cut,  ///< and its word that it has read
      mark,     ///< the coordinator's word of what may be folded is at a server
      left,     ///< a worker's goodbye is at the coordinator
      crash,    ///< a worker dies
      detect,   ///< the coordinator notices
      join,     ///< the scenario adds a worker
      note,     ///< a worker's report is at the conductor
      tick,     ///< the conductor wants to be called
      quota,    ///< an order of the conductor is at a worker
    };
    kind what;
    std::uint32_t worker;
    std::uint32_t server;
    std::uint32_t detail;  ///< a table, or a place in a slab
  };

  struct commit_under_way {
    message commit{};
    time_point sent{};  ///< when its last byte has left; lost if the worker dies before
  };
  struct report_under_way {
    membership_order about{};
    membership_report said{};
  };
  struct order_under_way {
    typename system_type::pace_order order{};
  };
  struct mark_under_way {
    stage_id stage{};
    shared_cut below{};
  };

  // ---- caches

  /// Fetches what the next event's worker will touch first, while this event is handled: with
  /// thousands of workers each event finds its worker's memory cold.
  void warm_up(event const& next) const noexcept {
    if (next.worker >= footprints_.size()) return;  // the loss of a worker that has not joined
    footprint const& f = footprints_[next.worker];
    if (next.what == event::resume || next.what == event::reply) fibers_->warm_up(f.fiber);
    if (next.what == event::commit) return;
    prefetch(f.worker, 704);
    prefetch(f.replica, 512);
  }

  static void prefetch(void const* at, std::ptrdiff_t bytes) noexcept {
    constexpr std::ptrdiff_t line = 64;
    for (std::ptrdiff_t i = 0; i < bytes; i += line)
      __builtin_prefetch(static_cast<char const*>(at) + i, 1);
  }

  static constexpr std::uint32_t no_worker = ~std::uint32_t{0};

  // ---- a run

  /// The scenario's models rely on it from their making on.
  static simulated checked(simulated options) {
    options.scenario.validate(options.workers, options.servers);
    return options;
  }

  void begin(std::function<void(worker_type&)> body, std::function<double()> loss) {
    if (running_)
      throw usage_error(errc::bad_option, "run: a run of this cluster is under way already");
    body_ = std::move(body);
    loss_ = std::move(loss);
    participants_.clear();
    footprints_.clear();
    fibers_ = std::make_unique<sim::fiber_pool>(options_.stack_bytes);
    queue_ = {};
    commits_ = {};
    orders_ = {};
    reports_ = {};
    progress_ = {};
    marks_ = {};
    notes_ = {};
    pace_orders_ = {};
    of_conductor_ = 0;
    network_ = sim::network(options_.scenario.network, options_.scenario.server_delay,
                            options_.scenario.machine_of);
    stopping_ = false;
    running_ = true;
    failure_.forget();
    ended_ = {};
    crashes_ = 0;
    events_ = 0;
    system_.begin_stage();
    for (std::uint32_t i = 0; i < options_.workers; ++i) {
      participant& p = make_participant();
      std::vector<worker_id> nobody;
      p.start = system_.carry(system_.members().join(p.handle.id(), {}), nobody);
      queue_.push(time_point{}, {event::launch, i, 0, 0});
      tell_conductor([&](auto& c, auto& out) { c.join(p.handle.id(), p.start.clock, {}, out); });
    }
    if constexpr (system_type::conducted) await_conductor();
    for (auto const& c : options_.scenario.crashes)
      queue_.push(time_point(c.at), {event::crash, c.worker.value(), 0, 0});
    for (auto const& j : options_.scenario.joins)
      queue_.push(time_point(j.at), {event::join, 0, 0, 0});
  }

  participant& make_participant() {
    auto const rank = static_cast<std::uint32_t>(participants_.size());
    participants_.push_back(std::make_unique<participant>(
        *this, sender{worker_id{rank}, {}, system_.stage()}, rank, options_.scenario.seed));
    participant& p = *participants_.back();
    p.fiber = fibers_->spawn([this, &p] {
      p.handle.start(p.start, options_.workers);
      body_(p.handle);
      p.handle.finish();
    });
    footprints_.push_back({&p, p.handle.first_part(), p.fiber});
    return p;
  }

  void handle(event const& e) {
    switch (e.what) {
      case event::resume:
      case event::launch: return go_on(*participants_[e.worker]);
      case event::commit: return take_commit(e);
      case event::request: return take_request(e);
      case event::reply: return take_reply(e);
      case event::order: return take_order(e);
      case event::report: {
        report_under_way const r = reports_.take(e.detail);
        if (auto const next = system_.members().report(r.about, r.said)) send_order(*next);
        return follow_cuts();
      }
      case event::progress:
        system_.members().cuts().report(server_id{e.server}, worker_id{e.worker},
                                        progress_.take(e.detail));
        return follow_cuts();
      case event::ask_cut: return take_cut_request(e);
      case event::release_cut:
        system_.members().cuts().release(worker_id{e.worker});
        return follow_cuts();
      case event::mark: {
        mark_under_way const m = marks_.take(e.detail);
        released_.clear();
        system_.server(server_id{e.server}).advance(m.stage, *m.below, released_);
        return release(server_id{e.server});
      }
      case event::left:
        send_order(system_.members().leave(worker_id{e.worker},
                                           participants_[e.worker]->handle.clock()));
        tell_conductor([&](auto& c, auto&) { c.leave(worker_id{e.worker}); });
        return follow_cuts();
      case event::crash: return crash(e.worker);
      case event::detect:
        if (auto const o = system_.members().lose(worker_id{e.worker})) send_order(*o);
        tell_conductor([&](auto& c, auto&) { c.leave(worker_id{e.worker}); });
        return follow_cuts();
      case event::join:
        if (any_alive()) add_worker();
        return;
      case event::note: return take_note(e);
      case event::tick: return tick();
      case event::quota: return take_pace_order(e);
    }
  }

  /// Lets a worker's fiber run until it waits or ends.
  void go_on(participant& p) {
    if (!p.alive) return;
    fibers_->resume(p.fiber);
    if (!fibers_->finished(p.fiber)) return;
    p.alive = false;
    ended_ = now();
    p.handle.end();
    if (auto const thrown = fibers_->failure(p.fiber)) {
      failure_.note(thrown);
      stopping_ = true;
    }
    queue_.push(now() + control_latency(), {event::left, p.handle.rank(), 0, 0});
    // With the last worker the run is over; what is under way still arrives.
  }

  void crash(std::uint32_t w) {
    if (w >= participants_.size() || !participants_[w]->alive) return;
    participant& p = *participants_[w];
    p.link.dead_ = true;
    fibers_->kill(p.fiber);
    p.alive = false;
    p.crashed = now();
    ++crashes_;
    ended_ = now();
    p.handle.end();
    queue_.push(now() + options_.scenario.detection_delay, {event::detect, w, 0, 0});
  }

  void end_all() {
    running_ = false;
    bool const deadlocked = !stopping_ && any_alive();
    std::string const who = deadlocked ? who_waits() : std::string();
    for (auto& p : participants_) {
      if (!p->alive) continue;
      p->alive = false;
      p->link.dead_ = true;
      fibers_->kill(p->fiber);
      p->handle.end();
      ended_ = now();
    }
    if (deadlocked && !failure_) throw deadlock_error(who);
  }

  [[nodiscard]] bool any_alive() const noexcept {
    return std::ranges::any_of(participants_, [](auto const& p) { return p->alive; });
  }

  // ---- at a server

  void take_commit(event const& e) {
    commit_under_way const c = commits_.take(e.detail);
    if (c.sent > participants_[e.worker]->crashed) return;  // cut off in the middle
    released_.clear();
    refusal const r = system_.server(server_id{e.server}).commit(c.commit, released_);
    if (r != refusal::none && participants_[e.worker]->alive)
      throw error(errc::refused, "server " + std::to_string(e.server) + ": a commit of worker " +
                                     std::to_string(e.worker) + " was refused, for " + to_string(r));
    if (system_type::synchronized && r == refusal::none)
      queue_.push(now() + control_latency(server_id{e.server}),
                  {event::progress, e.worker, e.server, progress_.put(c.commit.stamp.next())});
    release(server_id{e.server});
  }

  void take_request(event const& e) {
    participant& p = *participants_[e.worker];
    if (!p.alive) return;
    with_slot(p, server_id{e.server}, e.detail, [&](auto tag, auto& slot) {
      slot.arrived = now();
      p.table_waiting[e.server] = e.detail;
      auto const [refused, done] =
          system_.server(server_id{e.server})
              .template admit<decltype(tag)::index>(p.link.read_, slot);
      if (done) answer(p, server_id{e.server}, slot);
      if (refused != refusal::none)
        throw error(errc::refused, "server " + std::to_string(e.server) + ": a read of worker " +
                                       std::to_string(e.worker) + " was refused, for " +
                                       to_string(refused));
    });
  }

  void release(server_id s) {
    for (worker_id const w : released_) {
      participant& p = *participants_[w.index()];
      if (!p.alive) continue;
      with_slot(p, s, p.table_waiting[s.index()], [&](auto tag, auto& slot) {
        system_.server(s).template read_released<decltype(tag)::index>(p.link.read_, slot);
        answer(p, s, slot);
      });
    }
  }

  template <class Slot>
  void answer(participant& p, server_id s, Slot& slot) {
    slot.admitted = now();
    sim::transit const t =
        network_.send(s, p.handle.id(), slot.reply_bytes(), now(), p.link.link_draws_);
    queue_.push(t.delivered, {event::reply, p.handle.rank(), s.value(), 0});
  }

  void take_reply(event const& e) {
    participant& p = *participants_[e.worker];
    if (p.alive && --p.link.outstanding_ == 0 && p.link.waiting_) go_on(p);
  }

  /// Calls `f(table<I>, slot)` for the table of this number.
  template <class F>
  void with_slot(participant& p, server_id s, std::uint32_t number, F f) {
    system_type::for_each_table([&](auto tag) {
      if (decltype(tag)::index == number) f(tag, p.handle.template slot<decltype(tag)::index>(s));
    });
  }

  // ---- cuts

  void take_cut_request(event const& e) {
    participant& p = *participants_[e.worker];
    if (!p.alive) return;
    if constexpr (system_type::synchronized) {
      refusal const r = system_.members().check(p.link.read_.from);
      if (r != refusal::none)
        throw error(errc::refused, "coordinator: a request of worker " + std::to_string(e.worker) +
                                       " was refused, for " + to_string(r));
      p.link.cut_->arrived = now();
      grant(p, system_.ask_cut(p.link.read_, p.link.cut_->pull));
    }
  }

  void grant(participant& p, shared_cut cut) {
    if (!cut) return;  // it waits
    p.link.cut_->admitted = now();
    p.link.cut_->cut = std::move(cut);
    queue_.push(now() + control_latency(), {event::reply, p.handle.rank(), 0, 0});
  }

  /// Lets in whose cut requests may go on, and tells the servers what may be folded.
  void follow_cuts() {
    if constexpr (system_type::synchronized) {
      stable_cuts& cuts = system_.members().cuts();
      for (worker_id const w : cuts.take_released()) {
        participant& p = *participants_[w.index()];
        if (p.alive) grant(p, cuts.grant(w, p.link.cut_->pull));
      }
      if (auto const mark = cuts.take_mark())
        for (std::uint32_t s = 0; s < system_.servers(); ++s)
          queue_.push(now() + control_latency(server_id{s}),
                      {event::mark, 0, s, marks_.put({system_.stage(), mark})});
    }
  }

  // ---- the conductor: the pace's half in the coordinator

  /// Calls `input(conductor, orders)`, and sends the orders.
  template <class Input>
  void tell_conductor(Input input) {
    if constexpr (system_type::conducted) {
      pace_orders<typename system_type::pace_order> orders;
      input(system_.conductor(), orders);
      for (auto const& [to, order] : orders) {
        queue_.push(now() + control_latency(),
                    {event::quota, to.value(), 0, pace_orders_.put({order})});
        ++of_conductor_;
      }
    }
  }

  void take_note(event const& e) {
    pace_report const said = notes_.take(e.detail);
    tell_conductor([&](auto& c, auto&) {
      if (said.loss) c.observe(now(), *said.loss);
      else c.commit(said.from, said.clock, now());
    });
  }

  void take_pace_order(event const& e) {
    --of_conductor_;
    order_under_way const o = pace_orders_.take(e.detail);
    participant& p = *participants_[e.worker];
    if (p.alive) p.link.orders_.push_back(o.order);
  }

  /// The next time at which it wants to be called, or to know the loss.
  void await_conductor() {
    auto const& c = system_.conductor();
    time_point const next = loss_ ? std::min(c.next_tick(), c.next_sample()) : c.next_tick();
    if (next == time_point::max()) return;
    queue_.push(std::max(next, now()), {event::tick, no_worker, 0, 0});
    ++of_conductor_;
  }

  void tick() {
    --of_conductor_;
    if (!any_alive()) return;
    tell_conductor([&](auto& c, auto& out) {
      if (loss_ && c.next_sample() <= now()) c.observe(now(), loss_());
      if (c.next_tick() <= now()) c.tick(now(), out);
    });
    if constexpr (system_type::conducted) await_conductor();
  }

  /// Nothing is left to happen but what the conductor does by itself, which wakes nobody.
  [[nodiscard]] bool only_the_conductor_goes_on() const noexcept {
    return queue_.size() == of_conductor_;
  }

  // ---- membership: the coordinator is one latency away from everybody

  [[nodiscard]] duration control_latency() const noexcept {
    return options_.scenario.network.worker_link.latency;
  }

  /// Between the coordinator and a server.
  [[nodiscard]] duration control_latency(server_id s) const noexcept {
    std::vector<duration> const& delays = options_.scenario.server_delay;
    return control_latency() + (s.index() < delays.size() ? delays[s.index()] : duration::zero());
  }

  void send_order(membership_order const& o) {
    for (std::uint32_t s = 0; s < system_.servers(); ++s)
      queue_.push(now() + control_latency(server_id{s}), {event::order, 0, s, orders_.put(o)});
    if (o.what != membership_order::kind::start) return;
    participants_[o.worker.index()]->start = {o.clock, o.version};
    tell_conductor([&](auto& c, auto& out) { c.join(o.worker, o.clock, now(), out); });
    // The joiner hears of its clock when all shards know it.
    queue_.push(now() + 2 * control_latency(), {event::launch, o.worker.value(), 0, 0});
  }

  void take_order(event const& e) {
    membership_order const o = orders_.take(e.detail);
    released_.clear();
    auto const said = system_.server(server_id{e.server}).order(o, released_);
    release(server_id{e.server});
    if (said)
      queue_.push(now() + control_latency(server_id{e.server}),
                  {event::report, 0, 0, reports_.put({o, *said})});
  }

  // ---- reports

  [[nodiscard]] std::string who_waits() const {
    std::string text = "deadlock: nobody can run.";
    for (std::uint32_t s = 0; s < system_.servers(); ++s)
      system_.server(server_id{s}).inspect([&](auto const& control) {
        add_waiting(text, "server " + std::to_string(s), control.waiting(), control.published(),
                    control.workers());
      });
    stable_cuts const& cuts = system_.members().cuts();
    add_waiting(text, "the coordinator", cuts.waiting(), cuts.c_min(), cuts.workers());
    return text;
  }

  void add_waiting(std::string& text, std::string const& where, waiting_room const& waiting,
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

  [[nodiscard]] std::optional<worker_id> slowest_worker(progress const& clocks) const {
    for (auto const& p : participants_)
      if (clocks.contains(p->handle.id()) && clocks.of(p->handle.id()) == clocks.c_min())
        return p->handle.id();
    return std::nullopt;
  }

  [[nodiscard]] run_report report() const {
    run_report r;
    r.virtual_time = true;
    r.elapsed = ended_.since_start();
    for (auto const& p : participants_) r.workers.push_back(p->handle.metrics());
    system_.add_counters(r);
    r.pace_changes = system_.pace_changes();
    r.crashes = crashes_;
    r.events = events_;
    return r;
  }

  simulated options_;
  system_type system_;
  sim::speed_model speed_;
  sim::network network_;
  sim::event_queue<event> queue_;
  detail::slab<commit_under_way> commits_;
  detail::slab<membership_order> orders_;
  detail::slab<report_under_way> reports_;
  detail::slab<clock_index> progress_;
  detail::slab<mark_under_way> marks_;
  detail::slab<pace_report> notes_;
  detail::slab<order_under_way> pace_orders_;
  std::size_t of_conductor_ = 0;  ///< events under way that are its ticks and orders
  std::vector<std::unique_ptr<participant>> participants_;
  std::vector<footprint> footprints_;  // by worker
  std::unique_ptr<sim::fiber_pool> fibers_;  // after the participants: unwound before them
  std::function<void(worker_type&)> body_;
  std::function<double()> loss_;
  std::function<void()> on_event_;
  std::vector<worker_id> released_;
  time_point ended_{};
  std::uint64_t crashes_ = 0;
  std::uint64_t events_ = 0;
  bool stopping_ = false;
  bool running_ = false;
  detail::first_failure failure_;
};

}  // namespace rubato
