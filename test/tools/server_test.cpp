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
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "no_more_files.hpp"
#include "process/children.hpp"
#include "rubato/core/error.hpp"
#include "rubato/protocol/ada_comm.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/fixed_ada_comm.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "src/tools/server/conducted.hpp"
#include "src/tools/server/hosted.hpp"
#include "src/tools/server/metrics.hpp"
#include "src/tools/server/options.hpp"
#include "tools/visitor.hpp"

using namespace rubato;
using server_tool::options;
using test::counters_please;
using test::get;
using test::visitor;

namespace {

options parsed(std::vector<std::string> words) {
  words.insert(words.begin(), "rubato-server");
  std::vector<char const*> argv;
  for (auto const& w : words) argv.push_back(w.c_str());
  int exit_code = 0;
  auto const o = server_tool::parse(static_cast<int>(argv.size()), argv.data(), exit_code);
  REQUIRE(o);
  return *o;
}

std::string complaint(std::vector<std::string> words) {
  try {
    (void)parsed(std::move(words));
  } catch (option_error const& e) {
    return e.what();
  }
  return "";
}

template <class Protocol, class... Tables>
auto plan_of(Protocol p, std::uint32_t servers, Tables... t) {
  return blueprint<null_mutex, Protocol, Tables...>(p, servers, t...);
}

template <class Protocol, class... Tables>
std::string agreed_on(Protocol p, std::uint32_t servers, Tables... t) {
  return detail::agreement(plan_of(p, servers, t...));
}

template <class Protocol, class Table>
std::string agreed(Protocol p, Table t, std::uint32_t servers) {
  return agreed_on(p, servers, t);
}

template <class T>
using hosted_dense = dense<T, merge_of_protocol, server_tool::named_partition>;
template <class T>
using hosted_sparse = sparse<T, merge_of_protocol, server_tool::named_partition>;

/// What `rubato-server` says for these words, with this visibility and merge, of tables of these
/// kinds.
template <class Visibility, class... Kinds, class Merge>
std::string hosted_says_of(std::vector<std::string> words, Merge merge) {
  options const o = parsed(std::move(words));
  REQUIRE(o.tables.size() == sizeof...(Kinds));
  using protocol_type = server_tool::hosted_protocol<Visibility, Merge>;
  protocol_type const p{server_tool::named_admission(o), merge};
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return detail::agreement(
        plan_of(p, o.place.servers,
                server_tool::table_from<protocol_type, Kinds>(o.tables[I])...),
        server_tool::name_of_orders(o));
  }
  (std::index_sequence_for<Kinds...>{});
}
template <class Visibility, class Merge>
std::string hosted_says(std::vector<std::string> words, Merge merge) {
  return hosted_says_of<Visibility, hosted_dense<float>>(std::move(words), merge);
}

std::unique_ptr<any_conductor> conductor_for(std::vector<std::string> words) {
  auto const maker = server_tool::conductor_maker(parsed(std::move(words)));
  return maker ? maker() : nullptr;
}

time_point at(double s) { return time_point(seconds(s)); }

/// The one order that has been given.
template <class Order>
Order only(any_conductor::orders const& all) {
  REQUIRE(all.size() == 1);
  auto const& bytes = all.front().second;
  REQUIRE(bytes.size() == sizeof(Order));
  Order order;
  std::memcpy(&order, bytes.data(), sizeof order);
  return order;
}

/// What this process has computed.
std::chrono::nanoseconds computed() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec);
}

}  // namespace

