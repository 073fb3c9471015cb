// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <limits>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/commit_filter.hpp"
#include "rubato/protocol/nesterov.hpp"

namespace rubato {

/// Rows in P fragments, row r in fragment r mod P; the commit of clock c sends fragment c mod P. Source: as
/// `streaming_diloco`, §2.2 (the strided pattern).
struct one_fragment {
  std::int64_t fragments = 4;  ///< P, at least 1

  void check() const { detail::expect_option(fragments >= 1, "one_fragment: fragments", fragments, "1 or more"); }
  [[nodiscard]] constexpr bool takes(filter_point at, key row) const noexcept {
    auto const p = static_cast<std::uint64_t>(fragments);
    return row.value() % p == static_cast<std::uint64_t>(at.clock.value()) % p;
  }
};
static_assert(commit_filter<one_fragment>);

/// P commits in H local steps, as far from one another as whole steps allow.
struct staggered {
  std::int64_t steps = 500;    ///< H, at least P
  std::int64_t fragments = 4;  ///< P, at least 1

  void check() const {
    detail::expect_option(fragments >= 1, "staggered: fragments", fragments, "1 or more");
    detail::expect_option(steps >= fragments, "staggered: steps", steps, "as many as there are fragments, or more");
    detail::expect_option(steps <= std::numeric_limits<std::int64_t>::max() / fragments, "staggered: steps", steps,
                          "no more than 64 bits hold times the fragments");
  }
  [[nodiscard]] constexpr commit_due due(pace_point const& at) const noexcept {
    std::int64_t const turn = at.clock.value() % fragments;
    return {.steps = (turn + 1) * steps / fragments - turn * steps / fragments};
  }
};
static_assert(pace_policy<staggered>);

/// Nesterov's momentum of the rows that a step has updates for; the others', and their momentum, stay.
struct fragment_nesterov : nesterov {
  static constexpr bool lazy = true;
};
static_assert(element_merge<fragment_nesterov>);

}  // namespace rubato
