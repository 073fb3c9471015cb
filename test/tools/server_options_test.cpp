// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// How rubato-server is called, but for its lists of tables.
#include <catch2/catch.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "src/tools/above_zero.hpp"
#include "src/tools/server/options.hpp"
#include "tools/server_words.hpp"

using namespace rubato;
using Catch::Contains;
using Catch::Matchers::StartsWith;
using test::complaint;
using test::parsed;

TEST_CASE("rubato-server tells which variables it goes by, and how it ends", "[tools][server]") {
  std::ostringstream printed;
  auto* const usual = std::cout.rdbuf(printed.rdbuf());
  char const* const argv[] = {"rubato-server", "--help"};
  int exit_code = 1;
  auto const o = server_tool::parse(2, argv, exit_code);
  std::cout.rdbuf(usual);
  CHECK(!o);
  CHECK(exit_code == 0);
  auto const help = printed.str();
  CHECK_THAT(help, Contains("Usage: rubato-server ") && Contains("Exit code:\n  0 "));
  int asked = 0;
  (void)net::deployment::from_environment([&](std::string_view name) -> std::optional<std::string> {
    ++asked;
    CHECK_THAT(help, Contains(std::string(name)));
    return std::nullopt;
  });
  CHECK(asked > 20);
}

TEST_CASE("rubato-server's options are checked, and the message names them") {
  CHECK(parsed({"--rows", "7", "--staleness", "infinite"}).staleness.is_infinite());
  CHECK(parsed({"--rows", "7"}).place.as == net::role::server);
  CHECK(parsed({"--role", "coordinator"}).place.as == net::role::coordinator);
  CHECK(parsed({"--rows", "7", "--metrics", "9100"}).metrics ==
        net::address{.host = "127.0.0.1", .port = 9100});
  CHECK(parsed({"--rows", "7", "--silence", "0.25"}).place.silence == std::chrono::milliseconds(250));
  CHECK(parsed({"--rows", "7", "--reconnect", "0"}).place.reconnect == std::chrono::milliseconds(0));

  CHECK_THAT(complaint({}), StartsWith("--rows: a dense table needs 1 or more"));
  CHECK_THAT(complaint({"--rows", "7", "--staleness", "-1"}), StartsWith("--staleness: -1, expected"));
  CHECK_THAT(complaint({"--rows", "7", "--staleness", "3x"}), StartsWith("--staleness: 3x, expected"));
  for (std::string const option :
       {"--silence", "--reconnect", "--patience", "--check-period", "--epoch", "--probe-period", "--interval"}) {
    CHECK_THAT(complaint({"--rows", "7", option, "nan"}), StartsWith(option + ": nan, expected seconds"));
    CHECK_THAT(complaint({"--rows", "7", option, "1e300"}), StartsWith(option + ": 1e+300, expected seconds"));
  }
  for (std::string const value : {"nan", "-inf", "inf", "-5", "0"})
    CHECK(complaint({"--rows", "7", "--lambda", value}) ==
          "--lambda: " + value + ", expected a finite number above 0");
  CHECK_THAT(complaint({"--rows", "7", "--gamma", "nan"}), StartsWith("--gamma: nan, expected a number from 0 to 1"));
  for (char const* option : {"--rows-max", "--bytes-max", "--servers"}) {
    for (char const* value : {"-1", option == std::string("--servers") ? "65537" : "99999999999999999999"}) {
      std::array<char const*, 5> const words{"rubato-server", "--rows", "7", option, value};
      int exit_code = 0;
      CHECK_FALSE(server_tool::parse(static_cast<int>(words.size()), words.data(), exit_code));
      CHECK(exit_code == 2);
    }
  }
  CHECK_THAT(complaint({"--rows", "7", "--token-file", "/no/such/file"}),
             StartsWith("--token-file: ") && Contains("'/no/such/file'"));
  CHECK_THAT(complaint({"--rows", "7", "--protocol", "dyn_sgd"}), StartsWith("--storage: dense"));
  CHECK(complaint({"--rows", "7", "--storage", "multi_version"}).empty());  // no harm, and no use
  CHECK_THAT(complaint({"--rows", "7", "--protocol", "bsp", "--type", "int32"}),
             StartsWith("--merge: a table of integers needs sum"));
  for (std::vector<std::string> const& exposed :
       {std::vector<std::string>{"--rows", "7", "--with-coordinator", "--coordinator",
                                 "0.0.0.0:7000"},
        std::vector<std::string>{"--role", "coordinator", "--coordinator", "0.0.0.0:7000"}}) {
    std::vector<std::string> words{"--beyond-loopback"};
    words.insert(words.end(), exposed.begin(), exposed.end());
    CHECK_THAT(complaint(words), StartsWith("deployment::coordinator is 0.0.0.0:7000, which") ||
                                     StartsWith("deployment::listen is 0.0.0.0:0, which"));
    words.insert(words.end(), {"--tls-certificate", "c", "--tls-key", "k", "--tls-authority", "a"});
    CHECK(complaint(words).empty());
  }
  CHECK(complaint({"--rows", "7", "--coordinator", "nowhere"}).find("nowhere") != std::string::npos);
}

