// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <exception>
#include <limits>
#include <optional>
#include <rubato/cluster/cluster.hpp>
#include <rubato/partition/locator.hpp>
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/server/server_group.hpp>
#include <rubato/storage/multi_version.hpp>
#include <rubato/testing/observer.hpp>
#include <rubato/testing/schedule.hpp>
#include <rubato/transport/simulated.hpp>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace rubato::test {

/// What a commit table's run is held to.
struct commit_rules {
  staleness bound{};
  bool exact = true;      ///< DYN-5: versions::exact
  bool eager = false;     ///< servers fold what they receive at once
  bool same_cut = false;  ///< PS-1
  bool versioned = true;  ///< else nothing is checked, reads are only recorded
  bool bounded = false;   ///< DYN-2: the number of live versions; `run_commits` decides
};

/// Knows which updates a run should hold, by content.
///
/// The table's columns are the commits: a commit adds 1 to its own column in the rows that it
/// pushes. What a row holds then says which commits it includes and what each counts: 1 over the
/// number of updates of its version, or 1 while it is the reader's own and not fetched yet. Which
/// version that is tells a merge that is listened to.
class commit_book {
 public:
  static constexpr double constant = 0.25;  ///< the last column: a row's initial value, per row

  commit_book(commit_rules r, std::vector<std::uint32_t> servers_of, std::uint32_t servers,
              std::uint32_t workers, std::size_t commits_max)
      : rules_(r),
        servers_of_(std::move(servers_of)),
        servers_(servers),
        span_(commits_max),
        members_(workers),
        shards_(servers) {}

  [[nodiscard]] std::size_t rows() const noexcept { return servers_of_.size(); }
  [[nodiscard]] std::size_t width() const noexcept { return members_.size() * span_ + 1; }
  [[nodiscard]] std::uint32_t server_of(std::size_t row) const { return servers_of_[row]; }
  [[nodiscard]] std::vector<double> initial() const {
    std::vector<double> all(rows() * width());
    for (std::size_t row = 0; row < rows(); ++row)
      all[row * width() + width() - 1] = constant * static_cast<double>(row);
    return all;
  }

  // ---- told by the bodies

  void started(std::uint32_t w, clock_index at) {
    members_[w].now = state::live;
    members_[w].started = at.value();
    members_[w].commits.emplace_back(rows());
  }
  /// The column of the commit that the worker is about to make.
  [[nodiscard]] std::size_t column(std::uint32_t w) const {
    return w * span_ + members_[w].commits.size() - 1;
  }
  void pushing(std::uint32_t w, std::size_t row) { members_[w].commits.back().pushed[row] = true; }
  void committing(std::uint32_t w) {
    member& m = members_[w];
    m.commits.back().above = m.contains;
    ++m.begun;
    m.commits.emplace_back(rows());
  }
  void left(std::uint32_t w) { members_[w].now = state::left; }
  void crashed(std::uint32_t w) { members_[w].now = state::crashed; }

  /// A merge was told of a commit's version: the same on all servers and tables (DYN-4, DYN-5).
  void learn(commit_info const& c) noexcept {
    member& m = members_[c.from.index()];
    auto const i = static_cast<std::size_t>(c.stamp.value() - m.started);
    if (i >= m.begun) return fail("a commit of worker ", c.from.value(), " that it never made");
    commit& known = m.commits[i];
    std::int64_t const v = c.version.value();
    if (known.version == v) return;
    auto const say = [&](auto const&... what) {
      fail("commit ", c.stamp.value(), " of worker ", c.from.value(), " has version ", v, what...);
    };
    if (known.version != none) return say(", but ", known.version, " elsewhere");
    known.version = v;
    if (v < c.stamp.value()) say(", older than its clock (DYN-4)");
    if (i != 0 && m.commits[i - 1].version >= v)
      say(", not newer than the one before it (DYN-4), which has ", m.commits[i - 1].version);
    if (i + 1 < m.begun && m.commits[i + 1].version != none && m.commits[i + 1].version <= v)
      say(", not older than the one after it (DYN-4)");
    if (rules_.exact && v <= known.above)
      say(", but its replica contained version ", known.above, " (DYN-5)");
  }

