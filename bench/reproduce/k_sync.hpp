// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/protocol/rules.hpp"
#include "rubato/sim/distribution.hpp"

/// What a version of the parameters takes where workers compute for random times: Dutta, Joshi, Ghosh, Dube, Nagpurkar,
/// "Slow and Stale Gradients Can Win the Race", AISTATS 2018.
namespace rubato::bench::aistats18 {

/// The four ways to wait for K updates of P workers.
enum class waiting : std::uint8_t { k_sync, k_batch_sync, k_async, k_batch_async };

/// Of one of those. `with(k_sync, unbounded)` is K-batch-sync.
[[nodiscard]] rules protocol_of(waiting how, std::uint32_t k);

/// 1 + 1/2 + … + 1/n.
[[nodiscard]] double harmonic(std::uint32_t n) noexcept;

/// The paper's mean time of a version, in units of the mean of the exponential time of an update:
/// H_P − H_{P−K} where who has sent waits, K/P where nobody does.
[[nodiscard]] double expected_time(waiting how, std::uint32_t k, std::uint32_t workers) noexcept;

/// Where the paper's rules and ours are different.
struct model_rules {
  bool cancels = true;         ///< an update that nobody waits for any more is given up, and begun anew
  bool waits_for_own = true;   ///< K-async: who has sent waits until that is folded, however old it was
};
inline constexpr model_rules rules_of_paper{}, rules_of_ours{.cancels = false, .waits_for_own = false};

/// The mean time of a version with exponential times of mean 1 by a model of its own, which knows nothing of servers:
/// as nobody remembers how long it has computed, the next to have an update is any of those who compute.
[[nodiscard]] double modelled_time(waiting how, std::uint32_t k, std::uint32_t workers, model_rules by,
                                   std::int64_t versions, std::uint64_t seed);

/// The same of the real servers and workers, in the simulator, without a network's time.
/// @param time what an update takes
/// @param versions so many at least
[[nodiscard]] double measured_time(rules const& p, std::uint32_t workers, sim::distribution const& time,
                                   std::int64_t versions, std::uint64_t seed);

}  // namespace rubato::bench::aistats18