TEST_CASE("rubato-server takes each file of TLS from the environment where its option is not given") {
  REQUIRE(setenv("RUBATO_TLS_CERTIFICATE", "theirs", 1) == 0);
  REQUIRE(setenv("RUBATO_TLS_AUTHORITY", "a", 1) == 0);
  auto const merged = parsed({"--rows", "7", "--tls-certificate", "c", "--tls-key", "k"}).place.keys.tls;
  std::string const without_key = complaint({"--rows", "7", "--tls-certificate", "c"});
  unsetenv("RUBATO_TLS_CERTIFICATE");
  unsetenv("RUBATO_TLS_AUTHORITY");
  REQUIRE(merged);
  CHECK(merged->certificate == "c");
  CHECK(merged->key == "k");
  CHECK(merged->authority == "a");
  CHECK(without_key == "--tls-key (RUBATO_TLS_KEY) is not set, expected a file: TLS needs all three");
}

TEST_CASE("numbers above 0 are asked for in a sentence") {
  CLI::Validator const check = tools::above_zero();
  for (std::string good : {"1", "0.25", "1e9", "nan", "3x"}) CHECK(check(good).empty());  // or is told of elsewhere
  for (std::string bad : {"0", "-1", "-0.5"})
    CHECK(check(bad) == '"' + bad + "\", expected a number above 0");
  std::vector<char const*> const words{"rubato-server", "--rows", "7", "--workers", "0"};
  int exit_code = 0;
  CHECK_FALSE(server_tool::parse(static_cast<int>(words.size()), words.data(), exit_code));
  CHECK(exit_code == 2);
}

TEST_CASE("rubato-server refuses empty values, which would leave security out") {
  for (char const* const option : {"--token-file", "--tls-certificate", "--tls-key", "--tls-authority", "--role",
                                   "--coordinator", "--listen", "--metrics", "--staleness", "--log-format", "--rows"}) {
    std::vector<char const*> const words{"rubato-server", option, "", "--width", "2"};
    INFO(option);
    int exit_code = 0;
    CHECK_FALSE(server_tool::parse(static_cast<int>(words.size()), words.data(), exit_code));
    CHECK(exit_code == 2);
  }
}

TEST_CASE("a coordinator needs no tables, and refuses what only servers can use") {
  CHECK(complaint({"--role", "coordinator"}).empty());
  CHECK(complaint({"--role", "coordinator", "--protocol", "dyn_sgd"}).empty());
  CHECK(complaint({"--role", "coordinator", "--metrics", "9100"}).empty());
  for (std::vector<std::string> const& useless : std::vector<std::vector<std::string>>{
           {"--with-coordinator"},
           {"--listen", "127.0.0.1:0"},
           {"--storage", "sparse"},
           {"--type", "float"},
           {"--merge", "sum"},
           {"--rows", "7"},
           {"--width", "2"},
           {"--partition", "hash"},
           {"--update-codec", "int8"},
           {"--answer-codec", "bfloat16"},
           {"--rows-max", "7"},
           {"--bytes-max", "7"},
           {"--check-finite"}}) {
    std::vector<std::string> words = useless;
    words.insert(words.end(), {"--role", "coordinator"});
    CHECK(complaint(words) ==
          useless.front() + ": is for servers; this process is the coordinator");
  }
  // As a launcher says it, which gives all roles one command.
  REQUIRE(setenv("RUBATO_ROLE", "coordinator", 1) == 0);
  std::string const with_tables = complaint({"--rows", "7", "--width", "2"});
  std::string const both = complaint({"--rows", "7", "--with-coordinator"});
  unsetenv("RUBATO_ROLE");
  CHECK(with_tables.empty());
  CHECK(both == "--with-coordinator: is for servers; this process is the coordinator");
}

TEST_CASE("limits are options as deployments have them, and formats of the log are named") {
  auto const o = parsed({"--rows", "3", "--check-finite", "--rows-max", "7", "--bytes-max", "68719476736",
                         "--breaks-max", "4", "--log-format", "json"});
  CHECK(o.place.limits.check_finite);
  CHECK(o.place.limits.rows_max == 7);
  CHECK(o.place.limits.bytes_max == std::uint64_t{1} << 36);
  CHECK(o.place.breaks_max == 4);
  CHECK(o.logs() == net::log_format::json);
  CHECK(parsed({"--rows", "3"}).logs() == net::log_format::text);
  CHECK_THAT(complaint({"--rows", "3", "--log-format", "xml"}),
             Contains("--log-format: \"xml\"") && Contains("text, keyvalue or json"));
}

TEST_CASE("rubato-server refuses options that its protocol does nothing with") {
  for (auto const& [protocol, option, of] : std::vector<std::array<std::string, 3>>{
           {"bsp", "--staleness", "ssp, con_sgd, dyn_sgd"},
           {"dyn_sgd", "--lambda", "con_sgd, adsp"},
           {"ssp", "--check-period", "adsp"},
           {"ada_comm", "--epoch", "adsp"},
           {"con_sgd", "--probe-period", "adsp"},
           {"asp", "--first-rate", "adsp"},
           {"fixed_ada_comm", "--first-steps", "ada_comm"},
           {"adsp", "--interval", "ada_comm"},
           {"ssp", "--gamma", "ada_comm"}})
    CHECK(complaint({"--rows", "7", "--storage", "multi_version", "--protocol", protocol, option, "1"}) ==
          option + ": is of " + of + ", expected none with --protocol " + protocol);
  CHECK(complaint({"--rows", "7", "--no-search"}) == "--no-search: is of adsp, expected none with --protocol ssp");
  CHECK(complaint({"--rows", "7", "--protocol", "adsp", "--no-search", "--lambda", "0.5"}).empty());
  CHECK(complaint({"--rows", "7", "--staleness", "2"}).empty());
}
