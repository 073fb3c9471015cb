// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <optional>
#include <utility>
#include <vector>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "rubato/net/impl/acceptor.hpp"
#include "rubato/net/impl/exposed.hpp"
#include "rubato/net/impl/make_connection.hpp"
#include "rubato/net/impl/name_look_up.hpp"
#include "rubato/net/impl/opening.hpp"
#include "rubato/net/impl/over_asio.hpp"
#include "rubato/net/impl/tls.hpp"

namespace rubato::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using clock = std::chrono::steady_clock;

// One attempt to connect: resolves, tries one endpoint after the other, and goes through the
// handshake with the first that answers.
class attempt final : public std::enable_shared_from_this<attempt> {
 public:
  attempt(asio::io_context& context, address to, security const& keys,
          connection_options const& options, network::dialed done)
      : context_(context),
        to_(std::move(to)),
        token_(keys.token),
        options_(options),
        done_(std::move(done)),
        socket_(context),
        timer_(context),
        until_(clock::now() + options.handshake) {}

  void start(std::optional<tls_files> const& files) {
    if (files) tls_ = make_tls_context(*files);
    timer_.expires_at(until_);
    timer_.async_wait([self = shared_from_this()](error_code const& error) {
      if (!error) self->finish("nobody answered in time");
    });
    resolve();
  }
  void cancel() noexcept {
    done_ = nullptr;
    stop();
    if (opening_) opening_->cancel();
  }

 private:
  void resolve();
  void try_next(error_code const& last);
  void connected(error_code const& error);
  void open();
  void finish(std::string const& reason, std::unique_ptr<connection> made = {},
              bool refused = false);
  [[nodiscard]] bool is_connected_to_itself() const;
  void stop() noexcept;
  [[nodiscard]] std::string expected_name() const;

  asio::io_context& context_;
  address to_;
  std::string token_;
  connection_options options_;
  network::dialed done_;
  std::shared_ptr<tls_context const> tls_;
  std::optional<name_look_up> name_;
  socket_type socket_;
  asio::steady_timer timer_;
  clock::time_point until_;
  std::vector<asio::generic::stream_protocol::endpoint> endpoints_;
  std::size_t next_ = 0;
  std::shared_ptr<opening> opening_;
};

void attempt::resolve() {
  error_code no_number;
  auto const number = asio::ip::make_address(to_.host, no_number);
  if (to_.is_unix()) {
    endpoints_.emplace_back(unix_endpoint(to_));
    try_next({});
  } else if (!no_number) {
    endpoints_.emplace_back(tcp::endpoint(number, to_.port));
    try_next({});
  } else {
    name_.emplace(context_, numbers_of(to_),
                  [weak = weak_from_this()](error_code const& error, name_look_up::results const& found) {
                    auto const self = weak.lock();
                    if (!self) return;
                    for (auto const& entry : found) self->endpoints_.emplace_back(entry.endpoint());
                    self->try_next(error);
                  });
  }
}

void attempt::try_next(error_code const& last) {
  if (!done_) return;
  if (next_ == endpoints_.size()) return finish(last.message());
  socket_ = socket_type(context_);
  auto const& to = endpoints_[next_++];
  error_code cannot_open;
  socket_.open(to.protocol(), cannot_open);
  if (!cannot_open) close_on_exec(socket_.native_handle());
  if (!cannot_open && to_.is_loopback()) send_unpaced(socket_.native_handle());
  // One that is not open yet is opened here, and what is wrong is told from inside the network.
  socket_.async_connect(to, [self = shared_from_this()](error_code const& error) {
    self->connected(error);
  });
}

void attempt::connected(error_code const& error) {
  if (!done_) return;
  if (error) return try_next(error);
  if (is_connected_to_itself()) return try_next(asio::error::connection_refused);
  error_code unusable;
  prepare_socket(socket_, unusable);
  if (unusable) return try_next(unusable);
  try {
    open();
  } catch (std::exception const& e) {
    finish(e.what());
  }
}

// Where nobody listens, the system may give this end the very port that it connects to: the other
// end would seem to speak another protocol, when it is only not there yet.
bool attempt::is_connected_to_itself() const {
  error_code unknown;
  auto const here = socket_.local_endpoint(unknown);
  auto const there = socket_.remote_endpoint(unknown);
  return !unknown && !to_.is_unix() && here == there;
}

void attempt::open() {
  timer_.cancel();
  auto over =
      tls_ ? tls_stream(tls_, std::move(socket_), handshake::role::connecting, expected_name())
           : plain_stream(std::move(socket_));
  auto const told_of = [weak = weak_from_this()](std::unique_ptr<stream> opened,
                                                 std::string const& reason, bool refused) {
    auto const self = weak.lock();
    if (!self) return;
    if (!opened) return self->finish(reason, {}, refused);
    self->finish({}, make_connection(host_of(self->context_), std::move(opened), self->to_.text(),
                                     self->opening_->other(), self->options_, {}, self->to_.is_unix()));
  };
  opening_ = std::make_shared<opening>(host_of(context_), std::move(over), handshake::role::connecting,
                                       token_, options_, told_of);
  opening_->start(until_);
}

// Names and numbers of this machine are not what certificates are for: nobody else answers there.
std::string attempt::expected_name() const { return to_.is_loopback() ? std::string() : to_.host; }

void attempt::finish(std::string const& reason, std::unique_ptr<connection> made, bool refused) {
  if (!done_) return;
  auto const done = std::exchange(done_, nullptr);
  stop();
  done(std::move(made), reason.empty() ? reason : fmt::format("{}: {}", to_.text(), reason),
       refused);
}

void attempt::stop() noexcept {
  try {
    timer_.cancel();
  } catch (...) {  // it will find nobody to tell
  }
  name_.reset();
  error_code ignored;
  socket_.close(ignored);
}

// What the caller holds: gives up when dropped.
struct attempt_handle {
  explicit attempt_handle(std::shared_ptr<attempt> what) : of(std::move(what)) {}
  attempt_handle(attempt_handle const&) = delete;
  attempt_handle& operator=(attempt_handle const&) = delete;
  ~attempt_handle() { of->cancel(); }
  std::shared_ptr<attempt> of;
};

}  // namespace

std::shared_ptr<void> dial_over(asio::io_context& context, address const& to, security const& keys,
                                connection_options const& options, network::dialed done) {
  warn_if_exposed(to, keys);
  auto const one = std::make_shared<attempt>(context, to, keys, options, std::move(done));
  auto handle = std::make_shared<attempt_handle>(one);
  one->start(keys.tls);
  return handle;
}

}  // namespace rubato::net
