// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/server/read_slot.hpp"
#include "rubato/storage/dense_store.hpp"
#include "rubato/transport/tcp/questions.hpp"
#include "rubato/worker/row_cache.hpp"

namespace rubato::detail {

/// What others than the asker may know of a state that came as an answer.
///
/// Which of their commits it holds: what left before the question did, is in; what left after the
/// answer came, is not. Where these are not the same, a worker cannot use it, or it would count some
/// commit twice or not at all. And whether it is older than what they have read before.
class shared_state {
 public:
  /// As the question leaves: by reader, the commits that have left before. `is_live`: the answer is
  /// read off the server's store while it is sent (`live_body`).
  shared_state(std::vector<clock_index> left_before, std::uint64_t now, bool is_whole, bool is_live)
      : first_(std::move(left_before)), asked_at_(now), is_whole_(is_whole), is_live_(is_live) {}
  /// As the answer is there: those that may have left by now.
  void answered(read_stamp const& stamp, std::vector<clock_index> left_by_now, std::uint64_t now) {
    stamp_ = stamp;
    last_ = std::move(left_by_now);
    came_at_ = now;
  }
  [[nodiscard]] read_stamp const& stamp() const noexcept { return stamp_; }

  /// What the stamp is for this reader, if that is known. What a server's clock implies is in, too:
  /// a question may have waited there.
  [[nodiscard]] std::optional<read_stamp> for_reader(std::size_t reader) const {
    if (!knows(reader)) return std::nullopt;  // it came later
    clock_index const least = std::max(first_[reader], stamp_.server_clock);
    clock_index const in = std::min(least, stamp_.folded_below);
    if (in != std::min(last_[reader], stamp_.folded_below)) return std::nullopt;
    read_stamp s = stamp_;
    s.included = in;
    return s;
  }
  /// Whether the reader was there when the question left.
  [[nodiscard]] bool knows(std::size_t reader) const noexcept { return reader < first_.size(); }
  /// @pre `knows(reader)`
  [[nodiscard]] clock_index left_before(std::size_t reader) const noexcept { return first_[reader]; }

  /// What a reader has read last: nothing older may follow. (A row's last answer is all that there is
  /// of it here, so that this is not older than what was read of it by key before.)
  struct floor {
    std::uint64_t whole = 0;
    std::uint64_t live = 0;  ///< the last whole one that was live
    std::uint64_t rows = 0;
  };
  /// Answers come in the order of the states that they hold; but a live one may be newer than those
  /// that were waiting behind it.
  [[nodiscard]] bool is_older_than(floor const& f) const noexcept {
    if (is_whole_ && came_at_ < f.rows) return true;
    return came_at_ < f.whole || (came_at_ != f.whole && will_be_older_than(f));
  }
  /// The same before it is there, as far as it can be known.
  [[nodiscard]] bool will_be_older_than(floor const& f) const noexcept {
    return !is_live_ && asked_at_ < f.live;
  }
  void raise(floor& f) const noexcept {
    if (!is_whole_) f.rows = std::max(f.rows, came_at_);
    else f.whole = came_at_;
    if (is_live_) f.live = came_at_;
  }

 private:
  std::vector<clock_index> first_;
  std::vector<clock_index> last_;
  std::uint64_t asked_at_;
  std::uint64_t came_at_ = 0;
  bool is_whole_;
  bool is_live_;
  read_stamp stamp_{};
};

/// What the workers of one process have fetched, between their own caches and the servers (rules §3):
/// many that miss the same rows issue one request (004 §6.3), and what one has fetched others may use
/// by the cache column of the admission rules (§2).
///
/// A request under way is joined by whoever needs no more than it asked for, or by whoever would be
/// let in at once, as it is: so nobody waits for longer than its own request would. A worker keeps
/// its own commits until an answer says that they are in, and adds those that an answer lacks.
/// Thread safety: any thread, but for `begin_stage`.
///
/// `Node` asks the servers: as `worker_node` does.
template <class Plan, class Node = worker_node>
class process_cache {
 public:
  template <std::size_t I>
  using slot_type = read_slot<typename Plan::template store_type<I>>;

  process_cache(Plan const& p, Node& node, std::uint64_t sparse_max)
      : plan_(p), node_(node), sparse_max_(sparse_max), servers_(p.servers()) {
    Plan::for_each_table([&](auto tag) {
      constexpr std::size_t I = decltype(tag)::index;
      for (std::uint32_t s = 0; s < p.servers(); ++s) std::get<I>(parts_).emplace_back(*this, server_id{s});
    });
  }
  ~process_cache() { node_.withdraw(asked_); }
  process_cache(process_cache const&) = delete;
  process_cache& operator=(process_cache const&) = delete;

