// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/stream.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/post.hpp>

#include "rubato/net/impl/direct_reads.hpp"

namespace rubato::net {
namespace {

namespace asio = boost::asio;

// The socket of a plain stream. Operations under way keep it alive.
class plain_socket final : public direct_reads::reader, public std::enable_shared_from_this<plain_socket> {
 public:
  explicit plain_socket(socket_type socket)
      : socket_(std::move(socket)), direct_(asio::use_service<direct_reads>(socket_.get_executor().context())) {
    direct_.add(*this);
  }
  plain_socket(plain_socket const&) = delete;
  plain_socket& operator=(plain_socket const&) = delete;
  ~plain_socket() override { direct_.remove(*this); }

  void read(std::span<asio::mutable_buffer const> into, std::size_t sure, std::shared_ptr<stream::user> told) {
    sleep_until(sure);
    if (sure > 0 || !direct_.pays()) return read_by_system(into, sure > 0, std::move(told));
    into_ = into[0];
    told_ = std::move(told);
    wait_to_read();
  }
  std::size_t write(std::span<asio::const_buffer const> from, error_code& error) {
    if (from.size() == 1) return socket_.write_some(from[0], error);
    return socket_.write_some(buffers_view(from), error);
  }
  void when_writable(std::shared_ptr<stream::user> told) {
    told_of_room_ = waits_for_room_ = true;
    socket_.async_wait(socket_type::wait_write, [self = shared_from_this(), told = std::move(told),
                                                 wait = direct_reads::other(direct_)](error_code const& error) {
      self->waits_for_room_ = false;
      told->may_write(error);
    });
  }
  [[nodiscard]] std::size_t available() const noexcept {
    error_code ignored;
    return socket_.available(ignored);
  }
  [[nodiscard]] std::optional<std::chrono::microseconds> round_trip() { return round_trip_of(socket_); }
  void close() noexcept {
    told_ = nullptr;
    direct_.remove(*this);
    close_socket(socket_);
  }

  bool try_to_read() override {
    if (!told_) return false;
    error_code error;
    std::size_t const bytes = socket_.read_some(asio::buffer(into_), error);
    if (error == asio::error::would_block) return false;
    direct_.note_read(*this);
    std::exchange(told_, nullptr)->was_read(error, bytes);
    return true;
  }
  void forget_user() noexcept override { told_ = nullptr; }

 private:
  /// A wait outlasts what is read without it: the system does not tell of that.
  void wait_to_read() {
    if (waiting_) return;
    if (told_of_room_ && !waits_for_room_)  // nothing else is under way, which that would end
      if (auto const error = register_anew())
        return asio::post(socket_.get_executor(),
                          [told = std::exchange(told_, nullptr), error] { told->was_read(error, 0); });
    waiting_ = true;
    socket_.async_wait(socket_type::wait_read, [self = shared_from_this()](error_code const& error) {
      self->waiting_ = false;
      self->may_read(error);
    });
  }
  void may_read(error_code const& error) {
    if (!told_) return;
    if (error) return std::exchange(told_, nullptr)->was_read(error, 0);
    if (!try_to_read()) wait_to_read();
  }

  /// Who has waited for room to write, or to connect, is told of room for ever, whenever it asks for something.
  [[nodiscard]] error_code register_anew() {
    told_of_room_ = false;
    error_code error;
    auto const protocol = socket_.local_endpoint(error).protocol();
    if (error) return error;
    int const descriptor = socket_.release(error);
    if (error) return error;
    socket_.assign(protocol, descriptor, error);
    if (error) ::close(descriptor);
    else socket_.non_blocking(true, error);
    return error;
  }

  /// Tries at once, and then whenever the system tells of more.
  void read_by_system(std::span<asio::mutable_buffer const> into, bool in_body, std::shared_ptr<stream::user> told) {
    read_told then{std::move(told)};
    if (waiting_) {  // behind that Asio would not try
      error_code error;
      std::size_t const bytes =
          into.size() == 1 ? socket_.read_some(into[0], error) : socket_.read_some(buffers_view(into), error);
      if (error != asio::error::would_block)
        return asio::post(socket_.get_executor(), [then = std::move(then), error, bytes] { then(error, bytes); });
    }
    std::optional<direct_reads::other> wait;
    if (in_body) wait.emplace(direct_);
    auto tell = [then = std::move(then), wait = std::move(wait)](error_code const& error, std::size_t bytes) {
      then(error, bytes);
    };
    // For one buffer Asio takes the cheaper system call.
    if (into.size() == 1) socket_.async_read_some(into[0], std::move(tell));
    else socket_.async_read_some(buffers_view(into), std::move(tell));
  }
  /// Being woken for every packet of a large body would cost more than to copy it.
  void sleep_until(std::size_t sure) {
    constexpr std::size_t large = 256 * 1024;
    constexpr std::size_t most = 3 * 1024 * 1024;  // by default Linux takes no more
    std::size_t const mark = sure < large ? 1 : std::min(sure, most);
    if (mark == mark_) return;
    // The system gives twice a mark as room, and does not take it back: the sender goes on meanwhile.
    if (mark > 1 && !std::exchange(has_room_, true)) set_mark(most);
    set_mark(mark);
    mark_ = mark;
  }
  void set_mark(std::size_t bytes) {
    error_code ignored;  // without it, all goes on as before
    socket_.set_option(asio::socket_base::receive_low_watermark(static_cast<int>(bytes)), ignored);
  }

