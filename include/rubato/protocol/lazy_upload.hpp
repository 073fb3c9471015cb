// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <numeric>
#include <vector>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/commit_filter.hpp"

namespace rubato {

/// Sends by how much an update differs from the one that was sent last, or nothing: it is sent when the squared norm of
/// that is above `trigger` times those of the parameters' last `window` differences, added up. Nothing is carried. The
/// commit that ends a body takes back what was sent last. Source: as `lag`, for updates −α∇L and their mean.
struct lazy_upload {
  std::int64_t window = 10;  ///< D, at least 1
  double trigger = 0.1;      ///< ξ, of each difference alike; 0 or more

  void check() const {
    detail::expect_option(window >= 1, "lazy_upload: window", window, "1 or more");
    detail::expect_option(trigger >= 0 && std::isfinite(trigger), "lazy_upload: trigger", trigger, "0 or more, finite");
  }
  static constexpr std::size_t slots = 2;
  static constexpr std::size_t sums = 2;
  static constexpr bool differences = true;

  template <std::floating_point T>
  [[nodiscard]] constexpr std::array<double, sums> measure(filter_point, T w, T u, T last, T before) const noexcept {
    double const changed = static_cast<double>(u - last), moved = static_cast<double>(w - before);
    return {changed * changed, moved * moved};
  }
  void decide(filter_point at, std::array<double, sums> const& all) noexcept {
    if (begun && !std::isnan(all[1])) moves.push_back(all[1]);
    if (std::ssize(moves) > window) moves.erase(moves.begin());
    sends = !begun || at.last || !(all[0] <= trigger * std::accumulate(moves.begin(), moves.end(), 0.0));
    begun = true;
  }
  template <std::floating_point T>
  [[nodiscard]] constexpr T send(filter_point at, T w, T& u, T& last, T& before) const noexcept {
    T const update = at.last ? T(0) : u;
    before = w;
    u = 0;
    if (!sends) return 0;
    T const changed = update - last;
    last = update;
    return changed;
  }

  // what it remembers
  std::vector<double> moves{};  ///< squared norms of the parameters' differences, oldest first
  bool begun = false;           ///< there was a commit
  bool sends = true;            ///< what was decided
};
static_assert(commit_filter<lazy_upload>);

}  // namespace rubato