  // ---- reads

  /// Rows of one server that reflect one state: places in a read.
  using together = std::vector<std::size_t>;

  /// Worker `w` at this clock has read `rows` with staleness `s`. The rows of a group reflect one
  /// state; the first `one_pull` groups come from one pull.
  void read(std::uint32_t w, clock_index c, staleness s, std::span<std::uint64_t const> rows,
            std::span<double const> values, std::span<together const> groups,
            std::size_t one_pull) {
    ++reads;
    if (!rules_.versioned) return;
    clock_index const need = c - std::min(s, rules_.bound);
    std::vector<cut> all;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      cut const here = check_state(w, need, rows, values, groups[g]);
      if (g < one_pull) all.push_back(here);
    }
    if (all.size() > 1) check_cut(w, all);
  }

  // ---- after events

  void check_servers(server_group const& all) {
    for (std::uint32_t s = 0; s < servers_; ++s) check_server(s, all.server(server_id{s}));
  }

  // ---- at the end

  /// The final parameters are w0 and each version's mean: of all commits of who was not lost, and
  /// of others whole ones; with synchronized servers the same ones on all.
  void finish(std::span<double const> values) {
    if (!rules_.versioned) return;
    std::vector<std::uint64_t> all(rows());
    for (std::size_t row = 0; row < rows(); ++row) all[row] = row;
    std::vector<cut> cuts;
    for (auto const& group : by_server(all))
      if (!group.empty())
        cuts.push_back(check_state(nobody, clock_index::highest(), all, values, group));
    check_cut(nobody, cuts);
  }
  /// Where nobody was lost and all commits were folded: what a table holds to whose row `w` the
  /// commits in `pushed[w]` added 1.
  [[nodiscard]] std::optional<std::vector<double>> means(
      std::vector<std::vector<std::size_t>> const& pushed) const {
    std::vector<double> count;
    if (!rules_.versioned) return std::nullopt;
    for (member const& m : members_) {
      if (m.now == state::crashed) return std::nullopt;
      for (std::size_t i = 0; i < m.begun; ++i) {
        if (m.commits[i].version == none) return std::nullopt;
        auto const v = static_cast<std::size_t>(m.commits[i].version);
        if (v >= count.size()) count.resize(v + 1);
        ++count[v];
      }
    }
    std::vector<double> sums(members_.size());
    for (std::size_t w = 0; w < members_.size(); ++w)
      for (std::size_t const i : pushed[w])
        sums[w] += 1 / count[static_cast<std::size_t>(members_[w].commits[i].version)];
    return sums;
  }
  void check_over(server_group const& all) {
    for (std::uint32_t s = 0; s < servers_; ++s) {
      shard const& server = all.server(server_id{s});
      if (rules_.versioned && server.memory().versions != 0)
        fail("in the end server ", s, " has ", server.memory().versions, " live versions");
      server.inspect([&](shard_control const& control) {
        if (control.held_back() != 0)
          fail("in the end server ", s, " holds back ", control.held_back(), " commits");
        if (rules_.same_cut && control.counters().partly_folded != 0)
          fail("server ", s, " folded ", control.counters().partly_folded,
               " commits of lost workers that other servers dropped");
      });
    }
  }

  /// The rows of a list by server: places in it.
  [[nodiscard]] std::vector<together> by_server(std::span<std::uint64_t const> list) const {
    std::vector<together> groups(servers_);
    for (std::size_t i = 0; i < list.size(); ++i)
      groups[servers_of_[static_cast<std::size_t>(list[i])]].push_back(i);
    return groups;
  }

  template <class... Parts>
  void fail(Parts const&... parts) noexcept {
    if (violations.size() < 20) violations.push_back(testing::detail::text(parts...));
  }

  std::vector<std::string> violations;
  // That a run had something to check:
  std::uint64_t reads = 0;
  std::uint64_t shared = 0;   ///< cells that counted less than 1
  std::uint64_t torn = 0;     ///< pulls that reflect different commits on different servers
  std::size_t live_peak = 0;  ///< of versions on one server
  double fullness = 0;        ///< the greatest part of their bound that they took

 private:
  static constexpr std::int64_t none = -1;
  static constexpr std::uint32_t nobody = ~std::uint32_t{0};
  static constexpr double tolerance = 1e-12;

  /// As sentences have it.
  [[nodiscard]] static std::int64_t number(std::uint32_t w) {
    return w == nobody ? -1 : std::int64_t{w};
  }

  enum class state : std::uint8_t { absent, live, left, crashed };
  struct commit {
    explicit commit(std::size_t rows) : pushed(rows) {}
    std::vector<char> pushed;     // by row
    std::int64_t version = none;  // as merges were told
    std::int64_t above = none;    // the newest version that its worker's replica contained
  };
  struct member {
    state now = state::absent;
    std::int64_t started = 0;
    std::size_t begun = 0;
    std::vector<commit> commits;   // and the one that it is about to make
    std::int64_t contains = none;  // the newest version of others that it has read
  };
  struct shard_state {
    std::uint64_t commits = 0;
    std::int64_t least = 0;
  };
  /// By worker: the number of commits included is at least and at most.
  using cut = std::vector<std::pair<std::size_t, std::size_t>>;
  /// A version as a state shows it.
  struct tally {
    std::uint32_t visible = 0;  // its commits that are seen
    std::uint32_t sure = 0;     // those that are in, but pushed nothing here
    std::uint32_t maybe = 0;    // those that may be
    double share = 0;
  };

  /// What the rows of a state hold of each commit; NaN where it pushed none of them.
  void read_cells(std::span<std::uint64_t const> rows, std::span<double const> values,
                  together const& group) {
    cells_.assign(width(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t const place : group) {
      auto const row = static_cast<std::size_t>(rows[place]);
      double const* from = values.data() + place * width();
      for (std::size_t w = 0; w < members_.size(); ++w)
        for (std::size_t i = 0; i < span_; ++i) read_cell(w, i, row, from[w * span_ + i]);
      if (from[width() - 1] != constant * static_cast<double>(row))
        fail("row ", row, " has lost its initial value");
    }
  }
  void read_cell(std::size_t w, std::size_t i, std::size_t row, double x) {
    auto const& commits = members_[w].commits;
    if (i >= commits.size() || commits[i].pushed[row] == 0) {
      if (x != 0) fail("row ", row, " holds ", x, " of a commit that did not push it");
      return;
    }
    double& common = cells_[w * span_ + i];
    if (!std::isnan(common) && common != x)
      fail("rows of one state hold ", x, " and ", common, " of commit ", i, " of worker ", w);
    common = x;
  }
  [[nodiscard]] double cell(std::uint32_t w, std::size_t i) const { return cells_[w * span_ + i]; }

  tally& tally_of(std::int64_t version) {
    auto const v = static_cast<std::size_t>(version);
    if (v >= tallies_.size()) tallies_.resize(v + 1);
    return tallies_[v];
  }

  void see(std::uint32_t reader, std::uint32_t w, std::size_t i, double x) {
    commit const& c = members_[w].commits[i];
    if (c.version == none)
      return fail("worker ", number(reader), " reads ", x, " of commit ", i, " of worker ", w,
                  ", which nobody has folded");
    tally& t = tally_of(c.version);
    if (t.visible != 0 && std::abs(t.share - x) > tolerance)
      fail("DYN-1: worker ", number(reader), " reads updates of version ", c.version,
           " that count ", x, " and ", t.share);
    ++t.visible;
    t.share = x;
    if (x < 1) ++shared;
    if (reader != nobody && w != reader)
      members_[reader].contains = std::max(members_[reader].contains, c.version);
  }

  cut check_state(std::uint32_t reader, clock_index need, std::span<std::uint64_t const> rows,
                  std::span<double const> values, together const& group) {
    tallies_.clear();
    read_cells(rows, values, group);
    cut included(members_.size());
    for (std::uint32_t w = 0; w < members_.size(); ++w)
      included[w] = w == reader ? check_own(w) : check_other(reader, w, need);
    if (reader != nobody) settle_own(reader, included[reader].first);
    for (std::size_t v = 0; v < tallies_.size(); ++v) {
      tally const& t = tallies_[v];
      if (t.visible == 0) continue;
      double const updates = std::round(1 / t.share);
      if (std::abs(t.share - 1 / updates) > tolerance || updates < t.visible + t.sure ||
          updates > t.visible + t.sure + t.maybe)
        fail("DYN-1: worker ", number(reader), " reads ", t.visible, " (and ", t.sure, " to ",
             t.sure + t.maybe, " empty) updates of version ", v, ", but each counts ", t.share);
    }
    return included;
  }

  std::pair<std::size_t, std::size_t> check_other(std::uint32_t reader, std::uint32_t w,
                                                  clock_index need) {
    member const& m = members_[w];
    std::size_t least = 0;
    std::size_t most = m.begun;
    if (m.now != state::crashed && need.value() > m.started)
      least = static_cast<std::size_t>(
          std::min(need.value() - m.started, static_cast<std::int64_t>(m.begun)));
    for (std::size_t i = 0; i < m.begun; ++i) {
      double const x = cell(w, i);
      if (std::isnan(x)) continue;
      if (x == 0) {
        if (i < least)
          fail("SSP-1: worker ", number(reader), " misses commit ", i, " of worker ", w);
        most = std::min(most, i);
      } else {
        if (i >= most)
          fail("worker ", number(reader), " reads commit ", i, " of worker ", w, ", but not ",
               most);
        see(reader, w, i, x);
        least = std::max(least, i + 1);
      }
    }
    for (std::size_t i = 0; i < most; ++i)
      if (m.commits[i].version != none && std::isnan(cell(w, i))) {
        tally& t = tally_of(m.commits[i].version);
        ++(i < least ? t.sure : t.maybe);
      }
    return {least, most};
  }

  std::pair<std::size_t, std::size_t> check_own(std::uint32_t w) {
    member const& m = members_[w];
    std::size_t fetched = 0;  // at least so many commits
    for (std::size_t i = 0; i < m.commits.size(); ++i) {
      double const x = cell(w, i);
      if (std::isnan(x) || x == 1) continue;
      if (x == 0) {
        fail("SSP-2: worker ", w, " misses its own commit ", i);
      } else {
        see(w, w, i, x);
        fetched = i + 1;
      }
    }
    return {fetched, m.begun};
  }

  /// Own commits that count in full: not fetched, or alone in their version.
  void settle_own(std::uint32_t w, std::size_t fetched) {
    member const& m = members_[w];
    for (std::size_t i = 0; i < m.begun; ++i) {
      double const x = cell(w, i);
      if (m.commits[i].version == none) continue;
      tally& t = tally_of(m.commits[i].version);
      if (std::isnan(x))
        ++(i < fetched ? t.sure : t.maybe);
      else if (x == 1 && i < fetched && t.visible + t.sure != 0)
        fail("DYN-1: worker ", w, " reads its commit ", i, ", fetched and not alone, in full");
    }
  }

  /// All states include the same commits of the others, or they are torn.
  void check_cut(std::uint32_t reader, std::vector<cut> const& all) {
    bool same = true;
    for (std::uint32_t w = 0; w < members_.size(); ++w) {
      if (w == reader) continue;
      auto common = all.front()[w];
      for (cut const& c : all)
        common = {std::max(common.first, c[w].first), std::min(common.second, c[w].second)};
      if (common.first <= common.second) continue;
      same = false;
      if (rules_.same_cut)
        fail("PS-1: worker ", number(reader), " reads ", common.first, " commits of worker ", w,
             " from one server and ", common.second, " from another one");
    }
    if (!same) ++torn;
  }

  void check_server(std::uint32_t s, shard const& server) {
    if (!rules_.versioned) return;
    std::size_t const live = server.host(0).live_versions();
    live_peak = std::max(live_peak, live);
    if (rules_.bounded) check_bound(s, live);
    server.inspect([&](shard_control const& control) {
      shard_state& before = shards_[s];
      auto const least = static_cast<std::int64_t>(control.versions().least().value());
      if (least < before.least)
        fail("DYN-2: server ", s, " takes updates of version ", least, " again, after ",
             before.least);
      // With nobody in the run it is infinite.
      if (control.workers().live() != 0) before.least = least;
      if (!rules_.eager || control.counters().commits == before.commits) return;
      before.commits = control.counters().commits;
      server.host(0).for_each_version([&](version_state const& v) {
        std::uint32_t expected = 0;
        for (std::uint32_t w = 0; w < members_.size(); ++w)
          if (members_[w].now != state::absent)
            expected += received_of(w, control.received(worker_id{w}),
                                    static_cast<std::int64_t>(v.version.value()));
        if (v.updates != expected)
          fail("server ", s, " counts ", v.updates, " updates of version ", v.version.value(),
               ", expected ", expected);
      });
    });
  }

  [[nodiscard]] std::uint32_t received_of(std::uint32_t w, clock_index below,
                                          std::int64_t version) const {
    member const& m = members_[w];
    std::uint32_t n = 0;
    for (std::size_t i = 0; i < m.begun; ++i)
      if (m.started + static_cast<std::int64_t>(i) < below.value() &&
          m.commits[i].version == version)
        ++n;
    return n;
  }

  void check_bound(std::uint32_t s, std::size_t live) {
    if (rules_.bound.is_infinite()) return;
    auto const clocks = static_cast<std::size_t>(2 * rules_.bound.clocks() + 2);
    std::size_t const most = rules_.exact ? (members_.size() - 1) * clocks : clocks;
    if (most != 0)
      fullness = std::max(fullness, static_cast<double>(live) / static_cast<double>(most));
    if (live > most)
      fail("DYN-2: server ", s, " has ", live, " live versions, expected at most ", most);
  }

  commit_rules rules_;
  std::vector<std::uint32_t> servers_of_;
  std::uint32_t servers_;
  std::size_t span_;
  std::vector<member> members_;
  std::vector<shard_state> shards_;
  std::vector<tally> tallies_;  // of the state that is being read, by version
  std::vector<double> cells_;
};

