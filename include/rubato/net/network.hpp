// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "rubato/core/thread_source.hpp"
#include "rubato/net/address.hpp"
#include "rubato/net/connection.hpp"
#include "rubato/net/security.hpp"

namespace rubato::net {

/// How many connections a listener takes.
struct listener_options : connection_options {
  std::size_t connections_max = 4096;  ///< open ones, those in their handshake included
  /// Under way at the same time. Beyond it one gives way to who comes next: of those that have not shown that
  /// they know the token, or of all where there are no such, the oldest of the address that has most of them. So it
  /// is where the process can open no more files.
  std::size_t handshakes_max = 256;
};

/// Takes connections for as long as it lives.
class listener {
 public:
  virtual ~listener() = default;
  /// The address, with what was left to the network filled in, such as a port.
  [[nodiscard]] virtual address bound() const = 0;
};

/// Which process one is.
struct process_identity {
  std::uint32_t number = 0;  ///< by which messages name it
  /// Drawn once in its life, so that no two are taken for one where numbers are alike: in containers each may be 1.
  std::uint64_t life = 0;
};

/// What the processes of a run talk through: makes connections and takes them, and says what time it is.
/// Each process has one, and links, servers, workers and the coordinator know of nothing below it.
///
/// | function                       | what it does |
/// |--------------------------------|--------------|
/// | `dial(to, keys, options, done)`| connects, and calls `done(connection, reason, refused)` once, later: with the connection, or with nullptr and why not. `refused`: somebody was there, and one end does not accept the other, so that to try again would not help. Gives up when the handle that it returns is dropped |
/// | `listen(at, keys, options, f)` | calls `f(connection)` for everyone who connects, until the listener is gone. Who is not let in is logged, and touches nothing |
/// | `at(when, f)`                  | calls `f()` once at this time, unless the handle that it returns is gone by then |
/// | `now()`                        | the time that `at` and `run_one` go by; does not go back. Any thread |
/// | `run_one(deadline)`            | waits for one event and handles it; returns at the deadline at the latest, or when interrupted. What a handler throws passes through |
/// | `poll()`                       | handles what has happened, without waiting |
/// | `interrupt()`                  | makes a `run_one` that waits, or else the next one, return soon. Any thread |
/// | `reached(bound, from)`         | where a listener that is bound there can be dialed by those that know `from`; nothing if that cannot be said |
/// | `random(into)`                 | fills `into` with random bytes that nobody can guess. Any thread. Unless overridden, the system's |
/// | `process()`                    | which process this is, the same for all its networks. Any thread. Unless overridden, by the system's number |
/// | `threads()`                    | how the process makes threads and lets them wait; lives longer than the network. Any thread. Unless overridden, the system's |
///
/// Everything else is called by one thread at a time; and it calls back from inside
/// `run_one` and `poll` only. Connections, listeners and handles are gone before their network. `keys` are
/// what the two ends prove to each other: a network that has no such proofs throws option_error for keys
/// that ask for one.
/// Errors: option_error for what there cannot be: an address, a file, keys; error (errc::io) where the system
/// does not let it listen.
///
/// `testing::check_network` checks one. Models: `asio_network`.
class network {
 public:
  /// What `at`, `now` and `run_one` go by.
  using clock = std::chrono::steady_clock;
  /// Told once what became of a `dial`: the connection, or why there is none; see the table above.
  using dialed =
      std::function<void(std::unique_ptr<connection>, std::string const& reason, bool refused)>;
  /// Given each connection that a listener takes; `shown` says what has been proved of its other end.
  using accepted = std::function<void(std::unique_ptr<connection>)>;

  virtual ~network() = default;

  [[nodiscard]] virtual std::shared_ptr<void> dial(address const& to, security const& keys,
                                                   connection_options const& options, dialed done) = 0;
  [[nodiscard]] virtual std::unique_ptr<listener> listen(address const& at, security const& keys,
                                                         listener_options const& options, accepted f) = 0;
  [[nodiscard]] virtual std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) = 0;
  [[nodiscard]] virtual clock::time_point now() const = 0;
  virtual void run_one(clock::time_point deadline = clock::time_point::max()) = 0;
  virtual void poll() = 0;
  virtual void interrupt() noexcept = 0;
  [[nodiscard]] virtual std::optional<address> reached(address const& bound, address const& from) const = 0;
  virtual void random(std::span<std::byte> into);
  [[nodiscard]] virtual process_identity process() const;
  [[nodiscard]] virtual thread_source& threads() noexcept { return system_threads(); }
};

/// Makes a process's network.
using network_maker = std::function<std::unique_ptr<network>()>;

/// A network that does what another one does: derive from it, and override what is to be different.
class network_decorator : public network {
 public:
  /// @param inner the network below, which it owns
  explicit network_decorator(std::unique_ptr<network> inner) noexcept : inner_(std::move(inner)) {}

  std::shared_ptr<void> dial(address const& to, security const& keys, connection_options const& options,
                             dialed done) override {
    return inner_->dial(to, keys, options, std::move(done));
  }
  std::unique_ptr<listener> listen(address const& at, security const& keys, listener_options const& options,
                                   accepted f) override {
    return inner_->listen(at, keys, options, std::move(f));
  }
  std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) override {
    return inner_->at(when, std::move(f));
  }
  clock::time_point now() const override { return inner_->now(); }
  void run_one(clock::time_point deadline = clock::time_point::max()) override { inner_->run_one(deadline); }
  void poll() override { inner_->poll(); }
  void interrupt() noexcept override { inner_->interrupt(); }
  std::optional<address> reached(address const& bound, address const& from) const override {
    return inner_->reached(bound, from);
  }
  void random(std::span<std::byte> into) override { inner_->random(into); }
  process_identity process() const override { return inner_->process(); }
  thread_source& threads() noexcept override { return inner_->threads(); }

 protected:
  /// The network below.
  [[nodiscard]] network& inner() const noexcept { return *inner_; }

 private:
  std::unique_ptr<network> inner_;
};

}  // namespace rubato::net
