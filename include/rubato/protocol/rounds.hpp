// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/core/check_options.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/round_admission.hpp"

namespace rubato {

/// The first K commits that were computed at a version of the parameters make the next one; the others are left out.
/// With K below the number of workers, M − K of them are backups: whoever is slow holds up nobody, and what it has
/// computed is lost. Source: Chen, Pan, Monga, Bengio, Jozefowicz, "Revisiting Distributed Synchronous SGD", 2016
/// (M − K is their b).
struct quorum {
  static constexpr bool holds_back = true;
  static constexpr late_commit late = late_commit::drop;
  std::uint32_t count = 1;  ///< K

  [[nodiscard]] constexpr std::uint32_t round_size() const noexcept { return count; }
};
static_assert(round_visibility<quorum>);

/// The first K commits to arrive make a version, whatever they were computed at. Nothing is lost, and updates may be
/// stale; `discount` says what those are worth. Source: Nguyen et al., "Federated Learning with Buffered Asynchronous
/// Aggregation", AISTATS 2022.
struct buffered {
  static constexpr bool holds_back = true;
  static constexpr late_commit late = late_commit::fold;
  std::uint32_t count = 1;  ///< K

  [[nodiscard]] constexpr std::uint32_t round_size() const noexcept { return count; }
};
static_assert(round_visibility<buffered>);

/// A worker that has committed waits for parameters that are newer than those it computed at.
struct each_round : unbounded {
  static constexpr bool by_round = true;
};
static_assert(round_admission<each_round> && !sampling_admission<each_round>);

namespace detail {

/// Where `w` comes in an order of 0 … n − 1 that `drawn` decides: four rounds of a Feistel network on the least even
/// number of bits that holds n, again until the place is below n. O(1) and without memory. @pre w < n
[[nodiscard]] constexpr std::uint32_t place_in_draw(std::uint64_t drawn, std::uint32_t w, std::uint32_t n) noexcept {
  unsigned half = 1;
  while (half < 16 && (std::uint64_t{1} << (2 * half)) < n) ++half;
  std::uint32_t const mask = (std::uint32_t{1} << half) - 1;
  do {
    std::uint32_t left = w >> half, right = w & mask;
    for (std::uint64_t r = 0; r < 4; ++r) {
      auto const mixed = static_cast<std::uint32_t>(mix64(drawn ^ mix64(right + (r << 32)))) & mask;
      std::uint32_t const next = left ^ mixed;
      left = right;
      right = next;
    }
    w = (left << half) | right;
  } while (w >= n);
  return w;
}

}  // namespace detail

/// In each round `count` of the workers 0 … of − 1 take part, drawn anew, all subsets alike; the others wait. One with
/// a greater number, who joined later, draws the lot of its number modulo `of`. O(1).
/// Source: McMahan et al., AISTATS 2017, Algorithm 1: "random set of m clients".
struct sampled : unbounded {
  static constexpr bool by_round = true;
  std::uint32_t count = 1;  ///< how many take part
  std::uint32_t of = 0;     ///< the workers that the run begins with; at least `count`
  std::uint64_t seed = 1;   ///< of the draws

  void check() const {
    detail::expect_option(of >= 1, "sampled: of", of, "the number of workers that the run begins with");
    detail::expect_option(count >= 1 && count <= of, "sampled: count", count, "1 or more, and at most of");
  }
  /// See `fingerprinted_policy`.
  [[nodiscard]] constexpr std::uint32_t run_workers() const noexcept { return of; }
  [[nodiscard]] constexpr bool takes_part(worker_id w, version_index round) const noexcept {
    if (count >= of) return true;
    std::uint64_t const drawn = detail::mix64(seed) ^ static_cast<std::uint64_t>(round.value());
    return detail::place_in_draw(detail::mix64(drawn), w.value() % of, of) < count;
  }
};
static_assert(sampling_admission<sampled>);

}  // namespace rubato
