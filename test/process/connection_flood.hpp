// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <thread>
#include <utility>
#include <vector>

namespace rubato::test {

/// Somebody without the token, who holds handshakes at these ports from 127.0.0.1 to .6, always new ones, until this is
/// destroyed.
class connection_flood {
 public:
  /// @param pause between one connection and the next
  explicit connection_flood(std::vector<std::uint16_t> ports, std::chrono::microseconds pause = {})
      : ports_(std::move(ports)), pause_(pause), held_(900, -1) {}
  connection_flood(connection_flood const&) = delete;
  connection_flood& operator=(connection_flood const&) = delete;
  ~connection_flood() {
    over_ = true;
    thread_.join();
    for (int const s : held_) ::close(s);
  }
  [[nodiscard]] std::uint64_t opened() const noexcept { return opened_; }

 private:
  void work() {
    for (std::size_t i = 0; !over_; ++i) {
      int& slot = held_[i % held_.size()];
      if (slot >= 0) ::close(slot);
      slot = open(ports_[i % ports_.size()], static_cast<std::uint32_t>(i / ports_.size() % 6));
      if (pause_.count() != 0) std::this_thread::sleep_for(pause_);
    }
  }
  [[nodiscard]] int open(std::uint16_t port, std::uint32_t from) {
    int const s = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    linger const at_once{1, 0};  // ports of its own would run out
    ::setsockopt(s, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    sockaddr_in own{};
    own.sin_family = AF_INET;
    own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + from);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(port);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    bool const bound = ::bind(s, reinterpret_cast<sockaddr const*>(&own), sizeof own) == 0;
    if (bound && ::connect(s, reinterpret_cast<sockaddr const*>(&to), sizeof to) == -1 && errno == EINPROGRESS)
      ++opened_;
    return s;
  }

  std::vector<std::uint16_t> ports_;
  std::chrono::microseconds pause_;
  std::vector<int> held_;
  std::atomic<std::uint64_t> opened_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_{[this] { work(); }};
};

}  // namespace rubato::test
