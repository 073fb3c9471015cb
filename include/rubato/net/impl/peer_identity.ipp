// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/peer_identity.hpp"

#include <fmt/core.h>

namespace rubato::net {

std::optional<std::string> peer_identity::objection(wire::role said) const {
  if (!as_ || *as_ == said) return std::nullopt;
  return fmt::format("a process that said in its handshake that it is a {} now says that it is a {}",
                     to_string(*as_), to_string(said));
}

}  // namespace rubato::net
