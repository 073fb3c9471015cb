// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <functional>
#include <optional>

#include "rubato/core/clock.hpp"
#include "rubato/protocol/rules.hpp"

namespace rubato::testing {

/// What an observer holds a run to; the rules' names are those of `protocol-rules.md` §2.
struct expectations {
  /// The protocol's s: SSP-1 and SSP-3.
  staleness bound = {};
  /// Where set, workers wait for what it says, which may be more than the bound asks for, and differ from
  /// worker to worker: never for less, and nobody for more. Where it heeds some workers only, SSP-1 and SSP-3 are of
  /// these.
  std::optional<admission_rule> admission = {};
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
[[nodiscard]] inline expectations eager_rules(staleness s) {
  return {.bound = s, .newest = [s](clock_index c) { return (c + s).next(); }};
}

/// The rules of synchronized visibility with this staleness.
[[nodiscard]] inline expectations synchronized_rules(staleness s) {
  expectations r = eager_rules(s);
  r.holds_back = true;
  r.same_cut = true;
  return r;
}

/// The rules of strict visibility with this staleness; with 0 those of the barrier.
[[nodiscard]] inline expectations strict_rules(staleness s) {
  return {.bound = s,
          .newest = [s](clock_index c) { return c + s; },
          .holds_back = true,
          .barrier = s == staleness{0}};
}

}  // namespace rubato::testing
