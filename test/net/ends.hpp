// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Two ends of a connection in one thread and one network, and what one needs to look at them.
#pragma once

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <rubato/net/asio_network.hpp>
#include <rubato/net/log.hpp>
#include <string>
#include <utility>
#include <vector>

#include "patience.hpp"

namespace rubato::test {

using namespace std::chrono_literals;
using bytes = std::vector<std::byte>;

inline std::span<std::byte const> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
inline std::string as_text(std::span<std::byte const> of) {
  return {reinterpret_cast<char const*>(of.data()), of.size()};
}
/// How often a part comes in a text.
inline std::size_t count_of(std::string_view part, std::string_view text) {
  std::size_t count = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + part.size())) ++count;
  return count;
}
/// Bytes that differ from place to place, and from one `salt` to the next.
inline bytes pattern(std::size_t size, std::size_t salt = 0) {
  bytes result(size);
  for (std::size_t i = 0; i < size; ++i) result[i] = std::byte((i * 131 + i / 251 + salt) & 0xFF);
  return result;
}

/// Runs the network until the condition holds; false when it does not within a generous time.
template <class Condition>
[[nodiscard]] bool run_until(net::network& network, Condition condition,
                             std::chrono::milliseconds limit = patience) {
  auto const end = net::network::clock::now() + limit;
  while (!condition()) {
    if (net::network::clock::now() >= end) return false;
    network.run_one(std::min(end, net::network::clock::now() + 1ms));
  }
  return true;
}

/// Collects what is logged while it lives.
class log_capture {
 public:
  log_capture() {
    net::set_log([this](net::log_level level, std::string_view line) {
      (level == net::log_level::warning ? warnings_ : others_) += std::string(line) + "\n";
    });
  }
  log_capture(log_capture const&) = delete;
  log_capture& operator=(log_capture const&) = delete;
  ~log_capture() { net::set_log({}); }
  [[nodiscard]] std::string const& warnings() const noexcept { return warnings_; }
  [[nodiscard]] std::string const& others() const noexcept { return others_; }

 private:
  std::string warnings_, others_;
};

