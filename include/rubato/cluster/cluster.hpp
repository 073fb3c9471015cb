// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/cluster/system.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/transport/concepts.hpp"

namespace rubato {

/// A transport, a protocol and tables put together: what a user makes first.
///
///     rubato::cluster cluster{rubato::in_process{.workers = 4, .servers = 2},
///                             rubato::ssp{.staleness = 3},
///                             rubato::dense<float>{.rows = n, .init = w0}};
///     cluster.run([&](auto& worker) { … });
///
/// Initial values are copied. Runs follow one another: each starts all clocks anew and goes on from
/// the parameters that the last one left.
/// Errors: option_error for what cannot be meant. Thread safety: one thread makes and runs it;
/// worker bodies may call `observe`, `updates`, `add_worker`, `stop` and `now` during a run, and in
/// process and over TCP any other thread as well.
template <class Transport, class Protocol, class... Tables>
class cluster {
  // Not constraints: those would hide what is missing behind "no matching constructor".
  static_assert(requires(Protocol const p) { { p.admission() } -> admission_policy; },
                "a protocol needs admission() that gives an admission_policy: bound, need and "
                "cache_need, all noexcept");
  static_assert(requires(Protocol const p) { { p.visibility() } -> visibility_policy; },
                "a protocol needs visibility() that gives a visibility_policy: holds_back, and "
                "horizon, noexcept");
  static_assert(requires(Protocol const p) { { p.merge() } -> merge_policy; },
                "a protocol needs merge() that gives a merge_policy: weight, noexcept");
  static_assert(requires(Protocol const p) { { p.pace() } -> pace_policy; },
                "a protocol needs pace() that gives a pace_policy: due, noexcept");
  static_assert((table_spec<Tables> && ...),
                "a table must model table_spec, as dense and sparse do");

 public:
  using runtime_type = typename Transport::template runtime<Protocol, Tables...>;
  using worker_type = typename runtime_type::worker_type;
  using system_type = typename runtime_type::system_type;
  /// What a table's parameters are read into: a vector, or a `sparse_snapshot`.
  template <std::size_t I>
  using result_type =
      std::conditional_t<system_type::template table_type<I>::bounded,
                         std::vector<typename system_type::template value_type<I>>,
                         sparse_snapshot<typename system_type::template value_type<I>>>;

  cluster(Transport transport, Protocol p, Tables... tables)
      : runtime_(std::move(transport), std::move(p), std::move(tables)...) {}

  /// Runs `body(worker)` on every worker and returns what was measured when all have ended. A
  /// worker whose body returns leaves the run; what it had pushed and not committed is committed
  /// first. When a body throws, the run ends for all and the exception is rethrown. One body serves
  /// all workers, in process concurrently: what it captures and changes it must guard. Handles are
  /// of use until the next run begins.
  template <class Body>
  run_report run(Body body) {
    return runtime_.run([&body](worker_type& w) { body(w); });
  }

  /// The same for a pace that goes by the loss, as those of `adsp` and `ada_comm` do:
  /// `loss(parameters)` is called with what `observe()` returns, as a const reference, when the pace
  /// wants to know, and not at all under a pace that never does; what bodies report is ignored then.
  /// Of other tables ask `observe<I>()`. In the simulator it costs no virtual time; in process a
  /// thread of its own calls it, side by side with the workers. What it throws ends the run and is
  /// rethrown.
  template <class Body, class Loss>
    requires std::convertible_to<std::invoke_result_t<Loss&, result_type<0> const&>, double>
  run_report run(Body body, Loss loss) {
    return runtime_.run([&body](worker_type& w) { body(w); },
                        [&loss, this]() -> double { return loss(observe()); });
  }

  /// The parameters as they are after the last run, in the order of the keys; for a sparse table
  /// its touched rows. Copied out of the shards on each call: O(size).
  template <std::size_t I = 0>
  [[nodiscard]] auto const& parameters() {
    auto& out = std::get<I>(results_);
    runtime_.servers().template read_state<I>(out);
    return out;
  }

  /// The folded state for a reader that is no worker: loss curves, serving, checks. Waits for
  /// nobody and costs no virtual time. During a run each chunk of about 64 KiB is whole; under
  /// eager visibility chunks may differ by commits that are being folded meanwhile. Under
  /// `stable_cut` it shows what each server has received, which is no cut.
  template <std::size_t I = 0>
  [[nodiscard]] auto observe() const {
    result_type<I> out;
    runtime_.servers().template read_state<I>(out);
    return out;
  }

  /// The updates that the servers have received in this run so far.
  [[nodiscard]] std::uint64_t updates() const {
    run_report r;
    runtime_.servers().add_counters(r);
    return r.updates;
  }

  /// Starts one more worker with the body of the run under way; returns its rank.
  std::uint32_t add_worker() { return runtime_.add_worker(); }
  /// Ends the run under way: every worker's next call unwinds its body, and `run` returns.
  void stop() { runtime_.stop(); }
  /// Time since the run began, wall or virtual.
  [[nodiscard]] time_point now() const { return runtime_.now(); }
  /// The workers that a run begins with.
  [[nodiscard]] std::uint32_t workers() const noexcept { return runtime_.workers(); }
  /// The servers' side, for reports and observers.
  [[nodiscard]] system_type const& servers() const noexcept { return runtime_.servers(); }
  [[nodiscard]] runtime_type& runtime() noexcept { return runtime_; }

 private:
  template <class Sequence>
  struct results_of;
  template <std::size_t... I>
  struct results_of<std::index_sequence<I...>> {
    using type = std::tuple<result_type<I>...>;
  };

  runtime_type runtime_;
  typename results_of<std::index_sequence_for<Tables...>>::type results_;
};

}  // namespace rubato
