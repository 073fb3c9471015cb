// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "asleep.hpp"
#include "no_more_files.hpp"
#include "patience.hpp"
#include "process/children.hpp"
#include "rubato/core/error.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/partition/range.hpp"
#include "rubato/protocol/ada_comm.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/fixed_ada_comm.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/server/blueprint.hpp"
#include "rubato/storage/bfloat16.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/storage/int8_blocks.hpp"
#include "rubato/storage/multi_version.hpp"
#include "rubato/storage/sparse.hpp"
#include "src/tools/server/host.hpp"
#include "src/tools/server/metrics.hpp"
#include "src/tools/server/options.hpp"
#include "tools/visitor.hpp"

using namespace rubato;
using Catch::Contains;
using Catch::Matchers::StartsWith;
using server_tool::options;
using test::counters_please;
using test::get;
using test::visitor;

namespace {

options parsed(std::vector<std::string> given) {
  given.insert(given.begin(), "rubato-server");
  std::vector<char const*> argv;
  for (auto const& w : given) argv.push_back(w.c_str());
  int exit_code = 0;
  auto const o = server_tool::parse(static_cast<int>(argv.size()), argv.data(), exit_code);
  REQUIRE(o);
  return *o;
}

std::string complaint(std::vector<std::string> given) {
  try {
    (void)parsed(std::move(given));
  } catch (option_error const& e) {
    return e.what();
  }
  return "";
}

/// What a program says that was given this protocol and these tables.
template <class... Tables>
std::string agreed_on(rules p, std::uint32_t servers, Tables... t) {
  return blueprint(std::move(p), servers, {describe(t)...}).agreement();
}
template <class Table>
std::string agreed(rules p, Table t, std::uint32_t servers) {
  return agreed_on(std::move(p), servers, t);
}

/// What `rubato-server` says for these words.
std::string hosted_says(std::vector<std::string> given) {
  return server_tool::blueprint_of(parsed(std::move(given))).agreement();
}

std::unique_ptr<conductor> conductor_for(std::vector<std::string> given) {
  return server_tool::protocol_of(parsed(std::move(given))).pace.make_conductor();
}

time_point at(double s) { return time_point(seconds(s)); }

/// The one order that has been given.
template <class Order>
Order only(conductor::orders const& all) {
  REQUIRE(all.size() == 1);
  auto const& bytes = all.front().order;
  REQUIRE(bytes.size() == sizeof(Order));
  Order order;
  std::memcpy(&order, bytes.data(), sizeof order);
  return order;
}

#ifdef RUBATO_SERVER_PROGRAM
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
#endif

/// What this process has computed.
std::chrono::nanoseconds computed() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

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
  CHECK_THAT(help, Catch::Contains("Usage: rubato-server ") && Catch::Contains("Exit code:\n  0 "));
  int asked = 0;
  (void)net::deployment::from_environment([&](std::string_view name) -> std::optional<std::string> {
    ++asked;
    CHECK_THAT(help, Catch::Contains(std::string(name)));
    return std::nullopt;
  });
  CHECK(asked > 20);
}

