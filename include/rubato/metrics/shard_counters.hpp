// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

namespace rubato {

/// What a shard counts of itself.
struct shard_counters {
  std::uint64_t commits = 0;        ///< received and counted
  std::uint64_t refused = 0;        ///< messages of another stage, incarnation or clock
  std::uint64_t dropped = 0;        ///< commits of a lost worker, dropped before they were folded
  std::uint64_t partly_folded = 0;  ///< commits of a lost worker, folded here but not on all shards
  std::uint64_t rounds = 0;         ///< rounds folded, where visibility goes by rounds
  std::uint64_t late = 0;           ///< commits that were left out because their round was over

  /// Adds up what shards have counted.
  shard_counters& operator+=(shard_counters const& o) noexcept {
    commits += o.commits;
    refused += o.refused;
    dropped += o.dropped;
    partly_folded += o.partly_folded;
    rounds += o.rounds;
    late += o.late;
    return *this;
  }
};

}  // namespace rubato
