// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/server/messages.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/server/shard_control.hpp"
#include "rubato/server/shard_view.hpp"
#include "rubato/storage/concepts.hpp"

namespace rubato {

/// What a shard's tables take, in bytes, and how many versions are alive.
struct shard_memory {
  std::size_t parameters = 0;  ///< of all tables, versions included
  std::size_t log = 0;         ///< of commits held back
  std::size_t versions = 0;    ///< live ones, summed over the tables
};

/// One server's part of all tables: a state machine in two halves.
///
/// *Control* (who is where, who waits, what is held back) is behind one short lock; *store* (the
/// rows) has chunk locks of its own, so that commits of different workers fold side by side. With
/// `null_mutex` both cost nothing. Where commits are held back or keep versions, one thread folds
/// at a time and reads are made between folds, under the control lock, so that they see commits
/// whole.
///
/// Whoever calls `commit`, `leave` or `start` gets back the workers that may go on now, and lets
/// them: the thread that waits reads for itself in process, the server answers over a network.
template <class Mutex, protocol Protocol, table_spec... Tables>
class shard {
 public:
  using message = commit_message<Tables...>;
  static constexpr bool versioned = (versioned_merge<merge_for<Tables, Protocol>> || ...);
  static constexpr bool synchronized = synchronized_visibility<visibility_of<Protocol>>;
  using control_type =
      shard_control<admission_of<Protocol>, visibility_of<Protocol>, message, versioned>;
  using stores = std::tuple<typename Tables::template store<Mutex>...>;
  using merges = std::tuple<merge_for<Tables, Protocol>...>;
  template <std::size_t I>
  using table_store = std::tuple_element_t<I, stores>;
  template <std::size_t I>
  using value_type = typename table_store<I>::value_type;
  template <std::size_t I>
  static constexpr bool keeps_versions = versioned_merge<std::tuple_element_t<I, merges>>;

  /// Stores cannot move; they are given as functions that make them.
  template <class... MakeStore>
  shard(Protocol const& p, merges m, MakeStore&&... make)
      : control_(p.admission(), p.visibility()),
        merges_(std::move(m)),
        stores_(std::forward<MakeStore>(make)...) {}

  /// Versions that the stage before left live stay in the parameters with what they count, and so
  /// does what observers under synchronized reads have been shown of the log.
  void begin_stage(stage_id stage) {
    std::unique_lock guard(lock_);
    if constexpr (synchronized) {
      control_.advance_to_all();
      fold_ready(guard);
    }
    for_each_versioned([](auto& store, auto const& merge) { store.settle(merge); });
    versions_peak_ = 0;
    control_.begin_stage(stage);
    folding_ = false;
  }

