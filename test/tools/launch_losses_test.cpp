// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Workers that rubato-launch loses, and such that it starts again, where a run goes on without them.
#include <catch2/catch.hpp>

#include <string>

#include "tools/launched.hpp"

using namespace rubato;
using namespace rubato::test::launching;
using Catch::Contains;

TEST_CASE("a run can go on without a worker", "[tools][launch]") {
  auto const result = run_shell(
      "echo $$ > $S/id.$RANK; [ $RANK = 0 ] && exit 3; "
      "while [ ! -s $S/id.0 ] || [ -e /proc/$(cat $S/id.0) ]; do sleep 0.01; done; echo finished",
      {"--on-loss", "go-on"});
  CHECK(result.exit_code == 0);
  CHECK(result.output == "[worker 1] finished\n");
  CHECK_THAT(result.errors, Contains("worker 0 (pid ") && Contains(") ended with exit code 3"));
}

TEST_CASE("a run whose workers all fail ends with the first failure", "[tools][launch]") {
  auto const result = run_shell(
      "echo $$ > $S/id.$RANK; [ $RANK = 1 ] && exit 3; "
      "while [ ! -s $S/id.1 ] || [ -e /proc/$(cat $S/id.1) ]; do sleep 0.01; done; exit 4",
      {"--on-loss", "go-on"});
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.errors, Contains("exit code 3") && Contains("exit code 4"));
}

TEST_CASE("a worker that fails is started again", "[tools][launch]") {
  std::string const script = "echo $RANK >> $S/tries.$RANK; [ $(wc -l < $S/tries.$RANK) -ge 3 ]";
  auto const [restarts, exit_code, tries] =
      GENERATE(table<std::string, int, std::string>({{"2", 0, "0\n0\n0\n"}, {"1", 1, "0\n0\n"}}));
  launched launch(shell(script, {"-n", "1", "--on-loss", "go-on", "--restart", restarts}));
  auto const result = launch.wait();
  CHECK(result.exit_code == exit_code);
  CHECK_THAT(result.errors, Contains("takes its place (1 of " + restarts + " restarts)"));
  CHECK(launch.file("tries.0") == tries);
}

TEST_CASE("a run that is complete without a worker that stands still ends well, and that worker with it",
          "[tools][launch]") {
  launched run({"-n", "3", "--on-loss", "go-on", "--grace", "1", "--server-command",
                "sh -c 'until [ -s $S/id ]; do sleep 0.01; done; echo > $S/ended'", "--", "sh", "-c",
                "[ $RANK = 1 ] && { echo $$ > $S/id; kill -STOP $$; }; until [ -s $S/ended ]; do sleep 0.01; done"});
  run.await_file("id");
  outcome const o = run.wait();
  CHECK(o.exit_code == 0);
  CHECK(matches(o.errors, "rubato-launch: worker 1 \\(pid [0-9]+\\) stands still; the run is complete without it, and "
                          "it is ended now\n"));
}

TEST_CASE("a worker that is started again too late does not spoil a run that ended well", "[tools][launch]") {
  std::string const script =
      "if [ $RANK = 0 ]; then until [ -s $S/again ]; do sleep 0.01; done; exit 0; fi; "
      "[ -e $S/once ] || { echo > $S/once; exit 3; }; echo > $S/again; "
      "until [ -e $S/told ]; do sleep 0.01; done; exit 4";
  launched run({"-n", "2", "--on-loss", "go-on", "--restart", "1", "--grace", "0.1", "--server-command",
                "sh -c 'until [ -s $S/again ]; do sleep 0.01; done'", "--", "sh", "-c", script});
  run.await_error("is waited for");
  run.make_file("told");
  outcome const o = run.wait();
  CHECK(o.exit_code == 0);
  CHECK_THAT(o.errors, Contains("takes its place (1 of 1 restarts)") && Contains("ended with exit code 4"));
}

TEST_CASE("a run that no worker completes ends as the first that failed, whoever stands still", "[tools][launch]") {
  outcome const o = run({"-n", "2", "--on-loss", "go-on", "--grace", "0.1", "--server-command",
                         "sh -c 'until [ -s $S/failed ]; do sleep 0.01; done; sleep 1'", "--", "sh", "-c",
                         "[ $RANK = 0 ] && { echo > $S/failed; exit 7; }; kill -STOP $$"});
  CHECK(o.exit_code == 7);
  CHECK_THAT(o.errors, Contains("ended before the workers did"));
}
