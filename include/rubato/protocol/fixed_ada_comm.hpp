// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Fixed ADACOMM: all workers make τ local steps, then their replicas are averaged. With one step it
/// is BSP. Source: 003 §2.2.
struct fixed_ada_comm {
  std::int64_t steps = 16;  ///< τ

  [[nodiscard]] constexpr barrier admission() const noexcept { return {}; }
  [[nodiscard]] constexpr strict visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr average merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every pace() const noexcept { return {.steps = steps}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "fixed_ada_comm"; }
};
static_assert(protocol<fixed_ada_comm>);

}  // namespace rubato
