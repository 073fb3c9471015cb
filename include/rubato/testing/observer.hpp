// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"

namespace rubato::testing {

/// What an observer holds a run to; the rules' names are those of `protocol-rules.md` §2.
struct rules {
  /// The protocol's s: SSP-1 and SSP-3.
  staleness bound = {};
  /// SSP-4: a read at clock c reflects of others only stamps below `newest(c)`; c + s under the
  /// strict window, c + s + 1 under the eager one. Under held-back visibility also the stamps that
  /// are folded once the slowest worker is at c.
  std::function<clock_index(clock_index)> newest = {};
  /// Whether commits are held back at all.
  bool holds_back = false;
  /// BSP: reads at one clock, before own pushes, are equal bit for bit.
  bool barrier = false;
  /// Nobody waits for more than c − s: true of all shipped protocols, not required of a user's.
  bool minimal_waits = true;
  /// A commit is seen whole or not at all on each server. Not so under eager visibility on threads,
  /// where chunks are folded one after the other.
  bool atomic_servers = true;
  /// PS-1: what is fetched of a whole table reflects the same commits of the others on all servers.
  /// How much servers hold back then is not checked: it depends on which reads are under way.
  bool same_cut = false;
};

/// The rules of eager visibility with this staleness.
[[nodiscard]] inline rules eager_rules(staleness s) {
  return {.bound = s, .newest = [s](clock_index c) { return (c + s).next(); }};
}

/// The rules of synchronized visibility with this staleness.
[[nodiscard]] inline rules synchronized_rules(staleness s) {
  rules r = eager_rules(s);
  r.holds_back = true;
  r.same_cut = true;
  return r;
}

/// The rules of strict visibility with this staleness; with 0 those of the barrier.
[[nodiscard]] inline rules strict_rules(staleness s) {
  return {.bound = s,
          .newest = [s](clock_index c) { return c + s; },
          .holds_back = true,
          .barrier = s == staleness{0}};
}

namespace detail {

template <class... Parts>
[[nodiscard]] std::string text(Parts const&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

[[nodiscard]] inline std::string text(clock_index c) {
  if (c == clock_index::highest()) return "infinity";
  if (c == clock_index::lowest()) return "-infinity";
  return std::to_string(c.value());
}

/// What one worker has pushed to each row of one table: in all, and up to each of its commits.
class ledger {
 public:
  ledger() = default;
  explicit ledger(std::size_t rows) : pushed_(rows) {}

  /// The worker's first clock: nothing was committed below it.
  void start(std::int64_t clock) {
    first_ = clock;
    at_commit_ = pushed_;
  }
  void push(std::size_t row, std::int64_t amount) { pushed_[row] += amount; }
  void commit() { at_commit_.insert(at_commit_.end(), pushed_.begin(), pushed_.end()); }
  void retract() { at_commit_.resize(at_commit_.size() - pushed_.size()); }

  [[nodiscard]] std::int64_t pushed(std::size_t row) const { return pushed_[row]; }
  [[nodiscard]] std::int64_t last() const {
    return first_ + static_cast<std::int64_t>(at_commit_.size() / pushed_.size()) - 1;
  }
  /// What a row holds when it reflects the stamps below `clock`, as far as there are any.
  [[nodiscard]] std::int64_t below(clock_index clock, std::size_t row) const {
    return at(std::clamp(clock.value(), first_, last()), row);
  }
  /// The clocks that a row may reflect which holds `value`: first and last; none if first > last.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> clocks(std::int64_t value,
                                                             std::size_t row) const {
    std::int64_t low = first_;
    std::int64_t high = last() + 1;
    while (low < high) {  // the first clock with at least this value
      std::int64_t const middle = low + (high - low) / 2;
      if (at(middle, row) < value)
        low = middle + 1;
      else
        high = middle;
    }
    std::int64_t end = low;
    while (end <= last() && at(end, row) == value) ++end;
    return {low, end - 1};
  }

 private:
  [[nodiscard]] std::int64_t at(std::int64_t clock, std::size_t row) const {
    return at_commit_[static_cast<std::size_t>(clock - first_) * pushed_.size() + row];
  }

  std::int64_t first_ = 0;
  std::vector<std::int64_t> pushed_;
  std::vector<std::int64_t> at_commit_;  // one block of rows per clock, from first_ on
};

}  // namespace detail

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
  observer(rules r, std::uint32_t starters, std::uint32_t workers,
           std::vector<std::vector<std::uint32_t>> servers_of)
      : rules_(std::move(r)), workers_(workers), servers_of_(std::move(servers_of)) {
    members_.resize(workers);
    for (std::uint32_t w = 0; w < workers; ++w) {
      members_[w].now = w < starters ? state::live : state::absent;
      for (auto const& rows : servers_of_) {
        members_[w].tables.emplace_back(rows.size());
        members_[w].tables.back().start(0);
      }
    }
    for (auto const& rows : servers_of_) seen_.emplace_back(2 * workers * rows.size() * workers, 0);
  }

