// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Somebody without the token opens connections to all who listen, as fast as it can and from several addresses, and
// says nothing on them: whoever belongs to the run still gets in, at the start and after every break.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "process/checks.hpp"
#include "process/runs.hpp"

using namespace rubato;

namespace {

/// Holds handshakes at these ports from 127.0.0.1 to .6, always new ones.
class connection_flood {
 public:
  explicit connection_flood(std::vector<std::uint16_t> ports) : ports_(std::move(ports)), held_(900, -1) {}
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
  std::vector<int> held_;
  std::atomic<std::uint64_t> opened_ = 0;
  std::atomic<bool> over_ = false;
  std::thread thread_{[this] { work(); }};
};

}  // namespace

TEST_CASE("a flood of handshakes by somebody without the token keeps nobody of a run out", "[process][security]") {
  constexpr std::size_t threads = 2;
  std::vector<std::uint16_t> const ports{test::free_port(), test::free_port(), test::free_port()};
  auto const at = [&](std::size_t i) { return "127.0.0.1:" + std::to_string(ports[i]); };
  connection_flood const flood(ports);
  test::process_run run({.workers = 2,
                         .servers = 2,
                         .options = {"--protocol", "ssp:2", "--threads", std::to_string(threads), "--cuts", "150"},
                         .settings = {{"RUBATO_TOKEN", "open sesame"},
                                      {"RUBATO_COORDINATOR", at(2)},
                                      {"RUBATO_RECONNECT", "2"}},
                         .own_settings = [&](std::string const& role, std::uint32_t rank) {
                           return role == "server" ? test::variables{{"RUBATO_LISTEN", at(rank)}}
                                                   : test::variables{};
                         }});
  test::check_exact_after_cuts(run, threads, 150);
  CHECK(flood.opened() > 2000);
  CHECK_THAT(run.server(0).errors(), Catch::Contains("handshakes are under way"));
}