  /// Applies a worker's commit. `released` gets the workers that may go on because of it; a refused
  /// commit changes nothing but a counter.
  /// Cost: O(log workers), and the folds: its own, or where folds are serial those that it makes
  /// ready.
  refusal commit(message const& m, std::vector<worker_id>& released) {
    std::unique_lock guard(lock_);
    // Where nothing is held back nobody may commit faster than it can be folded.
    if constexpr (control_type::serial && !visibility_of<Protocol>::holds_back)
      folded_.wait(guard, [this] { return !folding_; });
    if (refusal const r = control_.accept(m.from, m.stamp, m.version); r != refusal::none) return r;
    if constexpr (control_type::serial) {
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

  /// Whether whole updates of table I may be folded piece by piece, as they arrive: nothing is held
  /// back, and no update needs another to be folded.
  template <std::size_t I>
  static constexpr bool folds_pieces =
      !control_type::serial && !keeps_versions<I> && !velocity_merge<std::tuple_element_t<I, merges>> &&
      requires(table_store<I>& s, std::span<value_type<I> const> values) {
        s.add_range(std::size_t{}, values, double{});
      };

  /// What `commit` would say now of one that is arriving.
  [[nodiscard]] refusal check(sender const& from, clock_index stamp, version_index version) const {
    std::lock_guard const guard(lock_);
    return control_.check(from, stamp, version);
  }
  /// Such a one has been refused, without `commit`.
  void count_refused() {
    std::lock_guard const guard(lock_);
    control_.count_refused();
  }
  /// What it counts in table I. @pre `check` refuses nothing
  template <std::size_t I>
  [[nodiscard]] double weigh(sender const& from, clock_index stamp, version_index version) const {
    std::lock_guard const guard(lock_);
    return std::get<I>(merges_).weight(control_.info(from, stamp, version));
  }
  /// Folds a piece of it. Its `commit`, without what has been folded so, must follow.
  template <std::size_t I>
    requires folds_pieces<I>
  void fold_piece(std::size_t first, std::span<value_type<I> const> values, double weight) {
    store<I>().add_range(first, values, weight);
  }
  /// It does not: a part of it stays.
  void count_partly_folded() {
    std::lock_guard const guard(lock_);
    control_.count_partly_folded();
  }

  /// Answers a read of table I into its slot if it may go on now, and says whether it did. If not,
  /// a later call names its worker among the released, and `read_released` is for it. The stamp
  /// holds for the rows: where folds are not serial they may be newer than it says, never older;
  /// where they are it is exact, so the read waits out a fold under way.
  template <std::size_t I, class Slot>
  [[nodiscard]] std::pair<refusal, bool> admit(read_header const& header, Slot& slot) {
    std::unique_lock guard(lock_);
    refusal r = control_.check(header.from);
    if constexpr (synchronized) {
      if (r == refusal::none && (!header.cut || !control_.holds(*header.cut))) r = refusal::cut;
      if (r != refusal::none) return {r, false};
    } else {
      if (r != refusal::none || !control_.admit(header)) return {r, false};
    }
    answer<I>(guard, header, slot);
    return {r, true};
  }

  /// The same for a worker that has been released.
  template <std::size_t I, class Slot>
  void read_released(read_header const& header, Slot& slot) {
    std::unique_lock guard(lock_);
    answer<I>(guard, header, slot);
  }

  /// The worker does not wait for its read any more: its question was lost, and will come again.
  void withdraw(worker_id reader) {
    std::lock_guard const guard(lock_);
    control_.withdraw(reader);
  }

  /// Nothing more will come of a worker that has left by itself: it goes with what is here.
  void abandon(worker_id leaver, std::vector<worker_id>& released) {
    std::unique_lock guard(lock_);
    if (control_.abandon(leaver)) settle(guard, released);
  }

  /// No synchronized read asks for less than this cut any more.
  void advance(stage_id stage, commit_cut const& mark, std::vector<worker_id>& released) {
    std::unique_lock guard(lock_);
    if (stage != control_.stage()) return;
    control_.advance(mark);
    settle(guard, released);
  }

  /// The state of table I for whoever is no worker: all that is folded.
  template <std::size_t I, class Snapshot>
  void observe(Snapshot& out) const {
    if constexpr (control_type::serial) {
      std::unique_lock guard(lock_);
      folded_.wait(guard, [this] { return !folding_; });
      view<I>().snapshot(out);
    } else {
      store<I>().snapshot(out);
    }
  }

  /// Memory held by the parameters, all tables and versions; what the log holds back; how many
  /// versions live in all tables.
  [[nodiscard]] shard_memory memory() const {
    std::unique_lock guard(lock_);
    folded_.wait(guard, [this] { return !folding_; });
    shard_memory m;
    std::apply([&](auto const&... s) { ((m.parameters += s.bytes()), ...); }, stores_);
    for_each_versioned([&](auto const& store, auto const&) { m.versions += store.live(); });
    control_.for_each_held([&](commit_info const&, message const& held) { m.log += held.bytes(); });
    return m;
  }

  /// Carries out an order of the coordinator, unless it is of another stage, of an earlier life of
  /// its worker, or has been carried out before; returns the report on `enlist` and `freeze`.
  std::optional<membership_report> order(membership_order const& o,
                                         std::vector<worker_id>& released) {
    std::unique_lock guard(lock_);
    std::optional<membership_report> report;
    if (control_.accept(o) != refusal::none) return report;
    switch (o.what) {
      case membership_order::kind::enlist:
        report = membership_report{.clock = control_.enlist(o.worker, o.incarnation)};
        if constexpr (versioned) {
          for_each_versioned([&](auto const&, auto const& merge) {
            control_.raise_version(o.worker, merge.version_after(control_.reading(o.worker)));
          });
          report->version = control_.versions().of(o.worker);
        }
        break;
      case membership_order::kind::freeze:
        report = membership_report{.clock = control_.freeze(o.worker)};
        break;
      case membership_order::kind::start: control_.start(o.worker, o.clock, o.version); break;
      case membership_order::kind::drop: control_.drop(o.worker, o.clock); break;
    }
    settle(guard, released);
    return report;
  }

  /// The greatest number of versions that lived at one time in this stage, over all tables.
  [[nodiscard]] std::size_t versions_peak() const {
    std::lock_guard const guard(lock_);
    return versions_peak_;
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
  // ---- reads

  template <std::size_t I, class Slot>
  void answer(std::unique_lock<Mutex>& guard, read_header const& header, Slot& slot) {
    if constexpr (control_type::serial)
      folded_.wait(guard, [this] { return !folding_; });
    if constexpr (synchronized) {
      view_of<I> const seen = view<I>(header.cut.get());
      slot.stamp = control_.stamp_for(header.from.worker, *header.cut);
      seen.fill(slot);
      if constexpr (versioned)
        raise_version<I>(header.from.worker, slot, seen.seen_by(header.from.worker));
    } else if constexpr (control_type::serial) {
      slot.stamp = control_.stamp_for(header.from.worker);
      view<I>().fill(slot);
      if constexpr (versioned)
        raise_version<I>(header.from.worker, slot, control_.reading(header.from.worker));
    } else {
      slot.stamp = control_.stamp_for(header.from.worker);
      guard.unlock();
      view<I>().fill(slot);
    }
  }

  /// V moves on for whoever has read rows of a table that keeps versions, and old ones may be over.
  template <std::size_t I, class Slot>
  void raise_version(worker_id reader, Slot& slot, version_read const& seen) {
    if constexpr (keeps_versions<I>) {
      if (slot.asked != selection::nothing) {
        control_.raise_version(reader, std::get<I>(merges_).version_after(seen));
        expire();
      }
    }
    slot.stamp.version = control_.versions().of(reader);
  }

  template <std::size_t I>
  using view_of = shard_view<I, std::tuple_element_t<I, std::tuple<Tables...>>, table_store<I>,
                             std::tuple_element_t<I, merges>, control_type>;
  /// Table I at a cut; at none, all that there is.
  template <std::size_t I>
  [[nodiscard]] view_of<I> view(commit_cut const* cut = nullptr) const {
    return {store<I>(), std::get<I>(merges_), control_, cut};
  }

  // ---- folds

  /// Folds what has become ready, then lets in who may go on. One thread folds at a time, to keep
  /// the order; what another one adds meanwhile, the folder finds when it looks again.
  void settle(std::unique_lock<Mutex>& guard, std::vector<worker_id>& released) {
    if constexpr (control_type::serial) {
      if (folding_) return;
      folding_ = true;
      try {
        fold_ready(guard);
        expire();  // by a leave, for one
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
    for (auto ready = control_.take_ready(); !ready.empty(); ready = control_.take_ready())
      for (auto const& group : ready) {
        guard.unlock();
        std::vector<folding> step;
        for (auto const& [info, m] : group.commits) step.push_back({info, &m});
        fold(step);
        guard.lock();
        control_.note_folded(group);
        expire();
        note_versions();
      }
  }

  void note_versions() {
    std::size_t live = 0;
    for_each_versioned([&](auto const& store, auto const&) { live += store.live(); });
    versions_peak_ = std::max(versions_peak_, live);
  }

  /// Versions that no commit can belong to any more go into the base.
  void expire() {
    if constexpr (versioned) {
      version_window const window = control_.window();
      for_each_versioned([&](auto& store, auto const& merge) { store.expire(merge, window); });
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
    if constexpr (keeps_versions<I>) fold_versions<I>(commits);
    else fold_weighted<I>(commits);
  }

  /// Empty parts count too: every server and table counts the same updates of a version.
  template <std::size_t I>
  void fold_versions(std::span<folding const> commits) {
    auto const& merge = std::get<I>(merges_);
    for (folding const& f : commits)
      std::get<I>(stores_).add(merge.map(f.info), *std::get<I>(f.commit->parts),
                               merge.weight(f.info));
  }

  template <std::size_t I>
  void fold_weighted(std::span<folding const> commits) {
    auto const& merge = std::get<I>(merges_);
    constexpr bool has_velocity = velocity_merge<std::remove_cvref_t<decltype(merge)>>;
    std::optional<double> decay;
    if constexpr (has_velocity) decay = merge.decay();
    auto const weighted = [&](folding const& f) {
      return weighted_update<value_type<I>>{std::get<I>(f.commit->parts).get(),
                                            merge.weight(f.info)};
    };
    if (commits.size() == 1) {  // the common case allocates nothing
      weighted_update<value_type<I>> const one = weighted(commits.front());
      if (has_velocity || !one.part->empty()) std::get<I>(stores_).fold({&one, 1}, decay);
      return;
    }
    std::vector<weighted_update<value_type<I>>> many;
    for (auto const& f : commits) many.push_back(weighted(f));
    std::get<I>(stores_).fold(many, decay);
  }

  /// Calls `f(store, merge)` for the tables that keep versions.
  template <class F>
  void for_each_versioned(F f) {
    each_versioned(*this, f);
  }
  template <class F>
  void for_each_versioned(F f) const {
    each_versioned(*this, f);
  }
  template <class Self, class F>
  static void each_versioned(Self& self, F& f) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (visit_versioned<I>(self, f), ...);
    }(std::index_sequence_for<Tables...>{});
  }
  template <std::size_t I, class Self, class F>
  static void visit_versioned(Self& self, F& f) {
    if constexpr (keeps_versions<I>) f(std::get<I>(self.stores_), std::get<I>(self.merges_));
  }

  mutable Mutex lock_;
  control_type control_;
  bool folding_ = false;
  mutable std::condition_variable_any folded_;  ///< nobody folds any more
  std::size_t versions_peak_ = 0;
  merges merges_;
  stores stores_;
};

}  // namespace rubato