  socket_type socket_;
  direct_reads& direct_;
  asio::mutable_buffer into_;
  std::shared_ptr<stream::user> told_;  // of what comes next, where that is tried
  bool waiting_ = false;                // for the system to tell of it
  bool told_of_room_ = true;            // who has connected
  bool waits_for_room_ = false;
  std::size_t mark_ = 1;
  bool has_room_ = false;
};

class plain final : public stream {
 public:
  explicit plain(socket_type socket) : of_(std::make_shared<plain_socket>(std::move(socket))) {}
  plain(plain const&) = delete;
  plain& operator=(plain const&) = delete;
  ~plain() override { of_->close(); }

  void read(std::span<asio::mutable_buffer const> into, std::size_t sure, std::shared_ptr<user> told) override {
    of_->read(into, sure, std::move(told));
  }
  std::size_t write(std::span<asio::const_buffer const> from, error_code& error) override {
    return of_->write(from, error);
  }
  void when_writable(std::shared_ptr<user> told) override { of_->when_writable(std::move(told)); }
  [[nodiscard]] std::uint64_t untold() const noexcept override { return of_->available(); }
  [[nodiscard]] std::optional<std::chrono::microseconds> round_trip() const override { return of_->round_trip(); }
  void close() noexcept override { of_->close(); }

 private:
  std::shared_ptr<plain_socket> of_;
};

/// Both ends have the same address: that of the loopback network, or another one of this machine.
bool is_within_machine(socket_type const& socket) {
  error_code unknown_here;
  error_code unknown_there;
  auto const here = socket.local_endpoint(unknown_here);
  auto const there = socket.remote_endpoint(unknown_there);
  return !unknown_here && !unknown_there && tcp_end(here).address() == tcp_end(there).address();
}

}  // namespace

std::string stream::meaning(error_code const& error) const {
  if (error == asio::error::eof) return "the connection was closed by the peer";
  return error.message();
}

std::unique_ptr<stream> plain_stream(socket_type socket) {
  return std::make_unique<plain>(std::move(socket));
}

void prepare_socket(socket_type& socket, error_code& error) {
  socket.non_blocking(true, error);
  if (error) return;
  int const family = socket.local_endpoint(error).protocol().family();
  if (error || (family != AF_INET && family != AF_INET6)) return;
  socket.set_option(asio::ip::tcp::no_delay(true), error);
  if (!error && is_within_machine(socket)) send_unpaced(socket.native_handle());
}

asio::ip::tcp::endpoint tcp_end(socket_type::endpoint_type const& end) {
  asio::ip::tcp::endpoint as_tcp;
  std::memcpy(as_tcp.data(), end.data(), end.size());
  return as_tcp;
}

void send_unpaced(int socket) noexcept {
#ifdef TCP_CONGESTION
  constexpr std::string_view unpaced = "reno";
  std::array<char, 16> set{};  // TCP_CA_NAME_MAX
  socklen_t size = set.size();
  if (::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, set.data(), &size) == 0 && unpaced == set.data()) return;
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, unpaced.data(), unpaced.size());  // without it, all goes on
#endif
}

std::optional<std::chrono::microseconds> round_trip_of(socket_type& socket) {
  error_code error;
  int const family = socket.local_endpoint(error).protocol().family();
  if (error) return std::nullopt;
  if (family == AF_UNIX) return std::chrono::microseconds(0);
#ifdef TCP_INFO
  tcp_info measured{};
  socklen_t size = sizeof measured;
  bool const is_told = ::getsockopt(socket.native_handle(), IPPROTO_TCP, TCP_INFO, &measured, &size) == 0;
  if (is_told && measured.tcpi_rtt != 0)  // before anything was measured
    return std::chrono::microseconds(measured.tcpi_rtt);
#endif
  return std::nullopt;
}

void close_socket(socket_type& socket) noexcept {
  error_code ignored;
  if (!socket.is_open()) return;
  socket.shutdown(socket_type::shutdown_send, ignored);
  // A socket closed with bytes unread resets the connection, and what was sent last could be lost.
  std::array<char, 4096> unread;
  for (int tries = 0; tries < 16 && !ignored; ++tries)
    socket.read_some(asio::buffer(unread), ignored);
  socket.close(ignored);
}

}  // namespace rubato::net
