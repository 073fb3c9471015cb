// expect: hop: notify_ack holds a peer back until each neighbor has caught up, so only gather_all goes with it
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

// Nobody gets more than two iterations ahead, whatever staleness is allowed.
auto const p = rb::hop(rb::notify_ack{}, rb::gather_newest{.staleness = 5});
