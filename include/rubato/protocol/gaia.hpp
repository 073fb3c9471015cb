// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/commit_filter.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Sends an entry when it is significant: `|u / w| > v/√t`, at the t-th clock, and carries it until then. One whose
/// parameter is 0, or is not known, is sent. Source: as `gaia`, its significance filter.
struct significance {
  double threshold = 0.01;  ///< v, in parts of a parameter, 0 or more

  void check() const {
    detail::expect_option(threshold >= 0 && std::isfinite(threshold), "significance: threshold", threshold,
                          "0 or more, finite");
  }
  static constexpr std::size_t slots = 0;

  template <std::floating_point T>
  [[nodiscard]] constexpr T send(filter_point at, T w, T& u) const noexcept {
    auto const t = static_cast<double>(at.clock.value() + 1);
    double const share = static_cast<double>(u) / static_cast<double>(w);
    bool const small = share * share * t <= threshold * threshold;  // false of what is not a number
    T const sent = small ? T(0) : u;
    u = small ? u : T(0);
    return sent;
  }
};
static_assert(commit_filter<significance>);

/// Gaia's approximate synchronous parallel: workers, which are its data centers, send what is significant only, and
/// none is more than s clocks ahead of the slowest. What is not sent grows until it is; what becomes
/// of it at a body's end, `commit_filter` says.
///
/// Guarantee: SSP's, of all but what is carried, of which no entry is above `v/√t` of its parameter. With v = 0 it is
/// SSP.
/// Source: Hsieh, Harlap, Vijaykumar, Konomis, Ganger, Gibbons, Mutlu, "Gaia: Geo-Distributed Machine Learning
/// Approaching LAN Speeds", NSDI 2017, "Approximate Synchronous Parallel" (its mirror clock is the bound s).
struct gaia {
  rubato::staleness staleness = 3;  ///< s, in clocks
  significance significant{};       ///< what is sent

  [[nodiscard]] constexpr bounded_staleness admission() const noexcept { return {staleness}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr sum merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] constexpr significance filter() const noexcept { return significant; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "gaia"; }
};
static_assert(protocol<gaia>);

}  // namespace rubato
