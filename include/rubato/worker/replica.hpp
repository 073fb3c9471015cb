// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/core/repeated_row.hpp"
#include "rubato/partition/locator.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/worker/accumulator.hpp"
#include "rubato/worker/missing_rows.hpp"
#include "rubato/worker/recent_fetch.hpp"
#include "rubato/worker/row_cache.hpp"

namespace rubato {

/// What a read by key has found in a replica.
struct rows_found {
  clock_index oldest = clock_index::highest();  ///< the least server clock of a row
  std::uint64_t fetch = 0;                      ///< the first one's; 0: none was found
  bool mixed = false;                           ///< they come from several fetches

  void note(fetch_mark const& m) noexcept {
    oldest = std::min(oldest, m.server_clock);
    if (fetch == 0) fetch = m.fetch;
    mixed = mixed || m.fetch != fetch;
  }
};

/// A worker's replica of one table: what it has fetched, plus its own updates that the fetched
/// state lacks, each exactly once (SSP-2).
///
/// Three layers. *Base*: a frozen state of the whole table, shared with the store, so that fetching
/// it copies nothing. *Rows*: rows fetched by key. *Own updates*: those pushed since the last
/// commit, and those committed that the base does not include, unscaled. A read adds up the layers
/// on its way to the user's memory. What is known only to those who compute, the elements' type, is
/// behind virtual functions that are called once per message. Not synchronized.
class replica {
 public:
  virtual ~replica() = default;
  replica(replica const&) = delete;
  replica& operator=(replica const&) = delete;

  [[nodiscard]] locator const& where() const noexcept { return where_; }
  [[nodiscard]] std::optional<server_id> only_server() const noexcept { return only_server_; }
  [[nodiscard]] std::size_t row_bytes() const noexcept { return row_bytes_; }
  [[nodiscard]] void const* first_part() const noexcept { return parts_.data(); }
  [[nodiscard]] read_slot& slot(server_id s) noexcept { return parts_[s.index()].slot; }

  /// Whether this server is asked for the whole table: rows of it may be there, or all are asked.
  [[nodiscard]] bool takes_part(server_id s) const noexcept {
    return asks_all_ || !where_.bounded() || where_.rows_of(s) != 0;
  }

  // ---- pushes

  /// Adds to all rows, in the order of their keys. @pre the table holds every row
  virtual void push_whole(std::byte const* delta) = 0;
  /// Room for values of all rows, in the order of their keys, which mean nothing yet. Where one server has them all and
  /// nothing has been pushed before, it becomes the update. @pre the table holds every row
  [[nodiscard]] update_buffer room();
  /// Adds what has been written there.
  virtual void push_whole(update_buffer written) = 0;
  /// Adds to the rows named; one that is named twice gets both.
  virtual void push_rows(std::span<std::uint64_t const> keys, std::byte const* delta) = 0;

  /// The update for one server, to be sent under this stamp. `keep` says that the replica will
  /// still need it: for a base that lacks it, or until a server says that it is in. `flush` says
  /// that no commit comes after it, to which small entries could be carried.
  [[nodiscard]] virtual shared_update commit(server_id s, clock_index stamp, bool keep,
                                                             bool flush) = 0;

  /// Before the parts of a commit are asked for, at this clock; `flush` as below.
  virtual void begin_commit(clock_index, bool /*flush*/) {}
  /// Whether a worker that ends has to commit, pushed or not.
  [[nodiscard]] virtual bool ends_with_commit() const noexcept { return false; }

  /// Whether the whole table may be written where the user wants it as it comes: not where it comes coded.
  [[nodiscard]] bool may_scatter() const noexcept { return !answers_coded_; }

  /// Whether a filter looks at what is committed; then it is told what the body has read.
  [[nodiscard]] bool filtered() const noexcept { return filtered_; }
  virtual void saw_whole(std::byte const*) {}
  virtual void saw_rows(std::span<std::uint64_t const>, std::byte const*) {}

  /// The body has pushed to it.
  void note_pushed() noexcept { pushed_ = true; }
  /// Whether it has since this was last asked.
  [[nodiscard]] bool take_pushed() noexcept { return std::exchange(pushed_, false); }

  // ---- what is cached

  [[nodiscard]] bool has_base() const noexcept { return has_base_; }
  /// Whether a read may use the base: whether it is fresh enough on every server.
  [[nodiscard]] bool base_usable(freshness const& f) const { return has_base_ && marks_allowed(f); }
  /// The same for a read, which shows whether it pays to keep a base.
  [[nodiscard]] bool base_readable(freshness const& f) {
    if (!fetched_ || !marks_allowed(f)) return false;
    base_pays_ = true;
    return has_base_;
  }
  /// What a read of the base goes by. @pre there is one
  void note_base(rows_found& found) const noexcept {
    for (auto const& p : parts_) found.note(p.mark);
  }
  /// Whether the next fetch of the whole table is best read once and not kept: the last one was not,
  /// or need not have been. A wrong guess costs one fetch more.
  [[nodiscard]] bool prefers_no_base() const noexcept { return fetched_ && !base_pays_; }
  /// The least server clock of the base. @pre there is one
  [[nodiscard]] clock_index base_clock() const noexcept;
  /// How many own commits are kept because the base lacks them.
  [[nodiscard]] std::size_t kept_commits() const noexcept;

