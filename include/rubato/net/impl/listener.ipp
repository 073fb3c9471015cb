// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <cstring>
#include <optional>
#include <unordered_map>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>

#include "rubato/core/error.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/impl/acceptor.hpp"
#include "rubato/net/impl/make_connection.hpp"
#include "rubato/net/impl/opening.hpp"
#include "rubato/net/impl/over_asio.hpp"
#include "rubato/net/impl/tls.hpp"

namespace rubato::net {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds pause_after_error{100};

// Who connects, in words, and on what machine; that is empty if it is not known.
struct caller {
  std::string name;
  std::string machine;
};

// In version 6 one machine may have all addresses of a network.
std::string machine_of(asio::ip::address const& number) {
  if (number.is_v4() || number.to_v6().is_v4_mapped()) return number.to_string();
  return asio::ip::network_v6(number.to_v6(), 64).canonical().to_string();
}

caller caller_of(socket_type const& socket, address const& at) {
  if (at.is_unix()) return {at.text(), {}};
  error_code error;
  auto const remote = socket.remote_endpoint(error);
  if (error) return {"a peer that has gone", {}};
  asio::ip::tcp::endpoint as_tcp;
  std::memcpy(as_tcp.data(), remote.data(), remote.size());
  return {address{as_tcp.address().to_string(), as_tcp.port()}.text(),
          machine_of(as_tcp.address())};
}

void require_loopback(address const& at, security const& keys) {
  if (keys.beyond_loopback || at.is_loopback()) return;
  throw option_error(
      fmt::format("the address {} can be reached from other machines, which must be asked for; "
                  "expected one of the loopback network, such as 127.0.0.1:0",
                  at.text()));
}

acceptor_type checked_listen(asio::io_context& context, address const& at, security const& keys) {
  require_loopback(at, keys);
  return listen_at(context, at);
}

struct listener_state : std::enable_shared_from_this<listener_state> {
  listener_state(asio::io_context& where, address const& at, security const& keys, listener_options const& given,
        std::function<void(std::unique_ptr<connection>)> told)
      : context(where),
        limits(given),
        token(keys.token),
        tls(keys.tls ? make_tls_context(*keys.tls) : nullptr),
        lock(at),
        acceptor(checked_listen(where, at, keys)),
        bound(bound_address(acceptor, at)),
        file(at.path),
        retry(where),
        accepted(std::move(told)) {}

  void accept_on();
  void on_accept(error_code const& error, socket_type socket);
  void open(socket_type socket);
  [[nodiscard]] bool has_room_for(caller const& who);
  void forget(opening const* which);
  void on_opened(opening const* which, std::unique_ptr<stream> opened, std::string const& peer,
                 std::shared_ptr<void> ticket, std::string const& reason);
  void close() noexcept;

