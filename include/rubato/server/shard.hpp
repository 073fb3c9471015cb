// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/optional_mutex.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/server/shard_control.hpp"
#include "rubato/storage/table_host.hpp"

namespace rubato {

/// What a shard's tables take, in bytes, and how many versions are alive.
struct shard_memory {
  std::size_t parameters = 0;  ///< of all tables, versions included
  std::size_t log = 0;         ///< of commits held back
  std::size_t versions = 0;    ///< live ones, summed over the tables
};

/// One server's part of all tables: a state machine in two halves.
///
/// *Control* (who is where, who waits, what is held back) is behind one short lock; the tables' *hosts*
/// (the rows) have locks of their own, so that commits of different workers fold side by side. Where
/// one thread does all, neither costs anything. Where commits are held back or keep versions, one
/// thread folds at a time and reads are made between folds, under the control lock, so that they see
/// commits whole.
///
/// Whoever calls `commit`, `admit`, `order` or `advance` gets back the workers that may go on now, and lets
/// them: the thread that waits reads for itself in process, the server answers over a network.
class shard {
 public:
  /// @param plan what all agree on; must outlive the shard @param memory see `store_shape::memory`
  shard(blueprint const& plan, server_id self, threading t, block_memory* memory = nullptr);

  /// Versions that the stage before left live stay in the parameters with what they count, and so
  /// does what observers under synchronized reads have been shown of the log.
  /// @param protocol which of the plan's the stage follows
  /// @param changes_tables whether the plan's changes of that protocol are made first
  /// @param what of all tables, after that. O(parameters) where a store shares no chunks, and to restore
  void begin_stage(stage_id stage, std::size_t protocol = 0, bool changes_tables = false,
                   recovery what = recovery::none);

  /// The tables are as new, whatever initial values they have been given. Before the first stage.
  void forget_values();

  /// Applies a worker's commit. `released` gets the workers that may go on because of it; a refused
  /// commit changes nothing but a counter.
  /// Cost: O(log workers), and the folds: its own, or where folds are serial those that it makes
  /// ready.
  refusal commit(commit_message&& m, std::vector<worker_id>& released);

  /// Whether whole updates of a table may be folded run by run, as they arrive: nothing is held back,
  /// and no update needs another to be folded.
  [[nodiscard]] bool folds_runs(std::size_t table) const noexcept;
  /// Whether a read of a whole table may be answered chunk by chunk, each as it is when its turn comes,
  /// whoever reads.
  [[nodiscard]] bool streams(std::size_t table) const noexcept;
  /// What `commit` would say now of one that is arriving.
  [[nodiscard]] refusal check(sender const& from, clock_index stamp, version_index version) const;
  /// Such a one has been refused, without `commit`.
  void count_refused();
  /// What it counts in a table. @pre `check` refuses nothing
  [[nodiscard]] double weigh(std::size_t table, sender const& from, clock_index stamp,
                             version_index version) const;
  /// Folds a run of it, from local row `first` on. Its `commit`, without what has been folded so, must
  /// follow. @pre `folds_runs(table)`
  void fold_run(std::size_t table, std::uint64_t first, std::span<std::byte const> values, double weight);
  /// It does not: a part of it stays.
  void count_partly_folded();

  /// Answers a read of a table into its slot if it may go on now, and says whether it did. If not,
  /// a later call names its worker among the released, and `read_released` is for it. The stamp
  /// holds for the rows: where folds are not serial they may be newer than it says, never older;
  /// where they are it is exact, so the read waits out a fold under way.
  /// Where admission limits what others have not seen, `released` gets the workers that may go on because it has come.
  [[nodiscard]] std::pair<refusal, bool> admit(std::size_t table, read_header const& header, read_slot& slot,
                                               std::vector<worker_id>& released);
  /// The same for a worker that has been released.
  void read_released(std::size_t table, read_header const& header, read_slot& slot);
  /// The worker does not wait for its read any more: its question was lost, and will come again.
  void withdraw(worker_id reader);

  /// Nothing more will come of a worker that has left by itself: it goes with what is here.
  void abandon(worker_id leaver, std::vector<worker_id>& released);
  /// No synchronized read asks for less than this cut any more.
  void advance(stage_id stage, commit_cut const& mark, std::vector<worker_id>& released);
  /// Carries out an order of the coordinator, unless it is of another stage, of an earlier life of
  /// its worker, or has been carried out before; returns the report on `enlist` and `freeze`.
  std::optional<membership_report> order(membership_order const& o, std::vector<worker_id>& released);

  /// The state of a table for whoever is no worker: all that is folded.
  void observe(std::size_t table, table_state& out) const;
  /// Memory held by the parameters, all tables and versions; what the log holds back; how many
  /// versions live in all tables.
  [[nodiscard]] shard_memory memory() const;
  /// The greatest number of versions that lived at one time in this stage, over all tables.
  [[nodiscard]] std::size_t versions_peak() const;

  /// The rows of a table.
  [[nodiscard]] table_host& host(std::size_t table) noexcept { return *hosts_[table]; }
  [[nodiscard]] table_host const& host(std::size_t table) const noexcept { return *hosts_[table]; }

  /// Calls `f(control)` under the control lock: for reports and observers.
  template <class F>
  decltype(auto) inspect(F f) const {
    std::lock_guard const guard(lock_);
    return f(std::as_const(control_));
  }

 private:
  using guard_type = std::unique_lock<optional_mutex>;

  void await_folds(guard_type& guard) const {
    if (folding_) folded_.wait(guard, [this] { return !folding_; });
  }
  void answer(guard_type& guard, std::size_t table, read_header const& header, read_slot& slot);
  void answer_under_lock(std::size_t table, read_header const& header, read_slot& slot);
  [[nodiscard]] std::optional<own_copy> copy_of(std::size_t table, worker_id reader) const noexcept;
  void raise_version(std::size_t table, worker_id reader, read_slot& slot, version_read const& seen);
  [[nodiscard]] membership_report enlist(membership_order const& o);
  void settle(guard_type& guard, std::vector<worker_id>& released);
  void end_stage(guard_type& guard);
  void change_tables(table_changes const& c);
  void recover(recovery what);
  void fold_ready(guard_type& guard);
  void fold(std::span<held_commit const> commits);
  void fold_table(std::size_t table, std::span<held_commit const> commits);
  /// The commit's weight. @throws option_error where that is not finite
  [[nodiscard]] double worth(std::size_t table, commit_info const& info) const;
  void fold_one(std::size_t table, commit_info const& info, update const& part);
  [[nodiscard]] double greatest_change(commit_info const& info, commit_message const& m) const;
  void note_versions();
  void expire();
  void end_folding();
  [[nodiscard]] merge_rule const& merge(std::size_t table) const noexcept {
    return plan_.table(table).merge(protocol_);
  }

  blueprint const& plan_;
  std::size_t protocol_ = 0;  ///< in force
  mutable optional_mutex lock_;
  shard_control control_;
  bool folding_ = false;
  mutable std::condition_variable_any folded_;  ///< nobody folds any more
  std::size_t versions_peak_ = 0;
  std::vector<std::unique_ptr<table_host>> hosts_;
  /// A table, and what its merge keeps beside it.
  struct kept_table {
    table_state rows{};
    std::shared_ptr<void const> beside{};
  };
  std::vector<kept_table> kept_;  ///< by table: as it was when the stage began, if that can run again
};

}  // namespace rubato
