// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/lazy_upload.hpp"
#include "rubato/protocol/mean_of_latest.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Lazily aggregated gradients, by the workers' own rule (LAG-WK): a worker whose gradient has hardly changed sends
/// nothing, and servers step with the last ones they have, `v ← v + Σ differences`, `w ← w + v/M`. For gradients of
/// all of a worker's data at one learning rate, one to a clock, all rows read at each; those of mini-batches differ,
/// and are sent.
///
/// Guarantee: v is the sum of what the workers have sent last; with a trigger of 0 it is BSP, up to rounding, but that
/// a worker whose body ends counts once more, with nothing. A lost worker's last gradient stays, and so do all of a
/// run that was stopped.
/// Source: Chen, Giannakis, Sun, Yin, "LAG: Lazily Aggregated Gradient for Communication-Efficient Distributed Learning",
/// NeurIPS 2018 (LAG-WK).
struct lag {
  std::int64_t window = 10;  ///< D
  double trigger = 0.1;      ///< ξ

  [[nodiscard]] constexpr barrier admission() const noexcept { return {}; }
  [[nodiscard]] constexpr strict visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr mean_of_latest merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] lazy_upload filter() const { return {.window = window, .trigger = trigger}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "lag"; }
};
static_assert(protocol<lag>);

}  // namespace rubato