  asio::io_context& context;
  listener_options limits;
  std::string token;
  std::shared_ptr<tls_context const> tls;
  path_lock lock;
  acceptor_type acceptor;
  address bound;
  socket_file file;
  asio::steady_timer retry;
  std::function<void(std::unique_ptr<connection>)> accepted;
  // Whoever holds a copy counts as an open connection.
  std::shared_ptr<void> tickets = std::make_shared<char>();
  struct under_way {
    std::shared_ptr<opening> one;
    std::string machine;
  };
  std::unordered_map<opening const*, under_way> openings;
  struct guests {
    std::size_t handshakes = 0;
    bool crowded = false;  // as below, for want of room for this machine
  };
  std::unordered_map<std::string, guests> machines;  // that have handshakes under way
  // What lasts is logged when it begins, since it comes up many times a second.
  bool failing = false;  // the system gives no connections
  bool crowded = false;  // connections are refused for want of room
};

void listener_state::accept_on() {
  acceptor.async_accept([weak = weak_from_this()](error_code const& error, socket_type socket) {
    if (auto const self = weak.lock()) self->on_accept(error, std::move(socket));
  });
}

void listener_state::on_accept(error_code const& error, socket_type socket) {
  if (!acceptor.is_open()) return;
  if (error) {
    // Such as too many open files: others close theirs in time.
    if (!std::exchange(failing, true))
      log(log_level::warning,
          fmt::format("{}: cannot accept connections: {}; tries again until it can", bound.text(),
                      error.message()));
    retry.expires_after(pause_after_error);
    retry.async_wait([weak = weak_from_this()](error_code const& stopped) {
      auto const self = weak.lock();
      if (self && !stopped) self->accept_on();
    });
    return;
  }
  close_on_exec(socket.native_handle());
  if (std::exchange(failing, false))
    log(log_level::warning, fmt::format("{}: accepts connections again", bound.text()));
  try {
    open(std::move(socket));
  } catch (std::exception const& e) {
    log(log_level::warning,
        fmt::format("{}: a connection was given up: {}", bound.text(), e.what()));
  }
  accept_on();
}

bool listener_state::has_room_for(caller const& who) {
  std::string why;
  auto const from = machines.find(who.machine);
  guests* const others = from == machines.end() ? nullptr : &from->second;
  bool* known = &crowded;
  if (others != nullptr && others->handshakes >= limits.handshakes_per_address) {
    why =
        fmt::format("{} handshakes with {} are under way already", others->handshakes, who.machine);
    known = &others->crowded;
  } else if (static_cast<std::size_t>(tickets.use_count() - 1) >= limits.connections_max) {
    why = fmt::format("{} connections are open already", limits.connections_max);
  } else if (openings.size() >= limits.handshakes_max) {
    why = fmt::format("{} handshakes are under way already", limits.handshakes_max);
  }
  if (why.empty()) {
    crowded = crowded && openings.size() > limits.handshakes_max / 2;
    if (others != nullptr)
      others->crowded = others->crowded && others->handshakes > limits.handshakes_per_address / 2;
    return true;
  }
  if (!std::exchange(*known, true))
    log(log_level::warning, fmt::format("{}: refused, since {}; so is who comes next{}", who.name,
                                        why, known == &crowded ? "" : " from there"));
  return false;
}

void listener_state::forget(opening const* which) {
  auto const ended = openings.find(which);
  auto const from = machines.find(ended->second.machine);
  if (from != machines.end() && --from->second.handshakes == 0) machines.erase(from);
  openings.erase(ended);
}

void listener_state::open(socket_type socket) {
  caller const who = caller_of(socket, bound);
  if (!has_room_for(who)) return;
  error_code unusable;
  prepare_socket(socket, unusable);
  if (unusable) return;  // it has gone already
  auto over = tls ? tls_stream(tls, std::move(socket), handshake::role::accepting, {})
                  : plain_stream(std::move(socket));
  auto which = std::make_shared<opening const*>(nullptr);
  auto const one = std::make_shared<opening>(
      context, std::move(over), handshake::role::accepting, token,
      [weak = weak_from_this(), which, peer = who.name, ticket = tickets](
          std::unique_ptr<stream> opened, std::string const& reason, bool) {
        if (auto const self = weak.lock())
          self->on_opened(*which, std::move(opened), peer, ticket, reason);
      });
  *which = one.get();
  openings.emplace(one.get(), under_way{one, who.machine});
  if (!who.machine.empty()) ++machines[who.machine].handshakes;
  one->start(opening::clock::now() + limits.handshake);
}

void listener_state::on_opened(opening const* which, std::unique_ptr<stream> opened,
                                std::string const& peer, std::shared_ptr<void> ticket,
                                std::string const& reason) {
  forget(which);
  if (!opened) return log(log_level::warning, fmt::format("{}: refused: {}", peer, reason));
  log(log_level::info, fmt::format("{}: connected", peer));
  accepted(make_connection(context, std::move(opened), peer, limits, std::move(ticket)));
}

void listener_state::close() noexcept {
  error_code ignored;
  acceptor.close(ignored);
  try {
    retry.cancel();
  } catch (...) {  // it will find the listener gone
  }
  for (auto const& [key, pending] : openings) pending.one->cancel();
}

class asio_listener final : public listener {
 public:
  explicit asio_listener(std::shared_ptr<listener_state> s) : state_(std::move(s)) { state_->accept_on(); }
  asio_listener(asio_listener const&) = delete;
  asio_listener& operator=(asio_listener const&) = delete;
  ~asio_listener() override { state_->close(); }
  address bound() const override { return state_->bound; }

 private:
  std::shared_ptr<listener_state> state_;
};

}  // namespace

std::unique_ptr<listener> listen_over(asio::io_context& context, address const& at, security const& keys,
                                      listener_options const& options, network::accepted accepted) {
  return std::make_unique<asio_listener>(
      std::make_shared<listener_state>(context, at, keys, options, std::move(accepted)));
}

}  // namespace rubato::net
