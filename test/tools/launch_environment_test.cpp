// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What rubato-launch gives the processes that it starts.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include <rubato/net/deployment.hpp>

#include "tools/launched.hpp"

using namespace rubato;
using namespace rubato::test::launching;
using Catch::Contains;

TEST_CASE("each process has its environment", "[tools][launch]") {
  std::string const script =
      "echo $RUBATO_ROLE rank=$RANK of=$WORLD_SIZE servers=$RUBATO_SERVERS loss=$RUBATO_ON_LOSS "
      "local=$LOCAL_RANK at=$MASTER_ADDR";
  ::setenv("LOCAL_RANK", "77", 1);
  auto const result =
      run({"-n", "3", "-s", "2", "--on-loss", "go-on", "--grace", "30", "--", "sh", "-c", script});
  ::unsetenv("LOCAL_RANK");
  CHECK(result.exit_code == 0);
  CHECK(result.errors == "rubato-launch: no process of 'sh' has taken part in a run: each did all of its work by "
                         "itself; expected one that trains over rubato::tcp::from_environment()\n");
  std::string const start = " of=3 servers=2 loss=go-on local=";
  std::string const end = " at=127.0.0.1";
  CHECK(sorted(lines_of(result.output)) == words{"[coordinator] coordinator rank=0" + start + end,
                                                 "[server 0] server rank=0" + start + end,
                                                 "[server 1] server rank=1" + start + end,
                                                 "[worker 0] worker rank=0" + start + "0" + end,
                                                 "[worker 1] worker rank=1" + start + "1" + end,
                                                 "[worker 2] worker rank=2" + start + "2" + end});
}

TEST_CASE("peers are started without servers", "[tools][launch]") {
  auto const result =
      run({"-n", "2", "-s", "0", "--grace", "30", "--", "sh", "-c",
           takes_part + std::string("echo $RUBATO_ROLE $RANK of $WORLD_SIZE, $RUBATO_SERVERS servers")});
  CHECK(result.exit_code == 0);
  CHECK(sorted(lines_of(result.output)) == words{"[coordinator] coordinator 0 of 2, 0 servers",
                                                 "[worker 0] worker 0 of 2, 0 servers",
                                                 "[worker 1] worker 1 of 2, 0 servers"});
}

TEST_CASE("all processes of a run, and no others, share a token", "[tools][launch]") {
  std::string const script = "echo $RUBATO_TOKEN$RUBATO_TOKEN_FILE";
  ::setenv("RUBATO_TOKEN_FILE", "/of/another/run", 1);
  std::set<std::string> tokens;
  for (int i = 0; i < 2; ++i) {
    auto const result = run({"-n", "2", "--no-prefix", "--grace", "30", "--", "sh", "-c", script});
    auto const lines = lines_of(result.output);
    CHECK(lines.size() == 4);
    tokens.insert(lines.begin(), lines.end());
  }
  ::unsetenv("RUBATO_TOKEN_FILE");
  CHECK(tokens.size() == 2);
  for (auto const& token : tokens) CHECK(matches(token, "[0-9a-f]{64}"));
}

TEST_CASE("each place of a run has a key of its own, whatever process has it", "[tools][launch]") {
  std::string const script = "echo $RUBATO_PLACE_KEY; ";
  ::setenv("RUBATO_PLACE_KEY", "of another run", 1);
  auto const all = lines_of(run({"-n", "2", "--no-prefix", "--grace", "30", "--", "sh", "-c", script}).output);
  auto const both_lives = lines_of(
      run_shell(script + "! mkdir $S/life", {"-n", "1", "--no-prefix", "--on-loss", "go-on", "--restart", "1"}).output);
  ::unsetenv("RUBATO_PLACE_KEY");
  CHECK(all.size() == 4);
  CHECK(std::set<std::string>(all.begin(), all.end()).size() == 4);
  for (auto const& key : all) CHECK(matches(key, "[0-9a-f]{64}"));
  REQUIRE(both_lives.size() == 2);
  CHECK(both_lives[0] == both_lives[1]);
}

TEST_CASE("where one process listens is not said to all of a run", "[tools][launch]") {
  for (char const* const one : {"RUBATO_LISTEN", "RUBATO_ANNOUNCE"}) ::setenv(one, "127.0.0.1:4711", 1);
  auto const result = run_shell("echo =$RUBATO_LISTEN$RUBATO_ANNOUNCE", {"-n", "1", "--no-prefix"});
  for (char const* const one : {"RUBATO_LISTEN", "RUBATO_ANNOUNCE"}) ::unsetenv(one);
  CHECK(result.output == "=\n");  // of the worker, and servers say nothing
}

TEST_CASE("the coordinator's directory leaves room for the names of servers beside it", "[tools][launch]") {
  for (std::size_t const length : {53U, 54U}) {
    std::string folder = "/tmp/" + std::to_string(::getpid()) + "-";
    folder.resize(length, 'x');
    std::filesystem::create_directory(folder);
    std::string const script = "echo ${RUBATO_COORDINATOR#unix:}";
    auto const result = run_shell("TMPDIR=" + folder + " exec " RUBATO_LAUNCH_PROGRAM
                                  " -n 1 --no-prefix --server-command true --grace 30 -- sh -c '" + script + "'",
                                  {"-n", "1", "--no-prefix", "--grace", "30"});
    std::filesystem::remove_all(folder);
    net::deployment server{.as = net::role::server};
    server.coordinator.path = lines_of(result.output).at(0);
    CHECK(server.coordinator.path.starts_with(folder) == (length == 53));
    CHECK(server.listening().is_unix());
  }
}

TEST_CASE("the coordinator's directory is private, and gone after the run", "[tools][launch]") {
  auto const [ending, exit_code] =
      GENERATE(table<std::string, int>({{"exit 0", 0}, {"exit 3", 3}, {"kill -9 $$", 137}}));
  std::string const script =
      "d=${RUBATO_COORDINATOR#unix:}; d=${d%/coordinator}; touch $d/x; stat -c %a $d; echo $d; ";
  auto const result = run_shell(script + ending, {"-n", "1", "--no-prefix"});
  CHECK(result.exit_code == exit_code);
  auto const lines = lines_of(result.output);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0] == "700");
  CHECK_THAT(lines[1], Contains("/rubato-"));
  CHECK_FALSE(std::filesystem::exists(lines[1]));
}

TEST_CASE("nothing can be read from standard input", "[tools][launch]") {
  CHECK(run_shell("cat; exit 4").exit_code == 4);
}

TEST_CASE("rubato-launch writes what it says in the format that is asked for, and tells the processes",
          "[tools][launch]") {
  auto const result = run_shell("echo $RUBATO_LOG_FORMAT; exit 3", {"-n", "1", "--log-format", "json"});
  CHECK(result.exit_code == 3);
  CHECK(result.output == "[worker 0] json\n");
  CHECK(matches(result.errors, "\\{\"time\":\"[^\"]*\",\"level\":\"warning\",\"program\":\"rubato-launch\","
                               "\"message\":\"worker 0 \\(pid [0-9]+\\) ended with exit code 3\"\\}\n"));
  ::setenv("RUBATO_LOG_FORMAT", "xml", 1);
  auto const refused = run({"-n", "1", "--", "true"});
  ::unsetenv("RUBATO_LOG_FORMAT");
  CHECK(refused.exit_code == 2);
  CHECK(refused.errors ==
        "rubato-launch: --log-format (or RUBATO_LOG_FORMAT) must be text, keyvalue or json, but is 'xml'\n");
}
