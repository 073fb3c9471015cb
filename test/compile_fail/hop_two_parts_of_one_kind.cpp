// expect: hop: two parts of one kind
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

// Which gap shall hold?
auto const p = rb::hop(rb::token_queues{2}, rb::iteration_order::serial, rb::token_queues{8});
