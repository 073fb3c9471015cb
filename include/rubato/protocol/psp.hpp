// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/heeding_admission.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/rounds.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// At each clock c a worker waits until `count` of the others, drawn anew, have reached c − s. It does not draw again
/// while it waits, which the paper leaves open; those that are gone are not replaced by others. All samples of the
/// workers 0 … of − 1 are alike; who has a greater number, since it joined later, is in the sample of its number modulo
/// `of − 1`. O(1).
struct sampled_staleness : unbounded {
  staleness s;              ///< how many clocks the reader may be ahead of those in its sample
  std::uint32_t count = 1;  ///< β: the size of the sample
  std::uint32_t of = 0;     ///< the workers that the run begins with
  std::uint64_t seed = 1;   ///< of the draws

  void check() const {
    detail::expect_option(of >= 1, "sampled_staleness: of", of, "the number of workers that the run begins with");
  }
  /// See `fingerprinted_policy`.
  [[nodiscard]] constexpr std::uint32_t run_workers() const noexcept { return of; }
  [[nodiscard]] constexpr clock_index need(clock_index c, staleness read) const noexcept {
    return c - std::min(read, s);
  }
  [[nodiscard]] constexpr clock_index cache_need(clock_index c, staleness read) const noexcept { return need(c, read); }
  [[nodiscard]] constexpr bool heeds(worker_id reader, worker_id other, clock_index c) const noexcept {
    if (count == 0 || of < 2 || count >= of - 1) return count != 0;
    std::uint64_t const drawn =
        detail::mix64(detail::mix64(seed) ^ static_cast<std::uint64_t>(c.value())) ^ reader.value();
    std::uint32_t const among = other.value() - (other > reader ? 1 : 0);  // the others are 0 … of − 2
    return detail::place_in_draw(detail::mix64(drawn), among % (of - 1), of - 1) < count;
  }
};
static_assert(heeding_admission<sampled_staleness>);

/// Probabilistic synchronous parallel: SSP whose workers look at a sample of the others (pSSP; with a staleness of 0
/// pBSP). With a sample of all others it is SSP, bit for bit, with one of nobody no worker waits.
///
/// Guarantee: a read at clock c reflects every update with a stamp ≤ c − s − 1 of the workers in its sample, and all of
/// the reader's own. With a staleness of its own a read waits the longer for its sample, and for nobody else.
/// Source: Wang, Catterall, Mortier, "Probabilistic Synchronous Parallel", 2017.
struct psp {
  rubato::staleness staleness = 3;  ///< s, in clocks
  std::uint32_t sample = 1;         ///< β
  std::uint32_t of = 0;             ///< M: the workers that the run begins with
  std::uint64_t seed = 1;           ///< of the draws

  [[nodiscard]] constexpr sampled_staleness admission() const noexcept { return {{}, staleness, sample, of, seed}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr sum merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "psp"; }
};
static_assert(protocol<psp>);

}  // namespace rubato
