// expect: hop: with backup workers nothing bounds the gap between neighbors, so updates would pile up: add token_queues
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

// The staleness bounds the gap towards some neighbors only.
auto const p = rb::hop(rb::gather_hybrid{.staleness = 3, .backups = 1});
