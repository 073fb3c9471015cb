// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <thread>
#include <vector>

#include <poll.h>

#include "rubato/core/random.hpp"
#include "rubato/net/address.hpp"

namespace rubato::tools {

/// What a proxy does to the connections that pass through it.
struct meddling {
  /// What comes in goes out so much later.
  std::chrono::microseconds delay{0};
  /// Of each connection in each direction, as a network card of the simulator has it: bytes pass
  /// one after the other and then come the delay. 0: infinite.
  std::uint64_t bits_per_second = 0;
  /// Bytes go out in pieces of 1, 2, … so many, each by itself; 0: as they come.
  std::size_t pieces = 0;
  /// Each connection is cut after a random number of bytes, at most so many; 0: never.
  std::size_t cut_within = 0;
  /// At most so many are cut.
  int cuts_max = 0;
};

/// Forwards connections from a loopback port to a socket of this machine, and meddles with them.
class proxy {
 public:
  /// Listens; who connects waits for `forward_to`, which starts a thread.
  proxy(meddling const& m, std::uint64_t seed);
  proxy(net::address const& to, meddling const& m, std::uint64_t seed) : proxy(m, seed) {
    forward_to(to);
  }
  proxy(proxy const&) = delete;
  proxy& operator=(proxy const&) = delete;
  ~proxy();

  /// To a Unix-domain socket, or a port of the loopback network. Once.
  void forward_to(net::address const& to);

  [[nodiscard]] net::address address() const { return {.host = "127.0.0.1", .port = port_}; }
  [[nodiscard]] int cuts() const noexcept { return cuts_; }

 private:
  using clock = std::chrono::steady_clock;
  struct direction;
  struct passage;

  void work();
  void watch(std::vector<pollfd>& watched) const;
  void serve(std::vector<pollfd> const& watched);
  [[nodiscard]] clock::duration idle_for() const;
  void accept_one();
  void take(direction& d);
  bool pass_on(passage& p, direction& d);
  void cut(passage& p);

  net::address to_;
  meddling meddling_;
  std::size_t queued_max_;
  random_stream random_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::list<passage> passages_;
  std::atomic<int> cuts_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace rubato::tools
