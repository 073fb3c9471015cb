// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/random.hpp"
#include "rubato/core/short_list.hpp"
#include "rubato/core/slab.hpp"
#include "rubato/run/run_control.hpp"
#include "rubato/run/worker_run.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/server/server_group.hpp"
#include "rubato/sim/event_queue.hpp"
#include "rubato/sim/fibers.hpp"
#include "rubato/sim/network.hpp"
#include "rubato/sim/speed.hpp"
#include "rubato/transport/fibers/fiber_process.hpp"
#include "rubato/transport/fibers/local_tables.hpp"
#include "rubato/transport/simulated.hpp"
#include "rubato/worker/endpoint.hpp"
#include "rubato/worker/inquiry.hpp"
#include "rubato/worker/server_fetch.hpp"

namespace rubato::detail {

class worker_fibers;

/// The end of a worker that is a fiber: what it sends is an event at its receiver.
class fiber_endpoint final : public endpoint {
 public:
  fiber_endpoint(worker_fibers& run, worker_id self);

  void post(server_id to, commit_message&& commit) override;
  void request(server_id to, std::size_t table, read_header const& read, read_slot& slot) override;
  void wait() override;
  [[nodiscard]] time_point now() const override;
  /// Lets the time pass that the scenario says, even if that is none: others get their turn.
  void charge(double work) override;
  void pause(time_point until) override;
  void checkpoint() override;
  void request_cut(read_header const& read, cut_slot& slot) override;
  void release_cut() override;
  void report_commit(clock_index now_at) override;
  void report_loss(double loss) override;
  [[nodiscard]] std::optional<conductor::order> take_order() override;
  [[nodiscard]] bool shares_reads() const noexcept override { return shared() != nullptr; }

 private:
  friend class worker_fibers;
  friend class fiber_process;

  [[nodiscard]] process_cache* shared() const noexcept { return process_ == nullptr ? nullptr : process_->cache(); }
  /// Whose connections its messages take.
  [[nodiscard]] worker_id station() const noexcept { return process_ == nullptr ? self_ : process_->station(); }
  [[nodiscard]] bool waits_for_answers() const noexcept { return outstanding_ != 0 || asked_.missing != 0; }
  void report(pace_report const& said);
  [[noreturn]] void refuse_body() const;
  void sleep_until(time_point t);

  struct question {
    read_slot* slot = nullptr;
    server_id server{};
    std::uint32_t table = 0;
    bool held = false;  ///< it waits at its server, or for one before it that does
    std::uint32_t next = none;  ///< asked at the same server
  };
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  /// The first one that a server has been asked; `none` where there is none. What is said of a server that was asked
  /// before `questions_` were cleared shows by who is there now.
  [[nodiscard]] std::uint32_t first_at(server_id s) const noexcept {
    std::uint32_t const i = s.index() < first_at_.size() ? first_at_[s.index()] : none;
    return i < questions_.size() && questions_[i].server == s ? i : none;
  }
  /// Returns its number.
  std::uint32_t add_question(question const& q);
  template <class F>
  void for_each_at(server_id s, F f) {
    for (std::uint32_t i = first_at(s); i != none; i = questions_[i].next) f(questions_[i]);
  }
  worker_fibers& run_;
  worker_id self_;
  std::uint32_t outstanding_ = 0;
  bool waiting_ = false;
  bool dead_ = false;  ///< a body that swallows its death sends nothing more
  sim::fiber_id fiber_ = 0;  ///< of its body
  fiber_process* process_ = nullptr;
  random_stream speed_draws_;
  read_header read_{};                   ///< of the last questions
  short_list<question, 1> questions_;    ///< since the last time that none was outstanding
  short_list<std::uint32_t, 1> first_at_;  ///< by server: see `first_at`
  random_stream link_draws_;
  cut_slot* cut_ = nullptr;
  std::vector<conductor::order> orders_;  ///< have arrived
  std::size_t reader_ = 0;                ///< of the process's cache
  inquiry asked_;                         ///< of that cache
  std::vector<server_fetch*> fetches_;    ///< in its name, of which the first at each server waits there for the others
};

/// Workers that are fibers in virtual time, and servers between whose events they run. See `simulated`.
class worker_fibers final : public simulated_runtime, worker_run, run_control::carrier {
 public:
  worker_fibers(simulated const& options, run_setup setup);
  ~worker_fibers() override;

  run_report run(run_request request) override;
  std::uint32_t add_worker() override;
  void stop() override { stop_as_asked(); }
  [[nodiscard]] time_point now() const override { return queue_.now(); }
  [[nodiscard]] std::uint32_t workers() const noexcept override { return options_.workers; }
  void read_whole(std::size_t table, std::byte* out) const override { servers_.read_whole(table, out); }
  void read_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values) const override {
    servers_.read_touched(table, keys, values);
  }
  [[nodiscard]] std::uint64_t updates() const override { return servers_.updates(); }
  [[nodiscard]] server_group const& servers() const override { return servers_; }
  void on_event(std::function<void()> observer) override { on_event_ = std::move(observer); }

 private:
  friend class fiber_endpoint;
  friend class fiber_process;
  struct worker_fiber;

