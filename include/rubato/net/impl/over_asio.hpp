// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>

#include <boost/asio/io_context.hpp>

#include "rubato/net/network.hpp"

namespace rubato::net {

/// `network::dial` and `network::listen` in a context.
[[nodiscard]] std::shared_ptr<void> dial_over(boost::asio::io_context& context, address const& to,
                                              security const& keys, connection_options const& options,
                                              network::dialed done);
[[nodiscard]] std::unique_ptr<listener> listen_over(boost::asio::io_context& context, address const& at,
                                                    security const& keys, listener_options const& options,
                                                    network::accepted accepted);

}  // namespace rubato::net