TEST_CASE("rubato-server and a program that links the worker side agree") {
  dense<float> const t{.rows = 100, .width = 3};
  std::vector<std::string> const table{"--rows", "100", "--width", "3", "--servers", "2"};
  auto const words = [&](std::vector<std::string> more) {
    more.insert(more.end(), table.begin(), table.end());
    return more;
  };
  CHECK(hosted_says<strict>(words({"--protocol", "bsp"}), average{}) == agreed(bsp{}, t, 2));
  CHECK(hosted_says<strict>(words({"--protocol", "fixed_ada_comm"}), average{}) ==
        agreed(fixed_ada_comm{.steps = 4}, t, 2));
  CHECK(hosted_says<eager>(words({"--protocol", "ssp", "--staleness", "5"}), sum{}) ==
        agreed(ssp{.staleness = 5}, t, 2));
  CHECK(hosted_says<eager>(words({"--protocol", "asp"}), sum{}) == agreed(asp{}, t, 2));
  CHECK(hosted_says<eager>(words({"--protocol", "con_sgd", "--lambda", "0.25"}),
                           scale{.lambda = 0.25}) ==
        agreed(con_sgd{.staleness = 3, .fold = {.lambda = 0.25}}, t, 2));
  CHECK(hosted_says<eager>(words({"--protocol", "dyn_sgd", "--storage", "multi_version"}),
                           revise{}) == agreed(dyn_sgd{}, multi_version{t}, 2));
  CHECK(hosted_says<eager>(words({"--protocol", "adsp"}), scale{}) == agreed(adsp{}, t, 2));
  CHECK(hosted_says<eager>(words({"--protocol", "adsp", "--lambda", "0.25"}),
                           scale{.lambda = 0.25}) == agreed(adsp{.global_rate = 0.25}, t, 2));
  CHECK(hosted_says<strict>(words({"--protocol", "ada_comm"}), average{}) ==
        agreed(ada_comm{}, t, 2));
  // The partition may be said in the table's type.
  CHECK(hosted_says<eager>(words({"--protocol", "asp", "--partition", "range"}), sum{}) ==
        agreed(asp{}, dense<float, merge_of_protocol, range>{.rows = 100, .width = 3}, 2));
}