/// A folder that is gone at the end.
class temporary_folder {
 public:
  temporary_folder() {
    std::string name = (std::filesystem::temp_directory_path() / "rubato-net-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  temporary_folder(temporary_folder const&) = delete;
  temporary_folder& operator=(temporary_folder const&) = delete;
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] std::string file(std::string const& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

struct frame {
  wire::frame_header header;
  bytes meta;
  bytes body;
};

/// Keeps what it is told, and does what a test asks for.
class recorder : public net::frame_receiver {
 public:
  std::vector<frame> frames;
  int drained_calls = 0;
  int writable_calls = 0;
  std::vector<std::string> reasons;
  std::size_t parts = 1;  ///< into which a body is cut
  std::vector<std::size_t> windows;  ///< if any: what is given at a time
  std::size_t asked_more = 0;
  std::size_t given = 0;
  std::function<void()> on_begin, on_end, on_drained, on_writable, on_closed;

  void begin(wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override {
    if (on_begin) on_begin();
    frames.push_back({header, bytes(meta.begin(), meta.end()), bytes(header.length)});
    given = 0;
    if (!windows.empty()) return more(header, body);
    std::span<std::byte> rest = frames.back().body;
    for (std::size_t left = parts; left > 0; --left) {
      body.push_back(rest.first(rest.size() / left));
      rest = rest.subspan(rest.size() / left);
    }
  }
  /// Gives the body's room window by window.
  void more(wire::frame_header const&, std::vector<std::span<std::byte>>& body) override {
    if (windows.empty()) return;
    std::span<std::byte> const rest = std::span(frames.back().body).subspan(given);
    auto const one = rest.first(std::min(rest.size(), windows[asked_more++ % windows.size()]));
    given += one.size();
    body.push_back(one);
  }
  void end(wire::frame_header const&) override {
    ++ended;
    if (on_end) on_end();
  }
  void drained() override {
    ++drained_calls;
    if (on_drained) on_drained();
  }
  void writable() override {
    ++writable_calls;
    if (on_writable) on_writable();
  }
  void closed(std::string const& reason) override {
    reasons.push_back(reason);
    if (on_closed) on_closed();
  }
  std::size_t ended = 0;
  [[nodiscard]] bool is_closed() const noexcept { return !reasons.empty(); }
  [[nodiscard]] std::string reason() const { return reasons.empty() ? "" : reasons.front(); }
};

/// A listener, and one that connects to it.
template <class Network>
struct pair_of_ends_over {
  Network network = {};
  net::security listening = {};
  net::security connecting = {};
  net::listener_options limits = {};
  std::unique_ptr<net::listener> listener = {};
  std::shared_ptr<void> attempt = {};
  std::vector<std::unique_ptr<net::connection>> accepted = {};
  std::unique_ptr<net::connection> client = {};
  int done_calls = 0;
  std::string reason = {};
  bool refused = false;
  recorder at_server = {};
  recorder at_client = {};

  void listen(std::string const& at = "127.0.0.1:0") {
    listener = network.listen(net::address::parse(at), listening, limits,
                              [this](std::unique_ptr<net::connection> c) {
                                c->attach(at_server);
                                accepted.push_back(std::move(c));
                              });
  }
  void start_connect(net::address const& to) {
    attempt = network.dial(to, connecting, limits,
        [this](std::unique_ptr<net::connection> c, std::string const& why, bool is_final) {
          ++done_calls;
          reason = why;
          refused = is_final;
          client = std::move(c);
          if (client) client->attach(at_client);
        });
  }
  void start_connect() { start_connect(listener->bound()); }
  /// Both ends are there.
  void open(std::string const& at = "127.0.0.1:0") {
    listen(at);
    start_connect();
    REQUIRE(until([&] { return client && !accepted.empty(); }));
  }
  template <class Condition>
  [[nodiscard]] bool until(Condition condition, std::chrono::milliseconds limit = patience) {
    return run_until(network, condition, limit);
  }
  [[nodiscard]] net::connection& server() { return *accepted.at(0); }
};
using pair_of_ends = pair_of_ends_over<net::asio_network>;

/// A socket that does not know the protocol: sends and reads what a test says.
class raw_socket {
 public:
  /// `from`: the number of this machine that it comes from, if that matters.
  explicit raw_socket(net::address const& to, char const* from = nullptr) {
    if (to.is_unix()) {
      sockaddr_un where{};
      where.sun_family = AF_UNIX;
      std::memcpy(where.sun_path, to.path.data(), to.path.size());
      open(AF_UNIX, where);
    } else {
      sockaddr_in where{};
      where.sin_family = AF_INET;
      where.sin_port = htons(to.port);
      where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      open(AF_INET, where, from);
    }
  }
  raw_socket(raw_socket const&) = delete;
  raw_socket& operator=(raw_socket const&) = delete;
  ~raw_socket() { close(); }

  void send(std::span<std::byte const> what) const {
    REQUIRE(::send(fd_, what.data(), what.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(what.size()));
  }
  /// The same, and with it a file of this process's.
  void send_with_file(std::span<std::byte const> what, int file) const {
    iovec piece{const_cast<std::byte*>(what.data()), what.size()};
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof file)> beside{};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = beside.data();
    message.msg_controllen = beside.size();
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(sizeof file);
    std::memcpy(CMSG_DATA(head), &file, sizeof file);
    REQUIRE(::sendmsg(fd_, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(what.size()));
  }
  /// What has come by now, up to so many bytes.
  [[nodiscard]] bytes read(std::size_t at_most = 1 << 16) {
    bytes got(at_most);
    ssize_t const n = ::recv(fd_, got.data(), got.size(), MSG_DONTWAIT);
    ended_ = ended_ || n == 0 || (n < 0 && errno != EAGAIN);
    got.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
    return got;
  }
  /// Runs the network until so many bytes have come, or the other end has closed, or nothing more comes.
  [[nodiscard]] bytes read_exactly(net::network& network, std::size_t size) {
    bytes all;
    bool comes = true;
    while (comes && all.size() < size && !ended_) {
      comes = run_until(network, [&] {
        auto const some = read(std::min<std::size_t>(size - all.size(), 1 << 18));  // memory for them is zeroed first
        all.insert(all.end(), some.begin(), some.end());
        return !some.empty() || ended_;
      });
    }
    return all;
  }
  /// Whether the other end has closed by now; what it has said is dropped.
  [[nodiscard]] bool has_ended() {
    while (!ended_ && !read().empty()) continue;
    return ended_;
  }
  /// Whether the other end closes; what it says before is dropped.
  [[nodiscard]] bool sees_end(net::network& network) {
    return run_until(network, [&] {
      (void)read();
      return ended_;
    });
  }
  /// Goes through the handshake without a token.
  void greet(net::network& network) {
    send(greeting());
    auto const answer = read_exactly(network, 1 + greeting().size());
    REQUIRE(answer.size() == 1 + greeting().size());
    REQUIRE(answer[0] == std::byte{0});
    send(as_bytes(std::string_view("\0", 1)));
    REQUIRE(read_exactly(network, 1) == bytes{std::byte{0}});
  }
  /// Of a worker. One with a token has a tag that is wrong.
  [[nodiscard]] static bytes greeting(unsigned version = 2, bool token = false) {
    bytes result(token ? 71 : 39, std::byte{7});
    std::memcpy(result.data(), "RBTO", 4);
    result[4] = std::byte(version);
    result[5] = std::byte{token};
    result[6] = std::byte(wire::role::worker);
    return result;
  }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }

 private:
  template <class Where>
  void open(int family, Where const& where, char const* from = nullptr) {
    fd_ = ::socket(family, SOCK_STREAM, 0);
    if (from != nullptr) {
      sockaddr_in own{};
      own.sin_family = AF_INET;
      REQUIRE(::inet_pton(AF_INET, from, &own.sin_addr) == 1);
      REQUIRE(::bind(fd_, reinterpret_cast<sockaddr const*>(&own), sizeof own) == 0);
    }
    REQUIRE(::connect(fd_, reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0);
  }
  int fd_ = -1;
  bool ended_ = false;
};

/// Several pieces one after the other.
inline bytes joined(std::initializer_list<bytes> pieces) {
  std::size_t size = 0;
  for (bytes const& piece : pieces) size += piece.size();
  bytes all(size);
  auto to = all.begin();
  for (bytes const& piece : pieces) to = std::ranges::copy(piece, to).out;
  return all;
}

/// A frame as it travels.
inline bytes encoded(wire::frame_header header, std::span<std::byte const> meta,
                     std::span<std::byte const> body) {
  header.meta = static_cast<std::uint32_t>(meta.size());
  header.length = body.size();
  bytes result(wire::frame_header_size + meta.size() + body.size());
  wire::encode(header, std::span(result).first<wire::frame_header_size>());
  auto const rest = std::ranges::copy(meta, result.begin() + wire::frame_header_size).out;
  std::ranges::copy(body, rest);
  return result;
}

}  // namespace rubato::test
