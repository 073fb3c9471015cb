// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A proxy's bytes do not come sooner than its delay and rate allow, and none is lost.
#include <catch2/catch.hpp>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "src/tools/proxy/proxy.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

using clock_type = std::chrono::steady_clock;

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  where.sin_port = htons(port);
  return where;
}

/// Two ends of a connection through a proxy.
class connection {
 public:
  explicit connection(tools::meddling const& m) : proxy_(m, 1) {
    int const listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in where = loopback(0);
    socklen_t size = sizeof where;
    ::bind(listener, reinterpret_cast<sockaddr*>(&where), size);
    ::listen(listener, 1);
    ::getsockname(listener, reinterpret_cast<sockaddr*>(&where), &size);
    near_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in const door = loopback(proxy_.address().port);
    // Before the proxy knows where to: who connects waits.
    REQUIRE(::connect(near_, reinterpret_cast<sockaddr const*>(&door), sizeof door) == 0);
    proxy_.forward_to({.host = "127.0.0.1", .port = ntohs(where.sin_port)});
    far_ = ::accept(listener, nullptr, nullptr);
    ::close(listener);
    REQUIRE(far_ >= 0);
  }
  connection(connection const&) = delete;
  connection& operator=(connection const&) = delete;
  ~connection() {
    ::close(near_);
    ::close(far_);
  }

  [[nodiscard]] int near() const noexcept { return near_; }
  [[nodiscard]] int far() const noexcept { return far_; }

 private:
  tools::proxy proxy_;
  int near_ = -1, far_ = -1;
};

void send_all(int to, std::vector<char> const& bytes) {
  for (std::size_t sent = 0; sent < bytes.size();) {
    auto const n = ::send(to, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) return;
    sent += static_cast<std::size_t>(n);
  }
}

std::vector<char> receive(int from, std::size_t count) {
  std::vector<char> bytes(count);
  REQUIRE(::recv(from, bytes.data(), count, MSG_WAITALL) == static_cast<ssize_t>(count));
  return bytes;
}

std::vector<char> sample(std::size_t count) {
  std::vector<char> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<char>(i * 7 + i / 251);
  return bytes;
}

}  // namespace

TEST_CASE("a message takes the time of its bytes and then the delay", "[process][proxy]") {
  connection c({.delay = 30ms, .bits_per_second = 80'000'000});
  std::vector<char> const all = sample(1'000'000);  // 100 ms
  auto const began = clock_type::now();
  std::thread sender([&] { send_all(c.near(), all); });
  CHECK(receive(c.far(), all.size()) == all);
  CHECK(clock_type::now() - began >= 130ms);
  sender.join();
}

TEST_CASE("what follows waits for what is under way, but not for its delay", "[process][proxy]") {
  connection c({.delay = 50ms, .bits_per_second = 80'000'000});
  auto const began = clock_type::now();
  send_all(c.near(), sample(100'000));  // 10 ms each
  send_all(c.near(), sample(100'000));
  (void)receive(c.far(), 200'000);
  CHECK(clock_type::now() - began >= 70ms);
}

TEST_CASE("the two directions do not wait for each other", "[process][proxy]") {
  connection c({.delay = 5ms, .bits_per_second = 80'000'000});
  auto const began = clock_type::now();
  std::vector<char> const all = sample(500'000);  // 50 ms
  std::thread one([&] { send_all(c.near(), all); });
  std::thread other([&] { send_all(c.far(), all); });
  CHECK(receive(c.far(), all.size()) == all);
  CHECK(clock_type::now() - began >= 55ms);
  CHECK(receive(c.near(), all.size()) == all);
  one.join();
  other.join();
}