/// `revise`, listened to.
struct told {
  revise inner{};
  commit_book* book = nullptr;

  [[nodiscard]] version_index map(commit_info const& c) const noexcept {
    book->learn(c);
    return inner.map(c);
  }
  [[nodiscard]] double weight(commit_info const& c) const noexcept { return inner.weight(c); }
  [[nodiscard]] double share(version_state const& v) const noexcept { return inner.share(v); }
  [[nodiscard]] std::optional<double> expire(version_state const& v,
                                             version_window const& w) const noexcept {
    return inner.expire(v, w);
  }
  [[nodiscard]] version_index version_after(version_read const& r) const noexcept {
    return inner.version_after(r);
  }
};
static_assert(versioned_merge<told>);

/// A schedule for commit tables.
struct commit_plan {
  testing::schedule schedule{};
  bool full = false;    ///< every commit pushes every row
  bool steady = false;  ///< every clock begins with a pull of the whole table
};

[[nodiscard]] inline commit_plan random_commit_plan(std::uint64_t seed) {
  using namespace std::chrono_literals;
  random_stream random(seed, 0xb00c);
  commit_plan p{
      .schedule = testing::random_schedule(seed, {.workers_max = 8, .clocks_max = 10}),
      .full = random.chance(0.5),
      .steady = random.chance(0.5),
  };
  auto& s = p.schedule;
  s.servers = testing::detail::one_of(random, std::array<std::uint32_t, 4>{1, 2, 7, 7});
  if (random.chance(0.5)) {  // parts of a commit arrive at very different times
    auto& link = s.scenario.network.worker_link;
    link.latency = testing::detail::one_of(random, std::array<duration, 3>{100us, 1ms, 10ms});
    if (random.chance(0.5))
      link.jitter = sim::exponential{};
    else
      link.jitter = sim::pareto{.least = 0.2, .alpha = 1.1, .cap = 50};
  }
  return p;
}

