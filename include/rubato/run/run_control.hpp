// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/server/coordinator.hpp"
#include "rubato/server/messages.hpp"

namespace rubato {

/// The coordinator's part in a run, the same for threads, fibers and processes: who is in it, the cuts
/// that synchronized reads are of, and the pace's conductor. A state machine without I/O, clock or
/// lock: what happens comes in, and what is to be told goes to a carrier. Times are since the run began.
/// Not synchronized.
class run_control {
 public:
  /// How it is told: that is the transport's business. Called from inside of `run_control`'s functions, and
  /// may call `reported` and `started` right away.
  class carrier {
   public:
    virtual ~carrier() = default;
    /// To every server, which carries orders out in this sequence. The reports on `enlist` and `freeze`
    /// come back by `reported`; when all have carried out a `start`, `started` is called.
    virtual void order(membership_order const& o) = 0;
    /// To a worker: it may begin.
    virtual void start(worker_id w, starting_point const& at) = 0;
    /// To a worker: the cut that it asked for. `held`: how long it was not let in.
    virtual void grant(worker_id w, shared_cut const& cut, duration held) = 0;
    /// To every server: no read asks for less.
    virtual void mark(shared_cut const& below) = 0;
    /// To a worker's pace.
    virtual void command(worker_id w, conductor::order const& order) = 0;
  };

  /// @param protocols those that runs may follow @throws option_error for a pace that cannot be meant
  run_control(std::span<rules const> protocols, std::uint32_t servers, carrier& out);

  /// A run begins, under one of the protocols: its workers join.
  void begin(stage_id stage, std::size_t protocol = 0);
  [[nodiscard]] std::size_t protocols() const noexcept { return protocols_.size(); }
  /// Whether reads are of cuts that are granted here.
  [[nodiscard]] bool synchronized() const noexcept { return rules_->visibility.synchronized(); }
  /// It is over: there is no conductor any more.
  void end() noexcept { conductor_.reset(); }

  // ---- membership

  void join(worker_id w, incarnation_id incarnation);
  /// A server's report on an order.
  void reported(membership_order const& about, membership_report const& said, time_point now);
  /// Every server knows where a worker starts: none will take its first commit for a wrong one.
  void started(membership_order const& start, time_point now);
  /// The worker has ended by itself at this clock.
  void leave(worker_id w, clock_index at, time_point now);
  /// The worker is lost. Nothing to do when it has left already.
  void lose(worker_id w, time_point now);

  // ---- synchronized reads

  /// A worker asks to be let in, for a cut that is kept until it is released if it is to `pull`. Answered
  /// by `carrier::grant`, at once or later; not if it is refused.
  refusal ask_cut(read_header const& read, bool pull, time_point now);
  void release_cut(worker_id w, time_point now);
  /// The worker does not wait for its cut any more.
  void withdraw_cut(worker_id w) { waiting_cuts_.erase(w); }
  /// Of those who wait for one the one that has for longest, and since when.
  [[nodiscard]] std::optional<std::pair<worker_id, time_point>> longest_wait() const;
  /// A server has received all of this worker's commits with stamps below `clock`.
  void progress(server_id s, worker_id w, clock_index clock, time_point now);

  // ---- the conductor

  [[nodiscard]] bool has_conductor() const noexcept { return conductor_ != nullptr; }
  void committed(worker_id w, clock_index now_at, time_point now);
  void observe(double loss, time_point at);
  /// When it wants to be called, and when it wants to know the loss; never where there is none.
  [[nodiscard]] time_point next_tick() const;
  [[nodiscard]] time_point next_sample() const;
  void tick(time_point now);
  /// What it has decided in this run so far, oldest first.
  [[nodiscard]] std::span<pace_change const> changes() const;

  [[nodiscard]] coordinator const& members() const noexcept { return members_; }

 private:
  struct waiting_cut {
    bool pull;
    time_point since;
  };

  void follow_cuts(time_point now);
  void end_worker(worker_id w);
  void command(conductor::orders const& orders);

  std::vector<rules> protocols_;
  rules const* rules_;  ///< in force
  carrier& out_;
  coordinator members_;
  std::uint32_t workers_ = 0;  ///< that have ever been in the run
  std::unique_ptr<conductor> conductor_;
  std::map<worker_id, waiting_cut> waiting_cuts_;
};

}  // namespace rubato
