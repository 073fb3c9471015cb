// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/null_mutex.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/storage/concepts.hpp"
#include "rubato/testing/observed_run.hpp"

/// Checks policies of your own, without a test framework: each function returns what is wrong, as
/// sentences; an empty list means that the policy conforms.
///
/// @code
/// for (auto const& sentence : rubato::testing::check_protocol(my_protocol{})) fail(sentence);
/// @endcode
namespace rubato::testing {

using sentences = std::vector<std::string>;

namespace detail {

/// Collects sentences; the tenth is the last, for one mistake usually breaks a rule everywhere.
class findings {
 public:
  template <class... Parts>
  void expect(bool good, Parts const&... what) {
    if (!good && list_.size() < 10) list_.push_back(text(what...));
  }
  [[nodiscard]] sentences take() { return std::move(list_); }

 private:
  sentences list_;
};

[[nodiscard]] inline std::vector<clock_index> sample_clocks() {
  std::vector<clock_index> clocks;
  for (std::int64_t c = 0; c <= 20; ++c) clocks.emplace_back(c);
  for (std::int64_t const c : {1'000LL, 1'000'000LL, 1LL << 40}) clocks.emplace_back(c);
  return clocks;
}

/// From little to much, up to a bound.
[[nodiscard]] inline std::vector<staleness> sample_staleness(staleness bound) {
  std::vector<staleness> all;
  for (std::int64_t const s : {0, 1, 2, 3, 5, 10, 100})
    if (staleness(s) < bound) all.emplace_back(s);
  all.push_back(bound);
  return all;
}

[[nodiscard]] inline std::string text(staleness s) {
  return s.is_infinite() ? "infinite" : std::to_string(s.clocks());
}

}  // namespace detail

/// Who waits: `need` does not fall with the clock nor rise with the staleness, lets nobody wait for
/// itself, keeps its own bound, and a cached copy that will do is as fresh as a read would be.
template <admission_policy P>
[[nodiscard]] sentences check_admission(P const& p) {
  detail::findings found;
  auto const clocks = detail::sample_clocks();
  auto const allowed = detail::sample_staleness(p.bound());
  for (staleness const s : allowed)
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      clock_index const c = clocks[i];
      auto const at = detail::text(" at clock ", c.value(), " and staleness ", detail::text(s));
      clock_index const need = p.need(c, s);
      clock_index const cache_need = p.cache_need(c, s);
      found.expect(need == p.need(c, s) && cache_need == p.cache_need(c, s),
                   "need and cache_need answer differently when asked twice", at);
      found.expect(need <= c, "need is ", detail::text(need), at,
                   ": a worker would wait for itself, expected at most the clock");
      found.expect(need >= c - s, "need is ", detail::text(need), at, ", expected at least ",
                   detail::text(c - s), ", or the read is staler than it asked for");
      found.expect(cache_need >= c - s, "cache_need is ", detail::text(cache_need), at,
                   ", expected at least ", detail::text(c - s),
                   ", or a cached copy is staler than the read asked for");
      if (i == 0) continue;
      found.expect(need >= p.need(clocks[i - 1], s), "need falls as the clock grows", at);
      found.expect(cache_need >= p.cache_need(clocks[i - 1], s),
                   "cache_need falls as the clock grows", at);
    }
  for (clock_index const c : clocks)
    for (std::size_t i = 1; i < allowed.size(); ++i) {
      auto const at = detail::text(" at clock ", c.value(), " from staleness ",
                                   detail::text(allowed[i - 1]), " to ", detail::text(allowed[i]));
      found.expect(p.need(c, allowed[i]) <= p.need(c, allowed[i - 1]),
                   "need rises as more staleness is allowed,", at);
      found.expect(p.cache_need(c, allowed[i]) <= p.cache_need(c, allowed[i - 1]),
                   "cache_need rises as more staleness is allowed,", at);
    }
  return found.take();
}

/// What is seen: the horizon does not fall as `c_min` grows, and is not below `c_min`, or a read
/// that admission lets go on would miss what it was promised (SSP-1).
template <visibility_policy P>
[[nodiscard]] sentences check_visibility(P const& p) {
  detail::findings found;
  if (!P::holds_back) return {};  // is never asked
  for (staleness const bound : detail::sample_staleness(staleness::infinite())) {
    clock_index before = clock_index::lowest();
    for (clock_index const c : detail::sample_clocks()) {
      clock_index const horizon = p.horizon({.c_min = c, .bound = bound});
      auto const at = detail::text(" at c_min ", c.value(), " and the bound ", detail::text(bound));
      found.expect(horizon == p.horizon({.c_min = c, .bound = bound}),
                   "horizon answers differently when asked twice", at);
      found.expect(horizon >= c, "horizon is ", detail::text(horizon), at,
                   ", expected at least c_min, or reads miss what they were promised (SSP-1)");
      found.expect(horizon >= before, "horizon falls as c_min grows", at);
      before = horizon;
    }
  }
  return found.take();
}

namespace detail {

/// What versions count is finite, and a worker's own version does not fall when it reads.
template <versioned_merge P>
void check_versions(P const& p, findings& found) {
  for (std::int64_t const v : {0, 1, 7, 1'000'000})
    for (std::uint32_t const updates : {1U, 2U, 30U}) {
      version_state const state{version_index{v}, updates};
      auto const at = text(" for version ", v, " of ", updates, " updates");
      double const share = p.share(state);
      found.expect(std::isfinite(share), "share is ", share, at, ", expected a finite number");
      for (std::int64_t const least : {0, 2, 8, 2'000'000}) {
        version_window const window{version_index{least}, {}, clock_index{10}};
        auto const worth = p.expire(state, window);
        found.expect(!worth || std::isfinite(*worth), "expire answers ", worth.value_or(0), at,
                     ", expected a finite number");
        found.expect(worth == P(p).expire(state, window), "expire answers differently", at,
                     " when asked twice: shards would not agree");
        version_read const read{version_index{v}, version_index{least}, clock_index{10}};
        found.expect(p.version_after(read) >= read.own, "version_after gives ",
                     p.version_after(read).value(), " to a worker that had version ", v,
                     ": it fell");
      }
    }
}

}  // namespace detail

/// What an update is worth: finite, and the same for the same commit on every shard. Where versions
/// are kept, also what those count.
template <merge_policy P>
[[nodiscard]] sentences check_merge(P const& p) {
  detail::findings found;
  for (std::uint32_t const workers : {1U, 2U, 3U, 30U, 10'000U})
    for (std::int64_t const c_min : {0, 1, 10, 1'000'000})
      for (std::int64_t const ahead : {0, 1, 5}) {
        commit_info const info{.from = worker_id{workers - 1},
                               .stamp = clock_index{c_min + ahead},
                               .c_min = clock_index{c_min},
                               .c_max = clock_index{c_min + 5},
                               .workers = workers};
        auto const at = detail::text(" for stamp ", c_min + ahead, " at c_min ", c_min, " among ",
                                     workers, " workers");
        double const weight = p.weight(info);
        found.expect(std::isfinite(weight), "weight is ", weight, at, ", expected a finite number");
        // Each shard has a copy of its own, and has been asked other things before.
        P const other(p);
        found.expect(
            !std::isfinite(weight) || (other.weight(info) == weight && p.weight(info) == weight),
            "weight answers differently for the same commit", at, ": shards would not agree");
        if constexpr (exact_merge<P>)
          found.expect(weight == 1.0, "weight is ", weight, at,
                       ", but the merge says that it is exact");
      }
  if constexpr (versioned_merge<P>) detail::check_versions(p, found);
  if constexpr (velocity_merge<P>)
    found.expect(std::isfinite(p.decay()), "decay is ", p.decay(), ", expected a finite number");
  return found.take();
}

/// A pace's half in the coordinator: asked in time, it answers in time, and orders only those who are
/// there. Runs it over `ticks` ticks of a run in which workers come, commit and go.
template <pace_conductor C>
[[nodiscard]] sentences check_conductor(C conductor, std::uint64_t seed = 1, int ticks = 200) {
  detail::findings found;
  random_stream random(seed);
  std::map<worker_id, clock_index> there;
  pace_orders<typename C::order_type> orders;
  time_point now{};
  for (std::uint32_t next = 0; ticks > 0 && conductor.next_tick() != time_point::max();) {
    time_point const tick = conductor.next_tick();
    time_point const sample = conductor.next_sample();
    orders.clear();
    if (there.empty() || random.chance(0.1)) {
      clock_index const at = there.empty() ? clock_index{} : there.begin()->second;
      conductor.join(worker_id{next}, at, now, orders);
      there[worker_id{next++}] = at;
    } else if (random.chance(0.05)) {
      conductor.leave(there.begin()->first);
      there.erase(there.begin());
    } else if (random.chance(0.5)) {
      for (auto& [w, clock] : there) conductor.commit(w, clock = clock.next(), now);
    } else if (sample <= tick) {
      now = std::max(now, sample);
      conductor.observe(now, random.uniform());
      found.expect(conductor.next_sample() > sample, "it wants a loss that it has been told");
    } else {
      now = std::max(now, tick);
      conductor.tick(now, orders);
      found.expect(conductor.next_tick() > now, "it wants to be called at a time that is past");
      --ticks;
    }
    for (auto const& o : orders)
      found.expect(there.contains(o.to), "it orders worker ", o.to.value(), ", who is not there");
  }
  return found.take();
}

/// When to send: every commit is due after one step or more; without a conductor, at some time.
template <pace_policy P>
[[nodiscard]] sentences check_pace(P const& p) {
  detail::findings found;
  for (clock_index const c : detail::sample_clocks())
    for (double const at : {0.0, 1e-3, 1.0, 1e6}) {
      commit_due const due = p.due({.clock = c, .committed_at = time_point(seconds(at))});
      found.expect(due.steps >= 1, "the commit of clock ", c.value(), " is due after ", due.steps,
                   " steps, expected 1 or more");
      found.expect(due.steps_max >= due.steps, "the commit of clock ", c.value(), " is due after ",
                   due.steps, " steps, but its worker pauses after ", due.steps_max);
      found.expect(conducted_pace<P> || due.at != time_point::max(), "the commit of clock ",
                   c.value(), " is never due: its time is the end of all times");
    }
  sentences all = found.take();
  if constexpr (conducted_pace<P>) {
    sentences const more = check_conductor(p.make_conductor());
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

/// Which server holds a row: one that there is, and always the same one.
template <partition_policy P>
[[nodiscard]] sentences check_partition(P const& p) {
  detail::findings found;
  P const copy(p);
  for (std::uint64_t const rows : {0U, 1U, 2U, 7U, 1000U, 65'537U})
    for (std::uint32_t const servers : {1U, 2U, 3U, 7U, 64U}) {
      table_shape const shape{rows, servers};
      std::uint64_t const last = rows == 0 ? ~std::uint64_t{0} : rows - 1;
      for (std::uint64_t i = 0; i < 300; ++i) {
        key const k{i < 150 ? std::min(i, last) : last - std::min(last, (i - 150) * (last / 150))};
        server_id const s = p.server_of(k, shape);
        auto const where =
            detail::text("key ", k.value(), " of ", rows, " rows is given to server ", s.value());
        found.expect(s.value() < servers, where, ", expected one below ", servers);
        found.expect(p.server_of(k, shape) == s && copy.server_of(k, shape) == s, where,
                     " and then to another one: the answer must depend on nothing else");
      }
    }
  return found.take();
}

/// A store of one server's rows, by what is folded into it, against plain arithmetic. `make()`
/// returns a new store (a prvalue, for stores do not move) of `rows` rows of zeros, `width` wide.
template <class Make>
[[nodiscard]] sentences check_store(Make make, std::uint64_t rows, std::size_t width,
                                    std::uint64_t seed = 1) {
  using store_type = decltype(make());
  static_assert(table_store<store_type>);
  using T = typename store_type::value_type;
  detail::findings found;
  store_type store = make();
  random_stream random(seed);
  std::vector<T> expected(static_cast<std::size_t>(rows) * width);
  std::vector<std::uint64_t> all(static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  for (int step = 0; step < 50; ++step) {
    update<T> u;
    for (std::uint64_t row = 0; row < rows; ++row)
      if (random.chance(0.4)) u.rows.push_back(row);
    for (std::size_t i = 0; i < u.rows.size() * width; ++i)
      u.values.push_back(static_cast<T>(random.below(100)));  // whole numbers: sums are exact
    auto const weight = static_cast<double>(1 + random.below(3));
    std::array const fold{weighted_update<T>{&u, weight}};
    store.fold(fold, std::nullopt);
    for (std::size_t i = 0; i < u.rows.size(); ++i)
      for (std::size_t j = 0; j < width; ++j)
        expected[static_cast<std::size_t>(u.rows[i]) * width + j] +=
            static_cast<T>(weight) * u.values[i * width + j];
    std::vector<T> got(expected.size());
    store.read(all, got.data());
    found.expect(got == expected, "after ", step + 1,
                 " folds the rows do not hold the sum of the weighted updates");
  }
  std::vector<std::uint64_t> const twice{rows - 1, 0, rows - 1};
  std::vector<T> got(3 * width);
  store.read(twice, got.data());
  found.expect(std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(width),
                          expected.end() - static_cast<std::ptrdiff_t>(width)) &&
                   std::equal(got.begin(), got.begin() + static_cast<std::ptrdiff_t>(width),
                              got.end() - static_cast<std::ptrdiff_t>(width)),
               "rows are not read in the order in which they are asked for");
  found.expect(store.bytes() != 0, "bytes() is 0 for a store that holds rows");
  return found.take();
}

/// How long `check_protocol` looks.
struct search {
  std::uint64_t first_seed = 1;
  std::uint64_t schedules = 200;
};

/// Runs a whole protocol in the simulator on random schedules: workers that differ in speed, slow
/// and jittery links, joins, leaves and losses; and checks the rules after every event: SSP-1 to
/// SSP-3 at the protocol's own bound, that nobody is forgotten, that every commit counts exactly
/// once, and PS-1 where reads are synchronized. Before that, its parts one by one. Each sentence of
/// a run names the seed of its schedule.
template <protocol P>
[[nodiscard]] sentences check_protocol(P const& p, search const& where = {}) {
  sentences all;
  auto const add = [&all](sentences const& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add(check_admission(p.admission()));
  add(check_visibility(p.visibility()));
  add(check_merge(p.merge()));
  add(check_pace(p.pace()));
  using visibility = visibility_of<P>;
  staleness const bound = p.admission().bound();
  rules r = synchronized_visibility<visibility> ? synchronized_rules(bound) : eager_rules(bound);
  r.minimal_waits = false;  // a protocol may wait for more than it must
  r.holds_back = visibility::holds_back;
  if constexpr (visibility::holds_back && !synchronized_visibility<visibility>)
    r.newest = [v = p.visibility(), bound](clock_index c) {
      return v.horizon({.c_min = c, .bound = bound});
    };
  std::size_t const enough = all.size() + 10;
  for (std::uint64_t i = 0; i < where.schedules && all.size() < enough; ++i) {
    std::uint64_t const seed = where.first_seed + i;
    for (auto const& sentence : observed_run(p, random_schedule(seed), r).violations)
      all.push_back(detail::text("schedule ", seed, ": ", sentence));
  }
  return all;
}

}  // namespace rubato::testing
