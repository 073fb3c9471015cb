// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/asio_network.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>

#include <boost/asio/execution_context.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/udp.hpp>
#include <boost/asio/post.hpp>

#include "rubato/core/busy_poll.hpp"
#include "rubato/core/error.hpp"
#include "rubato/net/impl/direct_reads.hpp"
#include "rubato/net/impl/over_asio.hpp"
#include "rubato/net/impl/stream_host.hpp"

namespace rubato::net {
namespace {

/// Of this machine, on the way to `there`; nothing if that is the machine itself by its loopback
/// network, or is not known.
std::optional<std::string> own_number_towards(address const& there, bool ipv6) {
  namespace ip = boost::asio::ip;
  if (there.is_unix()) return std::nullopt;
  boost::asio::io_context io;
  boost::system::error_code ec;
  auto const found = ip::udp::resolver(io).resolve(there.host, std::to_string(there.port), ec);
  for (auto const& entry : found) {
    ip::udp::socket probe(io);
    probe.connect(entry.endpoint(), ec);  // sends nothing: the system only looks for the way
    if (ec) continue;
    auto const own = probe.local_endpoint(ec).address();
    if (!ec && !own.is_loopback() && (own.is_v4() || ipv6)) return own.to_string();
  }
  return std::nullopt;
}

}  // namespace

struct asio_network::state {
  // The hint saves wakeups, and keeps the locks that `interrupt` needs.
  boost::asio::io_context context{1};
  // A context that has run out of work is stopped, and would never wait again.
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work{
      context.get_executor()};
  std::atomic<bool> interrupted = false;
  std::shared_ptr<stream_host> host = host_of(context);
  direct_reads& reads = boost::asio::use_service<direct_reads>(context);
  busy_poll polls;
  unsigned turns = 0;

  explicit state(std::chrono::microseconds poll_for) : polls(poll_for) {}

  /// Handles one thing that the system tells of, if there is any.
  bool handle_one() { return context.poll_one() != 0; }
  void sleep(clock::time_point deadline) {
    if (deadline == clock::time_point::max()) context.run_one();
    else context.run_one_until(deadline);
  }
};

asio_network::asio_network(std::chrono::microseconds poll_for) : state_(std::make_unique<state>(poll_for)) {}
asio_network::~asio_network() = default;

std::chrono::microseconds asio_network::poll_for() const noexcept {
  return std::chrono::duration_cast<std::chrono::microseconds>(state_->polls.length());
}

std::shared_ptr<void> asio_network::dial(address const& to, security const& keys,
                                         connection_options const& options, dialed done) {
  return dial_over(state_->context, to, keys, options, std::move(done));
}

std::unique_ptr<listener> asio_network::listen(address const& at, security const& keys,
                                               listener_options const& options, accepted f) {
  return listen_over(state_->context, at, keys, options, std::move(f));
}

std::optional<address> asio_network::reached(address const& bound, address const& from) const {
  if (bound.host != "0.0.0.0" && bound.host != "::") return bound;
  if (auto const own = own_number_towards(from, bound.host == "::"))
    return address{.host = *own, .port = bound.port};
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return std::nullopt;
  return address{.host = name.data(), .port = bound.port};
}

void asio_network::run_one(clock::time_point deadline) {
  constexpr unsigned system_turn = 8;  // who is always answered at once has timers, too
  state& s = *state_;
  bool const is_systems = !s.reads.pays() || ++s.turns % system_turn == 0;
  if (is_systems ? s.handle_one() : s.reads.read_one()) return;
  if (deadline != clock::time_point::max() && deadline <= clock::now()) {
    (void)s.handle_one();  // `run_one_until` would handle nothing after the deadline
    return;
  }
  s.polls.wait([&s] { return s.reads.read_one() || s.handle_one(); }, [&] { s.sleep(deadline); }, deadline);
}

void asio_network::poll() { state_->context.poll(); }

void asio_network::interrupt() noexcept {
  // One that nobody has seen yet serves all callers.
  if (state_->interrupted.exchange(true)) return;
  try {
    boost::asio::post(state_->context, [s = state_.get()] {
      // Reads what the callers wrote before, so that whoever waits sees what they want.
      s->interrupted.exchange(false);
    });
  } catch (...) {
    state_->interrupted = false;  // no memory: the next call tries again
  }
}

std::shared_ptr<void> asio_network::at(clock::time_point when, std::function<void()> f) {
  return state_->host->at(when, std::move(f));
}

}  // namespace rubato::net
