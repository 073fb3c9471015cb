// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/proxy/proxy.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <limits>
#include <span>
#include <stdexcept>
#include <utility>

#include "rubato/sim/network.hpp"

namespace rubato::tools {

namespace {

/// Long enough for the receiver to look at a piece before the next one comes.
constexpr std::chrono::microseconds between_pieces{30};

int connect_to(int family, sockaddr const* where, socklen_t size) {
  int const s = ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (::connect(s, where, size) == 0) return s;
  ::close(s);
  return -1;
}

int connect_to(net::address const& to) {
  if (to.is_unix()) {
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    to.path.copy(where.sun_path, sizeof where.sun_path - 1);
    return connect_to(AF_UNIX, reinterpret_cast<sockaddr*>(&where), sizeof where);
  }
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(to.port);
  return connect_to(AF_INET, reinterpret_cast<sockaddr*>(&where), sizeof where);
}

/// At a rate bytes go out so many at a time: as pass in a millisecond, so that the first ones do
/// not wait long for the last, and few wake the proxy.
std::size_t paced_bytes(meddling const& m) {
  constexpr std::uint64_t least = 1024;
  if (m.bits_per_second == 0) return std::numeric_limits<std::size_t>::max();
  return std::max(least, m.bits_per_second / 8 / 1000);
}

/// Of what is under way there is as much on the network as the delay asks for.
std::size_t room_of(meddling const& m) {
  constexpr double least = 1 << 20;
  double const seconds = std::chrono::duration<double>(m.delay).count();
  return static_cast<std::size_t>(
      std::max(least, 2 * seconds * static_cast<double>(m.bits_per_second) / 8));
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
  sim::nic card;
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

proxy::proxy(meddling const& m, std::uint64_t seed)
    : meddling_(m), queued_max_(room_of(m)), random_(seed, 0x9807) {
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
}

proxy::~proxy() {
  over_ = true;
  if (thread_.joinable()) thread_.join();
  for (passage& p : passages_) cut(p);
  ::close(listener_);
}

void proxy::forward_to(net::address const& to) {
  to_ = to;
  thread_ = std::thread([this] { work(); });
}

void proxy::work() {
  constexpr unsigned long exactly = 1;  // nanoseconds; else sleeps last 50 us longer
  ::prctl(PR_SET_TIMERSLACK, exactly);
  std::vector<pollfd> watched;
  while (!over_) {
    watch(watched);
    auto const pause = std::chrono::nanoseconds(idle_for()).count();
    timespec const limit{0, std::max<std::int64_t>(pause, 0)};
    ::ppoll(watched.data(), watched.size(), &limit, nullptr);
    serve(watched);
    std::erase_if(passages_, [](passage const& p) { return p.is_over; });
    if (watched.front().revents != 0) accept_one();
  }
}

/// The listener, then both ends of each direction.
void proxy::watch(std::vector<pollfd>& watched) const {
  watched.assign(1, {listener_, POLLIN, 0});
  for (passage const& p : passages_)
    for (direction const& d : p.ways) {
      bool const takes = d.queued < queued_max_ && !d.has_ended;
      // -1, not 0 events: with those poll would still return at once for an end that is closed.
      watched.push_back({takes ? d.from : -1, POLLIN, 0});
      watched.push_back({d.is_full ? d.to : -1, POLLOUT, 0});
    }
}

void proxy::serve(std::vector<pollfd> const& watched) {
  std::size_t at = 1;
  for (passage& p : passages_)
    for (direction& d : p.ways) {
      bool const readable = watched[at].revents != 0;
      if (watched[at + 1].revents != 0) d.is_full = false;
      at += 2;
      if (p.is_over) continue;
      if (readable) take(d);
      if (!pass_on(p, d)) cut(p);
    }
}

/// Until the next byte is due.
proxy::clock::duration proxy::idle_for() const {
  constexpr std::chrono::milliseconds longest{5};  // to see that it is over
  auto const now = clock::now();
  auto next = now + longest;
  for (passage const& p : passages_)
    for (direction const& d : p.ways)
      if (!d.queue.empty() && !d.is_full)
        next = std::min(next, std::max(d.queue.front().due, d.not_before));
  return next - now;
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
  for (int const s : {near, far}) ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  bool const is_cut = meddling_.cut_within != 0 && cuts_ < meddling_.cuts_max;
  sim::nic const card(meddling_.bits_per_second / 8);
  passages_.push_back({{direction{near, far, card}, direction{far, near, card}},
                       is_cut ? 1 + static_cast<std::size_t>(random_.below(meddling_.cut_within))
                              : std::numeric_limits<std::size_t>::max()});
}

void proxy::take(direction& d) {
  std::array<char, 64 * 1024> buffer;
  auto const n = ::recv(d.from, buffer.data(), buffer.size(), MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    d.has_ended = true;
    return;
  }
  auto const now = clock::now().time_since_epoch();
  std::span<char const> rest(buffer.data(), static_cast<std::size_t>(n));
  d.queued += rest.size();
  while (!rest.empty()) {
    std::size_t const some = std::min(rest.size(), paced_bytes(meddling_));
    auto const through = d.card.pass(time_point(now), some).since_start();
    d.queue.push_back({clock::time_point(through + meddling_.delay), {&rest[0], &rest[0] + some}});
    rest = rest.subspan(some);
  }
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

}  // namespace rubato::tools
