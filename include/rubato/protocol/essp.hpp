// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string_view>

#include "rubato/protocol/admission.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/read_ahead.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Eager SSP: reads are let in as under SSP, and what workers read is renewed while they compute, not when it has become
/// too old.
///
/// Guarantee: SSP's. Where a worker reads the same rows of one table in each clock, by one pull, and shares what it
/// reads with no other, a read shows all that the servers had folded when the worker asked for its read before. In the
/// paper servers go on sending what a client has asked for once, and nobody waits for it; here the worker asks again, and
/// a commit waits for the answer, which takes time where a clock is shorter than the way to a server and back.
/// Source: Dai, Kumar, Wei, Ho, Gibson, Xing, "High-Performance Distributed ML at Scale through Parameter Server
/// Consistency Models", AAAI 2015.
struct essp {
  rubato::staleness staleness = 3;  ///< s, in clocks

  [[nodiscard]] constexpr bounded_staleness admission() const noexcept { return {staleness}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr sum merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] constexpr refreshed reads() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "essp"; }
};
static_assert(protocol<essp>);

}  // namespace rubato
