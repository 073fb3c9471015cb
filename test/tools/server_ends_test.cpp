// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How rubato-server ends, and what does not end it.
#ifdef RUBATO_SERVER_PROGRAM
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

#include "asleep.hpp"
#include "patience.hpp"
#include "process/children.hpp"

using namespace rubato;

namespace {

/// Whether there is a signal among those that a line of a thread's status names.
bool names(std::string const& signals, int which) {
  return (std::stoull("0" + signals, nullptr, 16) >> (which - 1) & 1) != 0;
}

/// Whether a server has dealt with all that it was sent, and goes on waiting for signals that ask it to end.
/// A thread that waits for signals is the only one that does not block them, and does so only meanwhile.
bool waits_for_signals(pid_t server) {
  for (auto const& [id, folder] : test::threads_of(server)) {
    test::thread_status const now(folder);
    bool const waits = now.sleeps() && !now["SigBlk"].empty() && !names(now["SigBlk"], SIGTERM);
    if (waits && std::stoull("0" + now["SigPnd"], nullptr, 16) == 0 &&
        std::stoull("0" + now["ShdPnd"], nullptr, 16) == 0)
      return true;
  }
  return false;
}

/// Sends it, and waits until the server has dealt with it.
bool survives(test::child& server, int signal) {
  server.send(signal);
  return test::comes_true([&] { return server.has_ended() || waits_for_signals(server.id()); }) &&
         !server.has_ended();
}

}  // namespace

TEST_CASE("SIGTERM ends a server that waits for others, and nothing is left") {
  std::array<int, 2> out{};
  REQUIRE(pipe(out.data()) == 0);
  std::string const place = "unix:/tmp/rubato-server-test-" + std::to_string(getpid());
  pid_t const child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    execl(RUBATO_SERVER_PROGRAM, "rubato-server", "--with-coordinator", "--coordinator", place.c_str(),
          "--rows", "10", static_cast<char*>(nullptr));
    _exit(127);
  }
  close(out[1]);
  // It says where it listens once it does.
  pollfd ready{out[0], POLLIN, 0};
  REQUIRE(poll(&ready, 1, 20'000) == 1);
  std::array<char, 200> said{};
  auto const n = read(out[0], said.data(), said.size());
  std::string const line(said.data(), static_cast<std::size_t>(n));
  CHECK(line.starts_with("listening on " + place + "."));
  CHECK(line.ends_with(", and coordinating on " + place + ", which workers are to know\n"));
  CHECK(access(place.c_str() + 5, F_OK) == 0);
  kill(child, SIGTERM);
  auto const deadline = std::chrono::steady_clock::now() + test::patience;
  int status = 0;
  pid_t ended = 0;
  while (ended == 0 && std::chrono::steady_clock::now() < deadline) {
    ended = waitpid(child, &status, WNOHANG);
    usleep(1000);
  }
  if (ended == 0) kill(child, SIGKILL);
  REQUIRE(ended == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(access(place.c_str() + 5, F_OK) != 0);
  close(out[0]);
}

TEST_CASE("signals for workers leave a server alone, and it still ends by those that ask it to",
          "[process]") {
  int const asking = GENERATE(SIGTERM, SIGINT, SIGHUP);
  test::scratch const folder;
  test::child server(folder.path() / "server",
                     {RUBATO_SERVER_PROGRAM, "--with-coordinator", "--coordinator",
                      "unix:" + (folder.path() / "place").string(), "--rows", "10"},
                     {});
  REQUIRE(server.prints("listening on "));
  for (int const meant_for_workers : {SIGUSR1, SIGUSR2}) {
    CHECK(survives(server, meant_for_workers));
  }
  server.send(asking);
  CHECK(server.wait() == 0);
  CHECK(server.errors() == "");
}

TEST_CASE("a server ends by the signal that comes before it listens, whatever it waits for there", "[process]") {
  test::scratch const folder;
  auto const file = [&](char const* name) { return (folder.path() / name).string(); };
  REQUIRE(mkfifo(file("certificate").c_str(), 0600) == 0);
  test::child server(folder.path() / "server",
                     {RUBATO_SERVER_PROGRAM, "--rows", "10", "--coordinator", "127.0.0.1:9", "--tls-certificate",
                      file("certificate"), "--tls-key", file("key"), "--tls-authority", file("authority")},
                     {});
  int silent = -1;  // once it reads there, and nothing comes
  REQUIRE(test::comes_true([&] {
    silent = open(file("certificate").c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    return silent >= 0 || server.has_ended();
  }));
  CHECK(silent >= 0);
  server.send(SIGTERM);
  CHECK(server.wait() == 128 + SIGTERM);
  CHECK(server.output().empty());
  close(silent);
}

TEST_CASE("a server whose log cannot be written still says by its exit code how it ended",
          "[process]") {
  test::scratch const folder;
  test::child server(folder.path() / "server",
                     {"/bin/sh", "-c", "exec \"$@\" 2>/dev/full", "sh", RUBATO_SERVER_PROGRAM, "--rows",
                      "0"},
                     {});
  CHECK(server.wait() == 2);
}

TEST_CASE("a server under nohup does not end with its terminal", "[process]") {
  test::scratch const folder;
  test::child server(folder.path() / "server",
                     {"/bin/sh", "-c", "trap '' HUP; exec \"$@\"", "sh", RUBATO_SERVER_PROGRAM,
                      "--with-coordinator", "--coordinator",
                      "unix:" + (folder.path() / "place").string(), "--rows", "10"},
                     {});
  REQUIRE(server.prints("listening on "));
  CHECK(survives(server, SIGHUP));
  server.send(SIGTERM);
  CHECK(server.wait() == 0);
}

TEST_CASE("a pace that no conductor can keep is refused before anybody comes", "[process]") {
  test::scratch const folder;
  test::child server(folder.path() / "server",
                     {RUBATO_SERVER_PROGRAM, "--with-coordinator", "--coordinator",
                      "unix:" + (folder.path() / "place").string(), "--rows", "10", "--protocol",
                      "adsp", "--check-period", "7"},
                     {});
  CHECK(server.wait() == 2);
  CHECK_THAT(server.errors(), Catch::Contains("probe_period must be a whole number"));
}
#endif