namespace detail {

inline constexpr std::size_t commit_rows = 9;

[[nodiscard]] constexpr std::uint64_t commit_key(bool bounded, std::uint64_t row) noexcept {
  return bounded || row < 7 ? row : row * 0x1'0000'0001u;
}

/// The table's rows one after the other, whatever its kind.
[[nodiscard]] inline std::vector<double> whole_table(std::vector<double> const& dense,
                                                     std::size_t) {
  return dense;
}
[[nodiscard]] inline std::vector<double> whole_table(sparse_snapshot<double> const& got,
                                                     std::size_t width) {
  std::vector<double> out(commit_rows * width);
  for (std::uint64_t row = 0; row < commit_rows; ++row) {
    auto const at = std::ranges::lower_bound(got.keys, commit_key(false, row));
    if (at == got.keys.end() || *at != commit_key(false, row)) continue;
    std::copy_n(got.values.begin() + (at - got.keys.begin()) * static_cast<std::ptrdiff_t>(width),
                width, out.begin() + static_cast<std::ptrdiff_t>(row * width));
  }
  return out;
}

/// A worker of a commit table.
template <bool bounded, class Worker>
class committer {
 public:
  committer(Worker& w, commit_book& book, commit_plan const& plan, staleness bound,
            std::vector<std::vector<std::size_t>>& ticks, std::vector<double>* record)
      : worker_(w),
        book_(book),
        plan_(plan),
        manner_(plan.schedule.manners[w.rank()]),
        bound_(bound),
        ticks_(ticks[w.rank()]),
        record_(record),
        locator_(testing::scattered{plan.schedule.seed},
                 table_shape{bounded ? commit_rows : 0, plan.schedule.servers}, bounded) {
    for (std::uint64_t row = 0; row < commit_rows; ++row) all_.push_back(row);
  }
  committer(committer const&) = delete;
  committer& operator=(committer const&) = delete;
  ~committer() {
    if (!over_) book_.crashed(worker_.rank());
  }

