// expect: hop: notify_ack holds a peer back until each neighbor has caught up, so only gather_all goes with it
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

// A neighbor that is not waited for is waited for all the same: for its acknowledgement.
auto const p = rb::hop(rb::notify_ack{}, rb::gather_all_but{.backups = 1});
