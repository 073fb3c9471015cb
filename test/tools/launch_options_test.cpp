// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How rubato-launch is called.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <string>

#include "rubato/core/error.hpp"
#include "src/tools/launch/options.hpp"
#include "tools/launched.hpp"

using namespace rubato;
using namespace rubato::test::launching;
using Catch::Contains;

TEST_CASE("bad options of rubato-launch are refused", "[tools][launch]") {
  auto const [arguments, sentence] = GENERATE(table<words, std::string>({
      {{"-n", "0", "--", "true"}, "--workers must be from 1 to 10000, but is 0"},
      {{"-n", "1", "-s", "10001", "--", "true"}, "--servers must be from 0 to 10000, but is 10001"},
      {{"--", "true"}, "--workers is required"},
      {{"-n", "1"}, "a command must follow --, such as rubato-launch -n 4 -- ./train"},
      {{"-n", "1", "--"}, "a command must follow --, such as rubato-launch -n 4 -- ./train"},
      {{"-n", "1", "true"}, "'true' is not an option; the command must follow --"},
      {{"-n", "1", "--nope", "--", "true"},
       "'--nope' is not an option; the command must follow --"},
      {{"-n", "1", "--on-loss", "go", "--", "true"},
       "--on-loss (or RUBATO_ON_LOSS) must be end or go-on, but is 'go'"},
      {{"-n", "1", "--restart", "2", "--", "true"},
       "--restart must be 0 without --on-loss go-on, but is 2"},
      {{"-n", "1", "--grace", "-1", "--", "true"},
       "--grace must be from 0 to 100000000 seconds, but is -1"},
      {{"-n", "-18446744073709551615", "--", "true"},
       "--workers: \"-18446744073709551615\", expected a whole number from 0 to 2^64 - 1"},
      {{"-n", "1", "--timeout", "nan", "--", "true"},
       "--timeout must be from 0 to 100000000 seconds, but is nan"},
      {{"-n", "1", "--timeout", "", "--", "true"}, "--timeout: is empty, expected a value"},
      {{"-n", "1", "--grace", "", "--", "true"}, "--grace: is empty, expected a value"},
      {{"-n", "1", "--server-command", "", "--", "true"}, "--server-command: is empty, expected a value"},
      {{"-n", "1", "--server-command", "  ", "--", "true"},
       "--server-command is blank, expected a program and its arguments"},
      {{"-n", "1", "--server-command", "a 'b", "--", "true"},
       "--server-command must close its ', but is: a 'b"},
  }));
  auto const result = run(arguments);
  CHECK(result.exit_code == 2);
  CHECK(result.output.empty());
  CHECK(result.errors == "rubato-launch: " + sentence + "\n");
}

TEST_CASE("a time limit above 0 is never rounded to none", "[tools][launch]") {
  auto const limit = [](char const* seconds) {
    std::array<char const*, 6> const line{"rubato-launch", "-n1", "--timeout", seconds, "--", "true"};
    std::ostringstream out;
    return launch::parse(static_cast<int>(line.size()), line.data(), out).value().timeout;
  };
  CHECK(limit("0.0001") == std::chrono::milliseconds(1));
  CHECK(limit("0.0014") == std::chrono::milliseconds(1));
  CHECK(limit("0.57") == std::chrono::milliseconds(570));
  CHECK(limit("0") == std::chrono::milliseconds(0));
}

TEST_CASE("what a loss means may come from the environment", "[tools][launch]") {
  char const* const variable = "RUBATO_ON_LOSS";
  char const* const arguments[] = {"rubato-launch", "-n", "1", "--", "x"};
  std::ostringstream out;
  ::setenv(variable, "go-on", 1);
  auto const options = launch::parse(5, arguments, out);
  ::setenv(variable, "go_on", 1);
  CHECK_THROWS_WITH(launch::parse(5, arguments, out),
                    "--on-loss (or RUBATO_ON_LOSS) must be end or go-on, but is 'go_on'");
  ::unsetenv(variable);
  REQUIRE(options.has_value());
  CHECK(options->when_lost == net::on_loss::go_on);
}

TEST_CASE("rubato-launch tells how it is used", "[tools][launch]") {
  auto const result = run({"--help"});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, Contains("-- COMMAND [ARGUMENTS...]") && Contains("--on-loss"));
  CHECK_THAT(result.output, Contains("Environment:\n  RUBATO_ON_LOSS") && Contains("TMPDIR"));
  CHECK_THAT(result.output, Contains("Exit code:\n  0 ") && Contains("  124 ") && Contains("  127 "));
}

TEST_CASE("help that cannot be written is an error of rubato-launch", "[tools][launch]") {
  int const full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
  REQUIRE(full >= 0);
  launched launch({"--help"}, full);
  ::close(full);
  auto const result = launch.wait();
  CHECK(result.exit_code == 1);
  CHECK(result.errors == "rubato-launch: cannot write to standard output: No space left on device\n");
}

TEST_CASE("a command's own arguments are left alone", "[tools][launch]") {
  auto const result = run({"-n", "1", "--grace", "0.1", "--server-command", idle, "--", "printf",
                           "%s\n", "-n", "--", "", "[a,b]", "--help"});
  CHECK(result.exit_code == 0);
  CHECK(result.output ==
        "[worker 0] -n\n[worker 0] --\n[worker 0] \n[worker 0] [a,b]\n[worker 0] --help\n");
}

TEST_CASE("a server's command is split into words", "[tools][launch]") {
  CHECK(launch::words_of("").empty());
  CHECK(launch::words_of("  a  b ") == words{"a", "b"});
  CHECK(launch::words_of("a 'b c' \"d 'e'\"") == words{"a", "b c", "d 'e'"});
  CHECK(launch::words_of("--x='y z'w ''") == words{"--x=y zw", ""});
  CHECK_THROWS_AS(launch::words_of("a \"b"), option_error);
}
