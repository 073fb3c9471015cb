// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Where a listener listens, who connects to it, and what becomes of their sockets.
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <rubato/core/error.hpp>

#include "ends.hpp"
#include "greeted.hpp"
#include "no_more_files.hpp"
#include "seeds.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

namespace {

/// This process's sockets that a program started now would hold open.
std::vector<std::string> inherited_sockets() {
  std::vector<std::string> result;
  for (auto const& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    int const file = std::stoi(entry.path().filename());
    struct stat what;
    if (::fstat(file, &what) != 0 || !S_ISSOCK(what.st_mode)) continue;
    if ((::fcntl(file, F_GETFD) & FD_CLOEXEC) == 0)
      result.push_back(std::filesystem::read_symlink(entry.path()));
  }
  return result;
}

}  // namespace

TEST_CASE("programs that a process starts hold none of its sockets", "[net]") {
  temporary_folder const folder;
  auto const at = GENERATE(true, false) ? "127.0.0.1:0" : "unix:" + folder.file("socket");
  auto const before = inherited_sockets();  // of whatever runs the tests
  pair_of_ends ends;
  SECTION("one that listens") {
    ends.listen(at);
    CHECK(inherited_sockets() == before);
  }
  SECTION("one that connects yet") {
    ends.listen(at);
    ends.start_connect();
    CHECK(inherited_sockets() == before);
  }
  SECTION("both ends of a connection") {
    ends.open(at);
    CHECK(inherited_sockets() == before);
    check_open(ends);
  }
}

TEST_CASE("a name is resolved", "[net]") {
  pair_of_ends ends;
  ends.listen();
  auto to = ends.listener->bound();
  to.host = "localhost";
  ends.start_connect(to);
  REQUIRE(ends.until([&] { return ends.client && !ends.accepted.empty(); }));
  check_open(ends);
}

TEST_CASE("addresses of version 6 are listened at, connected to and told", "[net]") {
  pair_of_ends ends;
  try {
    ends.listen("[::1]:0");
  } catch (error const& e) {
    WARN("not tested, since this machine has none: " << e.what());
    return;
  }
  ends.start_connect();
  REQUIRE(ends.until([&] { return ends.client && !ends.accepted.empty(); }));
  CHECK(ends.listener->bound().text() == "[::1]:" + std::to_string(ends.listener->bound().port));
  CHECK(ends.client->peer() == ends.listener->bound().text());
  CHECK_THAT(ends.server().peer(), Contains("[::1]:"));
  check_open(ends);
}

TEST_CASE("nobody listens: told at once, with the address", "[net]") {
  pair_of_ends ends;
  ends.listen();
  auto const to = ends.listener->bound();
  ends.listener.reset();
  ends.start_connect(to);
  CHECK(ends.done_calls == 0);
  REQUIRE(ends.until([&] { return ends.done_calls == 1; }, 1s));
  CHECK_THAT(ends.reason, Contains(to.text()) && Contains("refused"));
  CHECK_FALSE(ends.refused);
}

namespace {

enum class outcome : int { fine, wrong, cannot_be_tried };

/// In this process, which is no other's any more, the system gives no other port to who connects.
bool leave_one_port(std::uint16_t port) {
  if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
  int const s = ::socket(AF_INET, SOCK_DGRAM, 0);
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  bool const is_up = ::ioctl(s, SIOCSIFFLAGS, &loopback) == 0;
  ::close(s);
  std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
  range << port << " " << port << std::flush;
  return is_up && range.good();
}

outcome connect_to_itself() {
  constexpr std::uint16_t port = 40000;
  if (!leave_one_port(port)) return outcome::cannot_be_tried;
  pair_of_ends ends;
  ends.start_connect({"127.0.0.1", port});
  bool const told = ends.until([&] { return ends.done_calls == 1; });
  bool const may_try_again = !ends.refused && ends.reason.find("Connection refused") != std::string::npos;
  return told && !ends.client && may_try_again ? outcome::fine : outcome::wrong;
}

}  // namespace

TEST_CASE("nobody listens, and the system connects a process to itself: as if it had not", "[net]") {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(static_cast<int>(connect_to_itself()));
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(WIFEXITED(status));
  auto const seen = static_cast<outcome>(WEXITSTATUS(status));
  if (seen == outcome::cannot_be_tried) WARN("not tried: it takes a network of one's own");
  CHECK(seen != outcome::wrong);
}

