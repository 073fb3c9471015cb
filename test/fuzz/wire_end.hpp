// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "fuzz/input.hpp"
#include "rubato/net/link.hpp"
#include "rubato/wire/archive.hpp"
#include "rubato/wire/control.hpp"
#include "rubato/wire/frame.hpp"
#include "rubato/wire/messages.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato::fuzz {

/// A link's own kinds of frames, as rubato/net/impl/link.ipp has them.
namespace own {
inline constexpr std::uint8_t hello = 1, welcome = 2, refused = 3, ack = 4, goodbye = 5,
                             cut = 6;
}

/// What the coordinator draws for a life of a worker process.
[[nodiscard]] inline wire::secret secret_of(std::uint32_t process, std::uint32_t incarnation) {
  wire::secret s{};
  s[0] = static_cast<std::uint8_t>(process + 1);
  s[1] = static_cast<std::uint8_t>(incarnation);
  return s;
}

struct frame {
  wire::frame_header header;
  bytes meta;
  bytes body;
};

/// A frame as it travels; sizes in its header are what they should be.
[[nodiscard]] inline bytes encoded(frame f) {
  f.header.meta = static_cast<std::uint32_t>(f.meta.size());
  f.header.length = f.body.size();
  bytes all(wire::frame_header_size);
  wire::encode(f.header, std::span(all).first<wire::frame_header_size>());
  append(all, f.meta);
  append(all, f.body);
  return all;
}

[[nodiscard]] inline frame hello_frame(net::hello const& h) {
  frame f;
  f.header.kind = own::hello;
  wire::output_archive out;
  out << h.as << h.number << h.incarnation << h.session << h.received << h.credential;
  f.meta = out.take();
  return f;
}

/// Takes the first frame off these bytes, if all of it is there.
/// @throws wire::frame_error
[[nodiscard]] inline std::optional<frame> take_frame(std::span<std::byte const>& from) {
  if (from.size() < wire::frame_header_size) return std::nullopt;
  frame f;
  f.header = wire::decode(from.first<wire::frame_header_size>());
  std::uint64_t const rest = from.size() - wire::frame_header_size;
  if (f.header.meta > rest || f.header.length > rest - f.header.meta) return std::nullopt;
  auto const meta = from.subspan(wire::frame_header_size, f.header.meta);
  auto const body = from.subspan(wire::frame_header_size + meta.size(),
                                 static_cast<std::size_t>(f.header.length));
  f.meta.assign(meta.begin(), meta.end());
  f.body.assign(body.begin(), body.end());
  from = from.subspan(wire::frame_header_size + meta.size() + body.size());
  return f;
}

/// A handshake without a token: what one end says, all at once.
[[nodiscard]] inline bytes greeting(net::role as = net::role::worker) {
  bytes b(39, std::byte{7});
  std::memcpy(b.data(), "RBTO\2\0", 6);
  b[6] = std::byte(as);
  return b;
}

[[nodiscard]] inline sockaddr_un socket_address(std::string const& path) {
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  FUZZ_REQUIRE(path.size() < sizeof where.sun_path);
  std::memcpy(where.sun_path, path.data(), path.size());
  return where;
}

/// The fuzzer's end of a connection with the server: sends what it is told to, and reads frames.
class wire_end {
 public:
  /// `pump` lets the server do what it can.
  wire_end(int fd, std::size_t handshake, std::function<void()> const& pump)
      : fd_(fd), handshake_(handshake), pump_(pump) {}
  wire_end(wire_end const&) = delete;
  wire_end& operator=(wire_end const&) = delete;
  ~wire_end() { ::close(fd_); }

  /// Connects to where the server listens; the handshake goes out with the next bytes.
  [[nodiscard]] static int connected_to(std::string const& path) {
    int const fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_un const where = socket_address(path);
    FUZZ_REQUIRE(fd >= 0);
    FUZZ_REQUIRE(::connect(fd, reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0);
    return fd;
  }

  void send(std::span<std::byte const> what) {
    while (!what.empty() && !ended_) {
      ssize_t const n = ::send(fd_, what.data(), what.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (n > 0)
        what = what.subspan(static_cast<std::size_t>(n));
      else if (errno == EAGAIN)
        pump_();
      else
        ended_ = true;
    }
  }

  /// Reads what has come by now.
  void receive() {
    static std::array<std::byte, 64 * 1024> piece;
    while (!ended_) {
      ssize_t const n = ::recv(fd_, piece.data(), piece.size(), MSG_DONTWAIT);
      if (n == 0 || (n < 0 && errno != EAGAIN)) ended_ = true;
      if (n <= 0) return;
      append(in_, std::span(piece).first(static_cast<std::size_t>(n)));
    }
  }

  /// The next frame that has come. What the server sends is well formed, always.
  [[nodiscard]] std::optional<frame> next() {
    if (in_.size() < at_ + handshake_) return std::nullopt;
    at_ += std::exchange(handshake_, 0);
    std::span<std::byte const> rest = std::span(in_).subspan(at_);
    auto f = take_frame(rest);
    at_ = in_.size() - rest.size();
    return f;
  }
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

 private:
  int fd_;
  std::size_t handshake_;  // bytes that come before the first frame
  std::function<void()> const& pump_;
  bytes in_;
  std::size_t at_ = 0;
  bool ended_ = false;
};

}  // namespace rubato::fuzz