  /// Forgets everything: clocks begin anew. Nobody waits here any more.
  void begin_stage() {
    node_.withdraw(asked_);
    std::lock_guard const guard(lock_);
    for (server_state& s : servers_) s = {};
    inquiries_.clear();
    Plan::for_each_table([&](auto tag) {
      for (auto& one : std::get<decltype(tag)::index>(parts_)) one.clear();
    });
  }

  /// A worker of this process, whose answers `asked` counts, at its first clock. Returns its number.
  std::size_t enlist(inquiry& asked, clock_index at) {
    std::lock_guard const guard(lock_);
    for (server_state& s : servers_) s.readers.push_back({at, at, at});
    inquiries_.push_back(&asked);
    return inquiries_.size() - 1;
  }
  /// Its commit to this server leaves now, and it will then be at clock `next`.
  void posting(std::size_t reader, server_id s, clock_index next) {
    std::lock_guard const guard(lock_);
    servers_[s.index()].readers[reader].may_have_left = next;
  }
  void posted(std::size_t reader, server_id s, clock_index next) {
    std::lock_guard const guard(lock_);
    servers_[s.index()].readers[reader].has_left = next;
  }

  /// Answers from what is here, or joins a request under way, or issues one; the reader's inquiry
  /// misses one answer more until the slot holds it. When it throws, nothing has been asked.
  template <std::size_t I>
  void request(std::size_t reader, server_id s, read_header const& read, slot_type<I>& slot) {
    part<I>& p = std::get<I>(parts_)[s.index()];
    std::unique_lock guard(lock_);
    inquiries_[reader]->missing.fetch_add(1, std::memory_order_relaxed);
    try {
      p.request(guard, reader, read, slot);
    } catch (...) {
      p.forget(reader);
      inquiries_[reader]->missing.fetch_sub(1, std::memory_order_relaxed);
      throw;
    }
  }
  /// The reader waits for nothing any more: its slots are not written to from now on.
  void forget(std::size_t reader) {
    std::lock_guard const guard(lock_);
    Plan::for_each_table([&](auto tag) {
      for (auto& one : std::get<decltype(tag)::index>(parts_)) one.forget(reader);
    });
  }

 private:
  /// Further behind than this, a state costs more to bring up to date than to fetch anew.
  static constexpr std::int64_t behind_max = 64;

  struct reader_state {
    clock_index has_left;       ///< commits below it certainly have
    clock_index may_have_left;
    clock_index known_in;       ///< the reader keeps no own commits below it
  };
  struct server_state {
    std::vector<reader_state> readers;
    clock_index known = clock_index::lowest();  ///< the greatest server clock that it told
  };

  template <std::size_t I>
  class part {
   public:
    using slot_t = slot_type<I>;
    using value_type = typename Plan::template value_type<I>;
    using snapshot_type = typename Plan::template snapshot_type<I>;

    part(process_cache& cache, server_id s)
        : cache_(cache),
          server_(s),
          width_(cache.plan_.template spec<I>().width),
          rows_(width_, capacity()) {}

    void clear() {
      under_way_.clear();
      whole_.reset();
      whole_seen_.reset();
      rows_.clear();
      floors_.clear();
    }
    void forget(std::size_t reader) {
      for (auto& f : under_way_)
        std::erase_if(f->waiting, [&](auto const& w) { return w.by->reader == reader; });
    }

    /// Asks the server by a question of the cache's own when no other way is left.
    void request(std::unique_lock<std::mutex>& guard, std::size_t reader, read_header const& read,
                 slot_t& slot) {
      auto const by = std::make_shared<pending>(pending{reader, read, &slot, 1, {}});
      slot.arrived = slot.admitted = {};
      wishes open;
      switch (slot.asked) {
        case selection::nothing:
          // Now and then it is told which of its commits are in, or it would keep them all.
          if (need(read) > state().known || distance(known_in(reader), read.clock) > behind_max / 2)
            break;
          slot.stamp = {.server_clock = state().known, .included = known_in(reader)};
          return finish(*by);
        case selection::all:
          if (whole_seen_ && fill_whole(*by, *whole_seen_, *whole_)) return finish(*by);
          if (join_whole(by)) return;
          break;
        case selection::rows:
          slot.values.resize(slot.rows.size() * width_);
          slot.row_stamps.assign(slot.rows.size(), {});
          open = fill_rows(*by);
          join_rows(by, open);
          if (open.empty() && by->answers_missing == 1) return finish(*by);
          if (open.empty()) {
            --by->answers_missing;
            return;
          }
          break;
      }
      fetch& f = begin_fetch(by, std::move(open));
      guard.unlock();
      try {
        cache_.node_.ask(server_, f.question);
      } catch (...) {
        guard.lock();
        abandon(f, std::current_exception());
        throw;
      }
    }

