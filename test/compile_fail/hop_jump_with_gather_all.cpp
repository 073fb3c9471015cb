// expect: hop: with gather_all every update is waited for, those of iterations that a neighbor leaves out as well: bounded_jump needs backup workers or bounded staleness
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

auto const p = rb::hop(rb::token_queues{8}, rb::bounded_jump{});
