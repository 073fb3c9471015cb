// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/server/messages.hpp"
#include "rubato/server/shard_control.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato {

/// One server's part of all tables: a state machine in two halves.
///
/// *Control* (who is where, who waits, what is held back) is behind one short lock; *store* (the
/// rows) has chunk locks of its own, so that commits of different workers fold side by side. With
/// `null_mutex` both cost nothing.
///
/// Whoever calls `commit`, `leave` or `start` gets back the workers that may go on now, and lets
/// them: the thread that waits reads for itself in process, the server answers over a network.
template <class Mutex, protocol Protocol, table_spec... Tables>
class shard {
 public:
  using message = commit_message<Tables...>;
  using control_type =
      shard_control<admission_of<Protocol>, visibility_of<Protocol>, message>;
  using stores = std::tuple<typename Tables::template store<Mutex>...>;
  using merges = std::tuple<merge_for<Tables, Protocol>...>;

  /// Stores cannot move; they are given as functions that make them.
  template <class... MakeStore>
  shard(Protocol const& p, merges m, MakeStore&&... make)
      : control_(p.admission(), p.visibility()),
        merges_(std::move(m)),
        stores_(std::forward<MakeStore>(make)...) {}

  void begin_stage(stage_id stage) {
    std::lock_guard const guard(lock_);
    control_.begin_stage(stage);
    folding_ = false;
  }

  /// Applies a worker's commit. `released` gets the workers that may go on because of it; a refused
  /// commit changes nothing but a counter.
  /// Cost: O(log workers), and the folds: its own, or under held-back visibility those that it makes
  /// ready.
  refusal commit(message const& m, std::vector<worker_id>& released) {
    std::unique_lock guard(lock_);
    if (refusal const r = control_.accept(m.from, m.stamp); r != refusal::none) return r;
    if constexpr (visibility_of<Protocol>::holds_back) {
      control_.hold(m.from, m.stamp, m);
      control_.complete(m.from, m.stamp);
    } else {
      commit_info const info = control_.info(m.from, m.stamp, m.version);
      guard.unlock();
      // Folded before the clock moves: whoever the new clock lets in sees the commit whole.
      fold(std::array{folding{info, &m}});
      guard.lock();
      control_.complete(m.from, m.stamp);
    }
    settle(guard, released);
    return refusal::none;
  }

  /// Calls `read(stamp)`, which reads the rows, if the read may go on now, and says whether it did.
  /// If not, a later call names its worker among the released, and `read_released` is for it.
  /// The stamp holds for the rows: under eager visibility they may be newer than it says, never
  /// older; where commits are held back it is exact, so the read waits out a fold under way.
  template <class Read>
  [[nodiscard]] std::pair<refusal, bool> admit(read_header const& header, Read read) {
    std::unique_lock guard(lock_);
    refusal const r = control_.check(header.from);
    if (r != refusal::none || !control_.admit(header)) return {r, false};
    answer(guard, header.from.worker, read);
    return {r, true};
  }

  /// The same for a worker that has been released.
  template <class Read>
  void read_released(worker_id reader, Read read) {
    std::unique_lock guard(lock_);
    answer(guard, reader, read);
  }

  /// Carries out an order of the coordinator, unless it is of another stage, of an earlier life of its
  /// worker, or has been carried out before; returns the clock to report for `enlist` and `freeze`.
  std::optional<clock_index> order(membership_order const& o, std::vector<worker_id>& released) {
    std::unique_lock guard(lock_);
    std::optional<clock_index> report;
    if (control_.accept(o) != refusal::none) return report;
    switch (o.what) {
      case membership_order::kind::enlist: report = control_.enlist(o.worker, o.incarnation); break;
      case membership_order::kind::freeze: report = control_.freeze(o.worker); break;
      case membership_order::kind::start: control_.start(o.worker, o.clock); break;
      case membership_order::kind::drop: control_.drop(o.worker, o.clock); break;
    }
    settle(guard, released);
    return report;
  }

  /// The rows of table I.
  template <std::size_t I>
  [[nodiscard]] auto& store() noexcept {
    return std::get<I>(stores_);
  }
  template <std::size_t I>
  [[nodiscard]] auto const& store() const noexcept {
    return std::get<I>(stores_);
  }

  /// Calls `f(control)` under the control lock: for reports and observers.
  template <class F>
  decltype(auto) inspect(F f) const {
    std::lock_guard const guard(lock_);
    return f(std::as_const(control_));
  }

 private:
  template <class Read>
  void answer(std::unique_lock<Mutex>& guard, worker_id reader, Read& read) {
    if constexpr (visibility_of<Protocol>::holds_back) {
      folded_.wait(guard, [this] { return !folding_; });
      read(control_.stamp_for(reader));
    } else {
      read_stamp const stamp = control_.stamp_for(reader);
      guard.unlock();
      read(stamp);
    }
  }

  /// Folds what has become ready, then lets in who may go on. One thread folds at a time, to keep
  /// the order; what another one adds meanwhile, the folder finds when it looks again.
  void settle(std::unique_lock<Mutex>& guard, std::vector<worker_id>& released) {
    if constexpr (visibility_of<Protocol>::holds_back) {
      if (folding_) return;
      folding_ = true;
      try {
        fold_ready(guard);
      } catch (...) {
        if (!guard.owns_lock()) guard.lock();
        end_folding();
        throw;
      }
      end_folding();
    }
    control_.publish(released);
  }

  void fold_ready(std::unique_lock<Mutex>& guard) {
    for (auto ready = control_.take_ready(); !ready.empty(); ready = control_.take_ready()) {
      guard.unlock();
      for (auto const& group : ready) {
        std::vector<folding> step;
        for (auto const& [info, m] : group.commits) step.push_back({info, &m});
        fold(step);
      }
      ready.clear();
      guard.lock();
    }
  }

  void end_folding() {
    folding_ = false;
    folded_.notify_all();
  }

  struct folding {
    commit_info info;
    message const* commit;
  };

  void fold(std::span<folding const> commits) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (fold_table<I>(commits), ...);
    }(std::index_sequence_for<Tables...>{});
  }

  template <std::size_t I>
  void fold_table(std::span<folding const> commits) {
    auto const& merge = std::get<I>(merges_);
    using value_type = typename std::tuple_element_t<I, std::tuple<Tables...>>::value_type;
    constexpr bool has_velocity = velocity_merge<std::remove_cvref_t<decltype(merge)>>;
    std::optional<double> decay;
    if constexpr (has_velocity) decay = merge.decay();
    auto const weighted = [&](folding const& f) {
      return weighted_update<value_type>{std::get<I>(f.commit->parts).get(), merge.weight(f.info)};
    };
    if (commits.size() == 1) {  // the common case allocates nothing
      weighted_update<value_type> const one = weighted(commits.front());
      if (has_velocity || !one.part->empty()) std::get<I>(stores_).fold({&one, 1}, decay);
      return;
    }
    std::vector<weighted_update<value_type>> many;
    for (auto const& f : commits) many.push_back(weighted(f));
    std::get<I>(stores_).fold(many, decay);
  }

  mutable Mutex lock_;
  control_type control_;
  bool folding_ = false;
  std::condition_variable_any folded_;  ///< nobody folds any more
  merges merges_;
  stores stores_;
};

}  // namespace rubato