  // ---- told by the bodies

  /// The body has begun; a joiner starts at a clock of its own.
  void started(std::uint32_t w, clock_index at) {
    std::lock_guard const guard(lock_);
    member& m = members_.at(w);
    bool const joiner = m.now == state::absent;
    m.now = state::live;
    m.started = m.begun = m.done = at.value();
    for (auto& t : m.tables) t.start(at.value());
    if (!joiner && at != clock_index{0})
      fail("worker ", w, " began with the run, but at clock ", at.value());
    // The greatest of the shards' c_min when they registered it, and it has held them there since.
    if (joiner && !published_.empty() && std::ranges::max(published_) != at)
      fail("worker ", w, " joined at clock ", at.value(),
           ", but the greatest c_min of a server is ", std::ranges::max(published_).value());
  }
  /// About to push `amount` > 0 to its column of a row.
  void pushing(std::uint32_t w, std::size_t table, std::size_t row, std::int64_t amount) {
    std::lock_guard const guard(lock_);
    members_[w].tables[table].push(row, amount);
  }
  /// About to commit.
  void committing(std::uint32_t w) {
    std::lock_guard const guard(lock_);
    member& m = members_[w];
    ++m.begun;
    for (auto& t : m.tables) t.commit();
  }
  /// The commit has been sent: the worker is at its next clock.
  void committed(std::uint32_t w, clock_index now) {
    std::lock_guard const guard(lock_);
    member& m = members_[w];
    m.done = m.begun;
    if (now.value() != m.done)
      fail("worker ", w, " has committed ", m.done, " times, but its clock is ", now.value());
  }
  /// What `committing` announced did not happen: the pace went on.
  void not_committed(std::uint32_t w) {
    std::lock_guard const guard(lock_);
    member& m = members_[w];
    --m.begun;
    for (auto& t : m.tables) t.retract();
  }
  /// About to do what may wait, with this staleness.
  void asking(std::uint32_t w, staleness s) {
    std::lock_guard const guard(lock_);
    members_[w].asked = std::min(s, rules_.bound);
  }
  /// The body ends by itself.
  void left(std::uint32_t w) {
    std::lock_guard const guard(lock_);
    members_[w].now = state::left;
  }
  /// The body was unwound.
  void crashed(std::uint32_t w) {
    std::lock_guard const guard(lock_);
    members_[w].now = state::crashed;
  }

  /// Worker `w` has read `rows` of a counting table: `values` holds one row after the other.
  void read(std::uint32_t w, staleness s, std::size_t table, kind how,
            std::span<std::uint64_t const> rows, std::span<std::int64_t const> values) {
    if (rows.empty()) return;  // of nothing, which waits for nobody
    std::lock_guard const guard(lock_);
    clock_index const c{members_[w].done};
    if (auto const least = c_min(); c - std::min(s, rules_.bound) > least)
      fail("SSP-3: worker ", w, " reads at clock ", c.value(), " while c_min is ", least.value());
    for (std::size_t i = 0; i < rows.size(); ++i)
      for (std::uint32_t m = 0; m < workers_; ++m)
        check_cell(w, c, s, table, how, static_cast<std::size_t>(rows[i]), m,
                   values[i * workers_ + m]);
    if (how == kind::whole && rules_.atomic_servers) check_whole(w, table, values);
  }

  /// Worker `w` has read a whole table at its clock without pushes of its own since its last
  /// commit: under the barrier every such read at one clock has the same bytes.
  void read_before_pushes(std::uint32_t w, std::size_t table, std::span<std::byte const> bytes) {
    if (!rules_.barrier) return;
    std::lock_guard const guard(lock_);
    auto const [at, first] = agreed_.try_emplace(std::pair(table, members_[w].done));
    if (first)
      at->second.assign(bytes.begin(), bytes.end());
    else if (!std::ranges::equal(at->second, bytes))
      fail("BSP: worker ", w, " reads other parameters of table ", table, " at clock ",
           members_[w].done, " than another worker did");
  }

  // ---- after every event of a simulated run

