// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "rubato/net/connection.hpp"
#include "rubato/net/impl/stream.hpp"
#include "rubato/net/impl/stream_host.hpp"

namespace rubato::net {

/// A connection over a stream that has passed the handshake, in which the other end has shown itself to be this. The
/// ticket is dropped when it closes. `local`: see `connection::is_local`.
[[nodiscard]] std::unique_ptr<connection> make_connection(std::shared_ptr<stream_host> host,
                                                          std::unique_ptr<stream> over,
                                                          std::string peer, peer_identity shown,
                                                          connection_options const& options,
                                                          std::shared_ptr<void> ticket = {},
                                                          bool local = false);

}  // namespace rubato::net