  void run() {
    book_.started(worker_.rank(), worker_.clock());
    for (std::int64_t n = 0; n < manner_.clocks; ++n) {
      begin_commit();
      if (plan_.steady) read_whole(bound_);
      for (std::uint64_t steps = random().below(manner_.steps + 1); steps != 0; --steps) {
        act();
        worker_.step(random().uniform() * 2);
      }
      act();
      push(due_);
      book_.committing(worker_.rank());
      worker_.commit();
      ++commits_;
    }
    read();
    over_ = true;
    book_.left(worker_.rank());
  }

 private:
  [[nodiscard]] random_stream& random() { return worker_.random(); }

  /// Decides what the next commit pushes.
  void begin_commit() {
    due_.clear();
    bool const full = plan_.full || manner_.marks;
    if (!full && !random().chance(manner_.pushing)) return;
    bool const one_server = !full && random().chance(0.3);
    auto const server = static_cast<std::uint32_t>(random().below(plan_.schedule.servers));
    for (std::uint64_t row = 0; row < commit_rows; ++row)
      if (full || (one_server ? book_.server_of(row) == server : random().chance(0.5)))
        due_.push_back(row);
    random().shuffle(std::span(due_));
    if (!random().chance(0.3)) return;
    ticks_.push_back(commits_);
    worker_[table<1>].push(std::vector<std::uint64_t>{worker_.rank()}, std::vector<double>{1});
  }

