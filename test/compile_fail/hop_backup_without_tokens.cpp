// expect: hop: with backup workers nothing bounds the gap between neighbors, so updates would pile up: add token_queues
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

// Two neighbors that need only each other leave a third one behind for ever.
auto const p = rb::hop(rb::gather_all_but{.backups = 1});