TEST_CASE("one who dropped its attempt to connect is not told", "[net]") {
  pair_of_ends ends;
  ends.listen();
  ends.start_connect();
  SECTION("at once") { ends.attempt.reset(); }
  SECTION("in the middle") {
    ends.network.run_one();
    ends.attempt.reset();
  }
  bool up = false;
  auto const timer = ends.network.at(net::network::clock::now() + 20ms, [&] { up = true; });
  REQUIRE(ends.until([&] { return up; }));
  CHECK(ends.done_calls == 0);
}

TEST_CASE("beyond the loopback network only who asks for it listens", "[net]") {
  pair_of_ends ends;
  CHECK_THROWS_AS(ends.listen("0.0.0.0:0"), option_error);
  CHECK_THROWS_WITH(ends.listen("0.0.0.0:0"), Contains("0.0.0.0:0") && Contains("loopback"));
  ends.listening.beyond_loopback = true;
  ends.listen("0.0.0.0:0");
  CHECK(ends.listener->bound().port != 0);
}

TEST_CASE("an address that is taken is an error", "[net]") {
  pair_of_ends ends;
  ends.listen();
  auto const taken = ends.listener->bound().text();
  pair_of_ends others;
  CHECK_THROWS_WITH(others.listen(taken), Contains(taken) && Contains("in use"));
}

TEST_CASE("what a Unix-domain socket carries stays on the machine, of TCP nobody knows", "[net]") {
  temporary_folder const folder;
  bool const local = GENERATE(true, false);
  pair_of_ends ends;
  ends.open(local ? "unix:" + folder.file("socket") : "127.0.0.1:0");
  CHECK(ends.client->is_local() == local);
  CHECK(ends.server().is_local() == local);
}

TEST_CASE("how long a packet and its answer take is known of sockets", "[net]") {
  temporary_folder const folder;
  pair_of_ends ends;
  SECTION("TCP") { ends.open("127.0.0.1:0"); }
  SECTION("no line at all") {
    ends.open("unix:" + folder.file("socket"));
    CHECK(ends.client->round_trip() == 0us);
  }
  REQUIRE(ends.client->round_trip().has_value());
  REQUIRE(ends.server().round_trip().has_value());
}

TEST_CASE("files that come with bytes are not kept, asked for or not", "[net]") {
  temporary_folder const folder;
  auto const open_files = [] {
    using std::filesystem::directory_iterator;
    return std::distance(directory_iterator("/proc/self/fd"), directory_iterator());
  };
  pair_of_ends ends;
  ends.listen("unix:" + folder.file("socket"));
  auto const before_it = open_files();
  raw_socket const stranger(ends.listener->bound());
  REQUIRE(ends.until([&] { return open_files() == before_it + 2; }));  // it is let in
  auto const before = open_files();
  std::array<std::byte, 1> const first{std::byte{'R'}};
  for (int i = 0; i < 3; ++i) {
    stranger.send_with_file(first, STDERR_FILENO);
    (void)ends.until([] { return false; }, 10ms);
    CHECK(open_files() == before);
  }
}

