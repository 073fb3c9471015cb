// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/error_code.hpp>

namespace rubato::net {

using boost::system::error_code;
using socket_type = boost::asio::generic::stream_protocol::socket;

/// The bytes of a connected socket, encrypted or not. Reading is asynchronous; writing tries at
/// once and says how far it came, so that one who closes always knows what has been sent.
class stream {
 public:
  /// Who is told when something has happened; kept alive until then.
  class user {
   public:
    virtual ~user() = default;
    virtual void was_read(error_code const& error, std::size_t bytes) = 0;
    virtual void may_write(error_code const& error) = 0;
  };

  virtual ~stream() = default;
  /// Reads some bytes into these buffers, in their order. They and the span's elements must stay
  /// until the user is told, or until `close`. `sure`: so many will come for certain, and there is no
  /// hurry to hear of the first of them.
  virtual void read(std::span<boost::asio::mutable_buffer const> into, std::size_t sure,
                    std::shared_ptr<user> told) = 0;
  /// Writes what the system takes without waiting; 0 and would_block when that is nothing.
  virtual std::size_t write(std::span<boost::asio::const_buffer const> from, error_code& error) = 0;
  /// Tells the user once, when `write` is worth another try.
  virtual void when_writable(std::shared_ptr<user> told) = 0;
  /// Changes while bytes come that the user has not been told of yet: of a slow peer they may be
  /// all that there is to hear for a long time. Between two reads it only grows.
  [[nodiscard]] virtual std::uint64_t untold() const noexcept = 0;
  /// That the other end's certificate is for (subjectAltName), once something has been read; none without one.
  [[nodiscard]] virtual std::vector<std::string> certified_uris() const { return {}; }
  /// See `connection::round_trip`.
  [[nodiscard]] virtual std::optional<std::chrono::microseconds> round_trip() const { return std::nullopt; }
  virtual void close() noexcept = 0;
  /// What an error of this stream means, as a part of a sentence. A protocol_error is TLS that does
  /// not accept the other end, or is not accepted.
  [[nodiscard]] virtual std::string meaning(error_code const& error) const;
};

/// Without encryption. The socket is connected.
[[nodiscard]] std::unique_ptr<stream> plain_stream(socket_type socket);

/// A span as what Asio calls a buffer sequence: its elements are not copied.
template <class Buffer>
class buffers_view {
 public:
  using value_type = Buffer;
  using const_iterator = Buffer const*;
  explicit buffers_view(std::span<Buffer const> of) noexcept : of_(of) {}
  [[nodiscard]] const_iterator begin() const noexcept { return of_.data(); }
  [[nodiscard]] const_iterator end() const noexcept { return of_.data() + of_.size(); }

 private:
  std::span<Buffer const> of_;
};

/// Tells the user of a finished read.
struct read_told {
  std::shared_ptr<stream::user> told;
  void operator()(error_code const& error, std::size_t bytes) const {
    told->was_read(error, bytes);
  }
};

/// Makes a connected socket fit for a stream: it does not block, TCP sends small pieces at once, and within a machine
/// without a pace (`send_unpaced`).
void prepare_socket(socket_type& socket, error_code& error);
/// For TCP within a machine. BBR looks for the rate of a line and sends by a timer at that rate; where there is no line
/// that is slower than the machine itself, by half for a megabyte. Reno, which every Linux lets everybody have, sends
/// what there is room for. A socket that begins with another one keeps some of its pace: so before it connects, or
/// listens. Between machines the choice is the administrator's.
void send_unpaced(int socket) noexcept;
/// An end of a TCP connection.
[[nodiscard]] boost::asio::ip::tcp::endpoint tcp_end(socket_type::endpoint_type const& end);
/// What the system has measured of a connected socket; a Unix-domain socket has no line.
[[nodiscard]] std::optional<std::chrono::microseconds> round_trip_of(socket_type& socket);
/// Ends it so that what has been sent still arrives.
void close_socket(socket_type& socket) noexcept;

}  // namespace rubato::net
