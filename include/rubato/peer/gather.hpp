// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>

#include "rubato/core/clock.hpp"
#include "rubato/peer/concepts.hpp"

namespace rubato {

/// The standard: this iteration's update of every in-neighbor. Source: 002 Fig. 4.
struct gather_all {
  static constexpr keeping kept = keeping::by_iteration;
  static constexpr bool bounds_gap = true;
  static constexpr bool outlives_loss = false;
  [[nodiscard]] static constexpr std::size_t needed(std::size_t n) noexcept { return n; }
  [[nodiscard]] static constexpr iteration_index oldest(iteration_index k) noexcept { return k; }
};
static_assert(gather_policy<gather_all>);

/// Backup workers: this iteration's updates of all but some, and what more of them is there already.
/// Source: 002 §3.4, Fig. 8.
struct gather_all_but {
  std::uint32_t backups = 1;  ///< N_buw; fewer than the updates of any node, its own included

  static constexpr keeping kept = keeping::by_iteration;
  static constexpr bool bounds_gap = false;
  static constexpr bool outlives_loss = true;
  [[nodiscard]] constexpr std::size_t needed(std::size_t n) const noexcept {
    return n < backups ? 0 : n - backups;
  }
  [[nodiscard]] static constexpr iteration_index oldest(iteration_index k) noexcept { return k; }
};
static_assert(gather_policy<gather_all_but>);

/// Bounded staleness: goes on while the newest update ever received from each in-neighbor is at most
/// s iterations old; reduces what has arrived since the last time. Source: 002 §3.5, §4.4, Fig. 9.
struct gather_newest {
  rubato::staleness staleness = 5;  ///< s, in iterations

  static constexpr keeping kept = keeping::newest;
  static constexpr bool bounds_gap = true;
  static constexpr bool outlives_loss = true;
  [[nodiscard]] static constexpr std::size_t needed(std::size_t n) noexcept { return n; }
  [[nodiscard]] constexpr iteration_index oldest(iteration_index k) const noexcept {
    return k - staleness;
  }
};
static_assert(gather_policy<gather_newest>);

/// Bounded staleness towards all in-neighbors but some: the hybrid of 002 Table 1.
struct gather_hybrid {
  rubato::staleness staleness = 5;  ///< s, in iterations
  std::uint32_t backups = 1;  ///< fewer than the updates of any node, its own included

  static constexpr keeping kept = keeping::newest;
  static constexpr bool bounds_gap = false;
  static constexpr bool outlives_loss = true;
  [[nodiscard]] constexpr std::size_t needed(std::size_t n) const noexcept {
    return gather_all_but{backups}.needed(n);
  }
  [[nodiscard]] constexpr iteration_index oldest(iteration_index k) const noexcept {
    return k - staleness;
  }
};
static_assert(gather_policy<gather_hybrid>);

}  // namespace rubato
