// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/server/server_group.hpp"
#include "rubato/testing/expectations.hpp"
#include "rubato/testing/findings.hpp"
#include "rubato/testing/ledger.hpp"

namespace rubato::testing {

/// Watches a run from outside of the protocol and collects what breaks its rules, as sentences.
///
/// The means are counting tables: tables of integers with merge `sum`, one column per worker, to
/// which worker m adds positive amounts in column m only. A row that is read then *is* a vector
/// clock: what it holds in column m says which of m's commits it reflects, and whether each is
/// whole and there once. The truth (who has pushed and committed what, who is live) is what the
/// training bodies tell; nothing is taken from the protocol.
///
/// Thread safety: all members may be called concurrently. A body tells of a push before it makes
/// it, and of a commit before and after.
class observer {
 public:
  /// How a read was made: each kind by itself never goes back in time.
  enum class kind : std::uint8_t { whole, keyed };

  /// @param starters the workers that the run begins with
  /// @param workers all that may ever take part: the width of the counting tables
  /// @param servers_of by counting table: the server of each row
  observer(expectations r, std::uint32_t starters, std::uint32_t workers,
           std::vector<std::vector<std::uint32_t>> servers_of);

  // ---- told by the bodies

  /// The body has begun; a joiner starts at a clock of its own.
  void started(std::uint32_t w, clock_index at);
  /// About to push `amount` > 0 to its column of a row.
  void pushing(std::uint32_t w, std::size_t table, std::size_t row, std::int64_t amount);
  /// About to commit.
  void committing(std::uint32_t w);
  /// The commit has been sent: the worker is at its next clock.
  void committed(std::uint32_t w, clock_index now);
  /// What `committing` announced did not happen: the pace went on.
  void not_committed(std::uint32_t w);
  /// About to do what may wait, with this staleness.
  void asking(std::uint32_t w, staleness s);
  /// The body ends by itself.
  void left(std::uint32_t w);
  /// The body was unwound; or it may be given up from now on, if it goes on: then others that begin later may be in
  /// another run, of which it knows nothing.
  void crashed(std::uint32_t w);

  /// Worker `w` has read `rows` of a counting table: `values` holds one row after the other.
  void read(std::uint32_t w, staleness s, std::size_t table, kind how,
            std::span<std::uint64_t const> rows, std::span<std::int64_t const> values);

  /// Worker `w` has read a whole table at its clock without pushes of its own since its last
  /// commit: under the barrier every such read at one clock has the same bytes.
  void read_before_pushes(std::uint32_t w, std::size_t table, std::span<std::byte const> bytes);

  // ---- after every event of a simulated run

  /// Checks the servers' side against the truth: `servers` is what `cluster.servers()` gives.
  void check_servers(server_group const& servers);

  // ---- at the end

  /// Checks what a counting table holds after the run: all rows, one after the other. Every commit
  /// of whoever was not lost is there exactly once, of the others whole ones.
  void finish(std::size_t table, std::span<std::int64_t const> values);

  /// How many commits of lost workers are on some servers only, summed over the servers; by what a
  /// counting table holds to which they pushed every row in every commit.
  [[nodiscard]] std::uint64_t partly_folded(std::size_t table,
                                            std::span<std::int64_t const> values) const;

  /// That all commits which lost workers had sent in full are there: so where no message can be
  /// under way for longer than it takes to notice the loss.
  void finish_lost(std::size_t table, std::span<std::int64_t const> values);

  /// Reports a breach that the caller found.
  template <class... Parts>
  void breach(Parts const&... parts) {
    std::lock_guard const guard(lock_);
    fail(parts...);
  }

  /// One sentence for each kind of breach: the first of it, and how many more there were.
  [[nodiscard]] std::vector<std::string> violations() const;
  /// How many commits the workers have begun, over all of them.
  [[nodiscard]] std::uint64_t commits() const;

 private:
  enum class state : std::uint8_t { absent, live, left, crashed };
  struct member {
    state now = state::absent;
    std::int64_t started = 0;
    std::int64_t begun = 0;  ///< its clock once the commit under way has been sent
    std::int64_t done = 0;   ///< its clock
    staleness asked{};
    bool joined = false;        ///< while others were under way
    bool may_be_apart = false;  ///< it crashed, and others have begun since
    std::vector<detail::ledger> tables;
  };

  template <class... Parts>
  void fail(Parts const&... parts) {
    violations_.add(parts...);
  }

  /// The slowest live worker's clock. A commit counts from its beginning, for a part of it may have
  /// arrived; whoever has left or was lost does not count, even if the servers do not know yet. So
  /// what servers hold for c_min is never above it.
  [[nodiscard]] clock_index c_min() const;
  /// Of those that this reader waits for at this clock.
  [[nodiscard]] clock_index c_min_for(std::uint32_t reader, clock_index c) const;
  [[nodiscard]] bool heeds(std::uint32_t reader, std::uint32_t other, clock_index c) const;

  /// Below which every stamp is in what worker `w` may read at clock c.
  [[nodiscard]] clock_index least_read(std::uint32_t w, clock_index c, staleness s) const;
  /// What a worker that asks at clock c may have to wait for, at most.
  [[nodiscard]] clock_index most_awaited(worker_id w, clock_index c) const;

  void check_cell(std::uint32_t reader, clock_index c, staleness s, std::size_t table, kind how,
                  std::size_t row, std::uint32_t w, std::int64_t value);

  /// The rows that were fetched together reflect the same commits on each server, and on all of
  /// them where reads are synchronized.
  void check_whole(std::uint32_t reader, std::size_t table, std::span<std::int64_t const> values);

  void check_server(std::uint32_t s, shard_control const& control);

  /// What is held back has stamps that nobody may see yet: with the strict window and servers that
  /// hear of commits at once, one commit of each worker.
  void check_held_back(std::uint32_t s, clock_index published, std::size_t held);

  mutable std::mutex lock_;
  expectations rules_;
  std::uint32_t workers_;
  std::vector<std::vector<std::uint32_t>> servers_of_;
  std::vector<member> members_;
  std::vector<std::vector<std::int64_t>> seen_;  // by table: what each reader last saw, by kind
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::byte>> agreed_;
  std::vector<clock_index> published_;
  detail::findings violations_;
};

/// Tells an observer of a worker's life: that it has begun, and how it ends.
class presence {
 public:
  presence(observer& o, std::uint32_t worker, clock_index at) : observer_(o), worker_(worker) {
    observer_.started(worker, at);
  }
  presence(presence const&) = delete;
  presence& operator=(presence const&) = delete;
  ~presence() {
    if (!over_) observer_.crashed(worker_);
  }
  /// The body ends by itself.
  void leave() {
    over_ = true;
    observer_.left(worker_);
  }

 private:
  observer& observer_;
  std::uint32_t worker_;
  bool over_ = false;
};

}  // namespace rubato::testing
