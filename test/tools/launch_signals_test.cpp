// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Signals that rubato-launch gets.
#include <catch2/catch.hpp>

#include <csignal>
#include <string>

#include "tools/launched.hpp"

using namespace rubato;
using namespace rubato::test::launching;
using Catch::Contains;

TEST_CASE("signals are passed on", "[tools][launch]") {
  struct example {
    int number;
    char const* name;
  };
  auto const signal =
      GENERATE(example{SIGTERM, "TERM"}, example{SIGINT, "INT"}, example{SIGHUP, "HUP"});
  std::string const name = signal.name;
  launched launch(shell("trap 'echo got " + name + "; exit 0' " + name +
                            "; echo > $S/ready.$RANK; while :; do sleep 0.01; done",
                        {"--grace", "30"}));
  launch.await_file("ready.0");
  launch.await_file("ready.1");
  launch.send(signal.number);
  auto const result = launch.wait();
  CHECK(result.exit_code == 128 + signal.number);
  CHECK(sorted(lines_of(result.output)) ==
        words{"[worker 0] got " + name, "[worker 1] got " + name});
  CHECK_THAT(result.errors, Contains("ending the run after signal"));
}

TEST_CASE("a user's signals are passed on and end nothing", "[tools][launch]") {
  auto const number = GENERATE(SIGUSR1, SIGUSR2);
  launched launch(
      shell("trap 'echo got it; exit 0' USR1 USR2; echo > $S/ready.$RANK; "
            "while :; do sleep 0.01; done",
            {"--server-command",
             "sh -c \"trap '' USR1 USR2; echo > $S/$RUBATO_ROLE; exec sleep 1000\""}));
  for (auto const* const file : {"ready.0", "ready.1", "server", "coordinator"}) {
    launch.await_file(file);
  }
  launch.send(number);
  auto const result = launch.wait();
  CHECK(result.exit_code == 0);
  CHECK(sorted(lines_of(result.output)) == words{"[worker 0] got it", "[worker 1] got it"});
}

TEST_CASE("a signal as the launcher ends does not end it in the run's place", "[tools][launch]") {
  for (int i = 0; i < 20; ++i) {
    launched launch(shell("echo > $S/ready; exit 3"));
    launch.await_file("ready");
    auto const result = launch.wait([&] { launch.send(SIGTERM); });
    CHECK_FALSE(result.by_signal);
    CHECK((result.exit_code == 3 || result.exit_code == 128 + SIGTERM));
  }
}

TEST_CASE("a second interrupt kills at once", "[tools][launch]") {
  launched launch(shell("trap '' INT; echo > $S/ready.$RANK; sleep 1000", {"--grace", "1000"}));
  launch.await_file("ready.0");
  launch.await_file("ready.1");
  launch.send(SIGINT);
  launch.await_error("ending the run after signal 2 (Interrupt)");
  launch.send(SIGINT);
  CHECK(launch.wait().exit_code == 130);
}

TEST_CASE("children die with a launcher that is killed", "[tools][launch]") {
  launched launch(
      shell("echo $$ > $S/id.$RANK; exec sleep 1000",
            {"--server-command", "sh -c 'echo $$ > $S/id.$RUBATO_ROLE; exec sleep 1000'"}));
  words ids;
  for (auto const* const file : {"id.0", "id.1", "id.server", "id.coordinator"}) {
    launch.await_file(file);
    ids.push_back(lines_of(launch.file(file)).at(0));
  }
  launch.send(SIGKILL);
  CHECK(launch.wait().exit_code == 137);
  for (auto const& id : ids) CHECK(comes_true([&] { return gone(id); }));
}
