// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <memory>

#include "rubato/core/busy_poll.hpp"
#include "rubato/net/network.hpp"

namespace rubato::net {

/// TCP and Unix-domain sockets, with TLS or without, by Boost.Asio.
///
/// An address beyond loopback must be asked for, by `security::beyond_loopback`. A Unix-domain path that
/// nobody listens on any more is taken over. Times are those of the steady clock. Names are looked up in threads that
/// nobody waits for: where DNS does not answer, one may outlive the network by the seconds that the system takes. Only
/// `reached` waits for the system, where a listener has all addresses, and `listen`, where it is given a name.
class asio_network final : public network {
 public:
  /// @param poll_for `run_one` looks for so long before it sleeps, giving way to who else wants the processor; see
  ///   `busy_poll`. 0: it sleeps at once
  explicit asio_network(std::chrono::microseconds poll_for);
  asio_network() : asio_network(usual_busy_poll) {}
  /// For how long it looks.
  [[nodiscard]] std::chrono::microseconds poll_for() const noexcept;
  ~asio_network() override;
  asio_network(asio_network const&) = delete;
  asio_network& operator=(asio_network const&) = delete;

  std::shared_ptr<void> dial(address const& to, security const& keys, connection_options const& options,
                             dialed done) override;
  std::unique_ptr<listener> listen(address const& at, security const& keys, listener_options const& options,
                                   accepted f) override;
  std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) override;
  clock::time_point now() const override { return clock::now(); }
  void run_one(clock::time_point deadline = clock::time_point::max()) override;
  void poll() override;
  void interrupt() noexcept override;
  std::optional<address> reached(address const& bound, address const& from) const override;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace rubato::net