   private:
    using visibility = visibility_of<typename Plan::protocol_type>;

    struct shared_mark {
      clock_index server_clock = clock_index::lowest();
      std::shared_ptr<shared_state const> seen = {};
    };
    /// A read of a worker that waits for one or more requests.
    struct pending {
      std::size_t reader;
      read_header read;
      slot_t* slot;
      std::size_t answers_missing;
      duration held;
    };
    struct wish {
      std::size_t index;  ///< in the reader's slot
      std::size_t at;     ///< in the request's
    };
    using wishes = std::vector<wish>;
    struct waiter {
      std::shared_ptr<pending> by;
      wishes rows;
    };
    struct fetch;
    struct shared_question final : read_question<I, Plan> {
      shared_question(part& p, fetch& f)
          : read_question<I, Plan>(p.cache_.plan_, p.server_, p.cache_.sparse_max_), of(p), self(f) {}
      void done(refusal why) override { of.answered(self, why); }
      part& of;
      fetch& self;
    };
    struct fetch {
      fetch(part& p, pending const& by, clock_index n, std::vector<clock_index> left)
          : asker(by.reader),
            need(n),
            seen(std::make_shared<shared_state>(std::move(left), p.now_,
                                                by.slot->asked == selection::all,
                                                is_live(by.slot->asked))),
            question(p, *this) {
        slot.asked = by.slot->asked;
      }
      std::size_t asker;
      clock_index need;
      std::shared_ptr<shared_state> seen;
      slot_t slot;
      shared_question question;
      std::vector<waiter> waiting;
    };

    /// Whether such an answer is read off the store while it is sent; at least where it is.
    [[nodiscard]] static constexpr bool is_live(selection asked) noexcept {
      return asked == selection::all && is_dense_state<snapshot_type> && !visibility::holds_back;
    }
    /// Of what the process may keep, this server's share.
    [[nodiscard]] std::size_t capacity() const {
      std::uint64_t const servers = cache_.plan_.servers();
      std::uint64_t const all = cache_.plan_.template spec<I>().cached_rows;
      return static_cast<std::size_t>((all + servers - 1) / servers);
    }
    [[nodiscard]] server_state& state() noexcept { return cache_.servers_[server_.index()]; }
    [[nodiscard]] clock_index known_in(std::size_t reader) noexcept {
      return state().readers[reader].known_in;
    }
    [[nodiscard]] shared_state::floor& floor_of(std::size_t reader) {
      if (reader >= floors_.size()) floors_.resize(reader + 1);
      return floors_[reader];
    }
    [[nodiscard]] clock_index need(read_header const& r) const {
      return cache_.admission().need(r.clock, r.bound);
    }
    [[nodiscard]] clock_index cache_need(read_header const& r) const {
      return cache_.admission().cache_need(r.clock, r.bound);
    }

    /// The stamp of a state for whoever may use it.
    [[nodiscard]] std::optional<read_stamp> usable(pending const& by, shared_state const& seen,
                                                   clock_index least) {
      if (seen.stamp().server_clock < least || seen.is_older_than(floor_of(by.reader)))
        return std::nullopt;
      auto const stamp = seen.for_reader(by.reader);
      return stamp && stamp->included >= known_in(by.reader) ? stamp : std::nullopt;
    }

    // ---- from what is here

    [[nodiscard]] std::optional<read_stamp> cached(pending const& by, shared_state const& seen) {
      auto const stamp = usable(by, seen, cache_need(by.read));
      return stamp && distance(stamp->included, by.read.clock) <= behind_max ? stamp : std::nullopt;
    }

    bool fill_whole(pending& by, shared_state const& seen,
                    snapshot_type const& from) {
      auto const stamp = cached(by, seen);
      if (!stamp) return false;
      seen.raise(floor_of(by.reader));
      by.slot->snapshot = shared(from);
      by.slot->stamp = *stamp;
      return true;
    }