namespace {

/// A socket that nobody listens at, as one leaves who is killed.
void leave_socket(std::string const& path) {
  int const stale = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::memcpy(where.sun_path, path.data(), path.size());
  REQUIRE(::bind(stale, reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0);
  ::close(stale);
}

}  // namespace

TEST_CASE("who chooses the name of its socket removes those of others who chose one and were killed", "[net]") {
  temporary_folder const folder;
  std::string const begin = folder.file("c.server-");
  pair_of_ends lives;
  lives.listen("unix:" + begin + "*");
  std::string const dead = begin + "0123456789abcdef";
  leave_socket(dead);
  std::ofstream(dead + ".lock") << "";
  std::vector<std::string> const others{begin + "somebody", begin + "0123456789abcdef0",
                                        folder.file("d.server-0123456789abcdef")};
  for (auto const& path : others) leave_socket(path);
  std::ofstream(begin + "fedcba9876543210") << "no socket";
  pair_of_ends fresh;
  fresh.listen("unix:" + begin + "*");
  CHECK_FALSE(std::filesystem::exists(dead));
  CHECK_FALSE(std::filesystem::exists(dead + ".lock"));
  for (auto const& path : others) CHECK(std::filesystem::exists(path));
  CHECK(std::filesystem::exists(begin + "fedcba9876543210"));
  CHECK(std::filesystem::exists(lives.listener->bound().path));
  CHECK(std::filesystem::exists(fresh.listener->bound().path));
}

TEST_CASE("a Unix-domain socket's file", "[net]") {
  temporary_folder const folder;
  std::string const path = folder.file("socket");
  std::string const at = "unix:" + path;
  pair_of_ends ends;
  SECTION("is its user's only, and goes with the listener") {
    ends.open(at);
    CHECK(ends.listener->bound().text() == at);
    struct stat file;
    REQUIRE(::lstat(path.c_str(), &file) == 0);
    CHECK((file.st_mode & 0777) == 0600);
    ends.listener.reset();
    CHECK(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
    check_open(ends);
  }
  SECTION("is taken over when nobody listens there any more") {
    int const stale = ::socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un where{};
    where.sun_family = AF_UNIX;
    std::memcpy(where.sun_path, path.data(), path.size());
    REQUIRE(::bind(stale, reinterpret_cast<sockaddr const*>(&where), sizeof where) == 0);
    SECTION("with a lock that another left behind, or without") {
      if (GENERATE(true, false)) std::ofstream(path + ".lock") << "";
    }
    SECTION("but not from one who is about to listen") {
      int const lock = ::open((path + ".lock").c_str(), O_RDWR | O_CREAT, 0600);
      REQUIRE(::flock(lock, LOCK_EX | LOCK_NB) == 0);
      CHECK_THROWS_WITH(ends.listen(at), Contains(at) && Contains("another process listens"));
      CHECK(std::filesystem::exists(path));
      CHECK(std::filesystem::exists(path + ".lock"));
      ::close(lock);
    }
    ::close(stale);
    REQUIRE(std::filesystem::exists(path));
    ends.open(at);
    check_open(ends);
  }
  SECTION("is left alone when somebody listens there") {
    ends.open(at);
    pair_of_ends others;
    CHECK_THROWS_WITH(others.listen(at), Contains(at) && Contains("another process listens"));
    check_open(ends);
  }
  SECTION("is left alone when it is no socket") {
    std::ofstream(path) << "data";
    CHECK_THROWS_WITH(ends.listen(at), Contains("no socket"));
    CHECK(std::filesystem::exists(path));
  }
  SECTION("has a name that the network chooses, where that is left to it") {
    ends.open(at + ".*");
    pair_of_ends others;
    others.open(at + ".*");
    std::string const one = ends.listener->bound().path, other = others.listener->bound().path;
    CHECK_THAT(one, Catch::StartsWith(path + "."));
    CHECK(one.back() != '*');
    CHECK(one != other);
    CHECK(std::filesystem::exists(one));
    check_open(ends);
    check_open(others);
    ends.listener.reset();
    others.listener.reset();
    CHECK(std::filesystem::is_empty(std::filesystem::path(path).parent_path()));
  }
  SECTION("has a path that fits") {
    CHECK_THROWS_AS(ends.listen("unix:/tmp/" + std::string(200, 'x')), option_error);
    auto const to = net::address::parse("unix:/tmp/" + std::string(200, 'x'));
    CHECK_THROWS_AS(ends.start_connect(to), option_error);
    CHECK_THROWS_WITH(ends.start_connect(to), Contains("at most 107 bytes, this has 205"));
  }
}

TEST_CASE("where no socket can be opened, to listen is an error that says where", "[net]") {
  temporary_folder const folder;
  net::asio_network network;
  bool const is_unix = GENERATE(true, false);
  bool const is_first = GENERATE(true, false);  // of its network, which needs more for that
  if (is_first && sanitized()) return;  // a sanitizer needs a pipe to look at what is thrown there
  if (!is_first) (void)network.listen({.host = "127.0.0.1", .port = 0}, {}, {}, [](auto) {});
  net::address at{.host = "127.0.0.1", .port = 0};
  if (is_unix) at = {.host = {}, .path = folder.file("door")};
  std::string why;
  {
    no_more_files const limit;
    try {
      (void)network.listen(at, {}, {}, [](auto) {});
    } catch (error const& e) {
      why = e.what();
    }
  }
  CHECK_THAT(why, Contains(at.text()) && Contains("open files"));
}
