// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/protocol/pace.hpp"
#include "rubato/protocol/rounds.hpp"

namespace rubato {

/// FedAvg: in each round some workers are drawn, make some local steps from the same parameters, and the mean of what
/// they have become makes the next parameters; the others wait in their pull, or in the push of a clock without one, and
/// receive nothing. All shards of the data count the same: for the paper's n_k/n, a merge that weighs by
/// `commit_info::from`.
///
/// A round is over when all that were drawn have committed, without those that have left or are lost.
/// Source: McMahan, Moore, Ramage, Hampson, Agüera y Arcas, "Communication-Efficient Learning of Deep Networks from
/// Decentralized Data", AISTATS 2017, Algorithm 1.
struct fed_avg {
  std::uint32_t clients = 1;     ///< m: how many take part in a round
  std::uint32_t of = 0;          ///< K: the workers that the run begins with
  std::int64_t steps = 1;        ///< E passes, in local steps
  std::uint64_t seed = 1;        ///< of the draws

  [[nodiscard]] constexpr sampled admission() const noexcept {
    return {{}, clients, of, seed};
  }
  [[nodiscard]] constexpr quorum visibility() const noexcept { return {.count = clients}; }
  [[nodiscard]] constexpr average merge() const noexcept { return {}; }
  [[nodiscard]] constexpr every pace() const noexcept { return {.steps = steps}; }
  [[nodiscard]] static constexpr std::string_view name() noexcept { return "fed_avg"; }
};
static_assert(protocol<fed_avg>);

}  // namespace rubato
