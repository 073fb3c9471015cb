// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/clock.hpp"
#include "rubato/partition/locator.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/sparse_store.hpp"
#include "rubato/storage/update_filter.hpp"
#include "rubato/worker/accumulator.hpp"
#include "rubato/worker/row_cache.hpp"

namespace rubato {

/// Finds a table's rows: the locator that goes with its spec.
template <table_spec Table>
using locator_for = std::conditional_t<Table::bounded, bounded_locator,
                                       open_locator<decltype(Table::partition)>>;

/// A worker's replica of one table: what it has fetched, plus its own updates that the fetched
/// state lacks, each exactly once (SSP-2).
///
/// Three layers. *Base*: a frozen state of the whole table, shared with the store, so that fetching
/// it copies nothing. *Rows*: rows fetched by key. *Own updates*: those pushed since the last
/// commit, and those committed that the base does not include, unscaled. A read adds up the layers
/// on its way to the user's memory. Not synchronized.
template <table_spec Table, class Store>
class replica {
 public:
  using value_type = typename Table::value_type;
  using slot_type = read_slot<Store>;
  using snapshot_type = typename Store::snapshot_type;

  replica(locator_for<Table> locator, std::size_t width, std::uint32_t servers,
          update_pool<value_type> const& pool, update_filter filter = {},
          std::uint64_t cached_rows = 0)
      : locator_(std::move(locator)),
        width_(width),
        filter_(filter),
        rows_(width, static_cast<std::size_t>(cached_rows)) {
    parts_.reserve(servers);
    for (std::uint32_t s = 0; s < servers; ++s)
      parts_.emplace_back(locator_.rows_of(server_id{s}), width, pool);
  }

  [[nodiscard]] locator_for<Table> const& locator() const noexcept { return locator_; }
  [[nodiscard]] std::size_t width() const noexcept { return width_; }
  [[nodiscard]] void const* first_part() const noexcept { return parts_.data(); }
  [[nodiscard]] slot_type& slot(server_id s) noexcept { return parts_[s.index()].slot; }

  // ---- pushes

  void push_whole(value_type const* delta)
    requires(Table::bounded)
  {
    for (std::uint32_t s = 0; s < parts_.size(); ++s) {
      if (locator_.rows_of(server_id{s}) == 0) continue;
      parts_[s].own.add_whole([&](auto add) {
        for_each_run(s, [&](layout::run const& run) {
          add(run.local_first * width_, delta + run.first * width_, run.rows * width_);
        });
      });
    }
    rows_.add_all([&](key k) { return delta + k.index() * width_; });
  }

  void push_row(key k, value_type const* delta) {
    layout::place const at = locator_.locate(k);
    parts_[at.server.index()].own.add_row(at.local, delta);
    rows_.add(k, delta);
  }

  [[nodiscard]] bool has_uncommitted() const noexcept {
    return std::ranges::any_of(parts_, [](auto const& p) { return !p.own.empty(); });
  }

  /// The update for one server, to be sent under this stamp. `keep` says that the replica will
  /// still need it: for a base that lacks it, or until a server says that it is in. `flush` says
  /// that no commit comes after it, to which small entries could be carried.
  [[nodiscard]] std::shared_ptr<update<value_type> const> commit(server_id s, clock_index stamp,
                                                                 bool keep, bool flush = false) {
    part& p = parts_[s.index()];
    update_filter const filter =
        flush && filter_.small == small_entries::carry ? update_filter{} : filter_;
    if (!keep || p.own.empty()) return p.own.take(filter);
    auto committed = p.own.take_indexed(stamp, filter);
    auto sent = committed.part;
    if (!sent->empty()) p.committed.push_back(std::move(committed));  // all may have been small
    return sent;
  }

  // ---- what is cached

  /// Whether `usable(mark)` holds for the base on every server.
  template <class Usable>
  [[nodiscard]] bool base_usable(Usable usable) const {
    return has_base_ && marks_usable(usable);
  }
  /// The same for a read, which shows whether it pays to keep a base.
  template <class Usable>
  [[nodiscard]] bool base_readable(Usable usable) {
    if (!fetched_ || !marks_usable(usable)) return false;
    base_pays_ = true;
    return has_base_;
  }
  /// Whether the next fetch of the whole table is best read once and not kept: the last one was not,
  /// or need not have been. A wrong guess costs one fetch more.
  [[nodiscard]] bool prefers_no_base() const noexcept { return fetched_ && !base_pays_; }

