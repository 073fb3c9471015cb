// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/fragments.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// DiLoCo in P fragments of the parameters, each synchronized every H local steps, in turns: what is sent at once is a
/// P-th. Of what a commit brings only its fragment is new, so a body that keeps its parameters may read these rows
/// alone: `filter().takes({worker.clock() − 1}, row)`. Where P is 1 it is `diloco`.
///
/// Guarantee: as DiLoCo's, of each fragment by itself. The paper also hides the time on the wire behind local steps
/// (its τ) and sends 4 bits for a number, which this does not.
/// Source: Douillard, Donchev, Rush, Kale, Charles, Garrett, Teston, Lacey, McIlroy, Shen, Ramé, Szlam, Ranzato,
/// Barham, "Streaming DiLoCo with overlapping communication: Towards a Distributed Free Lunch", 2025, arXiv 2501.18512,
/// Algorithm 2.
struct streaming_diloco {
  std::int64_t steps = 500;    ///< H
  std::int64_t fragments = 4;  ///< P, from 1 to H
  fragment_nesterov optimizer{};  ///< on the servers

  [[nodiscard]] constexpr barrier admission() const noexcept { return {}; }
  [[nodiscard]] constexpr strict visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr fragment_nesterov merge() const noexcept { return optimizer; }
  [[nodiscard]] constexpr staggered pace() const noexcept { return {steps, fragments}; }
  [[nodiscard]] constexpr one_fragment filter() const noexcept { return {fragments}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "streaming_diloco"; }
};
static_assert(protocol<streaming_diloco>);

}  // namespace rubato
