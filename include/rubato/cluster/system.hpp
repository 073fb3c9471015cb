// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "rubato/cluster/blueprint.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/server/coordinator.hpp"

namespace rubato {

/// The servers' side of a cluster in one process: all shards, and the coordinator. Knows no
/// transport, starts nothing.
template <class Mutex, protocol Protocol, table_spec... Tables>
class system : public blueprint<Mutex, Protocol, Tables...> {
 public:
  using base = blueprint<Mutex, Protocol, Tables...>;
  using typename base::conductor_type;
  using typename base::shard_type;
  using base::conducted;
  using base::protocol_used;
  using base::synchronized;
  template <std::size_t I>
  using value_type = typename base::template value_type<I>;
  template <std::size_t I>
  using snapshot_type = typename base::template snapshot_type<I>;

  /// Initial values are copied. @throws option_error naming the table and what was expected
  system(Protocol p, std::uint32_t servers, Tables... tables)
      : base(std::move(p), servers, std::move(tables)...),
        coordinator_(servers, synchronized),
        conductor_(detail::make_conductor(protocol_used().pace())) {
    for (std::uint32_t s = 0; s < servers; ++s) shards_.push_back(base::make_shard(server_id{s}));
    base::forget_initial_values();
  }

  [[nodiscard]] shard_type& server(server_id s) noexcept { return *shards_[s.index()]; }
  [[nodiscard]] shard_type const& server(server_id s) const noexcept { return *shards_[s.index()]; }
  [[nodiscard]] coordinator& members() noexcept { return coordinator_; }
  [[nodiscard]] coordinator const& members() const noexcept { return coordinator_; }
  /// The pace's half in the coordinator. The transport tells it who comes and goes.
  [[nodiscard]] conductor_type& conductor() noexcept { return conductor_; }

  [[nodiscard]] stage_id stage() const noexcept { return stage_; }

  /// Starts all clocks anew on every shard.
  void begin_stage() {
    stage_ = stage_id{stage_.value() + 1};
    coordinator_.begin_stage(stage_);
    conductor_ = detail::make_conductor(protocol_used().pace());
    for (auto& s : shards_) s->begin_stage(stage_);
  }

  /// Carries an order to every shard at once, and the orders that follow from their reports; appends
  /// who may go on to `released`. Returns what the last order said. For transports that reach all
  /// shards by a call.
  starting_point carry(membership_order const& o, std::vector<worker_id>& released) {
    starting_point last{o.clock, o.version};
    for (auto& s : shards_)
      if (auto const said = s->order(o, released))
        if (auto const next = coordinator_.report(o, *said)) last = carry(*next, released);
    return last;
  }

  /// Asks the coordinator for a cut; nothing when the worker has to wait until `take_released` of
  /// the cuts names it. @pre `coordinator::check` is content
  [[nodiscard]] shared_cut ask_cut(read_header const& read, bool pull)
    requires synchronized
  {
    clock_index const need = protocol_used().admission().need(read.clock, read.bound);
    if (!coordinator_.cuts().admit(read.from.worker, read.clock, need)) return nullptr;
    return coordinator_.cuts().grant(read.from.worker, pull);
  }

  /// Tells every shard that no read asks for less than `mark`.
  void fold_below(commit_cut const& mark, std::vector<worker_id>& released) {
    for (auto& s : shards_) s->advance(stage_, mark, released);
  }

  /// The state of a table: of a dense one in the order of its keys, of a sparse one its touched rows.
  template <std::size_t I, class Result>
  void read_state(Result& out) const {
    std::vector<snapshot_type<I>> states(shards_.size());
    for (std::size_t s = 0; s < shards_.size(); ++s) shards_[s]->template observe<I>(states[s]);
    base::template assemble<I>(states, out);
  }

  /// Adds what the shards have counted to a report.
  void add_counters(run_report& r) const {
    for (auto const& s : shards_) r.versions_peak = std::max(r.versions_peak, s->versions_peak());
    for (auto const& s : shards_)
      s->inspect([&](auto const& control) {
        shard_counters const& c = control.counters();
        r.updates = std::max(r.updates, c.commits);
        r.servers += c;
      });
  }

  /// What the conductor has decided in this run, oldest first. Not during a run.
  [[nodiscard]] std::vector<pace_change> pace_changes() const {
    if constexpr (conducted) return {conductor_.changes().begin(), conductor_.changes().end()};
    else return {};
  }

 private:
  std::vector<std::unique_ptr<shard_type>> shards_;
  coordinator coordinator_;
  conductor_type conductor_;
  stage_id stage_{0};
};

}  // namespace rubato