    /// Fills the rows that are here, and returns the others.
    [[nodiscard]] wishes fill_rows(pending& by) {
      wishes open;
      for (std::size_t i = 0; i < by.slot->rows.size(); ++i) {
        auto const* const e = rows_.use(key{by.slot->rows[i]});
        auto const stamp = e == nullptr ? std::nullopt : cached(by, *e->mark.seen);
        if (stamp) {
          e->mark.seen->raise(floor_of(by.reader));
          put_row(by, i, *stamp, rows_.values(*e));
        } else {
          open.push_back({i, 0});
        }
      }
      return open;
    }

    void put_row(pending& by, std::size_t index, read_stamp const& stamp, value_type const* from) {
      std::copy_n(from, width_, by.slot->values.data() + index * width_);
      by.slot->row_stamps[index] = stamp;
    }

    // ---- requests under way

    /// Whether this request's answer will do for the reader, and come no later than its own would.
    [[nodiscard]] bool joinable(pending const& by, fetch const& f) {
      clock_index const mine = need(by.read);
      clock_index const known = state().known;
      if (f.need != mine && (f.need > known || mine > known)) return false;
      if (!f.seen->knows(by.reader) || f.seen->will_be_older_than(floor_of(by.reader))) return false;
      // A server that is at the reader's clock has all of its commits.
      return mine >= by.read.clock || f.seen->left_before(by.reader) == by.read.clock;
    }

    bool join_whole(std::shared_ptr<pending> const& by) {
      for (auto& f : under_way_)
        if (f->slot.asked == selection::all && joinable(*by, *f)) {
          f->waiting.push_back({by, {}});
          return true;
        }
      return false;
    }

    /// Joins requests for rows that are open, and takes those off the list.
    void join_rows(std::shared_ptr<pending> const& by, wishes& open) {
      for (auto& f : under_way_) {
        if (open.empty()) return;
        if (f->slot.asked != selection::rows || !joinable(*by, *f)) continue;
        waiter w{by, {}};
        std::erase_if(open, [&](wish const& one) {
          auto const at = std::ranges::find(f->slot.rows, by->slot->rows[one.index]);
          if (at == f->slot.rows.end()) return false;
          w.rows.push_back({one.index, static_cast<std::size_t>(at - f->slot.rows.begin())});
          return true;
        });
        if (w.rows.empty()) continue;
        ++by->answers_missing;
        f->waiting.push_back(std::move(w));
      }
    }

    /// A request of the cache's own, on behalf of this reader.
    fetch& begin_fetch(std::shared_ptr<pending> const& by, wishes open) {
      auto made = std::make_unique<fetch>(*this, *by, need(by->read), left());
      fetch& f = *made;
      for (wish& one : open) {
        one.at = f.slot.rows.size();
        f.slot.rows.push_back(by->slot->rows[one.index]);
      }
      f.waiting.push_back({by, std::move(open)});
      f.question.renew(by->read, f.slot, cache_.asked_);
      under_way_.push_back(std::move(made));  // last: all before may throw
      return f;
    }
    [[nodiscard]] std::unique_ptr<fetch> take(fetch& f) {
      auto const at = std::ranges::find_if(under_way_, [&](auto const& u) { return u.get() == &f; });
      std::unique_ptr<fetch> taken = std::move(*at);
      under_way_.erase(at);
      return taken;
    }
    /// It could not be asked. Others may have joined since it was listed: they hear why. (They look when
    /// the asker's thread withdraws, which takes the turn.)
    void abandon(fetch& f, std::exception_ptr const& why) {
      std::unique_ptr<fetch> const self = take(f);
      for (waiter& w : self->waiting) {
        if (w.by->reader == f.asker) continue;
        cache_.inquiries_[w.by->reader]->failure = why;
        if (--w.by->answers_missing == 0) finish(*w.by);
      }
    }

    [[nodiscard]] std::vector<clock_index> left() {
      std::vector<clock_index> all;
      for (reader_state const& r : state().readers) all.push_back(r.has_left);
      return all;
    }
    [[nodiscard]] std::vector<clock_index> left_by_now() {
      std::vector<clock_index> all;
      for (reader_state const& r : state().readers) all.push_back(r.may_have_left);
      return all;
    }

    // ---- answers

