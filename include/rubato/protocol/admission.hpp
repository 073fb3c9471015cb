// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// A worker at clock c goes on when every worker has reached c; a copy serves the clock at which it
/// was fetched, and no later one. Source: 001 §2 (s = 0).
struct barrier {
  [[nodiscard]] constexpr staleness bound() const noexcept { return {}; }
  [[nodiscard]] constexpr clock_index need(clock_index c, staleness) const noexcept { return c; }
  [[nodiscard]] constexpr clock_index cache_need(clock_index c, staleness) const noexcept {
    return c;
  }
};
static_assert(admission_policy<barrier>);

/// A worker at clock c goes on when every worker has reached c − s; a copy fetched at server clock
/// r serves while r ≥ c − s. Source: 001 §2–3. (000 Alg. 1 line 8 is one clock laxer, see the
/// erratum in the rules: its test runs before the clock is advanced.)
struct bounded_staleness {
  staleness s;  ///< how many clocks the fastest worker may be ahead of what it reads

  [[nodiscard]] constexpr staleness bound() const noexcept { return s; }
  [[nodiscard]] constexpr clock_index need(clock_index c, staleness read) const noexcept {
    return c - std::min(read, s);
  }
  [[nodiscard]] constexpr clock_index cache_need(clock_index c, staleness read) const noexcept {
    return c - std::min(read, s);
  }
};
static_assert(admission_policy<bounded_staleness>);

/// Nobody ever waits, and the first read of each clock fetches. Source: 001 §5 ("Async"), 000 §2.
struct unbounded {
  [[nodiscard]] constexpr staleness bound() const noexcept { return staleness::infinite(); }
  /// A read that asks for a bound of its own still gets it.
  [[nodiscard]] constexpr clock_index need(clock_index c, staleness read) const noexcept {
    return c - read;
  }
  [[nodiscard]] constexpr clock_index cache_need(clock_index, staleness) const noexcept {
    return clock_index::highest();
  }
};
static_assert(admission_policy<unbounded>);

}  // namespace rubato