  /// Checks the servers' side against the truth: `servers` is what `cluster.servers()` gives.
  template <class System>
  void check_servers(System const& servers) {
    std::lock_guard const guard(lock_);
    published_.resize(servers.servers(), clock_index{0});
    for (std::uint32_t s = 0; s < servers.servers(); ++s)
      servers.server(server_id{s}).inspect([&](auto const& control) { check_server(s, control); });
    clock_index const limit = (c_min() + rules_.bound).next();
    for (std::uint32_t w = 0; w < workers_; ++w)
      if (members_[w].now == state::live && clock_index{members_[w].done} > limit)
        fail("worker ", w, " stands at clock ", members_[w].done,
             ", beyond c_min + s + 1 = ", detail::text(limit));
  }

  // ---- at the end

  /// Checks what a counting table holds after the run: all rows, one after the other. Every commit
  /// of whoever was not lost is there exactly once, of the others whole ones.
  void finish(std::size_t table, std::span<std::int64_t const> values) {
    std::lock_guard const guard(lock_);
    for (std::size_t row = 0; row < servers_of_[table].size(); ++row)
      for (std::uint32_t w = 0; w < workers_; ++w) {
        member const& m = members_[w];
        std::int64_t const value = values[row * workers_ + w];
        if (m.now != state::crashed && value != m.tables[table].pushed(row))
          fail("in the end row ", row, " of table ", table, " holds ", value, " of worker ", w,
               ", which pushed ", m.tables[table].pushed(row));
        if (m.now != state::crashed) continue;
        auto const [first, last] = m.tables[table].clocks(value, row);
        if (first > last)
          fail("in the end row ", row, " of table ", table, " holds ", value, " of worker ", w,
               ", which are no whole commits");
      }
  }

  /// How many commits of lost workers are on some servers only, summed over the servers; by what a
  /// counting table holds to which they pushed every row in every commit.
  [[nodiscard]] std::uint64_t partly_folded(std::size_t table,
                                            std::span<std::int64_t const> values) const {
    std::lock_guard const guard(lock_);
    std::uint64_t total = 0;
    for (std::uint32_t w = 0; w < workers_; ++w) {
      if (members_[w].now != state::crashed) continue;
      std::map<std::uint32_t, std::int64_t> reached;
      for (std::size_t row = 0; row < servers_of_[table].size(); ++row)
        reached[servers_of_[table][row]] =
            members_[w].tables[table].clocks(values[row * workers_ + w], row).first;
      std::int64_t least = members_[w].begun;
      for (auto const& [server, clock] : reached) least = std::min(least, clock);
      for (auto const& [server, clock] : reached)
        total += static_cast<std::uint64_t>(clock - least);
    }
    return total;
  }

  /// That all commits which lost workers had sent in full are there: so where no message can be
  /// under way for longer than it takes to notice the loss.
  void finish_lost(std::size_t table, std::span<std::int64_t const> values) {
    std::lock_guard const guard(lock_);
    for (std::size_t row = 0; row < servers_of_[table].size(); ++row)
      for (std::uint32_t w = 0; w < workers_; ++w) {
        member const& m = members_[w];
        std::int64_t const sent = m.tables[table].below(clock_index{m.done}, row);
        if (m.now == state::crashed && values[row * workers_ + w] < sent)
          fail("in the end row ", row, " of table ", table, " lacks commits of lost worker ", w,
               " that every server had received");
      }
  }

  /// Reports a breach that the caller found.
  template <class... Parts>
  void breach(Parts const&... parts) {
    std::lock_guard const guard(lock_);
    fail(parts...);
  }

  /// One sentence for each breach, at most 20.
  [[nodiscard]] std::vector<std::string> violations() const {
    std::lock_guard const guard(lock_);
    return violations_;
  }
  /// How many commits the workers have begun, over all of them.
  [[nodiscard]] std::uint64_t commits() const {
    std::lock_guard const guard(lock_);
    std::uint64_t total = 0;
    for (member const& m : members_) total += static_cast<std::uint64_t>(m.begun - m.started);
    return total;
  }

 private:
  enum class state : std::uint8_t { absent, live, left, crashed };
  struct member {
    state now = state::absent;
    std::int64_t started = 0;
    std::int64_t begun = 0;  ///< its clock once the commit under way has been sent
    std::int64_t done = 0;   ///< its clock
    staleness asked{};
    std::vector<detail::ledger> tables;
  };

  template <class... Parts>
  void fail(Parts const&... parts) {
    if (violations_.size() < 20) violations_.push_back(detail::text(parts...));
  }

  /// The slowest live worker's clock. A commit counts from its beginning, for a part of it may have
  /// arrived; whoever has left or was lost does not count, even if the servers do not know yet. So
  /// what servers hold for c_min is never above it.
  [[nodiscard]] clock_index c_min() const {
    clock_index least = clock_index::highest();
    for (member const& m : members_)
      if (m.now == state::live) least = std::min(least, clock_index{m.begun});
    return least;
  }

