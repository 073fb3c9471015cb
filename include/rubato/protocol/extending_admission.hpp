// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>

#include "rubato/core/time.hpp"
#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// When the last two commits of a worker have arrived at a server.
struct commit_times {
  time_point before;  ///< the last but one
  time_point last;    ///< the newest one
};

/// Admission whose bound moves: who must wait by `need` may make some clocks more, by how fast workers are.
///
/// | expression                       | result         | meaning |
/// |----------------------------------|----------------|---------|
/// | `p.extra(own, slowest, most)`    | `std::int64_t` | for how many clocks it may go on beyond `need`, 0 to `most` |
///
/// It is asked when a worker that nobody is ahead of would have to wait, has no such clocks left, and two commits of it
/// and of the slowest worker have come since they joined. `most` is what `bound()` leaves, which is not exceeded
/// whatever is answered; it must be finite. Depends on nothing but the arguments. Each server goes by the times at
/// which commits came to it, so servers may differ in what they grant: a worker goes on when all that it asks let it
/// in. Workers of a process do not share reads. Called under the shard's control lock. Models: `predicted_staleness`.
/// Source: Zhao et al., ICDCS 2019, Algorithms 1 and 2.
template <class P>
concept extending_admission = admission_policy<P> && requires(P const p, commit_times const& t, std::int64_t most) {
  { p.extra(t, t, most) } noexcept -> std::same_as<std::int64_t>;
};

}  // namespace rubato
