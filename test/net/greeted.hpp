// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Ends that know each other, or the token.
#pragma once

#include <catch2/catch.hpp>

#include <string>

#include <rubato/net/impl/handshake.hpp>

#include "ends.hpp"

namespace rubato::test {

/// The first bytes of a process that knows the token.
inline bytes greeting_by(std::string const& token) {
  return net::handshake(net::handshake::role::connecting, token, {}, net::fresh_secret()).output();
}

/// Whether what one end sends comes to the other.
inline bool is_open(pair_of_ends& ends) {
  auto const before = ends.at_server.ended;
  ends.client->send({.kind = 1}, {}, pattern(10));
  ends.client->flush();
  return ends.until([&] { return ends.at_server.ended == before + 1; });
}

inline void check_open(pair_of_ends& ends) { REQUIRE(is_open(ends)); }

}  // namespace rubato::test
