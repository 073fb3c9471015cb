// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "process/proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <limits>
#include <stdexcept>
#include <utility>
#include <vector>

namespace rubato::test {

namespace {

using clock = std::chrono::steady_clock;

constexpr std::size_t queued_max = 1 << 20;
/// Long enough for the receiver to look at a piece before the next one comes.
constexpr std::chrono::microseconds between_pieces{30};

int connect_to(std::string const& path) {
  int const s = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  path.copy(where.sun_path, sizeof where.sun_path - 1);
  if (::connect(s, reinterpret_cast<sockaddr*>(&where), sizeof where) == 0) return s;
  ::close(s);
  return -1;
}

}  // namespace

struct proxy::direction {
  struct chunk {
    clock::time_point due;
    std::vector<char> bytes;
    std::size_t sent = 0;
  };
  int from;
  int to;
  std::deque<chunk> queue{};
  std::size_t queued = 0;
  std::size_t piece = 0;
  clock::time_point not_before{};
  bool has_ended = false;
  bool is_full = false;
};

struct proxy::passage {
  std::array<direction, 2> ways;
  std::size_t left;  ///< bytes until it is cut
  bool is_over = false;
};

proxy::proxy(std::string to, meddling const& m, std::uint64_t seed)
    : to_(std::move(to)), meddling_(m), random_(seed, 0x9807) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof where;
  if (::bind(listener_, reinterpret_cast<sockaddr*>(&where), size) != 0 ||
      ::listen(listener_, 64) != 0 ||
      ::getsockname(listener_, reinterpret_cast<sockaddr*>(&where), &size) != 0)
    throw std::runtime_error("the proxy cannot listen");
  port_ = ntohs(where.sin_port);
  thread_ = std::thread([this] { work(); });
}

proxy::~proxy() {
  over_ = true;
  thread_.join();
  for (passage& p : passages_) cut(p);
  ::close(listener_);
}

void proxy::work() {
  while (!over_) {
    std::vector<pollfd> watched{{listener_, POLLIN, 0}};
    for (passage& p : passages_)
      for (direction& d : p.ways) {
        bool const takes = d.queued < queued_max && !d.has_ended;
        watched.push_back({d.from, static_cast<short>(takes ? POLLIN : 0), 0});
        watched.push_back({d.is_full ? d.to : -1, POLLOUT, 0});
      }
    bool const is_busy = std::ranges::any_of(passages_, [](passage const& p) {
      return std::ranges::any_of(
          p.ways, [](direction const& d) { return !d.queue.empty() && !d.is_full; });
    });
    timespec const pause{0, is_busy ? 20'000 : 5'000'000};
    ::ppoll(watched.data(), watched.size(), &pause, nullptr);
    std::size_t at = 1;
    for (passage& p : passages_) {
      for (direction& d : p.ways) {
        bool const readable = watched[at].revents != 0 && watched[at].events != 0;
        if (watched[at + 1].revents != 0) d.is_full = false;
        at += 2;
        if (p.is_over) continue;
        if (readable) take(d);
        if (!pass_on(p, d)) cut(p);
      }
    }
    std::erase_if(passages_, [](passage const& p) { return p.is_over; });
    if (watched.front().revents != 0) accept_one();
  }
}

void proxy::accept_one() {
  int const near = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (near < 0) return;
  int const far = connect_to(to_);
  if (far < 0) {
    ::close(near);
    return;
  }
  int const on = 1;
  ::setsockopt(near, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  bool const is_cut = meddling_.cut_within != 0 && cuts_ < meddling_.cuts_max;
  passages_.push_back({{direction{near, far}, direction{far, near}},
                       is_cut ? 1 + static_cast<std::size_t>(random_.below(meddling_.cut_within))
                              : std::numeric_limits<std::size_t>::max()});
}

void proxy::take(direction& d) {
  std::vector<char> bytes(64 * 1024);
  auto const n = ::recv(d.from, bytes.data(), bytes.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    d.has_ended = true;
    return;
  }
  bytes.resize(static_cast<std::size_t>(n));
  d.queued += bytes.size();
  d.queue.push_back({clock::now() + meddling_.delay, std::move(bytes)});
}

/// Returns whether the connection goes on.
bool proxy::pass_on(passage& p, direction& d) {
  while (!d.queue.empty() && !d.is_full) {
    auto const now = clock::now();
    direction::chunk& c = d.queue.front();
    if (c.due > now || d.not_before > now) return true;
    std::size_t n = c.bytes.size() - c.sent;
    if (meddling_.pieces != 0) n = std::min(n, 1 + d.piece % meddling_.pieces);
    n = std::min(n, p.left);
    auto const sent = ::send(d.to, c.bytes.data() + c.sent, n, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EAGAIN) {
      d.is_full = true;
      return true;
    }
    if (sent < 0) return false;
    c.sent += static_cast<std::size_t>(sent);
    d.queued -= static_cast<std::size_t>(sent);
    p.left -= static_cast<std::size_t>(sent);
    if (p.left == 0) {
      ++cuts_;
      return false;
    }
    if (c.sent == c.bytes.size()) d.queue.pop_front();
    ++d.piece;
    if (meddling_.pieces != 0) d.not_before = now + between_pieces;
  }
  return !d.has_ended || !d.queue.empty();
}

/// Now by an orderly end, now by a reset.
void proxy::cut(passage& p) {
  if (std::exchange(p.is_over, true)) return;
  if (meddling_.cut_within != 0 && random_.chance(0.5)) {
    linger const abrupt{1, 0};
    ::setsockopt(p.ways[0].from, SOL_SOCKET, SO_LINGER, &abrupt, sizeof abrupt);
  }
  ::close(p.ways[0].from);
  ::close(p.ways[0].to);
}

}  // namespace rubato::test
