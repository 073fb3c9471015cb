// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What processes say, where nobody reads it, or not for a while.
#include <fcntl.h>
#include <poll.h>
#include <pty.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstddef>
#include <string>

#include "tools/launched.hpp"

using namespace rubato;
using namespace rubato::test::launching;
using Catch::Contains;

namespace {

// What a launcher writes to, of a kind that may hold it up, and that nobody reads until a test
// does.
class stalled_reader {
 public:
  explicit stalled_reader(std::string const& kind) {
    std::array<int, 2> ends{};
    if (kind == "pipe") {
      REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
    } else if (kind == "socket") {
      REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) == 0);
    } else {
      REQUIRE(::openpty(&ends[0], &ends[1], nullptr, nullptr, nullptr) == 0);
      termios raw{};
      ::tcgetattr(ends[1], &raw);
      ::cfmakeraw(&raw);
      ::tcsetattr(ends[1], TCSANOW, &raw);
      for (int const end : ends) ::fcntl(end, F_SETFD, FD_CLOEXEC);
    }
    read_ = ends[0];
    write_ = ends[1];
    ::fcntl(read_, F_SETFL, ::fcntl(read_, F_GETFL) | O_NONBLOCK);
  }
  stalled_reader(stalled_reader const&) = delete;
  stalled_reader& operator=(stalled_reader const&) = delete;
  ~stalled_reader() {
    ::close(read_);
    ::close(write_);
  }

  [[nodiscard]] int end() const noexcept { return write_; }
  void await_full() const {
    REQUIRE(comes_true([&] {
      pollfd room{.fd = write_, .events = POLLOUT, .revents = 0};
      return ::poll(&room, 1, 0) == 0;
    }));
  }
  /// What there is now.
  std::string const& read() {
    std::array<char, 65536> some;
    for (ssize_t got = 1; got > 0;) {
      got = ::read(read_, some.data(), some.size());
      if (got > 0) all_.append(some.data(), static_cast<std::size_t>(got));
    }
    return all_;
  }

 private:
  int read_ = -1;
  int write_ = -1;
  std::string all_;
};

// Says 333 for worker 3 again and again, until it is killed.
constexpr auto* speak = "while :; do echo $RANK$RANK$RANK; done";

void check_whole_lines(std::string const& text) {
  CHECK(text.size() > 1000);
  REQUIRE(text.back() == '\n');
  auto const lines = lines_of(text);
  auto const bad = std::find_if(lines.begin(), lines.end(), [](std::string const& line) {
    return line.size() != 14 ||
           line != "[worker " + line.substr(8, 1) + "] " + std::string(3, line[8]);
  });
  CHECK((bad == lines.end() ? std::string() : *bad) == "");
}

}  // namespace

TEST_CASE("a run ends when nobody reads what it says", "[tools][launch]") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe2(ends.data(), O_CLOEXEC) == 0);
  ::close(ends[0]);
  launched launch(shell("while :; do echo y; done"), ends[1]);
  ::close(ends[1]);
  CHECK(launch.wait().exit_code == 141);
}

TEST_CASE("signals are passed on while nobody reads what is said", "[tools][launch]") {
  stalled_reader reader(GENERATE("pipe", "socket", "terminal"));
  std::string const trap = "trap 'echo > $S/got; exit 0' TERM; ";
  launched launch(shell(trap + "if [ $RANK = 0 ]; then " + speak +
                            "; fi; echo > $S/ready; while :; do sleep 0.01; done",
                        {"--grace", "2"}),
                  reader.end());
  launch.await_file("ready");
  reader.await_full();
  launch.send(SIGTERM);
  launch.await_file("got");
  CHECK(launch.wait().exit_code == 143);
  auto const text = reader.read();
  // Others than a pipe take parts of what is written.
  check_whole_lines(text.substr(0, text.rfind('\n') + 1));
}

TEST_CASE("a pipe has whole lines when the rest is given up", "[tools][launch]") {
  stalled_reader reader("pipe");
  launched launch(shell(speak, {"--timeout", "0.5"}), reader.end());
  auto const result = launch.wait();
  CHECK(result.exit_code == 124);
  CHECK_THAT(result.errors, Contains("has not ended within 0.5 s"));
  check_whole_lines(reader.read());
}

TEST_CASE("a failure is seen while nobody reads, and all that was said can be read afterwards",
          "[tools][launch]") {
  stalled_reader reader(GENERATE("pipe", "socket", "terminal"));
  launched launch(shell(std::string("if [ $RANK = 0 ]; then echo $$ > $S/id; ") + speak +
                        "; fi; while [ ! -e $S/fail ]; do sleep 0.01; done; echo 111; exit 3"),
                  reader.end());
  launch.await_file("id");
  std::string const id = lines_of(launch.file("id")).at(0);
  reader.await_full();
  launch.make_file("fail");
  launch.await_error("ended with exit code 3");
  CHECK(comes_true([&] { return gone(id); }));
  CHECK(launch.wait([&] { (void)reader.read(); }).exit_code == 3);
  CHECK(reader.read().find("[worker 1] 111\n") != std::string::npos);
  check_whole_lines(reader.read());
}

TEST_CASE("a second signal ends the wait for a reader", "[tools][launch]") {
  stalled_reader reader("pipe");
  launched launch(shell(std::string("if [ $RANK = 0 ]; then ") + speak +
                        "; fi; while [ ! -e $S/fail ]; do sleep 0.01; done; exit 3"),
                  reader.end());
  reader.await_full();
  launch.make_file("fail");
  launch.await_error("ended with exit code 3");
  launch.send(SIGTERM);
  CHECK(launch.wait().exit_code == 3);
}

TEST_CASE("processes wait for who reads, and nothing is lost", "[tools][launch]") {
  stalled_reader reader(GENERATE("pipe", "socket", "terminal"));
  launched launch(shell("yes $RANK$RANK$RANK | head -n 200000; echo > $S/done.$RANK"),
                  reader.end());
  reader.await_full();
  launch.await_standstill();
  CHECK(launch.file("done.0").empty());
  CHECK(launch.file("done.1").empty());
  constexpr std::size_t all = 2 * 200000 * 15;
  REQUIRE(comes_true([&] { return reader.read().size() >= all; }));
  CHECK(launch.wait().exit_code == 0);
  auto const& text = reader.read();
  CHECK(text.size() == all);
  check_whole_lines(text);
}

TEST_CASE("output and errors that go to the same place do not mix", "[tools][launch]") {
  stalled_reader reader("pipe");
  launched launch(shell(takes_part + std::string("printf '%010000d\n' $(seq 100) >&$((RANK+1))")), reader.end(),
                  reader.end());
  reader.await_full();
  REQUIRE(comes_true([&] { return reader.read().size() >= 200 * 10012; }));
  CHECK(launch.wait().exit_code == 0);
  for (auto const& line : lines_of(reader.read())) {
    REQUIRE(line.size() == 10011);
    REQUIRE(line.substr(11, 9990) == std::string(9990, '0'));
  }
}
