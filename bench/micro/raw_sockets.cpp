// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/micro/raw_sockets.hpp"

#include <arpa/inet.h>
#include <fmt/core.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "rubato/core/busy_poll.hpp"

namespace rubato::bench {
namespace {

// Messages smaller than this are read many at a time.
constexpr std::size_t small_message = 64 * 1024;
constexpr std::size_t read_buffer = 256 * 1024;

void require(bool holds, char const* what) {
  if (!holds) throw std::system_error(errno, std::generic_category(), what);
}

sockaddr* plain(sockaddr_in& at) { return reinterpret_cast<sockaddr*>(&at); }

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  at.sin_port = htons(port);
  return at;
}

}  // namespace

int unpaced_socket() {
  constexpr std::string_view reno = "reno";
  int const fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  require(fd >= 0, "socket");
  (void)setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, reno.data(), reno.size());  // where not, the library does without
  return fd;
}

namespace {


void send_at_once(int fd) {
  int const on = 1;
  require(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "TCP_NODELAY");
}

class listening_socket {
 public:
  listening_socket() : fd_(unpaced_socket()) {
    sockaddr_in at = loopback(0);
    socklen_t size = sizeof at;
    require(bind(fd_, plain(at), size) == 0, "bind");
    require(getsockname(fd_, plain(at), &size) == 0, "getsockname");
    require(listen(fd_, 1) == 0, "listen");
    port_ = ntohs(at.sin_port);
  }
  listening_socket(listening_socket const&) = delete;
  listening_socket& operator=(listening_socket const&) = delete;
  ~listening_socket() { close(fd_); }

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }
  [[nodiscard]] raw_socket accept_one() const {
    constexpr int patience = 10'000;  // ms
    pollfd one{.fd = fd_, .events = POLLIN, .revents = 0};
    if (poll(&one, 1, patience) != 1) throw std::runtime_error("the other process did not connect");
    int const fd = accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    require(fd >= 0, "accept");
    raw_socket guest(fd);
    send_at_once(fd);
    return guest;
  }

 private:
  int fd_;
  std::uint16_t port_ = 0;
};

raw_socket connect_to(std::uint16_t port) {
  int const fd = unpaced_socket();
  raw_socket made(fd);
  sockaddr_in at = loopback(port);
  require(connect(fd, plain(at), sizeof at) == 0, "connect");
  send_at_once(fd);
  return made;
}

void send_messages(raw_socket const& to, raw_task const& task) {
  std::vector<std::byte> const message(task.bytes);
  std::array<std::byte, 1> asked;
  while (to.read(asked))
    for (std::size_t i = 0; i < task.count; ++i) to.write(message);
}

/// Large messages are read one by one into the same buffer, small ones many at a time.
void receive_messages(raw_socket const& from, raw_task const& task) {
  std::size_t const total = task.bytes * task.count;
  std::vector<std::byte> buffer(task.bytes < small_message ? std::min(total, read_buffer)
                                                           : task.bytes);
  std::array<std::byte, 1> const answer{};
  while (true) {
    for (std::size_t got = 0; got < total;) {
      std::size_t const n = std::min(buffer.size(), total - got);
      if (!from.read(std::span(buffer).first(n))) return;
      got += n;
    }
    from.write(answer);
  }
}

}  // namespace

raw_socket::raw_socket(raw_socket&& from) noexcept : fd_(std::exchange(from.fd_, -1)) {}
raw_socket& raw_socket::operator=(raw_socket&& from) noexcept {
  std::swap(fd_, from.fd_);
  return *this;
}
raw_socket::~raw_socket() {
  if (fd_ >= 0) close(fd_);
}

void raw_socket::write(std::span<std::byte const> bytes) const {
  while (!bytes.empty()) {
    ssize_t const n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    require(n > 0, "send");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
  }
}

bool raw_socket::read(std::span<std::byte> bytes) const {
  std::size_t got = look(bytes);
  if (got == bytes.size()) return true;
  // One call for all: faster than one for each stretch that has come.
  ssize_t const n = ::recv(fd_, bytes.data() + got, bytes.size() - got, MSG_WAITALL);
  require(n >= 0, "recv");
  got += static_cast<std::size_t>(n);
  if (got != 0 && got != bytes.size())
    throw std::runtime_error("the other process closed in the middle of a message");
  return got != 0;
}

std::size_t raw_socket::look(std::span<std::byte> bytes) const {
  bool const takes = bytes.size() < small_message;  // of larger ones it would be a stretch
  auto const until = std::chrono::steady_clock::now() + usual_busy_poll;
  do {
    ssize_t const n = ::recv(fd_, bytes.data(), takes ? bytes.size() : 1, MSG_DONTWAIT | (takes ? 0 : MSG_PEEK));
    if (n >= 0) return takes ? static_cast<std::size_t>(n) : 0;
    require(errno == EAGAIN, "recv");
    std::this_thread::yield();
  } while (std::chrono::steady_clock::now() < until);
  return 0;
}

std::vector<std::string> raw_task::words() const {
  return {what == kind::send ? "raw-send" : "raw-receive", std::to_string(bytes),
          std::to_string(count)};
}

raw_task raw_task::parse(std::vector<std::string> const& words) {
  return {.what = words.at(0) == "raw-send" ? kind::send : kind::receive,
          .bytes = std::stoull(words.at(1)),
          .count = std::stoull(words.at(2))};
}

raw_peer::raw_peer(raw_task const& task, int core) {
  listening_socket const door;
  std::vector<std::string> words = task.words();
  words.insert(words.end(), {std::to_string(core), std::to_string(door.port())});
  process_ = std::make_unique<other_process>(std::move(words));
  socket_ = door.accept_one();
}

void serve_raw(std::vector<std::string> const& words) {
  raw_task const task = raw_task::parse(words);
  pinned const here(std::stoi(words.at(3)));
  raw_socket const to = connect_to(static_cast<std::uint16_t>(std::stoul(words.at(4))));
  if (task.what == raw_task::kind::send)
    send_messages(to, task);
  else
    receive_messages(to, task);
}

}  // namespace rubato::bench
