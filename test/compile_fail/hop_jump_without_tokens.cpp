// expect: hop: a peer knows from its tokens how far it lags: bounded_jump needs token_queues
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

auto const p = rb::hop(rb::gather_newest{.staleness = 5}, rb::bounded_jump{});
