// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/raw_array.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/storage/sparse_snapshot.hpp"
#include "rubato/storage/table_description.hpp"
#include "rubato/storage/table_list.hpp"
#include "rubato/transport/concepts.hpp"
#include "rubato/worker/table_list_worker.hpp"
#include "rubato/worker/worker.hpp"

namespace rubato {

namespace detail {

/// What must be true of a protocol and tables that are put together, each as one sentence. Of `rules` it is
/// checked when the cluster is made.
template <class Protocol, class... Tables>
struct checked_together {
  // Not constraints: those would hide what is missing behind "no matching constructor".
  static_assert(diagnose_protocol<Protocol>());
  static_assert(diagnose_parts<Protocol>());
  static_assert((merge_policy<merge_for<Tables, Protocol>> && ...),
                "a table's merge must model merge_policy or be merge_of_protocol");
  static_assert(((!std::integral<typename Tables::value_type> ||
                  exact_merge<merge_for<Tables, Protocol>>)&&...),
                "a table of integers needs an exact merge: write dense<T, sum> or sparse<T, sum>");
  static_assert(((!versioned_merge<merge_for<Tables, Protocol>> || versioned_table<Tables>)&&...),
                "this merge keeps versions of the parameters: wrap the table in multi_version{…}");
  static_assert(!round_admission<admission_of<Protocol>> || round_visibility<visibility_of<Protocol>>,
                "this admission waits for rounds, but the visibility knows none: use quorum or buffered");
  static_assert(((!round_visibility<visibility_of<Protocol>> ||
                  !versioned_merge<merge_for<Tables, Protocol>>)&&...),
                "this merge counts versions of its own, which rounds do, too: use eager, strict or "
                "stable_cut with it");
  static_assert(((!synchronized_visibility<visibility_of<Protocol>> ||
                  (!velocity_merge<merge_for<Tables, Protocol>> && !element_merge<merge_for<Tables, Protocol>>))&&...),
                "stable_cut reads commits in any order, which a merge with velocity cannot: use "
                "eager or strict visibility with it");
  static_assert(((!element_merge<merge_for<Tables, Protocol>> || !versioned_table<Tables>)&&...),
                "this merge moves the parameters element by element, which multi_version{…} keeps in parts: use a "
                "dense or sparse table without versions");
  static_assert(((declared_copy<merge_for<Tables, Protocol>>() == worker_copy::none || Tables::bounded)&&...),
                "this merge keeps a copy of the table for each worker, so it needs all of its rows: use a dense table");
};
template <class... Tables>
struct checked_together<rules, Tables...> {};

}  // namespace detail

namespace detail {

/// What a cluster does whatever its tables are.
template <class Runtime>
class cluster_base {
 public:
  using runtime_type = Runtime;

  /// The updates that the servers have received in this run so far.
  [[nodiscard]] std::uint64_t updates() const { return runtime_->updates(); }

  /// Starts one more worker with the body of the run under way; returns its rank.
  std::uint32_t add_worker() { return runtime_->add_worker(); }
  /// Ends the run under way: every worker's next call unwinds its body, and `run` returns, with a report that says
  /// `stopped`.
  void stop() { runtime_->stop(); }
  /// Time since the run began, wall or virtual.
  [[nodiscard]] time_point now() const { return runtime_->now(); }
  /// The workers that a run begins with.
  [[nodiscard]] std::uint32_t workers() const noexcept { return runtime_->workers(); }
  /// The servers' side, for reports and observers. @throws usage_error where it is in other processes
  [[nodiscard]] server_group const& servers() const { return runtime_->servers(); }
  [[nodiscard]] runtime_type& runtime() noexcept { return *runtime_; }

 protected:
  explicit cluster_base(std::unique_ptr<Runtime> r) : runtime_(detail::opened(std::move(r))) {}
  ~cluster_base() = default;
  cluster_base(cluster_base&&) noexcept = default;
  cluster_base& operator=(cluster_base&&) noexcept = default;

