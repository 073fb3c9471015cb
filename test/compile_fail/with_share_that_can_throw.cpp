// expect within 15: a merge that keeps versions needs map, share, expire and version_after, all const and
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/dyn_sgd.hpp>
#include <rubato/protocol/protocol.hpp>

namespace rb = rubato;

struct all_alike : rb::revise {
  double share(rb::version_state const&) const { return 1; }  // may throw: no versions would be kept
};

auto const p = with(rb::dyn_sgd{.staleness = 3}, all_alike{});
