// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/peer/concepts.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/testing/conformance.hpp"
#include "rubato/testing/observed_peers.hpp"
#include "rubato/testing/peer_schedule.hpp"

/// Checks parts of Hop of your own, without a test framework, as conformance.hpp does for protocols
/// with servers: each function returns what is wrong, as sentences; an empty list means that the
/// part conforms.
///
/// @code
/// for (auto const& sentence : testing::check_hop(hop(my_gather{}))) fail(sentence);
/// @endcode
namespace rubato::testing {

namespace detail {

/// The fewest updates, the peer's own included, of which the gather waits for one or more; nothing
/// if it does so for none.
template <gather_policy G>
[[nodiscard]] std::optional<std::size_t> fewest_updates(G const& g) {
  for (std::size_t n = 1; n <= 64; ++n)
    if (g.needed(n) >= 1) return n;
  return std::nullopt;
}

template <gather_policy G>
void check_needed(G const& g, findings& found) {
  std::size_t before = 0;
  for (std::size_t n = 1; n <= 64; ++n) {
    std::size_t const needed = g.needed(n);
    auto const what = text("gather: needed(", n, ") is ", needed);
    found.expect(needed == G(g).needed(n), what, ", and another number when asked again");
    found.expect(needed <= n, what, ", expected at most ", n,
                 ": more updates than there are would be waited for");
    found.expect(needed >= before, what, ", less than needed(", n - 1, "), which is ", before,
                 ": it falls as neighbors are added");
    found.expect(!G::bounds_gap || needed == n, what,
                 ", but bounds_gap says that each neighbor is waited for, expected ", n);
    before = needed;
  }
  found.expect(fewest_updates(g).has_value(),
               "gather: needed is 0 for 1 to 64 updates, expected 1 to n: no peer could use it");
}

template <gather_policy G>
void check_oldest(G const& g, findings& found) {
  iteration_index before = iteration_index::lowest();
  for (iteration_index const k : sample_clocks()) {
    iteration_index const oldest = g.oldest(k);
    auto const what = text("gather: oldest(", k.value(), ") is ", text(oldest));
    found.expect(oldest == G(g).oldest(k), what, ", and another iteration when asked again");
    found.expect(oldest <= k, what, ", in the future, expected at most ", k.value(),
                 ": peers would wait for each other");
    found.expect(oldest != iteration_index::lowest(), what, ", expected a finite staleness");
    found.expect(oldest >= before, what, ", less than before: it falls as iterations go on");
    found.expect(G::kept != keeping::by_iteration || oldest == k, what, ", expected ", k.value(),
                 " where updates are kept by iteration");
    before = oldest;
  }
}

}  // namespace detail

/// Which updates must be there: 1 to n of n, more of more, all of them if it says that the gap is
/// bounded; none from the future, and none newer as iterations go on. A gather that waits for fewer
/// than 1 of few updates is for graphs where every peer has more.
template <gather_policy G>
[[nodiscard]] sentences check_gather(G const& g) {
  detail::findings found;
  detail::check_needed(g, found);
  detail::check_oldest(g, found);
  return found.take();
}

/// What an update counts: finite, not negative, and of the peer's own more than nothing.
/// @param oldest what the gather says of an iteration; by default up to 5 before
template <reduce_policy R, class Oldest>
[[nodiscard]] sentences check_reduce(R const& r, Oldest oldest) {
  detail::findings found;
  auto const check = [&](update_info const& u, char const* whose) {
    double const weight = r.weight(u);
    auto const what =
        detail::text("reduce: the weight of ", whose, " update of iteration ", u.made.value(),
                     " in iteration ", u.now.value(), ", mixing ", u.mixing, ", is ", weight);
    found.expect(std::isfinite(weight) && weight >= 0, what,
                 ", expected a finite number, 0 or more");
    found.expect(!std::isfinite(weight) || R(r).weight(u) == weight, what,
                 ", and another one when asked again");
    found.expect(
        u.from != u.to || !std::isfinite(weight) || weight > 0, what,
        ", expected more than 0: where no other is there, there would be nothing to average");
  };
  for (iteration_index const now : detail::sample_clocks())
    for (double const mixing : {0.001, 1.0 / 3, 1.0}) {
      update_info u{.from = worker_id{1},
                    .to = worker_id{1},
                    .made = now,
                    .now = now,
                    .oldest = oldest(now),
                    .mixing = mixing};
      check(u, "a peer's own");
      u.from = worker_id{0};
      std::int64_t const before = std::min(distance(u.oldest, now), now.value());
      for (std::int64_t const age : {before, before / 2, std::int64_t{0}, std::int64_t{-7}}) {
        u.made = iteration_index{now.value() - age};
        check(u, "a neighbor's");
      }
    }
  return found.take();
}
/// The same for updates of up to five iterations ago.
template <reduce_policy R>
[[nodiscard]] sentences check_reduce(R const& r) {
  return check_reduce(r, [](iteration_index k) { return k - staleness{5}; });
}

/// How far peers may come apart: tokens for one iteration at least.
template <gap_policy G>
[[nodiscard]] sentences check_gap(G const& g) {
  detail::findings found;
  if constexpr (G::tokens) {
    std::int64_t const most = g.gap_max();
    found.expect(most >= 1, "gap: gap_max is ", most, ", expected 1 or more: nobody could go on");
    found.expect(most == G(g).gap_max(), "gap: gap_max is ", most, ", and then another number");
  }
  return found.take();
}

/// How far a peer jumps: no further than the slowest of those that it sends to.
template <jump_policy J>
[[nodiscard]] sentences check_jump(J const& j) {
  detail::findings found;
  if constexpr (J::jumps) {
    if constexpr (requires { j.check(); }) {
      try {
        j.check();
      } catch (option_error const& e) {
        found.expect(false, "jump: ", e.what());
      }
    }
    for (std::int64_t const lag : {2, 3, 4, 5, 6, 7, 8, 9, 10, 20, 100, 1'000'000}) {
      std::int64_t const by = j.jump(lag);
      auto const what = detail::text("jump: jump(", lag, ") is ", by);
      found.expect(by <= lag, what, ", expected at most ", lag,
                   ": beyond the slowest of those that it sends to");
      found.expect(by == J(j).jump(lag), what, ", and another number when asked again");
    }
  }
  return found.take();
}

/// Runs a whole Hop protocol in the simulator on random schedules: graphs of all kinds, peers that
/// differ in speed, slow and jittery links, and losses, if the gather outlives them; and checks the
/// rules after every event, see `peer_observer`. Before that, its parts one by one. Each sentence
/// of a run names the seed of its schedule.
template <hop_protocol P>
[[nodiscard]] sentences check_hop(P const& p, search const& where = {}) {
  sentences all;
  auto const add = [&all](sentences const& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  auto const gather = p.gather();
  add(check_gather(gather));
  add(check_reduce(p.reduce(), [&](iteration_index k) { return gather.oldest(k); }));
  add(check_gap(p.gap()));
  add(check_jump(p.jump()));
  auto const fewest = detail::fewest_updates(gather);
  if (!fewest) return all;
  peer_schedule_limits const limits{
      .in_min = *fewest - 1, .crashes = gather.outlives_loss, .leaves = gather.outlives_loss};
  detail::findings runs;
  for (std::uint64_t i = 0, broken = 0; i < where.schedules && broken < 10; ++i) {
    std::uint64_t const seed = where.first_seed + i;
    auto const violations = observed_peers(p, random_peers(seed, limits)).violations;
    broken += violations.empty() ? 0 : 1;
    for (auto const& sentence : violations) runs.add("schedule ", seed, ": ", sentence);
  }
  add(runs.take("in other schedules"));
  return all;
}

}  // namespace rubato::testing