  void act() {
    if (random().chance(manner_.reading)) read();
    if (random().chance(0.5) && !due_.empty()) {
      auto const n = static_cast<std::size_t>(1 + random().below(due_.size()));
      std::vector<std::uint64_t> const some(due_.end() - static_cast<std::ptrdiff_t>(n),
                                            due_.end());
      due_.resize(due_.size() - n);
      push(some);
    }
    if (random().chance(manner_.reading)) read();
  }

  void push(std::vector<std::uint64_t> const& rows) {
    if (rows.empty()) return;
    std::size_t const width = book_.width();
    std::size_t const column = book_.column(worker_.rank());
    for (std::uint64_t const row : rows)
      book_.pushing(worker_.rank(), static_cast<std::size_t>(row));
    if constexpr (bounded) {
      if (random().chance(0.4)) {
        std::vector<double> delta(commit_rows * width);
        for (std::uint64_t const row : rows)
          delta[static_cast<std::size_t>(row) * width + column] = 1;
        return worker_[table<0>].push(delta);
      }
    }
    std::vector<double> delta(rows.size() * width);
    for (std::size_t i = 0; i < rows.size(); ++i) delta[i * width + column] = 1;
    worker_[table<0>].push(keys_of(rows), delta);
  }

  [[nodiscard]] static std::vector<std::uint64_t> keys_of(std::vector<std::uint64_t> rows) {
    for (auto& row : rows) row = commit_key(bounded, row);
    return rows;
  }

