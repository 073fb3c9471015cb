// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/protocol/rules.hpp"
#include "rubato/run/single_machine.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/storage/table_change.hpp"
#include "rubato/storage/table_description.hpp"

namespace rubato {

class endpoint;
class server_group;
class worker_core;
struct worker_setup;

/// What a transport is given to run: what `cluster` was made of, as values.
struct run_setup {
  /// Puts something between a worker and its endpoint, which it refers to: a decorator. Called as workers
  /// are made, one at a time. What it throws ends the run.
  using wrapper = std::function<std::unique_ptr<endpoint>(endpoint& inner, worker_id self)>;

  std::vector<rules> protocols;  ///< those that runs may follow; at least one
  std::vector<table_description> tables;  ///< in the order in which handles name them
  /// Makes a worker's handle, with the types of its tables.
  std::function<std::unique_ptr<worker_core>(worker_setup const&)> make_worker;
  std::vector<wrapper> wrappers{};  ///< from the inside out
  /// By protocol, what is done to tables when a run that follows it begins anew; nothing where the list ends.
  std::vector<table_changes> changes{};
};

/// What a run is to be.
struct run_request {
  std::function<void(worker_core&)> body;  ///< what every worker runs
  std::function<double()> loss{};  ///< what the pace's conductor asks for; may be empty
  std::size_t protocol = 0;        ///< which of `run_setup::protocols`
  /// How many workers each node has; the transport's own number where it is empty. Threads are one node,
  /// processes one each; in the simulator nodes are machines.
  std::vector<std::uint32_t> placement{};
  /// Whether the run begins with the setup's changes of its protocol. Nobody else may read tables meanwhile.
  bool changes_tables = false;
  /// In single-machine mode: the placement has one node, and the setup says `moved` of the protocol's changes.
  /// Where all workers and servers live in one process nothing is to be moved.
  std::optional<single_machine> local{};
  /// In that mode: the next run is in it, too, and goes on with the tables: they do not go back yet.
  bool keeps_tables = false;
  /// Whether it can run again when a node is lost, or does. Where none can be lost nothing is kept.
  recovery recover = recovery::none;
  /// Since the engine of its task began; for the simulator, which loses machines at a time.
  time_point began{};
  /// Of a task: which of its runs it is, from 1; processes that are at another one do not take part.
  std::uint32_t step = 0;
  std::int64_t iterations = 0;  ///< of a task: what the body has to do, on which processes are to agree, too
  /// Whether somebody has asked for the run's end, perhaps before it begins: looked at as soon as `stop` would find it,
  /// and then the run is over before anything is done for it (`not_begun`, `stopped`). Whoever asks sets it before
  /// calling `stop`.
  std::atomic<bool> const* stop_asked = nullptr;
};

/// A transport at work: runs bodies on workers, and has servers that hold the tables, here or elsewhere.
/// What `cluster` holds; made by a transport's `open`.
///
/// Thread safety: one thread makes and runs it. Bodies may call everything but `run` while one is under
/// way, and where workers are threads or processes any other thread as well.
class runtime {
 public:
  virtual ~runtime() = default;

  /// Runs the body on every worker and returns when all have ended. A body that throws ends the run for
  /// all of them, and its exception is rethrown. @throws usage_error when a run is under way; option_error
  /// for a placement that this transport has no room for, or that has no workers
  virtual run_report run(run_request request) = 0;
  /// Starts one more worker with the body of the run under way; returns its rank.
  /// @throws usage_error when no run is under way
  virtual std::uint32_t add_worker() = 0;
  /// Ends the run: every worker's next call unwinds its body, and `run` returns; the report says that it was stopped.
  virtual void stop() = 0;
  /// Time since the run began.
  [[nodiscard]] virtual time_point now() const = 0;
  /// The workers that a run begins with unless it says otherwise; where they are processes, how many of
  /// these.
  [[nodiscard]] virtual std::uint32_t workers() const noexcept = 0;

  /// Whether bodies run in this process. Else it serves those where they do, and its run ends with theirs.
  [[nodiscard]] virtual bool has_workers() const noexcept { return true; }

  /// The folded state of a table: all rows in the order of their keys, `size` bytes.
  virtual void read_whole(std::size_t table, std::byte* out) const = 0;
  /// The same for a table of touched rows: these, by ascending key.
  virtual void read_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values) const = 0;
  /// The updates that the servers have received in this run so far.
  [[nodiscard]] virtual std::uint64_t updates() const = 0;
  /// The servers, where they live in this process. @throws usage_error where they do not
  [[nodiscard]] virtual server_group const& servers() const = 0;
};

}  // namespace rubato
