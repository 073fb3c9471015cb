// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <optional>
#include <string>

#include "rubato/wire/role.hpp"

namespace rubato::net {

/// What the other end of a connection has shown itself to be before its first frame. What it says later, in its hello
/// and to the coordinator, is held against that.
class peer_identity {
 public:
  /// Of a connection without a handshake: it may be anything.
  peer_identity() = default;
  /// @param as what it has said in the handshake, and where there is a token has proved with it
  explicit peer_identity(wire::role as) noexcept : as_(as) {}

  /// Why it cannot speak as this, in a sentence for both ends; nothing where it can.
  [[nodiscard]] std::optional<std::string> objection(wire::role said) const;

 private:
  std::optional<wire::role> as_;
};

}  // namespace rubato::net
