// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <thread>

#include "rubato/core/random.hpp"

namespace rubato::test {

/// What a proxy does to the connections that pass through it.
struct meddling {
  /// What comes in goes out so much later.
  std::chrono::microseconds delay{0};
  /// Bytes go out in pieces of 1, 2, … so many, each by itself; 0: as they come.
  std::size_t pieces = 0;
  /// Each connection is cut after a random number of bytes, at most so many; 0: never.
  std::size_t cut_within = 0;
  /// At most so many are cut.
  int cuts_max = 0;
};

/// Forwards connections from a loopback port to a Unix-domain socket, and meddles with them.
class proxy {
 public:
  proxy(std::string to, meddling const& m, std::uint64_t seed);
  proxy(proxy const&) = delete;
  proxy& operator=(proxy const&) = delete;
  ~proxy();

  [[nodiscard]] std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  [[nodiscard]] int cuts() const noexcept { return cuts_; }

 private:
  struct direction;
  struct passage;

  void work();
  void accept_one();
  void take(direction& d);
  bool pass_on(passage& p, direction& d);
  void cut(passage& p);

  std::string to_;
  meddling meddling_;
  random_stream random_;
  std::uint16_t port_ = 0;
  int listener_ = -1;
  std::list<passage> passages_;
  std::atomic<int> cuts_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace rubato::test
