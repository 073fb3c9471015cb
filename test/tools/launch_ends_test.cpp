// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How a run of rubato-launch ends, and when.
#include <signal.h>
#include <sys/wait.h>

#include <catch2/catch.hpp>

#include <optional>
#include <string>
#include <utility>

#include "src/tools/launch/process.hpp"
#include "tools/launched.hpp"

using namespace rubato;
using namespace rubato::test::launching;
using Catch::Contains;

TEST_CASE("a run ends well with its workers", "[tools][launch]") {
  auto const result = run_shell("exit 0", {"--verbose"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.errors, Contains("was killed by signal 15"));
}

TEST_CASE("servers have time to end by themselves", "[tools][launch]") {
  auto const* const server = "sh -c 'while [ ! -e $S/done ]; do sleep 0.01; done; echo saved'";
  auto const result =
      run_shell("echo > $S/done", {"-n", "1", "--server-command", server, "--grace", "30"});
  CHECK(result.exit_code == 0);
  CHECK(sorted(lines_of(result.output)) == words{"[coordinator] saved", "[server 0] saved"});
}

TEST_CASE("a worker that fails ends the others", "[tools][launch]") {
  auto const [ending, exit_code, how] = GENERATE(table<std::string, int, std::string>(
      {{"exit 3", 3, "ended with exit code 3"},
       {"kill -9 $$", 137, "was killed by signal 9 \\(Killed\\)"}}));
  launched launch(
      shell("if [ $RANK = 0 ]; then echo $$ > $S/id; exec sleep 1000; fi; "
            "while [ ! -s $S/id ]; do sleep 0.01; done; " +
            ending));
  launch.await_file("id");
  std::string const id = lines_of(launch.file("id")).at(0);
  auto const result = launch.wait();
  CHECK(result.exit_code == exit_code);
  CHECK(matches(result.errors, "rubato-launch: worker 1 \\(pid [0-9]+\\) " + how + "\n"));
  CHECK(::kill(std::stoi(id), 0) == -1);
}

TEST_CASE("a process that does not end is killed after the grace time", "[tools][launch]") {
  auto const result = run_shell(
      "if [ $RANK = 0 ]; then trap '' TERM; echo > $S/ready; sleep 1000; fi; "
      "while [ ! -s $S/ready ]; do sleep 0.01; done; exit 5",
      {"--verbose"});
  CHECK(result.exit_code == 5);
  CHECK_THAT(result.errors, Contains("was killed by signal 9"));
}

TEST_CASE("what is said only if asked for is no warning", "[tools][launch]") {
  auto const result = run_shell("exit 0", {"--verbose", "--log-format", "json"});
  CHECK(result.exit_code == 0);
  std::string const start = "\"level\":\"info\",\"program\":\"rubato-launch\",\"message\":\"worker 0 (pid ";
  auto const at = result.errors.find(start);  // that it starts, and that it has ended
  REQUIRE(at != std::string::npos);
  CHECK(result.errors.find(start, at + 1) != std::string::npos);
}

TEST_CASE("who has ended is seen also where no signal says so", "[tools][launch]") {
  struct none_of_ends {  // as with whoever starts it: it is inherited
    sigset_t usual{};
    none_of_ends() {
      sigset_t ends;
      ::sigemptyset(&ends);
      ::sigaddset(&ends, SIGCHLD);
      ::pthread_sigmask(SIG_BLOCK, &ends, &usual);
    }
    ~none_of_ends() { ::pthread_sigmask(SIG_SETMASK, &usual, nullptr); }
  };
  std::optional<none_of_ends> blocked(std::in_place);
  launched launch(shell("exit 3"));
  blocked.reset();
  CHECK(launch.wait().exit_code == 3);
}

TEST_CASE("what a process has started ends with it", "[tools][launch]") {
  launched launch(shell("sleep 1000 & echo $! > $S/id; exit 0", {"-n", "1"}));
  launch.await_file("id");
  std::string const id = lines_of(launch.file("id")).at(0);
  CHECK(launch.wait().exit_code == 0);
  CHECK(comes_true([&] { return gone(id); }));
}

TEST_CASE("a server that fails ends the run", "[tools][launch]") {
  auto const result = run({"-n", "2", "--server-command",
                           "sh -c '[ $RUBATO_ROLE = server ] && exit 7; exec sleep 1000'",
                           "--on-loss", "go-on", "--grace", "0.1", "--", "sleep", "1000"});
  CHECK(result.exit_code == 7);
  CHECK(
      matches(result.errors, "rubato-launch: server 0 \\(pid [0-9]+\\) ended with exit code 7\n"));
}

TEST_CASE("a coordinator that ends early ends the run", "[tools][launch]") {
  auto const result = run({"-n", "2", "--server-command",
                           "sh -c '[ $RUBATO_ROLE = coordinator ] && exit 0; exec sleep 1000'",
                           "--grace", "0.1", "--", "sleep", "1000"});
  CHECK(result.exit_code == 1);
  CHECK(matches(result.errors,
                "rubato-launch: coordinator \\(pid [0-9]+\\) ended before the workers did\n"));
}

TEST_CASE("a server may end well a little before the workers", "[tools][launch]") {
  auto const result =
      run_shell(std::string(takes_part) +
                    "while [ ! -s $S/server ] || [ -e /proc/$(cat $S/server) ]; do sleep 0.01; done",
                {"--server-command", "sh -c 'echo $$ > $S/$RUBATO_ROLE'", "--grace", "30"});
  CHECK(result.exit_code == 0);
  CHECK(result.errors.empty());
}

TEST_CASE("a worker that is busy after the run is waited for", "[tools][launch]") {
  std::string const on_loss = GENERATE("end", "go-on");
  std::string const helpers = GENERATE("true", "sh -c '[ $RUBATO_ROLE = server ] && exec sleep 1000; "
                                               ": > ${RUBATO_COORDINATOR#unix:}'");
  std::string const script = "[ $RANK = 0 ] && exit 0; until [ -e $S/told ]; do sleep 0.01; done; echo saved";
  launched run(
      {"-n", "2", "--on-loss", on_loss, "--grace", "0.1", "--server-command", helpers, "--", "sh", "-c", script});
  run.await_error("is waited for");
  run.make_file("told");
  outcome const o = run.wait();
  CHECK(o.exit_code == 0);
  CHECK(o.output == "[worker 1] saved\n");
  CHECK_THAT(o.errors, Contains(") goes on after ") && !Contains("before the workers did"));
}

TEST_CASE("a worker that is busy after the run has until the time limit", "[tools][launch]") {
  outcome const o = run({"-n", "1", "--grace", "0.1", "--timeout", "0.5", "--server-command", "true", "--", "sh", "-c",
                         "exec sleep 1000"});
  CHECK(o.exit_code == 124);
  CHECK_THAT(o.errors, Contains("the run has not ended within 0.5 s"));
}

TEST_CASE("a run may be limited in time", "[tools][launch]") {
  auto const result = run_shell("exec sleep 1000", {"--timeout", "0.1"});
  CHECK(result.exit_code == 124);
  CHECK(result.errors == "rubato-launch: the run has not ended within 0.1 s\n");
}

TEST_CASE("a child's end is heard of where SIGCHLD was ignored, and known to have come where others waited for it",
          "[tools][launch]") {
  auto const before = ::signal(SIGCHLD, SIG_IGN);
  auto const child = launch::process::start([] { return 3; });
  bool const others_wait = GENERATE(false, true);
  if (others_wait) ::waitpid(child.id, nullptr, 0);
  std::optional<launch::ending> how;
  CHECK(comes_true([&] { return (how = launch::end_of(child.id)).has_value(); }));
  ::signal(SIGCHLD, before);
  REQUIRE(how.has_value());
  CHECK_FALSE(how->well());
  CHECK(how->exit_code() == (others_wait ? 1 : 3));
  CHECK(how->text() == (others_wait ? "ended, and nobody knows how" : "ended with exit code 3"));
}

TEST_CASE("a command that cannot be executed ends the run with the reason", "[tools][launch]") {
  auto const [command, reason] = GENERATE(table<std::string, std::string>(
      {{"/absent/program", "No such file or directory"}, {"/", "Permission denied"}}));
  auto const result = run({"-n", "2", "--server-command", idle, "--", command});
  CHECK(result.exit_code == 127);
  CHECK(result.errors == "rubato-launch: cannot execute '" + command + "': " + reason + "\n");
}