TEST_CASE("rubato-server and a program that links the worker side agree") {
  dense<float> const t{.rows = 100, .width = 3};
  std::vector<std::string> const table{"--rows", "100", "--width", "3", "--servers", "2"};
  auto const words = [&](std::vector<std::string> more) {
    more.insert(more.end(), table.begin(), table.end());
    return more;
  };
  CHECK(hosted_says(words({"--protocol", "bsp"})) == agreed(bsp{}, t, 2));
  CHECK(hosted_says(words({"--protocol", "fixed_ada_comm"})) ==
        agreed(fixed_ada_comm{.steps = 4}, t, 2));
  CHECK(hosted_says(words({"--protocol", "ssp", "--staleness", "5"})) ==
        agreed(ssp{.staleness = 5}, t, 2));
  CHECK(hosted_says(words({"--protocol", "asp"})) == agreed(asp{}, t, 2));
  CHECK(hosted_says(words({"--protocol", "con_sgd", "--lambda", "0.25"})) ==
        agreed(con_sgd{.staleness = 3, .fold = {.lambda = 0.25}}, t, 2));
  CHECK(hosted_says(words({"--protocol", "dyn_sgd", "--storage", "multi_version"})) ==
        agreed(dyn_sgd{}, multi_version{t}, 2));
  CHECK(hosted_says(words({"--protocol", "adsp"})) == agreed(adsp{}, t, 2));
  CHECK(hosted_says(words({"--protocol", "adsp", "--lambda", "0.25"})) ==
        agreed(adsp{.global_rate = 0.25}, t, 2));
  CHECK(hosted_says(words({"--protocol", "ada_comm"})) == agreed(ada_comm{}, t, 2));
  // The partition may be said in the table's type.
  CHECK(hosted_says(words({"--protocol", "asp", "--partition", "range"})) ==
        agreed(asp{}, dense<float, merge_of_protocol, range>{.rows = 100, .width = 3}, 2));
  dense<float> coded = t;
  coded.codec = {.updates = int8_blocks{}, .answers = bfloat16{}};
  CHECK(hosted_says(words({"--protocol", "bsp", "--update-codec", "int8", "--answer-codec", "bfloat16"})) ==
        agreed(bsp{}, coded, 2));
  CHECK(hosted_says(words({"--protocol", "bsp", "--update-codec", "int8"})) != agreed(bsp{}, coded, 2));
  // So may the merge, and it may be the protocol's own.
  CHECK(hosted_says(words({"--protocol", "bsp", "--merge", "sum"})) ==
        agreed(bsp{}, dense<float, sum>{.rows = 100, .width = 3}, 2));
  CHECK(hosted_says(words({"--protocol", "asp", "--merge", "average"})) ==
        agreed(with(asp{}, average{}), t, 2));
}

TEST_CASE("rubato-server and a program agree on tables of integers") {
  for (std::string const protocol : {"bsp", "ssp", "dyn_sgd"}) {
    CAPTURE(protocol);
    rules const p = protocol == "bsp" ? rules(bsp{}) : protocol == "ssp" ? rules(ssp{}) : rules(dyn_sgd{});
    std::vector<std::string> const common{"--protocol", protocol, "--merge", "sum", "--rows", "9"};
    auto const words = [&](std::vector<std::string> more) {
      more.insert(more.end(), common.begin(), common.end());
      return more;
    };
    CHECK(hosted_says(words({"--type", "int32"})) ==
          agreed(p, dense<std::int32_t, sum>{.rows = 9}, 1));
    CHECK(hosted_says(words({"--type", "int64", "--storage", "sparse", "--width", "2"})) ==
          agreed(p, sparse<std::int64_t, sum>{.rows = 9, .width = 2}, 1));
  }
  // Where the protocol adds updates up, that is a table's merge unless something else is said.
  CHECK(hosted_says({"--type", "int32", "--rows", "9"}) == agreed(ssp{}, dense<std::int32_t>{.rows = 9}, 1));
}

TEST_CASE("rubato-server and a program agree on several tables") {
  dense<double> const weights{.rows = 100, .width = 3};
  dense<double, merge_of_protocol, range> const biases{.rows = 3};
  sparse<double> const embedding{.width = 16};
  auto const says =
      hosted_says({"--protocol", "bsp", "--type", "double", "--rows", "100,3", "--width", "3,1",
                   "--partition", "range_hash,range"});
  CHECK(says == agreed_on(bsp{}, 1, weights, biases));
  CHECK(says != agreed_on(bsp{}, 1, biases, weights));
  CHECK(hosted_says({"--protocol", "asp", "--type", "double", "--storage", "sparse,dense", "--rows", "0,100",
                     "--width", "16,3", "--servers", "2"}) == agreed_on(asp{}, 2, embedding, weights));
  CHECK(hosted_says({"--protocol", "dyn_sgd", "--type", "double", "--storage",
                     "multi_version,multi_version_sparse", "--rows", "100,0", "--width", "3,16"}) ==
        agreed_on(dyn_sgd{}, 1, multi_version{weights}, multi_version{embedding}));
  CHECK(hosted_says({"--protocol", "asp", "--type", "double", "--rows", "100,100,100", "--width", "3"}) ==
        agreed_on(asp{}, 1, weights, weights, weights));
}

