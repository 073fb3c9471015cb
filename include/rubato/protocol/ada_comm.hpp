// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string_view>

#include "rubato/protocol/adaptive_period.hpp"
#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// ADACOMM: all workers make τ local steps, then their replicas are averaged; τ shrinks with the
/// loss, which the run evaluates or bodies report (see `cluster::run`, `worker::report_loss`).
/// Source: 003 §2.2.
struct ada_comm {
  std::int64_t first_steps = 16;                 ///< τ_0
  duration interval = std::chrono::seconds(60);  ///< how often τ is looked at
  double gamma = 0.5;  ///< what τ is multiplied by where the loss asks for no fewer; in (0, 1)

  [[nodiscard]] constexpr barrier admission() const noexcept { return {}; }
  [[nodiscard]] constexpr strict visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr average merge() const noexcept { return {}; }
  [[nodiscard]] adaptive_period pace() const noexcept {
    return adaptive_period({.first_steps = first_steps, .interval = interval, .gamma = gamma});
  }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "ada_comm"; }
};
static_assert(protocol<ada_comm> && conducted_pace<pace_of<ada_comm>>);

}  // namespace rubato