  /// Gives up the base; stores need not keep that state for this worker any more.
  void drop_base() noexcept;
  void drop_rows() {
    recent_.clear();
    rows_.clear();
  }
  /// Gives up the fetched rows once none is from this server clock or later.
  void drop_rows_unless_from(clock_index server_clock) {
    recent_.clear_unless_from(server_clock);
    rows_.clear_unless_from(server_clock);
  }
  void drop_committed() noexcept;

  /// The whole table has been fetched into the slots that ask for all; other servers have no rows of it.
  void accept_base(fetch_mark const& mark);
  /// Before a fetch of the whole table: its answers are to go right into `out`. @pre the table holds
  /// every row
  void scatter(std::byte* out);
  /// After it, or when it failed.
  void end_scatter() noexcept;
  /// The whole table is in `out`, which the replica does not keep: adds the own updates it lacks.
  virtual void accept_scattered(fetch_mark const& mark, std::byte* out) = 0;

  /// A server has answered: own commits that it includes, and the base too, are needed no more.
  /// Servers never answer from an older state.
  void acknowledge(server_id s, clock_index included) noexcept {
    if (!parts_[s.index()].committed.empty()) forget_committed(parts_[s.index()], included);
  }

  // ---- reads

  /// The whole table as this worker sees it: one state of each server and the own updates that it
  /// lacks. Rows fetched by key since may be newer; to mix them in would tear commits apart.
  /// @pre the base is usable, and the table holds every row
  virtual void read_whole(std::byte* out) const = 0;
  /// All touched rows as this worker sees them, by key. @pre the base is usable
  virtual void read_touched(std::vector<std::uint64_t>& keys, raw_array& values) const = 0;

  /// Reads rows from what is cached, one after the other into `out`, or just looks for them where that
  /// is nullptr; appends to `missing` those that must be fetched. `base_ok`: the base is usable.
  virtual rows_found read_rows(std::span<std::uint64_t const> keys, freshness const& f, bool base_ok,
                               std::byte* out, missing_rows& missing) = 0;
  /// These have been fetched by key into servers' slots. Returns the least server clock of one.
  virtual clock_index accept_rows(missing_rows const& fetched, fetch_mark const& mark,
                                  std::byte* out) = 0;

 protected:
  struct part {
    part(std::uint64_t rows, std::size_t row_bytes, update_pool pool, bool may_pad)
        : own(rows, row_bytes, std::move(pool), may_pad) {}

    /// Calls `f(update)` for the own updates that a state including stamps below `included` lacks.
    template <class F>
    void for_each_own(clock_index included, F f) const {
      for (auto const& u : committed)
        if (u.stamp >= included) f(*u.part);
      if (auto const* u = own.current()) f(*u);
      if (left == nullptr) return;
      if (auto const* u = left->current()) f(*u);
    }

    [[nodiscard]] bool has_own() const noexcept {
      return !committed.empty() || !own.empty() || (left && !left->empty());
    }

    accumulator own;
    std::vector<committed_update> committed;  // oldest first
    table_state base{};
    clock_index base_included = clock_index::lowest();
    fetch_mark mark{};
    read_slot slot{};
    std::unique_ptr<accumulator> left;  ///< where updates are coded: what rounding has taken away
  };

  replica(table_blueprint const& table, std::uint32_t servers, std::size_t protocol);

  [[nodiscard]] bool marks_allowed(freshness const& f) const;
  void mark_fetched(fetch_mark const& mark);
  void forget_committed(part& p, clock_index included) noexcept;
  /// Has what was fetched last found by key.
  void index_recent() {
    if (!recent_.empty()) recent_.move_to(rows_, row_bytes_);
  }
  /// Whether a fetch of these rows may stay as it comes.
  [[nodiscard]] bool may_stay(std::span<std::uint64_t const> keys);
  template <class F>
  void for_each_run(std::uint32_t server, F f) const {
    layout const& rows = where_.rows();
    for (std::size_t const i : rows.runs_of(server_id{server})) f(rows.runs()[i]);
  }

  // What all replicas of the table have in common is the plan's, whose memory is warm where workers are many.
  locator const& where_;
  std::optional<server_id> only_server_;  ///< see `locator`
  update_filter const& filter_;
  coding const& updates_;
  std::size_t row_bytes_;
  std::vector<part> parts_;
  bool asks_all_;  ///< in whole reads, servers without rows, too
  bool has_base_ = false;
  bool fetched_ = false;    ///< the whole table, at least once
  bool base_pays_ = false;  ///< since then it has been read again, or would have been
  bool pushed_ = false;     ///< since `take_pushed`
  bool filtered_ = false;
  bool answers_coded_;
  update_buffer room_;  ///< from the last time, where it became no update
  recent_fetch recent_;  ///< rows that are not in `rows_`; only where that has no capacity
  row_cache<> rows_;
  detail::repeated_row repeated_;
};

/// A protocol's filter, and the worker whose it is.
struct own_filter {
  filter_rule const* rule = nullptr;  ///< none: all is sent
  worker_id self{};
};

/// A replica of this table, which outlives it. @param servers how many there are @param protocol the run's
[[nodiscard]] std::unique_ptr<replica> make_replica(table_blueprint const& table, std::uint32_t servers,
                                                    std::size_t protocol, own_filter const& filter = {});

}  // namespace rubato
