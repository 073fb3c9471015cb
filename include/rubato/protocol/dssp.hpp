// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string_view>

#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/predicted_staleness.hpp"
#include "rubato/protocol/visibility.hpp"

namespace rubato {

/// Dynamic stale synchronous parallel: SSP whose staleness moves between two bounds, from worker to worker and from
/// clock to clock. With `low` = `high` it is SSP, bit for bit.
///
/// Guarantee: that of SSP with s = `high`. Source: Zhao, An, Liu, Chen, "Dynamic Stale Synchronous Parallel Distributed
/// Training for Deep Learning", ICDCS 2019, Algorithms 1 and 2, which do not keep to s_U where one extension follows
/// another; here all together stay within it. So a worker that is always faster waits as long in total as under SSP,
/// if at other times; with the paper's it would hardly wait, and nothing would bound how far it is ahead.
struct dssp {
  rubato::staleness low = 3;    ///< s_L
  rubato::staleness high = 15;  ///< s_U, at least s_L, and less than a million above it

  [[nodiscard]] constexpr predicted_staleness admission() const noexcept { return {low, high}; }
  [[nodiscard]] constexpr eager visibility() const noexcept { return {}; }
  [[nodiscard]] constexpr sum merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "dssp"; }
};
static_assert(protocol<dssp>);

}  // namespace rubato