TEST_CASE("rubato-server and a program agree on several tables") {
  dense<double> const weights{.rows = 100, .width = 3};
  dense<double, merge_of_protocol, range> const biases{.rows = 3};
  sparse<double> const embedding{.width = 16};
  using hosted_weights = hosted_dense<double>;
  auto const says = hosted_says_of<strict, hosted_weights, hosted_weights>(
      {"--protocol", "bsp", "--type", "double", "--rows", "100,3", "--width", "3,1", "--partition",
       "range_hash,range"},
      average{});
  CHECK(says == agreed_on(bsp{}, 1, weights, biases));
  CHECK(says != agreed_on(bsp{}, 1, biases, weights));
  CHECK(hosted_says_of<eager, hosted_sparse<double>, hosted_weights>(
            {"--protocol", "asp", "--type", "double", "--storage", "sparse,dense", "--rows",
             "0,100", "--width", "16,3", "--servers", "2"},
            sum{}) == agreed_on(asp{}, 2, embedding, weights));
  CHECK(hosted_says_of<eager, hosted_weights, hosted_sparse<double>>(
            {"--protocol", "dyn_sgd", "--type", "double", "--storage",
             "multi_version,multi_version_sparse", "--rows", "100,0", "--width", "3,16"},
            revise{}) == agreed_on(dyn_sgd{}, 1, multi_version{weights}, multi_version{embedding}));
  CHECK(hosted_says_of<eager, hosted_weights, hosted_weights, hosted_weights>(
            {"--protocol", "asp", "--type", "double", "--rows", "100,100,100", "--width", "3"},
            sum{}) == agreed_on(asp{}, 1, weights, weights, weights));
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
  any_conductor::orders orders;
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
  CHECK_THAT(complaint({"--rows", "7", "--protocol", "dyn_sgd"}), StartsWith("--storage: dense"));
  CHECK_THAT(complaint({"--rows", "7", "--storage", "multi_version"}), StartsWith("--storage: multi"));
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

TEST_CASE("a coordinator needs no tables, and refuses what only servers can use") {
  CHECK(complaint({"--role", "coordinator"}).empty());
  CHECK(complaint({"--role", "coordinator", "--protocol", "dyn_sgd"}).empty());
  for (std::vector<std::string> const& useless : std::vector<std::vector<std::string>>{
           {"--with-coordinator"},
           {"--listen", "127.0.0.1:0"},
           {"--storage", "sparse"},
           {"--type", "float"},
           {"--rows", "7"},
           {"--width", "2"},
           {"--partition", "hash"},
           {"--metrics", "9100"}}) {
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
  CHECK(complaint({"--rows", ""}) == "--rows: \"\"" + whole + "0 to 2^64 - 1");
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

  CHECK(complaint({"--rows", "7,0"}) == "--rows: table 1: a dense table needs 1 or more");
  CHECK(complaint({"--rows", "0", "--storage", "sparse,dense"}) ==
        "--rows: table 1: a dense table needs 1 or more");
  CHECK_THAT(
      complaint({"--rows", "7", "--protocol", "dyn_sgd", "--storage", "multi_version,sparse"}),
      StartsWith("--storage: table 1: sparse with --protocol dyn_sgd, expected multi_version"));
  CHECK_THAT(complaint({"--rows", "7", "--storage", "dense,multi_version"}),
             StartsWith("--storage: table 1: multi_version with --protocol ssp, expected"));
}

TEST_CASE("tables that rubato-server is not compiled for are refused with what to do instead") {
  std::string const expected =
      " expected one or two tables, dense or sparse, or three that are dense;";
  std::string const three = complaint({"--rows", "7", "--storage", "dense,dense,sparse"});
  CHECK_THAT(three,
             Catch::Matchers::StartsWith("--storage: 3 tables, 1 of them sparse," + expected));
  CHECK(three.find("RUBATO_ROLE=server") != std::string::npos);
  CHECK_THAT(complaint({"--rows", "1,2,3,4"}),
             Catch::Matchers::StartsWith("--storage: 4 tables, 0 of them sparse," + expected));
  CHECK_THAT(complaint({"--protocol", "dyn_sgd", "--rows", "7", "--width", "1,2,3", "--storage",
                        "multi_version_sparse"}),
             Catch::Matchers::StartsWith("--storage: 3 tables, 3 of them sparse,"));
}

TEST_CASE("the counters are there for Prometheus") {
  server_stats stats;
  server_stats::add(stats.commits, 3);
  server_stats::add(stats.commits, 2);
  server_stats::set(stats.clock, 7);
  std::string const text = server_tool::prometheus_text(stats);
  CHECK(text.find("# TYPE rubato_commits_total counter\nrubato_commits_total 5\n") != std::string::npos);
  CHECK(text.find("# TYPE rubato_clock gauge\nrubato_clock 7\n") != std::string::npos);

  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, stats);
  std::string const answer = get(page.bound(), counters_please);
  CHECK_THAT(answer, Catch::Matchers::StartsWith("HTTP/1.1 200 OK"));
  CHECK(answer.find("text/plain; version=0.0.4") != std::string::npos);
  CHECK(answer.ends_with(text));
  CHECK_THAT(get(page.bound(), "GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n"),
             Catch::Matchers::StartsWith("HTTP/1.1 404"));
  CHECK_THAT(get(page.bound(), "PUT /metrics HTTP/1.1\r\nHost: x\r\n\r\n"),
             Catch::Matchers::StartsWith("HTTP/1.1 405"));
  CHECK(get(page.bound(), "no HTTP at all\r\n\r\n").empty());
  CHECK_THROWS_AS(server_tool::metrics_page({.host = "0.0.0.0", .port = 0}, stats), option_error);
}

TEST_CASE("a page of metrics whose process has no more files waits for some") {
  server_stats const stats;
  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, stats);
  visitor waiting;
  std::chrono::nanoseconds took{};
  {
    test::no_more_files const limit;
    waiting.connect(page.bound());  // the system takes it; the page cannot
    auto const before = computed();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    took = computed() - before;
  }
  CHECK(took < std::chrono::milliseconds(300));
  CHECK_THAT(waiting.asks(counters_please), Catch::Matchers::StartsWith("HTTP/1.1 200 OK"));
}

TEST_CASE("visitors that say nothing take a bounded number of places") {
  server_stats const stats;
  server_tool::metrics_page const page({.host = "127.0.0.1", .port = 0}, stats);
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
  CHECK(std::string(said.data(), static_cast<std::size_t>(n)).starts_with("listening on 127.0.0.1:"));
  CHECK(access(place.c_str() + 5, F_OK) == 0);
  kill(child, SIGTERM);
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
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
    server.send(meant_for_workers);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    CHECK_FALSE(server.has_ended());
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
  server.send(SIGHUP);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK_FALSE(server.has_ended());
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
