// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "rubato/net/security.hpp"
#include "rubato/net/impl/handshake.hpp"
#include "rubato/net/impl/stream.hpp"

namespace rubato::net {

/// Certificate, key and authority of one end, read once.
class tls_context;

/// @throws option_error that names the file which cannot be used
[[nodiscard]] std::shared_ptr<tls_context const> make_tls_context(tls_files const& files);

/// Encrypts what goes over a connected socket, and asks for the other end's certificate. `host`:
/// the name that it must be for, or the number that must be among its IP addresses (subjectAltName, RFC 5280);
/// empty where the authority's signature is enough.
[[nodiscard]] std::unique_ptr<stream> tls_stream(std::shared_ptr<tls_context const> context,
                                                 socket_type socket, handshake::role mine,
                                                 std::string const& host);

}  // namespace rubato::net
