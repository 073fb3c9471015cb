// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <string_view>

#include "rubato/core/check_options.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/limiting_admission.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// The limit shrinks with the clock: v_t = v_0 / √t, where the first read is at t = 1.
struct bounded_value : unbounded {
  double first = 1;  ///< v_0, in units of the parameters; 0 or more

  void check() const {
    detail::expect_option(first >= 0, "bounded_value: first", first, "0 or more");
  }
  [[nodiscard]] double limit(clock_index c) const noexcept {
    return first / std::sqrt(static_cast<double>(c.value()) + 1);
  }
};
static_assert(limiting_admission<bounded_value>);

/// Value-bounded asynchronous parallel: nobody waits for how often others have committed, but everybody for others to
/// see what it has changed, once that is more than v_t. In the paper an ideal, which needs all workers' agreement on
/// each update; here the one server that there is decides. With `first` = 0 a worker waits after each commit until all
/// others have read again, or wait as well.
///
/// Guarantee: of each worker's updates those that some other worker has not seen add up to at most v_t in any element
/// when it reads at clock t − 1, and to one commit more while it computes. Source: Dai, Kumar, Wei, Ho, Gibson, Xing,
/// "High-Performance Distributed ML at Scale through Parameter Server Consistency Models", AAAI 2015.
struct vap {
  double first = 1;  ///< v_0, in units of the parameters

  [[nodiscard]] constexpr bounded_value admission() const noexcept { return {{}, first}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr sum merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "vap"; }
};
static_assert(protocol<vap>);

}  // namespace rubato