  void read() {
    staleness const s =
        random().chance(manner_.own_staleness)
            ? std::min(bound_, staleness(static_cast<std::int64_t>(random().below(4))))
            : bound_;
    if (random().chance(0.1)) read_ticks();
    if (random().chance(0.5))
      read_whole(s);
    else
      read_rows(s);
  }

  void read_ticks() {
    std::vector<double> out(1);
    worker_[table<1>].pull(std::vector<std::uint64_t>{worker_.rank()}, out);
  }

  void note(std::vector<double> const& out) {
    if (record_ != nullptr) record_->insert(record_->end(), out.begin(), out.end());
  }

  void read_whole(staleness s) {
    std::size_t const width = book_.width();
    std::vector<double> out(commit_rows * width);
    if constexpr (bounded) {
      worker_[table<0>].pull(out, s);
    } else {
      s = bound_;
      sparse_snapshot<double> got;
      worker_[table<0>].pull(got);
      out = whole_table(got, width);
    }
    note(out);
    std::vector<commit_book::together> groups = book_.by_server(all_);
    std::erase_if(groups, [](auto const& g) { return g.empty(); });
    book_.read(worker_.rank(), worker_.clock(), s, all_, out, groups, groups.size());
  }

  void read_rows(staleness s) {
    std::vector<std::uint64_t> rows;
    for (std::uint64_t row = 0; row < commit_rows; ++row)
      if (random().chance(0.5)) rows.push_back(row);
    if (rows.empty()) return;
    random().shuffle(std::span(rows));
    // What the pull leaves in the slots are the rows that it fetched.
    for (std::uint32_t n = 0; n < plan_.schedule.servers; ++n)
      worker_.slot(0, server_id{n}).rows.clear();
    std::vector<double> out(rows.size() * book_.width());
    worker_[table<0>].pull(keys_of(rows), out, s);
    note(out);
    std::vector<commit_book::together> groups = book_.by_server(rows);
    std::vector<commit_book::together> cached;
    for (std::uint32_t n = 0; n < plan_.schedule.servers; ++n)
      std::erase_if(groups[n], [&](std::size_t place) {
        auto const at = locator_.locate(key{commit_key(bounded, rows[place])});
        auto const& fetched = worker_.slot(0, server_id{n}).rows;
        bool const was = std::ranges::find(fetched, at.local) == fetched.end();
        if (was) cached.push_back({place});
        return was;
      });
    std::erase_if(groups, [](auto const& g) { return g.empty(); });
    std::size_t const one_pull = groups.size();
    groups.insert(groups.end(), cached.begin(), cached.end());
    book_.read(worker_.rank(), worker_.clock(), s, rows, out, groups, one_pull);
  }

  Worker& worker_;
  commit_book& book_;
  commit_plan const& plan_;
  testing::manner const& manner_;
  staleness bound_;
  std::vector<std::size_t>& ticks_;
  std::vector<double>* record_;
  locator locator_;
  std::vector<std::uint64_t> all_;
  std::vector<std::uint64_t> due_;  // rows that the next commit still has to push
  std::size_t commits_ = 0;
  bool over_ = false;
};

/// The table under test: dense or sparse, with versions or without.
template <bool bounded, bool versioned>
[[nodiscard]] auto commit_table(commit_book const& book, std::uint64_t seed,
                                std::span<key const> keys, std::span<double const> init) {
  // What is filtered are the zeros of whole pushes, with which they take another way.
  update_filter const filter{.threshold = seed % 2 == 0 ? 0 : 1e-6};
  auto const base = [&] {
    using merge = merge_of_protocol;
    if constexpr (bounded)
      return dense<double, merge, testing::scattered>{.rows = commit_rows,
                                                      .width = book.width(),
                                                      .init = init,
                                                      .partition = {seed},
                                                      .filter = filter};
    else
      return sparse<double, merge, testing::scattered>{.width = book.width(),
                                                       .init_keys = keys,
                                                       .init = init,
                                                       .partition = {seed},
                                                       .filter = filter};
  };
  if constexpr (versioned)
    return multi_version(base());
  else
    return base();
}

/// A second table under the same protocol: each worker counts in a row of its own.
template <bool versioned>
[[nodiscard]] auto tick_table() {
  sparse<double> const table{.filter = {.threshold = 0}};
  if constexpr (versioned)
    return multi_version(table);
  else
    return table;
}

}  // namespace detail