  template <parameter T>
  void read_whole(std::size_t table, std::size_t elements, std::vector<T>& out) const {
    out.resize(elements);
    runtime_->read_whole(table, reinterpret_cast<std::byte*>(out.data()));
  }
  template <parameter T>
  void read_touched(std::size_t table, sparse_snapshot<T>& out) const {
    raw_array values;
    runtime_->read_touched(table, out.keys, values);
    auto const typed = values.template as<T>();
    out.values.assign(typed.begin(), typed.end());
  }

  std::unique_ptr<Runtime> runtime_;
};

}  // namespace detail

/// A transport, a protocol and tables put together: what a user makes first.
///
///     rubato::cluster cluster{rubato::in_process{.workers = 4, .servers = 2},
///                             rubato::ssp{.staleness = 3},
///                             rubato::dense<float>{.rows = n, .init = w0}};
///     cluster.run([&](auto& worker) { … });
///
/// Initial values are copied. Runs follow one another: each starts all clocks anew and goes on from
/// the parameters that the last one left. In the protocol's place stands `rules` where a program
/// chooses it while it runs.
/// Errors: option_error for what cannot be meant. Thread safety: one thread makes and runs it;
/// worker bodies may call `observe`, `updates`, `add_worker`, `stop` and `now` during a run, and in
/// process and over TCP any other thread as well.
template <class Transport, class Protocol, class... Tables>
class cluster : public detail::cluster_base<typename Transport::runtime_type> {
  using base = detail::cluster_base<typename Transport::runtime_type>;
  using base::runtime_;
  static_assert(transport<Transport>, "a transport needs runtime_type and open(run_setup), see transport/concepts.hpp");
  static_assert(sizeof...(Tables) != 0, "a cluster needs at least one table");
  static_assert((table_spec<Tables> && ...),
                "a table must model table_spec, as dense and sparse do");
  static_assert(sizeof(detail::checked_together<Protocol, Tables...>) != 0);

  template <std::size_t I>
  using table_type = std::tuple_element_t<I, std::tuple<Tables...>>;

 public:
  /// What bodies are given: the same for all transports and protocols.
  using worker_type = worker<table_handle<typename Tables::value_type, Tables::bounded>...>;
  /// What a table's parameters are read into: a vector, or a `sparse_snapshot`.
  template <std::size_t I>
  using result_type = std::conditional_t<table_type<I>::bounded,
                                         std::vector<typename table_type<I>::value_type>,
                                         sparse_snapshot<typename table_type<I>::value_type>>;

  /// A run that has not begun: its tables have their first values, nobody waits yet. Over TCP this is where a process
  /// meets the others.
  /// @throws option_error for what cannot be meant, alone or together; lost_error where another process is not there in
  /// time
  cluster(Transport const& transport, Protocol p, Tables... tables)
      : base(transport.open({.protocols = {rules(std::move(p))},
                             .tables = {describe(tables)...},
                             .make_worker = [](worker_setup const& s) -> std::unique_ptr<worker_core> {
                               return std::make_unique<worker_type>(s);
                             }})),
        elements_{static_cast<std::size_t>(tables.rows) * tables.width...} {}

  /// Runs `body(worker)` on every worker and returns what was measured when all have ended. A
  /// worker whose body returns leaves the run; what it had pushed and not committed is committed
  /// first. When a body throws, the run ends for all and the exception is rethrown. One body serves
  /// all workers, in process concurrently: what it captures and changes it must guard. Handles are
  /// of use until the next run begins. Over TCP a process that comes later, or is started again, takes part from the run
  /// on that is under way: of those before it `run` returns at once, and the report says `completion::not_begun`.
  template <class Body>
  run_report run(Body body) {
    return runtime_->run({.body = [&body](worker_core& w) { body(static_cast<worker_type&>(w)); }});
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
    return runtime_->run({.body = [&body](worker_core& w) { body(static_cast<worker_type&>(w)); },
                          .loss = [&loss, this]() -> double { return loss(observe()); }});
  }