    /// In the turn of whoever heard it.
    void answered(fetch& f, refusal why) {
      std::lock_guard const guard(cache_.lock_);
      std::unique_ptr<fetch> const self = take(f);
      cache_.asked_.missing.fetch_sub(1, std::memory_order_relaxed);
      if (why == refusal::none) {
        self->seen->answered(self->slot.stamp, left_by_now(), ++now_);
        state().known = std::max(state().known, self->slot.stamp.server_clock);
        keep(*self);
      }
      for (waiter& w : self->waiting) {
        if (why != refusal::none) cache_.inquiries_[w.by->reader]->refused.store(why, std::memory_order_relaxed);
        w.by->held = std::max(w.by->held, self->slot.admitted - self->slot.arrived);
        if (why == refusal::none && !serve(w, *self)) ask_again(w);
        else if (--w.by->answers_missing == 0) finish(*w.by);
      }
    }

    void keep(fetch& f) {
      read_header probe{};
      probe.bound = cache_.admission().bound();
      if (cache_need(probe) == clock_index::highest()) return;  // it would never be used
      if (f.slot.asked == selection::all) {
        if (whole_seen_ && whole_seen_->stamp().server_clock > f.slot.stamp.server_clock) return;
        whole_ = shared(f.slot.snapshot);
        whole_seen_ = f.seen;
      } else if (f.slot.asked == selection::rows) {
        for (std::size_t i = 0; i < f.slot.rows.size(); ++i)
          rows_.put(key{f.slot.rows[i]}, {f.slot.stamp.server_clock, f.seen},
                    f.slot.values.data() + i * width_);
      }
    }

    /// Whether the answer did for this reader.
    bool serve(waiter& w, fetch& f) {
      bool const own = w.by->reader == f.asker;
      std::optional const stamp = own ? f.slot.stamp : usable(*w.by, *f.seen, need(w.by->read));
      if (!stamp) return false;
      w.by->slot->stamp = *stamp;
      if (f.slot.asked != selection::nothing) f.seen->raise(floor_of(w.by->reader));
      if (f.slot.asked == selection::all) w.by->slot->snapshot = shared(f.slot.snapshot);
      for (wish const& one : w.rows)
        put_row(*w.by, one.index, *stamp, f.slot.values.data() + one.at * width_);
      return true;
    }

    /// Its own commits left while another's request was under way: it asks for itself.
    void ask_again(waiter& w) {
      fetch& f = begin_fetch(w.by, std::move(w.rows));
      cache_.node_.ask_in_turn(server_, f.question);
    }

    /// The slot holds the answer.
    void finish(pending& by) {
      slot_t& slot = *by.slot;
      if (slot.asked == selection::rows && !slot.row_stamps.empty()) {
        slot.stamp = slot.row_stamps.front();
        for (read_stamp const& s : slot.row_stamps) {
          slot.stamp.server_clock = std::min(slot.stamp.server_clock, s.server_clock);
          slot.stamp.included = std::min(slot.stamp.included, s.included);
          slot.stamp.version = std::max(slot.stamp.version, s.version);
        }
      }
      slot.admitted = slot.arrived + by.held;
      reader_state& reader = state().readers[by.reader];
      reader.known_in = std::max(reader.known_in, slot.stamp.included);
      cache_.inquiries_[by.reader]->missing.fetch_sub(1, std::memory_order_release);
    }

    template <class Snapshot>
    [[nodiscard]] static Snapshot shared(Snapshot const& s) {
      if constexpr (is_dense_state<Snapshot>) return s.share();
      else return s;
    }

    process_cache& cache_;
    server_id server_;
    std::size_t width_;
    std::vector<std::unique_ptr<fetch>> under_way_;
    std::uint64_t now_ = 0;  ///< answers that have come
    std::vector<shared_state::floor> floors_;  ///< by reader
    std::optional<snapshot_type> whole_;
    std::shared_ptr<shared_state const> whole_seen_;
    row_cache<value_type, shared_mark> rows_;
  };

  template <class Sequence>
  struct parts_of;
  template <std::size_t... I>
  struct parts_of<std::index_sequence<I...>> {
    using type = std::tuple<std::deque<part<I>>...>;
  };

  [[nodiscard]] auto admission() const { return plan_.protocol_used().admission(); }

  Plan const& plan_;
  Node& node_;
  std::uint64_t sparse_max_;
  inquiry asked_;  ///< of the cache's own questions; nobody waits for it

  std::mutex lock_;  ///< what follows
  std::vector<server_state> servers_;
  std::vector<inquiry*> inquiries_;  ///< by reader
  typename parts_of<std::make_index_sequence<Plan::table_count>>::type parts_;
};

}  // namespace rubato::detail