  /// The least server clock of the base. @pre there is one
  [[nodiscard]] clock_index base_clock() const noexcept {
    clock_index least = clock_index::highest();
    for (auto const& p : parts_) least = std::min(least, p.mark.server_clock);
    return least;
  }

  /// How many own commits are kept because the base lacks them.
  [[nodiscard]] std::size_t kept_commits() const noexcept {
    std::size_t most = 0;
    for (auto const& p : parts_) most = std::max(most, p.committed.size());
    return most;
  }

  /// Gives up the base; stores need not keep that state for this worker any more.
  void drop_base() noexcept {
    has_base_ = false;
    for (auto& p : parts_) p.base.clear();
  }
  void drop_rows() { rows_.clear(); }
  /// Gives up the fetched rows once none is from this server clock or later.
  void drop_rows_unless_from(clock_index server_clock) { rows_.clear_unless_from(server_clock); }
  void drop_committed() noexcept {
    for (auto& p : parts_) p.committed.clear();
  }

  /// The whole table has been fetched into the slots.
  void accept_base(fetch_mark const& mark) {
    for (auto& p : parts_) {
      using std::swap;
      swap(p.base, p.slot.snapshot);
      p.slot.snapshot.clear();
    }
    mark_fetched(mark);
    has_base_ = true;
  }

  /// Before a fetch of the whole table: its answers are to go right into `out`.
  void scatter(value_type* out)
    requires(Table::bounded)
  {
    for (std::uint32_t s = 0; s < parts_.size(); ++s) {
      parts_[s].slot.scattered.clear();
      for_each_run(s, [&](layout::run const& run) {
        parts_[s].slot.scattered.emplace_back(out + run.first * width_, run.rows * width_);
      });
    }
  }
  /// After it, or when it failed.
  void end_scatter() noexcept {
    for (auto& p : parts_) p.slot.scattered.clear();
  }
  /// The whole table is in `out`, which the replica does not keep: adds the own updates it lacks.
  void accept_scattered(fetch_mark const& mark, value_type* out)
    requires(Table::bounded)
  {
    mark_fetched(mark);
    for (std::uint32_t s = 0; s < parts_.size(); ++s) add_own_to(s, out);
  }

  /// A server has answered: own commits that it includes, and the base too, are needed no more.
  /// Servers never answer from an older state.
  void acknowledge(server_id s, clock_index included) noexcept {
    part& p = parts_[s.index()];
    clock_index const in = has_base_ ? std::min(included, p.base_included) : included;
    auto const kept =
        std::ranges::find_if(p.committed, [in](auto const& u) { return u.stamp >= in; });
    p.committed.erase(p.committed.begin(), kept);
  }

  // ---- reads

  /// The whole table as this worker sees it: one state of each server and the own updates that it
  /// lacks. Rows fetched by key since may be newer; to mix them in would tear commits apart.
  /// @pre the base is usable
  void read_whole(value_type* out) const
    requires(Table::bounded)
  {
    for (std::uint32_t s = 0; s < parts_.size(); ++s) {
      for_each_run(s, [&](layout::run const& run) {
        parts_[s].base.copy(run.local_first * width_, run.rows * width_, out + run.first * width_);
      });
      add_own_to(s, out);
    }
  }

