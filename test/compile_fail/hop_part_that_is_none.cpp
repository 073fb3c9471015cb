// expect: hop: a part must model gather_policy, reduce_policy, gap_policy or jump_policy, or be an iteration_order
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

// A staleness alone is no gather.
auto const p = rb::hop(rb::token_queues{8}, rb::staleness{3});
