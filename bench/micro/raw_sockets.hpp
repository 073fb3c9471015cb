// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bench/micro/tcp_process.hpp"

// What plain sockets do over loopback, with nothing of the library: TCP, blocking, without delay.
namespace rubato::bench {

/// A TCP socket of this machine. As the library's it is not paced by the system's congestion control, where that is
/// BBR: a limit would be none then. @throws std::system_error
[[nodiscard]] int unpaced_socket();

/// A connected socket.
class raw_socket {
 public:
  raw_socket() = default;
  explicit raw_socket(int fd) noexcept : fd_(fd) {}
  raw_socket(raw_socket&& from) noexcept;
  raw_socket& operator=(raw_socket&& from) noexcept;
  ~raw_socket();

  /// @throws std::system_error
  void write(std::span<std::byte const> bytes) const;
  /// Waits until all is there. Returns whether it is, or the other end has closed before the
  /// first byte. @throws std::system_error
  bool read(std::span<std::byte> bytes) const;

 private:
  /// Looks for the first bytes for as long as the library does before it sleeps. Returns how many it has taken.
  std::size_t look(std::span<std::byte> bytes) const;

  int fd_ = -1;
};

/// What the process at the other end does over and over, until this end closes.
struct raw_task {
  enum class kind : std::uint8_t {
    send,     ///< when a byte has come, sends `count` messages of `bytes`
    receive,  ///< when `count` messages of `bytes` have come, sends a byte
  };
  kind what;
  std::size_t bytes = 1;
  std::size_t count = 1;

  [[nodiscard]] std::vector<std::string> words() const;
  [[nodiscard]] static raw_task parse(std::vector<std::string> const& words);
};

/// A process that does such a task, and the connection to it.
class raw_peer {
 public:
  raw_peer(raw_task const& task, int core);
  [[nodiscard]] raw_socket const& socket() const noexcept { return socket_; }

 private:
  std::unique_ptr<other_process> process_;
  raw_socket socket_;
};

/// The other process.
void serve_raw(std::vector<std::string> const& words);

}  // namespace rubato::bench
