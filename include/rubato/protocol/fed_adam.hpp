// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/adam.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// FedAdam: all workers make E local steps, and the servers make one of Adam with the mean of what came of them.
/// FedAdagrad and FedYogi are `with(fed_adam{}, adagrad{.beta1 = 0})` and `with(fed_adam{}, yogi{})`.
///
/// Guarantee: as BSP's; the order in which commits of a clock arrive changes no bit.
/// Source: Reddi et al., "Adaptive Federated Optimization", ICLR 2021.
struct fed_adam {
  std::int64_t steps = 10;  ///< E
  adam optimizer{};  ///< on the servers

  [[nodiscard]] constexpr barrier admission() const noexcept { return {}; }
  [[nodiscard]] constexpr strict visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr adam merge() const noexcept { return optimizer; }
  [[nodiscard]] constexpr every pace() const noexcept { return {.steps = steps}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "fed_adam"; }
};
static_assert(protocol<fed_adam>);

}  // namespace rubato
