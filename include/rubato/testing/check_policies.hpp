// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "rubato/core/check_options.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/random.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/conductor.hpp"
#include "rubato/protocol/element_rule.hpp"
#include "rubato/protocol/filter_rule.hpp"
#include "rubato/testing/check_whom.hpp"
#include "rubato/testing/findings.hpp"

/// Checks policies of your own one by one; `conformance.hpp` says how.
namespace rubato::testing {

namespace detail {

/// What the policy's own `check()` says against its options; then it is asked nothing else.
template <class P>
[[nodiscard]] sentences refused_options(P const& p) {
  try {
    rubato::detail::check_options(p);
  } catch (option_error const& e) {
    return {e.what()};
  }
  return {};
}

/// What an admission answers to one worker.
template <admission_policy P>
struct admission_of {
  P const& policy;
  worker_id who;

  [[nodiscard]] clock_index need(clock_index c, staleness s) const noexcept {
    if constexpr (rubato::detail::admits_by_worker<P>) return policy.need(c, s, who);
    else return policy.need(c, s);
  }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness s) const noexcept {
    if constexpr (rubato::detail::admits_by_worker<P>) return policy.cache_need(c, s, who);
    else return policy.cache_need(c, s);
  }
};

void check_elements(findings& found, element_rule const& rule, element_rule const& other);
void check_filter(findings& found, filter_rule const& filter);

void check_admission(findings& found, staleness bound, std::string const& whom,
                     std::function<clock_index(clock_index, staleness)> const& need,
                     std::function<clock_index(clock_index, staleness)> const& cache_need);

}  // namespace detail

/// Who waits: `need` does not fall with the clock nor rise with the staleness, lets nobody wait for
/// itself, keeps its own bound, and a cached copy that will do is as fresh as a read would be. One that
/// goes by the worker is asked for a hundred of them.
template <admission_policy P>
[[nodiscard]] sentences check_admission(P const& p) {
  if (sentences refused = detail::refused_options(p); !refused.empty()) return refused;
  detail::findings found;
  constexpr std::uint32_t workers = rubato::detail::admits_by_worker<P> ? 100 : 1;
  for (std::uint32_t w = 0; w < workers; ++w) {
    detail::admission_of<P> const of{p, worker_id{w}};
    detail::check_admission(
        found, p.bound(), workers == 1 ? "" : detail::text(" for worker ", w),
        [&](clock_index c, staleness s) { return of.need(c, s); },
        [&](clock_index c, staleness s) { return of.cache_need(c, s); });
  }
  if constexpr (sampling_admission<P>) detail::check_sampling(p, found);
  if constexpr (heeding_admission<P>) detail::check_heeding(p, found);
  if constexpr (extending_admission<P>) detail::check_extending(p, found);
  if constexpr (limiting_admission<P>) detail::check_limiting(p, found);
  return found.take();
}

/// What is seen: the horizon does not fall as `c_min` grows, and is not below `c_min`, or a read
/// that admission lets go on would miss what it was promised (SSP-1). Of rounds, that they are of a commit at least.
template <visibility_policy P>
[[nodiscard]] sentences check_visibility(P const& p) {
  if (sentences refused = detail::refused_options(p); !refused.empty()) return refused;
  detail::findings found;
  if constexpr (round_visibility<P>) {
    found.expect(p.round_size() >= 1, "a round is of 0 commits, expected 1 or more");
    found.expect(p.round_size() == P(p).round_size(), "round_size answers differently when asked twice");
    return found.take();
  } else {
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
/// are kept, also what those count; where elements are moved, how: by finite steps that depend on nothing but what the
/// merge is given, and, if it is lazy, that an update of zero does not begin.
template <merge_policy P>
[[nodiscard]] sentences check_merge(P const& p) {
  if (sentences refused = detail::refused_options(p); !refused.empty()) return refused;
  detail::findings found;
  for (std::uint32_t const workers : {1U, 2U, 3U, 30U, 10'000U})
    for (std::int64_t const c_min : {0, 1, 10, 1'000'000})
      for (std::int64_t const ahead : {0, 1, 5}) {
        commit_info const info{.from = worker_id{workers - 1},
                               .stamp = clock_index{c_min + ahead},
                               .c_min = clock_index{c_min},
                               .c_max = clock_index{c_min + 5},
                               .workers = workers};
        auto const at = detail::text(" for stamp ", c_min + ahead, " at c_min ", c_min, " and c_max ", c_min + 5,
                                     " with M = ", workers);
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
  if constexpr (element_merge<P>) {
    P const other(p);
    detail::check_elements(found, rubato::detail::element_rule_of<P>(p), rubato::detail::element_rule_of<P>(other));
  }
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
      // No tick would ever have its turn.
      if (!found.expect(conductor.next_sample() > sample, "it wants a loss that it has been told")) break;
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

namespace detail {

/// What a pace answers to one worker.
template <pace_policy P>
void check_dues(findings& found, P const& p, worker_id who) {
  for (clock_index const c : sample_clocks())
    for (double const at : {0.0, 1e-3, 1.0, 1e6}) {
      pace_point const point{.clock = c, .committed_at = time_point(seconds(at)), .worker = who};
      commit_due const due = p.due(point);
      commit_due const again = p.due(point);
      auto const commit = text("the commit of clock ", c.value(), " of worker ", who.value());
      found.expect(due.steps == again.steps && due.steps_max == again.steps_max && due.at == again.at,
                   "due answers differently when asked twice about ", commit);
      found.expect(due.steps >= 1, commit, " is due after ", due.steps, " steps, expected 1 or more");
      found.expect(due.steps_max >= due.steps, commit, " is due after ", due.steps,
                   " steps, but its worker pauses after ", due.steps_max);
      found.expect(conducted_pace<P> || due.at != time_point::max(), commit,
                   " is never due: its time is the end of all times");
    }
}

}  // namespace detail

/// When to send: every commit is due after one step or more; without a conductor, at some time. Asked for a hundred
/// workers.
template <pace_policy P>
[[nodiscard]] sentences check_pace(P const& p) {
  if (sentences refused = detail::refused_options(p); !refused.empty()) return refused;
  detail::findings found;
  for (std::uint32_t w = 0; w < 100; ++w) detail::check_dues(found, p, worker_id{w});
  sentences all = found.take();
  if constexpr (conducted_pace<P>) {
    sentences const more = check_conductor(p.make_conductor());
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

/// What is sent: copies answer alike, every row goes sooner or later, sums and what is sent are finite, and without
/// slots nothing is sent of an element that was not pushed. Asked for workers of several numbers.
template <commit_filter P>
[[nodiscard]] sentences check_filter(P const& p) {
  if (sentences refused = detail::refused_options(p); !refused.empty()) return refused;
  detail::findings found;
  detail::check_filter(found, filter_rule(p));
  return found.take();
}

}  // namespace rubato::testing
