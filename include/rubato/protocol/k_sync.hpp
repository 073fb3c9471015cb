// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/rounds.hpp"

namespace rubato {

/// K-sync SGD, or synchronous SGD with M − K backup workers: the mean of the first K updates that were computed at the
/// parameters makes the next ones, and what comes later for them is left out. With K = M it is BSP, bit for bit.
///
/// `with(k_sync{K}, unbounded{})` is K-batch-sync: a worker need not wait for the others to compute another update at
/// the same parameters. A worker is not stopped while it computes what nobody waits for any more, as 2016 has it too;
/// so one that is slow takes part when it happens to be in time.
///
/// Guarantee: each version is made of K updates computed at the one before, with M live workers at most M − K are left
/// out a round. Sources: Chen et al. 2016, "Revisiting Distributed Synchronous SGD"; Dutta, Joshi,
/// Ghosh, Dube, Nagpurkar, "Slow and Stale Gradients Can Win the Race", AISTATS 2018.
struct k_sync {
  std::uint32_t k = 1;  ///< K

  [[nodiscard]] constexpr each_round admission() const noexcept { return {}; }
  [[nodiscard]] constexpr quorum visibility() const noexcept { return {.count = k}; }
  [[nodiscard]] constexpr average merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every_step pace() const noexcept { return {}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "k_sync"; }
};
static_assert(protocol<k_sync>);

}  // namespace rubato