  struct event {
    enum kind : std::uint32_t {
      resume,   ///< a worker's fiber goes on
      launch,   ///< a worker's fiber starts
      commit,   ///< a commit is at its server
      request,  ///< a read is at its server
      reply,    ///< an answer is at its worker
      fetch,    ///< a process's fetch is at its server
      fetched,  ///< and its answer at the process
      order,    ///< an order of the coordinator is at a server
      report,   ///< a server's report is at the coordinator
      progress, ///< a server's report of what it has received is at the coordinator
      ask_cut,  ///< a worker's request for a cut is at the coordinator
      release_cut,  ///< and its word that it has read
      mark,     ///< the coordinator's word of what may be folded is at a server
      left,     ///< a worker's goodbye is at the coordinator
      crash,    ///< a worker dies
      lose,     ///< a machine is lost, with all of its workers
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

  /// What is on its way, to be found by the events of its arrival.
  struct under_way {
    struct commit {
      commit_message message{};
      time_point sent{};  ///< when its last byte has left; lost if the worker dies before
    };
    struct report {
      membership_order about{};
      membership_report said{};
    };
    slab<commit> commits;
    slab<server_fetch*> fetches;
    slab<membership_order> orders;
    slab<report> reports;
    slab<clock_index> progress;
    slab<shared_cut> marks;
    slab<pace_report> notes;
    slab<conductor::order> pace_orders;
  };

  // life
  [[nodiscard]] time_point time() const override { return now(); }
  void wake_all() noexcept override {}
  void left(worker_participant& p) override;

  // run_control::carrier: the coordinator is one latency away from everybody
  void order(membership_order const& o) override;
  void start(worker_id w, starting_point const& at) override;
  void grant(worker_id w, shared_cut const& cut, duration held) override;
  void mark(shared_cut const& below) override;
  void command(worker_id w, conductor::order const& order) override;

  [[nodiscard]] std::optional<std::vector<std::uint32_t>> lost_before(run_request const& request) const;
  void begin(run_request request);
  worker_fiber& make_participant();
  void make_network();
  [[nodiscard]] time_point bring_tables();
  void make_processes();
  [[nodiscard]] fiber_process* enter_process(std::uint32_t rank);
  void process_events();
  void handle(event const& e);
  void go_on(worker_fiber& p);
  void crash(std::uint32_t w);
  void lose_machine(std::uint32_t machine);
  void detect(std::uint32_t w);
  void kill(worker_fiber& p);
  void end_all();
  [[nodiscard]] bool any_alive() const noexcept;

  void take_commit(event const& e);
  void take_request(event const& e);
  void take_fetch(event const& e);
  void take_order(event const& e);
  void take_mark(event const& e);
  void release(server_id s);
  void release(worker_fiber& p, server_id s);
  void answer(worker_fiber& p, server_id s, read_slot& slot);
  void answer(worker_fiber& p, server_fetch& f);
  void take_reply(event const& e);
  void take_fetched(event const& e);
  void take_cut_request(event const& e);
  void take_note(event const& e);
  void take_pace_order(event const& e);

  void await_conductor();
  void tick();
  /// Nothing is left to happen but what the conductor does by itself, which wakes nobody.
  [[nodiscard]] bool only_the_conductor_goes_on() const noexcept { return queue_.size() == of_conductor_; }

  [[nodiscard]] duration control_latency() const noexcept;
  [[nodiscard]] duration control_latency(server_id s) const noexcept;

  /// Fetches what the next event's worker will touch first, while this event is handled: with
  /// thousands of workers each event finds its worker's memory cold.
  void warm_up(event const& next) const noexcept;
  /// Fetches what `warm_up` reads, for the event after the next: else it would wait for this.
  void look_up(event const& soon) const noexcept;
  static constexpr std::size_t many_workers = 512;  ///< of fewer, inner caches hold what says where their memory is

  [[nodiscard]] std::string who_waits() const override;
  [[nodiscard]] run_report report() const;

  static constexpr std::uint32_t no_worker = ~std::uint32_t{0};

  /// Where a worker's memory is, to be found without touching any of it.
  struct footprint {
    void const* participant;
    std::span<std::byte const> handle;
    void const* replica;
    sim::fiber_id fiber;
  };

  simulated options_;
  server_group servers_;
  run_control control_;
  sim::speed_model speed_;
  sim::network network_;
  sim::network outside_;  ///< in single-machine mode: between the machine and the servers
  std::optional<local_tables> local_;  ///< of the last stage in that mode, until another one has run elsewhere
  bool tables_kept_ = false;           ///< they have not gone back after the last run
  time_point prepared_{};              ///< when a run's workers can begin
  sim::event_queue<event> queue_;
  under_way under_way_;
  std::size_t of_conductor_ = 0;  ///< events under way that are its ticks and orders
  std::vector<std::uint32_t> machine_of_;  ///< of the run under way
  std::vector<std::uint32_t> lost_machines_;  ///< in it, or before
  completion completed_ = completion::whole;
  std::map<std::uint32_t, std::unique_ptr<fiber_process>> processes_;  ///< by machine, if it is for several workers
  std::vector<std::unique_ptr<worker_fiber>> participants_;
  std::vector<footprint> footprints_;  // by worker
  std::unique_ptr<sim::fiber_pool> fibers_;  // after the participants: unwound before them
  std::function<void()> on_event_;
  std::vector<worker_id> released_;
  stage_id stage_{};
  std::uint32_t count_ = 0;  ///< workers that the run began with
  std::uint64_t crashes_ = 0;
  std::uint64_t events_ = 0;
  bool beginning_ = false;  ///< the run: orders are carried out at once
};

}  // namespace rubato::detail
