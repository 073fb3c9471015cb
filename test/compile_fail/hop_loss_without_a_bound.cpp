// expect: hop: once a peer is lost nothing bounds by how far a sender leads, so the slots may run out: add token_queues
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/peer/hop.hpp>

namespace rb = rubato;

struct gather_living : rb::gather_all {
  static constexpr bool outlives_loss = true;
};

// How far a neighbor may lead is the length of a path, which a loss makes longer, or cuts.
auto const p = rb::hop(gather_living{});
