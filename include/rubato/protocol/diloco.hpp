// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/nesterov.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// DiLoCo: all workers make H local steps of an optimizer of their own, and the servers take the mean of what came of
/// them as a gradient, with Nesterov's momentum. Where nobody waits it is `async_diloco`.
///
/// Guarantee: as BSP's, which it is with H = 1, μ = 0 and η = 1; bytes per local step are BSP's divided by H.
/// Source: Douillard, Feng, Rusu, Chhaparia, Donchev, Kuncoro, Ranzato, Szlam, Shen, "DiLoCo: Distributed
/// Low-Communication Training of Language Models", 2023, arXiv 2311.08105, Algorithm 1.
struct diloco {
  std::int64_t steps = 500;  ///< H
  nesterov optimizer{};  ///< on the servers

  [[nodiscard]] constexpr barrier admission() const noexcept { return {}; }
  [[nodiscard]] constexpr strict visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr nesterov merge() const noexcept { return optimizer; }
  [[nodiscard]] constexpr every pace() const noexcept { return {.steps = steps}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "diloco"; }
};
static_assert(protocol<diloco>);

}  // namespace rubato