/// What a run on commit tables came to.
struct commit_outcome {
  std::vector<std::string> violations;
  run_report report;
  std::uint64_t shared = 0;
  std::uint64_t torn = 0;
  std::uint64_t reads = 0;
  std::size_t live_peak = 0;
  double fullness = 0;
  std::vector<double> values;  ///< of all reads, where they were recorded
};

/// Runs the protocol `make(book)` on a plan, with a dense or a sparse table of commits.
template <bool bounded, class Make>
[[nodiscard]] commit_outcome run_commits(Make make, commit_plan const& plan, commit_rules rules,
                                         bool record = false) {
  auto const& s = plan.schedule;
  std::vector<std::uint32_t> servers_of;
  std::vector<key> keys;
  std::int64_t clocks = 0;
  for (auto const& m : s.manners) clocks = std::max(clocks, m.clocks);
  for (std::uint64_t row = 0; row < detail::commit_rows; ++row) {
    keys.emplace_back(detail::commit_key(bounded, row));
    table_shape const shape{bounded ? detail::commit_rows : 0, s.servers};
    servers_of.push_back(testing::scattered{s.seed}.server_of(keys.back(), shape).value());
  }
  // Who does not read keeps old versions alive, and a server may lag behind the one that lets in.
  rules.bounded = plan.steady || (!rules.exact && s.servers == 1);
  commit_book book(rules, servers_of, s.servers, s.workers_ever(),
                   static_cast<std::size_t>(clocks) + 1);
  auto const protocol = make(book);
  constexpr bool versioned = versioned_merge<merge_of<std::remove_cvref_t<decltype(protocol)>>>;
  std::vector<double> const init = book.initial();
  cluster c(simulated{.workers = s.workers,
                      .servers = s.servers,
                      .scenario = s.scenario,
                      .stack_bytes = 64 * 1024},
            protocol, detail::commit_table<bounded, versioned>(book, s.seed, keys, init),
            detail::tick_table<versioned>());
  c.runtime().on_event([&] { book.check_servers(c.servers()); });
  commit_outcome result;
  std::vector<std::vector<std::size_t>> ticks(s.workers_ever());
  try {
    result.report = c.run([&](auto& w) {
      detail::committer<bounded, std::remove_cvref_t<decltype(w)>>(
          w, book, plan, rules.bound, ticks, record ? &result.values : nullptr)
          .run();
    });
    book.finish(detail::whole_table(c.parameters(), book.width()));
    book.check_over(c.servers());
    auto const left = detail::whole_table(c.parameters(), book.width());
    c.runtime().on_event({});
    c.run([](auto&) {});
    if (detail::whole_table(c.parameters(), book.width()) != left)
      book.fail("a second run in which nothing is done changes the parameters");
    if (auto const expected = book.means(ticks); expected) {
      auto const& got = c.template parameters<1>();
      for (std::size_t w = 0; w < expected->size(); ++w) {
        auto const at = std::ranges::find(got.keys, w);
        double const x =
            at == got.keys.end() ? 0 : got.values[static_cast<std::size_t>(at - got.keys.begin())];
        if (std::abs(x - (*expected)[w]) > 1e-9)
          book.fail("in the end the ticks of worker ", w, " are worth ", x, ", expected ",
                    (*expected)[w]);
      }
    }
  } catch (std::exception const& e) {
    book.fail(e.what());
  }
  result.violations = book.violations;
  result.shared = book.shared;
  result.torn = book.torn;
  result.reads = book.reads;
  result.live_peak = book.live_peak;
  result.fullness = book.fullness;
  return result;
}

}  // namespace rubato::test