  /// The parameters as they are after the last run, in the order of the keys; for a sparse table
  /// its touched rows. Copied out of the shards on each call: O(size).
  template <std::size_t I = 0>
  [[nodiscard]] auto const& parameters() {
    auto& out = std::get<I>(results_);
    read<I>(out);
    return out;
  }

  /// The folded state for a reader that is no worker: loss curves, serving, checks. Waits for
  /// nobody and costs no virtual time. During a run each chunk of about 64 KiB is whole; under
  /// eager visibility chunks may differ by commits that are being folded meanwhile. Under
  /// `stable_cut` it shows what each server has received, which is no cut.
  template <std::size_t I = 0>
  [[nodiscard]] auto observe() const {
    result_type<I> out;
    read<I>(out);
    return out;
  }

 private:
  template <std::size_t I>
  void read(result_type<I>& out) const {
    if constexpr (table_type<I>::bounded) base::read_whole(I, elements_[I], out);
    else base::read_touched(I, out);
  }

  template <class Sequence>
  struct results_of;
  template <std::size_t... I>
  struct results_of<std::index_sequence<I...>> {
    using type = std::tuple<result_type<I>...>;
  };

  std::array<std::size_t, sizeof...(Tables)> elements_;  ///< of tables that hold every row
  typename results_of<std::index_sequence_for<Tables...>>::type results_;
};

/// The same with tables that the program chooses while it runs. Bodies are given a `table_list_worker`, and who asks
/// for a table says of what elements it is.
template <class Transport, class Protocol>
class cluster<Transport, Protocol, table_list> : public detail::cluster_base<typename Transport::runtime_type> {
  static_assert(transport<Transport>, "a transport needs runtime_type and open(run_setup), see transport/concepts.hpp");
  static_assert(sizeof(detail::checked_together<Protocol>) != 0);

  using base = detail::cluster_base<typename Transport::runtime_type>;
  using base::runtime_;

 public:
  /// What a body is given: it asks for the handle of each table by number and type.
  using worker_type = table_list_worker;

  /// @throws option_error where there is no table, or one that the protocol cannot do with
  cluster(Transport const& transport, Protocol p, table_list tables)
      : base(transport.open({.protocols = {rules(std::move(p))},
                             .tables = tables.descriptions(),
                             .make_worker = [](worker_setup const& s) -> std::unique_ptr<worker_core> {
                               return std::make_unique<table_list_worker>(s);
                             }})),
        tables_(std::move(tables)) {}

  /// As with tables whose types are known.
  template <class Body>
  run_report run(Body body) {
    return runtime_->run({.body = [&body](worker_core& w) { body(static_cast<table_list_worker&>(w)); }});
  }
  /// The same for a pace that goes by the loss, which `loss()` says.
  template <class Body, class Loss>
    requires std::convertible_to<std::invoke_result_t<Loss&>, double>
  run_report run(Body body, Loss loss) {
    return runtime_->run({.body = [&body](worker_core& w) { body(static_cast<table_list_worker&>(w)); },
                          .loss = [&loss]() -> double { return loss(); }});
  }

  /// The folded state of dense table `i`, as with tables whose types are known: after a run, and during one.
  /// @throws usage_error where it is no such table
  template <parameter T>
  [[nodiscard]] std::vector<T> dense(std::size_t i) const {
    table_description const& d = expect<T, true>(i);
    std::vector<T> out;
    base::read_whole(i, static_cast<std::size_t>(d.rows) * d.width, out);
    return out;
  }
  /// The touched rows of sparse table `i`. @throws usage_error where it is no such table
  template <parameter T>
  [[nodiscard]] sparse_snapshot<T> sparse(std::size_t i) const {
    (void)expect<T, false>(i);
    sparse_snapshot<T> out;
    base::read_touched(i, out);
    return out;
  }

 private:
  template <parameter T, bool Bounded>
  table_description const& expect(std::size_t i) const {
    auto const description_of = [this](std::size_t k) -> auto const& { return tables_.descriptions()[k]; };
    detail::expect_table(i, tables_.size(), description_of, element_type_of<T>(), Bounded);
    return tables_.descriptions()[i];
  }

  table_list tables_;
};

}  // namespace rubato
