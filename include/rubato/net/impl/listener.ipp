// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>
#include <poll.h>

#include <algorithm>
#include <list>
#include <map>
#include <utility>

#include <boost/asio/error.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/system/errc.hpp>

#include "rubato/core/error.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/refusal_log.hpp"
#include "rubato/net/impl/acceptor.hpp"
#include "rubato/net/impl/exposed.hpp"
#include "rubato/net/impl/make_connection.hpp"
#include "rubato/net/impl/opening.hpp"
#include "rubato/net/impl/over_asio.hpp"
#include "rubato/net/impl/tls.hpp"

namespace rubato::net {
namespace {

namespace asio = boost::asio;

constexpr std::chrono::milliseconds pause_after_error{100};

bool is_out_of_files(error_code const& error) {
  return error == asio::error::no_descriptors || error == boost::system::errc::too_many_files_open_in_system;
}

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
  auto const end = tcp_end(remote);
  return {address{end.address().to_string(), end.port()}.text(), machine_of(end.address())};
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
  warn_if_exposed(at, keys);
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
  [[nodiscard]] bool is_awaited();
  void accept_later();
  void accept_instead();
  void pause(error_code const& error);
  void open(socket_type socket);
  [[nodiscard]] bool make_room_for(caller const& who);
  void turn_one_away();
  void forget(opening const* which, std::string const& machine);
  void on_opened(opening const* which, std::unique_ptr<stream> opened, caller const& who,
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
  using oldest_first = std::list<std::shared_ptr<opening>>;
  std::map<std::string, oldest_first> openings;  // under way, by machine
  std::size_t under_way = 0;
  // What lasts is logged when it begins, since it comes up many times a second.
  bool failing = false;  // the system gives no connections
  bool crowded = false;  // some are turned away for want of room
  std::size_t enough = 0;  // handshakes that take all files there are; 0: none are missing
  refusal_log refusals{bound.text()};
};

void listener_state::accept_on() {
  acceptor.async_accept([weak = weak_from_this()](error_code const& error, socket_type socket) {
    if (auto const self = weak.lock()) self->on_accept(error, std::move(socket));
  });
}

void listener_state::on_accept(error_code const& error, socket_type socket) {
  if (!acceptor.is_open()) return;
  if (error && is_out_of_files(error)) {
    if (!is_awaited()) return accept_later();
    if (under_way != 0) return accept_instead();
  }
  if (error) return pause(error);
  if (under_way <= enough / 2) enough = 0;
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

// Linux asks for a file before it looks whether anybody has come.
bool listener_state::is_awaited() {
  pollfd events{.fd = acceptor.native_handle(), .events = POLLIN, .revents = 0};
  return ::poll(&events, 1, 0) != 0;
}

void listener_state::accept_later() {
  acceptor.async_wait(acceptor_type::wait_read, [weak = weak_from_this()](error_code const& error) {
    auto const self = weak.lock();
    if (self && !error) self->accept_on();
  });
}

// The limit of files may be below that of handshakes: strangers that hold the last ones give way as they do there.
void listener_state::accept_instead() {
  if (std::exchange(enough, under_way) == 0)
    log(log_level::warning,
        fmt::format("{}: no more files can be opened, with {} handshakes under way; for each that comes the oldest of "
                    "whoever has most is given up",
                    bound.text(), under_way));
  turn_one_away();
  accept_on();
}

// Whatever is missing, others give it back in time.
void listener_state::pause(error_code const& error) {
  if (!std::exchange(failing, true))
    log(log_level::warning,
        fmt::format("{}: cannot accept connections: {}; tries again until it can", bound.text(), error.message()));
  retry.expires_after(pause_after_error);
  retry.async_wait([weak = weak_from_this()](error_code const& stopped) {
    auto const self = weak.lock();
    if (self && !stopped) self->accept_on();
  });
}

bool listener_state::make_room_for(caller const& who) {
  bool const is_full = static_cast<std::size_t>(tickets.use_count() - 1) >= limits.connections_max;
  if (!is_full && under_way < limits.handshakes_max) {
    crowded = crowded && under_way > limits.handshakes_max / 2;
    return true;
  }
  bool const has_room = under_way != 0;
  if (!std::exchange(crowded, true)) {
    std::string const why = is_full ? fmt::format("{} connections are open", limits.connections_max)
                                    : fmt::format("{} handshakes are under way", limits.handshakes_max);
    log(log_level::warning,
        has_room ? fmt::format("{}: {}; for each that comes the oldest handshake of whoever has most is given up",
                               who.name, why)
                 : fmt::format("{}: refused, since {} already; so is who comes next", who.name, why));
  }
  if (has_room) turn_one_away();
  return has_room;
}

// Who knows the token shows it in its first bytes, which follow the connection at once however long the way is. So
// strangers push it out only if `handshakes_max` of them connect within that moment, and from its own address:
// another one, which has more under way, gives way first. This does not protect from who has overheard greetings
// and says them again, from more connections than the system's own queue takes, or from so many that they take all
// of a processor; under TLS the first bytes come after TLS's own handshake. Who is turned away tries again.
void listener_state::turn_one_away() {
  std::shared_ptr<opening> gone;
  std::string from;
  std::size_t held = 0;  // by whoever it is of
  for (auto const& [machine, theirs] : openings) {
    auto const silent = std::ranges::find(theirs, false, &opening::is_greeted);
    auto const& oldest = silent == theirs.end() ? theirs.front() : *silent;
    // Silent ones first, and then those of whoever has more.
    if (gone && std::pair(oldest->is_greeted(), held) >= std::pair(gone->is_greeted(), theirs.size())) continue;
    gone = oldest;
    from = machine;
    held = theirs.size();
  }
  gone->cancel();
  forget(gone.get(), from);
}

void listener_state::forget(opening const* which, std::string const& machine) {
  auto const from = openings.find(machine);
  std::erase_if(from->second, [which](auto const& o) { return o.get() == which; });
  if (from->second.empty()) openings.erase(from);
  --under_way;
}

void listener_state::open(socket_type socket) {
  caller const who = caller_of(socket, bound);
  if (!make_room_for(who)) return;
  error_code unusable;
  prepare_socket(socket, unusable);
  if (unusable) return;  // it has gone already
  auto over = tls ? tls_stream(tls, std::move(socket), handshake::role::accepting, {})
                  : plain_stream(std::move(socket));
  auto which = std::make_shared<opening const*>(nullptr);
  auto const one = std::make_shared<opening>(
      host_of(context), std::move(over), handshake::role::accepting, token, limits,
      [weak = weak_from_this(), which, who, ticket = tickets](
          std::unique_ptr<stream> opened, std::string const& reason, bool) {
        if (auto const self = weak.lock())
          self->on_opened(*which, std::move(opened), who, ticket, reason);
      });
  *which = one.get();
  openings[who.machine].push_back(one);
  ++under_way;
  one->start(opening::clock::now() + limits.handshake);
}

void listener_state::on_opened(opening const* which, std::unique_ptr<stream> opened,
                               caller const& who, std::shared_ptr<void> ticket,
                               std::string const& reason) {
  peer_identity const shown = opened ? which->other() : peer_identity();
  forget(which, who.machine);
  if (!opened) return refusals.tell(fmt::format("{}: refused: {}", who.name, reason), opening::clock::now());
  log(log_level::info, fmt::format("{}: connected", who.name));
  accepted(make_connection(host_of(context), std::move(opened), who.name, shown, limits, std::move(ticket),
                           bound.is_unix()));
}

void listener_state::close() noexcept {
  error_code ignored;
  acceptor.close(ignored);
  try {
    retry.cancel();
  } catch (...) {  // it will find the listener gone
  }
  for (auto const& [machine, theirs] : openings)
    for (auto const& pending : theirs) pending->cancel();
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
      std::make_shared<listener_state>(context, chosen(at), keys, options, std::move(accepted)));
}

}  // namespace rubato::net