  /// All touched rows as this worker sees them, by key. @pre the base is usable
  void read_whole(sparse_snapshot<value_type>& out) const
    requires(!Table::bounded)
  {
    std::map<std::uint64_t, std::vector<value_type>> merged;
    auto const add = [&](std::vector<std::uint64_t> const& keys, std::vector<value_type> const& v) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        auto& row = merged.try_emplace(keys[i], width_).first->second;
        detail::add_row(row.data(), v.data() + i * width_, width_);
      }
    };
    for (auto const& p : parts_) {
      add(p.base.keys, p.base.values);
      p.for_each_own(p.base_included,
                      [&](update<value_type> const& u) { add(u.rows, u.values); });
    }
    out.clear();
    for (auto const& [k, row] : merged) {
      out.keys.push_back(k);
      out.values.insert(out.values.end(), row.begin(), row.end());
    }
  }

  /// Reads a row from what is cached, and says how that was fetched; nothing where it must be
  /// fetched. `base_ok`: the base is usable.
  template <class Usable>
  [[nodiscard]] std::optional<fetch_mark> read_row(key k, bool base_ok, Usable usable,
                                                   value_type* out) {
    if (auto const* e = rows_.use(k); e && usable(e->mark)) {
      std::copy_n(rows_.values(*e), width_, out);
      return e->mark;
    }
    if constexpr (Table::bounded) {
      if (!base_ok) return std::nullopt;
      layout::place const at = locator_.locate(k);
      part const& p = parts_[at.server.index()];
      // It may be older than what was read of a row that has been evicted since.
      if (p.mark.fetch < rows_.forgotten()) return std::nullopt;
      p.base.copy(static_cast<std::size_t>(at.local) * width_, width_, out);
      p.add_own(p.base_included, at.local, width_, out);
      return p.mark;
    }
    return std::nullopt;
  }

  /// A row has been fetched by key into a server's slot, at place `index` there.
  void accept_row(key k, server_id s, std::size_t index, fetch_mark mark, value_type* out) {
    part& p = parts_[s.index()];
    read_stamp const& stamp = p.slot.row_stamps.empty() ? p.slot.stamp : p.slot.row_stamps[index];
    mark.server_clock = stamp.server_clock;
    value_type* const row = p.slot.values.data() + index * width_;
    p.add_own(stamp.included, p.slot.rows[index], width_, row);
    value_type const* const seen = rows_.put(k, mark, row);
    std::copy_n(seen, width_, out);
  }

 private:
  struct part {
    part(std::uint64_t rows, std::size_t width, update_pool<value_type> pool)
        : own(rows, width, std::move(pool)) {}

    /// Calls `f(update)` for the own updates that a state including stamps below `included` lacks.
    template <class F>
    void for_each_own(clock_index included, F f) const {
      for (auto const& u : committed)
        if (u.stamp >= included) f(*u.part);
      if (auto const* u = own.current()) f(*u);
    }

    void add_own(clock_index included, std::uint64_t row, std::size_t width,
                 value_type* to) const noexcept {
      auto const add = [&](value_type const* from) {
        if (from != nullptr) detail::add_row(to, from, width);
      };
      for (auto const& u : committed)
        if (u.stamp >= included) add(detail::find_row(*u.part, u.slots, row, width));
      add(own.find(row));
    }

    accumulator<value_type> own;
    std::vector<committed_update<value_type>> committed;  // oldest first
    snapshot_type base{};
    clock_index base_included = clock_index::lowest();
    fetch_mark mark{};
    slot_type slot{};
  };

  template <class Usable>
  [[nodiscard]] bool marks_usable(Usable& usable) const {
    return std::ranges::all_of(parts_, [&](auto const& p) { return usable(p.mark); });
  }

  void mark_fetched(fetch_mark const& mark) {
    for (auto& p : parts_) {
      p.mark = mark;
      p.mark.server_clock = p.slot.stamp.server_clock;
      p.base_included = p.slot.stamp.included;
    }
    rows_.clear();
    fetched_ = true;
    base_pays_ = false;
  }

  /// Adds the own updates that one server's part of the last fetch lacks.
  void add_own_to(std::uint32_t server, value_type* out) const {
    parts_[server].for_each_own(parts_[server].base_included, [&](update<value_type> const& u) {
      if (!u.whole) return add_keyed(u, server_id{server}, out);
      for_each_run(server, [&](layout::run const& run) { add_whole(u, run, out); });
    });
  }

  template <class F>
  void for_each_run(std::uint32_t server, F f) const {
    layout const& rows = locator_.rows();
    for (std::size_t const i : rows.runs_of(server_id{server})) f(rows.runs()[i]);
  }

  void add_whole(update<value_type> const& u, layout::run const& run, value_type* out) const {
    detail::add_scaled(out + run.first * width_, u.values.data() + run.local_first * width_,
                       run.rows * width_, 1.0);
  }

  void add_keyed(update<value_type> const& u, server_id server, value_type* out) const {
    value_type const* from = u.values.data();
    for (std::uint64_t const row : u.rows) {
      key const k = locator_.rows().key_of(server, row);
      detail::add_row(out + k.index() * width_, from, width_);
      from += width_;
    }
  }

  locator_for<Table> locator_;
  std::size_t width_;
  update_filter filter_;
  row_cache<value_type> rows_;
  std::vector<part> parts_;
  bool has_base_ = false;
  bool fetched_ = false;    ///< the whole table, at least once
  bool base_pays_ = false;  ///< since then it has been read again, or would have been
};

}  // namespace rubato
