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

/// Whoever listens at a Unix-domain path holds it from before there is a socket until after its
/// file is gone. So no one takes for stale what another has bound and does not listen on yet. Held
/// by way of a file beside it, whose lock ends with the process that holds it.
class path_lock {
 public:
  /// Does nothing for an address of another kind. @throws error (errc::io), or option_error
  explicit path_lock(address const& at);
  path_lock(path_lock const&) = delete;
  path_lock& operator=(path_lock const&) = delete;
  ~path_lock();

 private:
  std::string path_;
  int file_ = -1;
};

/// The address with a name of a file that nobody else chooses, where that was left to the network. Removes what those
/// left there who chose such names and were killed.
[[nodiscard]] address chosen(address at);

/// A socket that listens at an address, of either kind; its `path_lock` is held.
/// @throws error (errc::io), or option_error
[[nodiscard]] acceptor_type listen_at(boost::asio::io_context& context, address const& at);

/// Keeps a fresh socket from programs that this process starts: one that outlives it would hold the
/// connection open, and the other end would not see that this process has died. Asio itself asks
/// the system for plain sockets only.
void close_on_exec(int socket) noexcept;

/// The address of a Unix-domain socket as the system wants it. @throws option_error if it is too
/// long
[[nodiscard]] boost::asio::generic::stream_protocol::endpoint unix_endpoint(address const& at);

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
