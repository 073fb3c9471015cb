// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/discount.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/rounds.hpp"

namespace rubato {

/// FedBuff: nobody waits; updates of several local steps gather in a buffer, and when K are there their mean, each
/// discounted by 1/√(1 + its staleness), makes the next parameters.
///
/// Guarantee: each version but the last is made of K updates, whoever sent them; none is lost.
/// Source: Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, "Federated Learning with Buffered Asynchronous
/// Aggregation", AISTATS 2022.
struct fed_buff {
  std::uint32_t k = 10;    ///< K, the buffer's size
  std::int64_t steps = 1;  ///< Q, local steps of an update

  [[nodiscard]] constexpr unbounded admission() const noexcept { return {}; }
  [[nodiscard]] constexpr buffered visibility() const noexcept { return {.count = k}; }
  [[nodiscard]] constexpr discount merge() const noexcept { return {.power = 0.5, .offset = 1, .averaged = true}; }
  [[nodiscard]] constexpr every pace() const noexcept { return {.steps = steps}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "fed_buff"; }
};
static_assert(protocol<fed_buff>);

}  // namespace rubato