TEST_CASE("rubato-server and a program agree on tables that differ in every way") {
  // One sparse among three, each of other elements and another merge.
  CHECK(hosted_says({"--protocol", "bsp", "--storage", "dense,sparse,dense", "--type", "float,int64,double",
                     "--rows", "100,0,7", "--width", "3,1,2", "--merge", "protocol,sum,average"}) ==
        agreed_on(bsp{}, 1, dense<float>{.rows = 100, .width = 3}, sparse<std::int64_t, sum>{},
                  dense<double, average>{.rows = 7, .width = 2}));
  // Versions for the table whose updates are revised, none for the one that counts.
  CHECK(hosted_says({"--protocol", "dyn_sgd", "--storage", "multi_version_sparse,dense", "--type",
                     "float,int32", "--rows", "0,4", "--merge", "protocol,sum", "--servers", "2"}) ==
        agreed_on(dyn_sgd{}, 2, multi_version{sparse<float>{}}, dense<std::int32_t, sum>{.rows = 4}));
  CHECK(hosted_says({"--storage", "dense,multi_version", "--rows", "7"}) ==
        agreed_on(ssp{}, 1, dense<float>{.rows = 7}, multi_version{dense<float>{.rows = 7}}));
}

TEST_CASE("what differs between processes is told apart") {
  dense<float> const t{.rows = 100, .width = 3};
  std::string const one = agreed(ssp{.staleness = 3}, t, 2);
  CHECK(one != agreed(ssp{.staleness = 4}, t, 2));
  CHECK(one != agreed(con_sgd{.staleness = 3}, t, 2));
  CHECK(one != agreed(with(ssp{.staleness = 3}, strict{}), t, 2));
  CHECK(one != agreed(asp{}, t, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, t, 3));
  CHECK(one != agreed(ssp{.staleness = 3}, dense<float>{.rows = 101, .width = 3}, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, dense<float>{.rows = 100, .width = 4}, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, dense<double>{.rows = 100, .width = 3}, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, sparse<float>{.rows = 100, .width = 3}, 2));
  CHECK(one != agreed(ssp{.staleness = 3}, multi_version{t}, 2));
  CHECK(one != agreed(ssp{.staleness = 3},
                      dense<float, merge_of_protocol, range>{.rows = 100, .width = 3}, 2));
  // A pace with a conductor gives orders that others do not understand.
  CHECK(agreed(adsp{}, t, 2) != agreed(with(adsp{}, every_step{}), t, 2));
  CHECK(agreed(adsp{}, t, 2) != agreed(adsp{.global_rate = 0.25}, t, 2));
}

TEST_CASE("what rubato-server is told about a pace reaches its conductor") {
  worker_id const w{0};
  conductor::orders orders;
  CHECK_FALSE(conductor_for({"--protocol", "ssp", "--rows", "7"}));

  auto const adsp = conductor_for({"--protocol", "adsp", "--rows", "7", "--check-period", "0.5",
                                   "--first-rate", "3", "--probe-period", "1.5", "--epoch", "4.5"});
  REQUIRE(adsp);
  adsp->join(w, clock_index{0}, at(0), orders);
  adsp->tick(at(0), orders);
  auto const quota = only<commit_quota>(orders);
  CHECK(quota.period == seconds(0.5));
  CHECK(quota.commits == 3);
  // Two probes without a loss; then nothing is tried until the next epoch.
  std::vector<double> began;
  for (int half = 1; half <= 10; ++half) adsp->tick(at(0.5 * half), orders);
  for (auto const& c : adsp->changes()) began.push_back(to_seconds(c.at.since_start()));
  CHECK(began == std::vector<double>{0, 1.5, 4.5});

  auto const steady = conductor_for({"--protocol", "adsp", "--rows", "7", "--no-search"});
  steady->tick(at(0), orders);
  CHECK(steady->next_sample() == time_point::max());
  CHECK(steady->next_tick() == at(60));

  orders.clear();
  auto const ada_comm = conductor_for({"--protocol", "ada_comm", "--rows", "7", "--first-steps",
                                       "8", "--interval", "2", "--gamma", "0.25"});
  REQUIRE(ada_comm);
  CHECK(ada_comm->next_tick() == at(2));
  CHECK(ada_comm->changes().front().value == 8);
  ada_comm->join(w, clock_index{0}, at(0), orders);
  for (double const t : {0.0, 1.0}) ada_comm->observe(at(t), 10);
  ada_comm->tick(at(2), orders);
  CHECK(only<period_order>(orders).steps == 2);
}

