// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/worker_metrics.hpp"
#include "rubato/storage/shared_update.hpp"
#include "rubato/worker/pull_wish.hpp"

namespace rubato {

class blueprint;
class endpoint;
struct read_slot;
struct sender;
struct starting_point;

/// Who a worker is, and what it works with; all of it outlives the worker.
struct worker_setup {
  endpoint& link;  ///< its end of the transport
  blueprint const& plan;  ///< protocols and tables
  sender const& self;  ///< who it is, as its messages say it
  std::uint32_t rank;  ///< its place among the workers
  std::uint64_t seed;  ///< of its random stream
  std::size_t protocol = 0;  ///< which of the plan's the run follows
};

/// One worker of the protocol, as far as it does not matter what its tables hold: the part of `worker`
/// that is compiled once.
///
/// Pulls read the replica; the first one after a commit is ruled by admission and caches, and may
/// wait. Pushes go into the replica at once and to the servers with the next commit. `step` ends a
/// local step, and the protocol's pace decides whether it commits.
/// Thread safety: belongs to the thread (or fiber) that the body runs in.
/// Errors: usage_error for a handle in another thread's hands (calls for rows by key look at that only where the library
/// was built with checks: RUBATO_CHECKS, or without NDEBUG), for a body that goes on pulling and pushing while virtual time
/// stands still, and for one that returns after several rounds of both without a step or commit.
class worker_core {
 public:
  /// Made by the transport.
  explicit worker_core(worker_setup const& setup);
  virtual ~worker_core();
  worker_core(worker_core const&) = delete;
  worker_core& operator=(worker_core const&) = delete;

  // ---- who and when

  /// This worker's place among the workers, from 0; a joiner takes the next number.
  [[nodiscard]] std::uint32_t rank() const noexcept;
  /// How many workers the run began with; for one that joined later at least `rank() + 1`, so that
  /// `shard(rank(), count())` is a part of the data for everyone.
  [[nodiscard]] std::uint32_t count() const noexcept;
  /// Whether it came to a run that had begun without it: what `shard(rank(), count())` gives it others have as well.
  [[nodiscard]] bool has_joined() const noexcept;
  /// Its number in what policies and reports are told.
  [[nodiscard]] worker_id id() const noexcept;
  /// The number of this worker's commits; a joiner starts where the others are.
  [[nodiscard]] clock_index clock() const noexcept;
  /// Local steps since the last commit.
  [[nodiscard]] std::int64_t steps_since_commit() const noexcept;
  /// Time since the run began, wall or virtual.
  [[nodiscard]] time_point now() const;
  /// This worker's own stream: the same numbers for the same seed and number of the run, or of the stage of a task,
  /// whatever the schedule.
  [[nodiscard]] random_stream& random() noexcept;
  /// What it has measured so far in this run.
  [[nodiscard]] worker_metrics const& metrics() const noexcept;

  // ---- several tables

  /// Pulls from several tables, each named once at most: what has to be fetched is asked for in one exchange with each
  /// server, and where that has to wait it waits once. Otherwise as if they were pulled one after the other: under
  /// partition synchronization all is of one cut, under a barrier of one clock; else commits may come between what one
  /// table shows and what another one does. All of it is there when this returns. No rows of a sparse table but those
  /// named.
  ///
  ///     worker.pull_together({worker[table<0>].into(w), worker[table<1>].into(words, rows)});
  ///
  /// @param s at most the protocol's @throws usage_error before anything is read: a size, a key, a table that is named
  /// twice. O(size)
  void pull_together(std::span<pull_wish const> wishes, std::optional<staleness> s = std::nullopt);
  /// The same for a list that is written out.
  void pull_together(std::initializer_list<pull_wish> wishes, std::optional<staleness> s = std::nullopt) {
    pull_together(std::span<pull_wish const>(wishes.begin(), wishes.size()), s);
  }

  // ---- clock

  /// Ends a local step that took `work` units (examples, usually), and commits if the pace says so.
  /// Returns whether it did. @throws usage_error for work below 0, or not finite
  bool step(double work = 1.0);
  /// Reports what this worker's training came to, a mini-batch's mean loss for example, to a pace
  /// that goes by the loss. Nothing happens where no pace asks, or where the run evaluates the loss
  /// itself; what is not finite is ignored. A worker's losses are those of its replica: between
  /// commits they fall by its own steps alone, so a loss that the run evaluates says more.
  void report_loss(double loss);
  /// Sends what has been pushed since the last commit, and moves to the next clock. Waits as a push
  /// does, and for a prefetch. O(size pushed).
  void commit();

  // ---- for whoever runs the worker

  /// Starts at this clock among `count` workers.
  void start(starting_point const& at, std::uint32_t count);
  /// The body has returned: what it pushed last is not lost.
  void finish();
  /// The handle is of no use any more; time is up.
  void end();
  /// Where the answer of that server about that table arrives.
  [[nodiscard]] read_slot& slot(std::size_t table, server_id s) noexcept;
  /// Where the worker's own memory begins, for whoever wants to fetch it early, and how much of it a step
  /// touches.
  [[nodiscard]] std::span<std::byte const> footprint() const noexcept;
  /// Where its replica's memory begins.
  [[nodiscard]] void const* first_part() const noexcept;
  /// Who it is, as its messages say it.
  [[nodiscard]] sender const& identity() const noexcept;

 protected:
  // What typed handles are made of. Elements are given as bytes, and as many as `elements` of the
  // table's type; keys as numbers.

  /// Keys as numbers.
  using key_list = std::span<std::uint64_t const>;

  /// A whole table, into `out`.
  void pull_whole(std::size_t table, std::byte* out, std::size_t elements, std::optional<staleness> s);
  /// All touched rows, by ascending key.
  void pull_touched(std::size_t table, std::vector<std::uint64_t>& keys, raw_array& values,
                    std::optional<staleness> s);
  /// Some rows, into `out`.
  void pull_rows(std::size_t table, key_list keys, std::byte* out, std::size_t elements,
                 std::optional<staleness> s);
  /// Asks for a whole table early.
  void prefetch_whole(std::size_t table);
  /// Asks for some rows early.
  void prefetch_rows(std::size_t table, key_list keys);
  /// Adds to every row.
  void push_whole(std::size_t table, std::byte const* delta, std::size_t elements);
  /// Room to write what is added to every row, with values that mean nothing yet.
  [[nodiscard]] update_buffer room_for_push(std::size_t table);
  /// Adds to every row what has been written there.
  void push_whole(std::size_t table, update_buffer written);
  /// Adds to some rows.
  void push_rows(std::size_t table, key_list keys, std::byte const* delta, std::size_t elements);
  /// Room for keys that are no numbers of 64 bits.
  [[nodiscard]] std::vector<std::uint64_t>& key_room() noexcept;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace rubato
