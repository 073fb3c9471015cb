// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <functional>
#include <type_traits>
#include <utility>

#include "rubato/core/check_options.hpp"
#include "rubato/core/clock.hpp"

namespace rubato {

/// A worker that reads from a copy which it fetched in an earlier clock.
struct read_point {
  clock_index clock;  ///< the worker's
  staleness age;      ///< so many of the last clocks the copy does not have of everybody
};

/// When are copies renewed? Lives on the worker. Optional: a protocol says `reads()`.
///
/// | expression     | result | meaning |
/// |----------------|--------|---------|
/// | `p.renews(at)` | `bool` | whether what was read from a copy is asked for again while the worker computes |
///
/// `at` is a `read_point`; noexcept, depends on nothing else. Called when a read has been answered, until copies are
/// renewed in its clock: those of one table, as a whole or the rows that were read by key in the clock before and since.
/// Of all tables that were read in the last 8 clocks the one has the turn that was asked for longest ago. Nothing is
/// promised less: admission says as ever which copies may be read. The worker's commit waits for the answer, which the
/// next clock reads: no time where a clock is longer than the way to a server and back, but all of it where it is not. A
/// `prefetch` meanwhile does nothing. Reads by key that lack some of their rows ask for all. Workers of a process that
/// share what they read give one another what is newer than they have. Costs the bytes of the answers, a read per clock.
///
/// Not with reads that are of a cut or a round (`stable_cut`, `quorum`, `buffered`), nor where admission lets in each read
/// for itself (PSP, DSSP, VAP): these ask at every clock anyway. Not with merges that go by what a worker has read last
/// (`revise`, `compensate`). They are refused with a sentence.
/// Models: `refreshed`, and the user's own.
template <class P>
concept read_policy = std::copyable<P> && requires(P const p, read_point at) {
  { p.renews(at) } noexcept -> std::same_as<bool>;
};

/// Copies are renewed when a read comes that admission gives a newer one: what a protocol has where it has no `reads()`.
struct on_demand {};

/// Copies are renewed at every clock. Source: as `essp`.
struct refreshed {
  [[nodiscard]] constexpr bool renews(read_point) const noexcept { return true; }
};
static_assert(read_policy<refreshed>);

/// A read policy as a value; empty: `on_demand`.
using read_rule = std::function<bool(read_point)>;

namespace detail {

template <class P>
concept reads_part = read_policy<P> || std::same_as<P, on_demand>;

/// What a protocol has.
template <class P>
[[nodiscard]] constexpr auto reads_of([[maybe_unused]] P const& p) {
  static_assert(requires { p.reads(); } || !requires(P& own) { own.reads(); },
                "a protocol's reads() must be const, or nothing is read ahead");
  if constexpr (requires { p.reads(); }) return p.reads();
  else return on_demand{};
}

template <reads_part P>
[[nodiscard]] read_rule make_read_rule(P policy) {
  if constexpr (std::same_as<P, on_demand>) return {};
  else return [policy = checked(std::move(policy))](read_point at) { return policy.renews(at); };
}

}  // namespace detail

}  // namespace rubato