TEST_CASE("rubato-server's options are checked, and the message names them") {
  CHECK(parsed({"--rows", "7", "--staleness", "infinite"}).staleness.is_infinite());
  CHECK(parsed({"--rows", "7"}).place.as == net::role::server);
  CHECK(parsed({"--role", "coordinator"}).place.as == net::role::coordinator);
  CHECK(parsed({"--rows", "7", "--metrics", "9100"}).metrics ==
        net::address{.host = "127.0.0.1", .port = 9100});
  CHECK(parsed({"--rows", "7", "--silence", "0.25"}).place.silence == std::chrono::milliseconds(250));
  CHECK(parsed({"--rows", "7", "--reconnect", "0"}).place.reconnect == std::chrono::milliseconds(0));

  using Catch::Matchers::StartsWith;
  CHECK_THAT(complaint({}), StartsWith("--rows: a dense table needs 1 or more"));
  CHECK_THAT(complaint({"--rows", "7", "--staleness", "-1"}), StartsWith("--staleness: -1, expected"));
  CHECK_THAT(complaint({"--rows", "7", "--staleness", "3x"}), StartsWith("--staleness: 3x, expected"));
  for (std::string const option : {"--silence", "--reconnect", "--patience"}) {
    CHECK_THAT(complaint({"--rows", "7", option, "nan"}), StartsWith(option + ": nan, expected seconds"));
    CHECK_THAT(complaint({"--rows", "7", option, "1e300"}), StartsWith(option + ": 1e+300, expected seconds"));
  }
  CHECK_THAT(complaint({"--rows", "7", "--lambda", "nan"}), StartsWith("--lambda: nan, expected a finite"));
  CHECK_THAT(complaint({"--rows", "7", "--lambda", "-inf"}), StartsWith("--lambda: -inf, expected a finite"));
  for (char const* option : {"--rows-max", "--bytes-max"}) {
    for (char const* value : {"-1", "99999999999999999999"}) {
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

TEST_CASE("rubato-server's lists have a value for each table, or one for all") {
  auto const one = parsed({"--storage", "sparse", "--width", "8", "--partition", "hash"}).tables;
  REQUIRE(one.size() == 1);
  CHECK(one[0].storage == "sparse");
  CHECK(one[0].partition == "hash");
  CHECK(one[0].rows == 0);
  CHECK(one[0].width == 8);

  auto const two = parsed({"--storage", "dense,sparse", "--rows", "1000,0", "--width", "16",
                           "--partition", "range,hash"})
                       .tables;
  REQUIRE(two.size() == 2);
  CHECK(two[0].storage == "dense");
  CHECK(two[1].storage == "sparse");
  CHECK(two[0].partition == "range");
  CHECK(two[1].partition == "hash");
  CHECK(two[0].rows == 1000);
  CHECK(two[1].rows == 0);
  CHECK(two[0].width == 16);
  CHECK(two[1].width == 16);

  CHECK(parsed({"--storage", "sparse,sparse"}).tables.size() == 2);
  CHECK(parsed({"--rows", "7", "--width", "1,2,3"}).tables[2].width == 3);
  CHECK(parsed({"--rows", "18446744073709551615", "--storage", "sparse"}).tables[0].rows ==
        18'446'744'073'709'551'615U);
  CHECK(parsed({"--protocol", "dyn_sgd", "--storage", "multi_version_sparse,multi_version",
                "--rows", "0,5"})
            .tables[0]
            .is_sparse());
}

TEST_CASE("rubato-server's lists of types and merges are those of its tables") {
  auto const three =
      parsed({"--rows", "7,8,9", "--type", "float,int32,int64", "--merge", "average,sum,protocol"}).tables;
  REQUIRE(three.size() == 3);
  CHECK(three[0].type == "float");
  CHECK(three[1].type == "int32");
  CHECK(three[2].type == "int64");
  CHECK(three[0].merge == "average");
  CHECK(three[1].merge == "sum");
  CHECK(three[2].merge == "protocol");

  auto const all = parsed({"--rows", "7,8", "--type", "double", "--merge", "sum"}).tables;
  REQUIRE(all.size() == 2);
  for (auto const& t : all) {
    CHECK(t.type == "double");
    CHECK(t.merge == "sum");
  }
  CHECK(parsed({"--rows", "7", "--type", "float,double"}).tables.size() == 2);
  CHECK(parsed({"--rows", "7", "--merge", "protocol,sum"}).tables.size() == 2);
  CHECK(parsed({"--rows", "7"}).tables[0].type == "float");
  CHECK(parsed({"--rows", "7"}).tables[0].merge == "protocol");
}

TEST_CASE("what is wrong in rubato-server's lists is named") {
  using Catch::Matchers::StartsWith;
  CHECK(complaint({"--rows", "1,2,3", "--width", "1,2"}) ==
        "--width: 2 values for 3 tables, expected 1 or 3");
  CHECK(complaint({"--rows", "1,2,3", "--partition", "hash,hash,hash,hash"}) ==
        "--rows: 3 values for 4 tables, expected 1 or 4");
  CHECK(complaint({"--rows", "1,2,3", "--storage", "dense,dense"}) ==
        "--storage: 2 values for 3 tables, expected 1 or 3");

  std::string const whole = ", expected a whole number from ";
  CHECK(complaint({"--rows", "-1"}) == "--rows: \"-1\"" + whole + "0 to 2^64 - 1");
  CHECK_THAT(complaint({"--rows", "18446744073709551616"}),
             StartsWith("--rows: \"18446744073709551616\"" + whole));
  CHECK_THAT(complaint({"--rows", "3,-1"}), StartsWith("--rows: table 1: \"-1\"" + whole));
  CHECK_THAT(complaint({"--rows", ",3"}), StartsWith("--rows: table 0: \"\"" + whole));
  CHECK_THAT(complaint({"--rows", "3,"}), StartsWith("--rows: table 1: \"\"" + whole));
  CHECK_THAT(complaint({"--rows", "3,,4"}), StartsWith("--rows: table 1: \"\"" + whole));
  CHECK_THAT(complaint({"--rows", "3, 4"}), StartsWith("--rows: table 1: \" 4\"" + whole));
  CHECK_THAT(complaint({"--rows", "3,1e6"}), StartsWith("--rows: table 1: \"1e6\"" + whole));
  CHECK(complaint({"--rows", "3,4", "--width", "2,0"}) ==
        "--width: table 1: \"0\"" + whole + "1 to 2^64 - 1");
  CHECK(complaint({"--rows", "3", "--width", "0"}) == "--width: \"0\"" + whole + "1 to 2^64 - 1");
  CHECK(complaint({"--storage", "sparse,spares"}) ==
        "--storage: table 1: \"spares\", expected dense, sparse, multi_version or "
        "multi_version_sparse");
  CHECK(complaint({"--rows", "3", "--partition", "rnage"}) ==
        "--partition: \"rnage\", expected range, hash or range_hash");
  CHECK(complaint({"--rows", "3", "--update-codec", "float16"}) ==
        "--update-codec: \"float16\", expected none, bfloat16 or int8");
  CHECK(complaint({"--rows", "3", "--type", "int"}) ==
        "--type: \"int\", expected float, double, int32 or int64");
  CHECK(complaint({"--rows", "3", "--type", "float,int16"}) ==
        "--type: table 1: \"int16\", expected float, double, int32 or int64");
  CHECK(complaint({"--rows", "3", "--merge", "sum,mean"}) ==
        "--merge: table 1: \"mean\", expected protocol, sum or average");
  CHECK(complaint({"--rows", "1,2,3", "--type", "float,double"}) ==
        "--type: 2 values for 3 tables, expected 1 or 3");
  CHECK(complaint({"--rows", "1,2,3", "--merge", "sum,sum"}) ==
        "--merge: 2 values for 3 tables, expected 1 or 3");

  CHECK(complaint({"--rows", "7,0"}) == "--rows: table 1: a dense table needs 1 or more");
  CHECK(complaint({"--rows", "0", "--storage", "sparse,dense"}) ==
        "--rows: table 1: a dense table needs 1 or more");
  CHECK_THAT(
      complaint({"--rows", "7", "--protocol", "dyn_sgd", "--storage", "multi_version,sparse"}),
      StartsWith("--storage: table 1: sparse with --protocol dyn_sgd, expected multi_version"));
  CHECK(complaint({"--rows", "7", "--protocol", "dyn_sgd", "--storage", "multi_version,sparse", "--merge",
                   "protocol,average"})
            .empty());

  std::string const needs_sum = "a table of integers needs sum";
  CHECK(complaint({"--rows", "7", "--type", "int32", "--merge", "average"}) == "--merge: " + needs_sum);
  CHECK(complaint({"--rows", "7", "--protocol", "bsp", "--type", "float,int64"}) ==
        "--merge: table 1: " + needs_sum);
  CHECK(complaint({"--rows", "7", "--protocol", "dyn_sgd", "--storage", "multi_version", "--type",
                   "int64"}) == "--merge: " + needs_sum);
  CHECK(complaint({"--rows", "7", "--protocol", "con_sgd", "--type", "int64"}) == "--merge: " + needs_sum);
  CHECK(complaint({"--rows", "7", "--protocol", "con_sgd", "--type", "int64", "--merge", "sum"}).empty());
  CHECK(complaint({"--rows", "7", "--type", "int64"}).empty());
}

TEST_CASE("rubato-server hosts any number of tables, dense and sparse in any order") {
  CHECK(complaint({"--rows", "7", "--storage", "dense,dense,sparse"}).empty());
  CHECK(complaint({"--rows", "1,2,3,4"}).empty());
  CHECK(complaint({"--protocol", "dyn_sgd", "--rows", "7", "--width", "1,2,3", "--storage",
                   "multi_version_sparse"})
            .empty());
  auto const plan = server_tool::blueprint_of(parsed({"--rows", "1,2,3,4,5", "--storage",
                                                      "sparse,dense,sparse,dense,multi_version_sparse"}));
  REQUIRE(plan.tables().size() == 5);
  for (std::size_t i = 0; i < 5; ++i) {
    CHECK(plan.table(i).bounded() == (i % 2 == 1));
    CHECK(plan.table(i).rows() == i + 1);
  }
}

TEST_CASE("the counters are there for Prometheus") {
  server_stats stats;
  server_stats::add(stats.commits, 3);
  server_stats::add(stats.commits, 2);
  server_stats::set(stats.clock, 7);
  std::string const text = server_tool::prometheus_text(stats);
  CHECK(text.find("# TYPE rubato_commits_total counter\nrubato_commits_total 5\n") != std::string::npos);
  CHECK(text.find("# TYPE rubato_clock gauge\nrubato_clock 7\n") != std::string::npos);

  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, {&stats, nullptr});
  std::string const answer = get(page.bound(), counters_please);
  CHECK_THAT(answer, Catch::Matchers::StartsWith("HTTP/1.1 200 OK"));
  CHECK(answer.find("text/plain; version=0.0.4") != std::string::npos);
  CHECK(answer.find(text) != std::string::npos);
  CHECK_THAT(get(page.bound(), "GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n"),
             Catch::Matchers::StartsWith("HTTP/1.1 404"));
  CHECK_THAT(get(page.bound(), "PUT /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
             Catch::Matchers::StartsWith("HTTP/1.1 405"));
  CHECK(get(page.bound(), "no HTTP at all\r\n\r\n").empty());
  CHECK_THROWS_AS(server_tool::metrics_page({.host = "0.0.0.0", .port = 0}, {&stats, nullptr}), option_error);
}

TEST_CASE("a page tells whether workers can be served, and what is missing if not") {
  auto const asked = [](server_tool::metrics_page const& page, std::string const& what) {
    return get(page.bound(), "GET " + what + " HTTP/1.1\r\nHost: x\r\n\r\n");
  };
  server_stats server;
  coordinator_stats coordinator;
  server_stats::set(coordinator.workers_here, 2);
  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, {&server, &coordinator});
  CHECK_THAT(asked(page, "/healthz"), StartsWith("HTTP/1.1 200") && Contains("ok\n"));
  CHECK_THAT(asked(page, "/readyz"), StartsWith("HTTP/1.1 503") && Contains("has not let this server in"));
  server_stats::set(server.ready, 1);
  CHECK_THAT(asked(page, "/readyz"), StartsWith("HTTP/1.1 503") && Contains("0 servers and 2 workers are here"));
  server_stats::set(coordinator.ready, 1);
  CHECK_THAT(asked(page, "/readyz"), StartsWith("HTTP/1.1 200") && Contains("ready\n"));
  CHECK_THAT(asked(page, "/metrics"), Contains("\nrubato_commits_total 0\n") &&
                                          Contains("\nrubato_coordinator_workers 2\n") &&
                                          Contains("# TYPE rubato_resident_bytes gauge\nrubato_resident_bytes "));
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

TEST_CASE("a page of metrics whose process has no more files waits for some") {
  server_stats const stats;
  auto const others = test::threads_of(getpid());
  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, {&stats, nullptr});
  auto its_own = test::threads_of(getpid());
  std::erase_if(its_own, [&](auto const& t) { return others.contains(t.first); });
  REQUIRE(its_own.size() == 1);
  std::ifstream status(its_own.begin()->second / "status");
  auto const naps = [&] {
    return std::stoul("0" + test::thread_status(status)["voluntary_ctxt_switches"]);
  };
  (void)naps();  // clang's checks meet the file's class while there are files, see no_more_files
  visitor waiting;
  std::chrono::nanoseconds took{};
  std::chrono::nanoseconds passed{};
  {
    test::no_more_files const limit;
    auto const began = std::chrono::steady_clock::now();
    auto const before = computed();
    auto const naps_before = naps();
    waiting.connect(page.bound());  // the system takes it; the page cannot
    // It sleeps after each look. One that does not sleep is seen by what it computes.
    while (naps() < naps_before + 5 && took < std::chrono::milliseconds(300)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      took = computed() - before;
    }
    passed = std::chrono::steady_clock::now() - began;
  }
  CHECK(took < passed / 3);
  CHECK_THAT(waiting.asks(counters_please), Catch::Matchers::StartsWith("HTTP/1.1 200 OK"));
}

TEST_CASE("visitors that say nothing take a bounded number of places") {
  server_stats const stats;
  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, {&stats, nullptr});
  {
    std::vector<visitor> idle(64);
    for (auto& v : idle) v.connect(page.bound());
    CHECK(get(page.bound(), counters_please).empty());
  }
  CHECK(test::comes_true([&] { return !get(page.bound(), counters_please).empty(); }));
}

#ifdef RUBATO_SERVER_PROGRAM
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
  CHECK(std::string(said.data(), static_cast<std::size_t>(n)).starts_with("listening on " + place + "."));
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
  CHECK(server.errors().empty());
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
