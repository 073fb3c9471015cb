// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/network.hpp"

namespace rubato::detail {

/// Listens where `deployment::listening` says; on loopback, where that was a Unix-domain socket that nobody had asked for
/// and that cannot be had, as in a folder that belongs to another user. @throws as `network::listen`
[[nodiscard]] inline std::unique_ptr<net::listener> listen_as(net::deployment const& place, net::network& over,
                                                              net::listener_options const& options,
                                                              net::network::accepted const& accepted) {
  net::address const at = place.listening();
  try {
    return over.listen(at, place.keys, options, accepted);
  } catch (error const& e) {
    if (place.listen || !at.is_unix()) throw;
    net::log(net::log_level::info, std::string(e.what()) + "; it is loopback, then");
  }
  return over.listen({.host = "127.0.0.1", .port = 0}, place.keys, options, accepted);
}

}  // namespace rubato::detail
