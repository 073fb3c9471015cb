// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>
#include <utility>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>

#include "rubato/net/address.hpp"

namespace rubato::net {

using acceptor_type = boost::asio::basic_socket_acceptor<boost::asio::generic::stream_protocol>;

/// A socket that listens at an address, of either kind. @throws error (errc::io), or option_error
[[nodiscard]] acceptor_type listen_at(boost::asio::io_context& context, address const& at);

/// The address with the port that the system picked.
[[nodiscard]] address bound_address(acceptor_type const& acceptor, address const& asked);

/// The file of a Unix-domain socket: removes it at its end, unless another has taken its place.
class socket_file {
 public:
  socket_file() = default;
  explicit socket_file(std::string path);
  socket_file(socket_file const&) = delete;
  socket_file& operator=(socket_file const&) = delete;
  ~socket_file();

 private:
  std::string path_;
  unsigned long long device_ = 0;
  unsigned long long number_ = 0;
};

}  // namespace rubato::net