  void check_cell(std::uint32_t reader, clock_index c, staleness s, std::size_t table, kind how,
                  std::size_t row, std::uint32_t w, std::int64_t value) {
    member const& m = members_[w];
    detail::ledger const& truth = m.tables[table];
    auto const say = [&](char const* rule, auto const&... what) {
      fail(rule, ": worker ", reader, " at clock ", c.value(), " reads ", value, " of worker ", w,
           " in row ", row, " of table ", table, ", ", what...);
    };
    std::int64_t& before =
        seen_[table]
             [((static_cast<std::size_t>(how) * workers_ + reader) * servers_of_[table].size() +
               row) *
                  workers_ +
              w];
    if (value < before) say("cache", "but read ", before, " before");
    before = std::max(before, value);
    if (w == reader) {
      if (value != truth.pushed(row)) say("SSP-2", "but has pushed ", truth.pushed(row));
      return;
    }
    auto const [first, last] = truth.clocks(value, row);
    if (first > last) return say("SSP-1", "which are no whole commits, each once");
    clock_index const need = c - std::min(s, rules_.bound);
    if (m.now != state::crashed && value < truth.below(need, row))
      say("SSP-1", "expected all stamps below ", detail::text(need));
    if (first > m.started && clock_index{first} > rules_.newest(c))
      say("SSP-4", "which includes stamp ", first - 1, ", expected stamps below ",
          detail::text(rules_.newest(c)));
  }

  /// The rows that were fetched together reflect the same commits on each server, and on all of
  /// them where reads are synchronized.
  void check_whole(std::uint32_t reader, std::size_t table, std::span<std::int64_t const> values) {
    for (std::uint32_t w = 0; w < workers_; ++w) {
      if (w == reader) continue;
      std::map<std::uint32_t, std::pair<std::int64_t, std::int64_t>> common;
      for (std::size_t row = 0; row < servers_of_[table].size(); ++row) {
        auto const here = members_[w].tables[table].clocks(values[row * workers_ + w], row);
        auto& both = common.try_emplace(servers_of_[table][row], here).first->second;
        both = {std::max(both.first, here.first), std::min(both.second, here.second)};
      }
      auto cut = common.begin()->second;
      for (auto const& [server, both] : common) {
        if (both.first > both.second)
          fail("SSP-1: worker ", reader, " reads part of a commit of worker ", w, " from server ",
               server);
        cut = {std::max(cut.first, both.first), std::min(cut.second, both.second)};
      }
      if (rules_.same_cut && cut.first > cut.second)
        fail("PS-1: worker ", reader, " reads commits of worker ", w, " up to stamp ",
             cut.first - 1, " from one server, but not that of stamp ", cut.second,
             " from another one");
    }
  }

  template <class Control>
  void check_server(std::uint32_t s, Control const& control) {
    clock_index const published = control.published();
    if (published < published_[s])
      fail("c_min of server ", s, " fell from ", published_[s].value(), " to ", published.value());
    published_[s] = published;
    if (published > c_min())
      fail("server ", s, " holds c_min for ", published.value(), ", but it is ", c_min().value());
    for (auto const& ticket : control.waiting().tickets()) {
      member const& m = members_[ticket.worker.index()];
      clock_index const need = ticket.clock - m.asked;
      if (ticket.need <= published || (rules_.minimal_waits && need <= published))
        fail("worker ", ticket.worker.value(), " waits at server ", s, " for c_min ",
             detail::text(std::min(need, ticket.need)), ", which is ", published.value());
    }
    if (!rules_.same_cut) check_held_back(s, published, control.held_back());
  }

  /// What is held back has stamps that nobody may see yet: with the strict window and servers that
  /// hear of commits at once, one commit of each worker.
  void check_held_back(std::uint32_t s, clock_index published, std::size_t held) {
    clock_index const folded = rules_.newest(published);
    std::int64_t most = 0;
    for (member const& m : members_)
      if (rules_.holds_back && clock_index{m.begun} > folded)
        most += m.begun - std::max(folded.value(), m.started);
    if (static_cast<std::int64_t>(held) > most)
      fail("server ", s, " holds back ", held, " commits, expected at most ", most);
  }

  mutable std::mutex lock_;
  rules rules_;
  std::uint32_t workers_;
  std::vector<std::vector<std::uint32_t>> servers_of_;
  std::vector<member> members_;
  std::vector<std::vector<std::int64_t>> seen_;  // by table: what each reader last saw, by kind
  std::map<std::pair<std::size_t, std::int64_t>, std::vector<std::byte>> agreed_;
  std::vector<clock_index> published_;
  std::vector<std::string> violations_;
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
