// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/net/deployment.hpp>

#include <rubato/core/error.hpp>

#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

using namespace rubato;
using namespace std::chrono_literals;
using net::deployment;
using net::role;

namespace {

using variables = std::map<std::string, std::string, std::less<>>;

deployment from(variables const& set) {
  return deployment::from_environment([&](std::string_view name) -> std::optional<std::string> {
    auto const found = set.find(name);
    if (found == set.end()) return std::nullopt;
    return found->second;
  });
}

// A file that is gone after the test.
class scratch_file {
 public:
  explicit scratch_file(std::string const& content) {
    std::string name = (std::filesystem::temp_directory_path() / "rubato-test-XXXXXX").string();
    int const handle = ::mkstemp(name.data());
    REQUIRE(handle >= 0);
    ::close(handle);
    name_ = name;
    std::ofstream(name_, std::ios::binary) << content;
  }
  scratch_file(scratch_file const&) = delete;
  scratch_file& operator=(scratch_file const&) = delete;
  ~scratch_file() {
    std::error_code ignored;
    std::filesystem::remove(name_, ignored);
  }

  [[nodiscard]] std::string const& name() const { return name_; }

 private:
  std::string name_;
};

std::string first_host(std::string const& list) {
  return from({{"SLURM_JOB_NODELIST", list}}).coordinator.host;
}

}  // namespace

TEST_CASE("without a launcher a process is the only worker", "[net][deployment]") {
  auto const alone = from({});
  CHECK(alone.as == role::worker);
  CHECK(alone.rank == std::nullopt);
  CHECK(alone.workers == 1);
  CHECK(alone.servers == 1);
  CHECK(alone.coordinator == net::address{.host = "127.0.0.1", .port = 29500});
  CHECK_FALSE(alone.listen.has_value());
  CHECK(alone.listening() == net::address{.host = "127.0.0.1", .port = 0});
  CHECK(alone.keys.token.empty());
  CHECK_FALSE(alone.keys.tls.has_value());
  CHECK_FALSE(alone.keys.beyond_loopback);
  CHECK(alone.when_lost == net::on_loss::end);
  CHECK(alone.silence == 5s);
  CHECK(alone.reconnect == 2s);
  CHECK(alone.breaks_max == 20);
  CHECK(alone.patience == 60s);
  CHECK_NOTHROW(alone.check());
}

TEST_CASE("the process's own environment is read", "[net][deployment]") {
  ::setenv("RUBATO_SILENCE", "7.25", 1);
  auto const d = deployment::from_environment();
  ::unsetenv("RUBATO_SILENCE");
  CHECK(d.silence == 7250ms);
}

TEST_CASE("with a role, RANK and WORLD_SIZE count workers", "[net][deployment]") {
  variables set{{"WORLD_SIZE", "4"}, {"RUBATO_SERVERS", "2"}, {"RANK", "1"}};
  set["RUBATO_ROLE"] = GENERATE(as<std::string>{}, "worker", "server");
  auto const d = from(set);
  CHECK(to_string(d.as) == set["RUBATO_ROLE"]);
  CHECK(d.rank == 1u);
  CHECK(d.workers == 4);
  CHECK(d.servers == 2);
  CHECK_NOTHROW(d.check());
}

TEST_CASE("a role needs no number", "[net][deployment]") {
  auto const d = from({{"RUBATO_ROLE", "coordinator"}, {"WORLD_SIZE", "4"}});
  CHECK(d.as == role::coordinator);
  CHECK(d.rank == std::nullopt);
  CHECK(d.workers == 4);
}

TEST_CASE("a number must be one of its role", "[net][deployment]") {
  variables set{{"RUBATO_ROLE", "worker"}, {"WORLD_SIZE", "3"}, {"RUBATO_SERVERS", "2"}};
  set["RANK"] = "3";
  CHECK_THROWS_WITH(from(set), "RANK is '3', but must be below 3, the number of workers");
  set["RUBATO_ROLE"] = "server";
  CHECK_THROWS_WITH(from(set), "RANK is '3', but must be below 2, the number of servers");
  set["RUBATO_ROLE"] = "coordinator";
  set["RANK"] = "1";
  CHECK_THROWS_WITH(from(set), "RANK is '1', but must be below 1, the number of coordinators");
}

TEST_CASE("without a role the numbers share out the roles", "[net][deployment]") {
  auto const numbered = [](int number) {
    return from({{"RANK", std::to_string(number)}, {"WORLD_SIZE", "6"}, {"RUBATO_SERVERS", "2"}});
  };
  struct place {
    role as;
    std::uint32_t rank;
  };
  place const expected[] = {{role::coordinator, 0}, {role::server, 0}, {role::server, 1},
                            {role::worker, 0},      {role::worker, 1}, {role::worker, 2}};
  for (int number = 0; number < 6; ++number) {
    CAPTURE(number);
    auto const d = numbered(number);
    CHECK(d.as == expected[number].as);
    CHECK(d.rank == expected[number].rank);
    CHECK(d.workers == 3);
    CHECK(d.servers == 2);
    CHECK_NOTHROW(d.check());
  }
}

TEST_CASE("peers have a coordinator and no servers", "[net][deployment]") {
  for (std::uint32_t number = 0; number < 3; ++number) {
    auto const d = from({{"RANK", std::to_string(number)}, {"WORLD_SIZE", "3"}, {"RUBATO_SERVERS", "0"}});
    CHECK(d.as == (number == 0 ? role::coordinator : role::worker));
    CHECK(d.rank == (number == 0 ? 0 : number - 1));
    CHECK(d.workers == 2);
    CHECK(d.servers == 0);
    CHECK_NOTHROW(d.check());
  }
}

TEST_CASE("one process of one is a worker", "[net][deployment]") {
  auto const d = from({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  CHECK(d.as == role::worker);
  CHECK(d.rank == 0u);
  CHECK(d.workers == 1);
}

TEST_CASE("too few processes for all roles are refused", "[net][deployment]") {
  CHECK_THROWS_WITH(from({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
                    "WORLD_SIZE is '2', but must be at least 3: a coordinator, as many servers as "
                    "RUBATO_SERVERS says (1) and a worker");
  CHECK_THROWS_WITH(
      from({{"SLURM_PROCID", "1"}, {"SLURM_NTASKS", "4"}, {"RUBATO_SERVERS", "3"}}),
      "SLURM_NTASKS is '4', but must be at least 5: a coordinator, as many servers as "
      "RUBATO_SERVERS says (3) and a worker");
  CHECK_NOTHROW(from({{"RANK", "1"}, {"WORLD_SIZE", "3"}}));
}

TEST_CASE("numbers that contradict each other are refused", "[net][deployment]") {
  CHECK_THROWS_WITH(from({{"WORLD_SIZE", "4"}}),
                    "WORLD_SIZE is '4', but RANK is not set: must be the number of this process");
  CHECK_THROWS_WITH(from({{"WORLD_SIZE", "4"}, {"RANK", "4"}}),
                    "RANK is '4', but must be below 4, the number of processes");
  CHECK_THROWS_WITH(from({{"RANK", "1"}}),
                    "RANK is '1', but must be below 1, the number of processes");
}

TEST_CASE("RANK wins over Open MPI's number, and that over Slurm's", "[net][deployment]") {
  variables set{{"SLURM_PROCID", "3"}, {"SLURM_NTASKS", "5"}};
  CHECK(from(set).rank == 1u);
  CHECK(from(set).workers == 3);
  set["OMPI_COMM_WORLD_RANK"] = "4";
  set["OMPI_COMM_WORLD_SIZE"] = "6";
  CHECK(from(set).rank == 2u);
  CHECK(from(set).workers == 4);
  set["RANK"] = "5";
  set["WORLD_SIZE"] = "7";
  CHECK(from(set).rank == 3u);
  CHECK(from(set).workers == 5);
}

TEST_CASE("a variable that is not the one taken may hold anything", "[net][deployment]") {
  CHECK_NOTHROW(from({{"RANK", "0"}, {"SLURM_PROCID", "x"}}));
  CHECK_NOTHROW(from({{"RUBATO_COORDINATOR", "unix:/x/y"}, {"MASTER_PORT", "x"}}));
  CHECK_NOTHROW(from({{"MASTER_ADDR", "a"}, {"SLURM_NODELIST", "["}}));
}

TEST_CASE("the coordinator's address comes from the first that says it", "[net][deployment]") {
  variables set{{"SLURM_NODELIST", "old[7-8]"}};
  CHECK(from(set).coordinator == net::address{.host = "old7", .port = 29500});
  set["SLURM_JOB_NODELIST"] = "node[3-4]";
  CHECK(from(set).coordinator == net::address{.host = "node3", .port = 29500});
  set["MASTER_ADDR"] = "::1";
  set["MASTER_PORT"] = "65535";
  CHECK(from(set).coordinator == net::address{.host = "::1", .port = 65535});
  set["RUBATO_COORDINATOR"] = "unix:/run/here";
  CHECK(from(set).coordinator.path == "/run/here");
  set["RUBATO_COORDINATOR"] = "far:80";
  CHECK(from(set).coordinator == net::address{.host = "far", .port = 80});
}

TEST_CASE("memory is shared unless the environment says no", "[net][deployment]") {
  CHECK(from({}).share_memory);
  CHECK(from({{"RUBATO_SHARE_MEMORY", "1"}}).share_memory);
  CHECK_FALSE(from({{"RUBATO_SHARE_MEMORY", "0"}}).share_memory);
  CHECK_THROWS_WITH(from({{"RUBATO_SHARE_MEMORY", "no"}}),
                    Catch::Contains("RUBATO_SHARE_MEMORY is 'no', but must be 0 or 1"));
}

TEST_CASE("for how long a process looks before it sleeps is told in microseconds", "[net][deployment]") {
  CHECK(from({}).busy_poll == std::chrono::microseconds(50));
  CHECK(from({{"RUBATO_BUSY_POLL", "0"}}).busy_poll == std::chrono::microseconds(0));
  CHECK(from({{"RUBATO_BUSY_POLL", "200"}}).busy_poll == std::chrono::microseconds(200));
  for (char const* const wrong : {"-1", "10001", "50us", ""})
    CHECK_THROWS_WITH(from({{"RUBATO_BUSY_POLL", wrong}}),
                      Catch::Contains("RUBATO_BUSY_POLL is '") &&
                          Catch::Contains("but must be microseconds from 0 to 10000"));
  deployment place = from({});
  place.busy_poll = std::chrono::microseconds(-1);
  CHECK_THROWS_WITH(place.check(),
                    Catch::Contains("busy_poll, in microseconds, must be between 0 and 10000, but is -1"));
}

TEST_CASE("the first host of a Slurm list", "[net][deployment]") {
  CHECK(first_host("node7") == "node7");
  CHECK(first_host("node[01-04,9]") == "node01");
  CHECK(first_host("node[12,01-04]") == "node12");
  CHECK(first_host("node[5]") == "node5");
  CHECK(first_host("a[1-2],b3") == "a1");
  CHECK(first_host("a1,b[3-4]") == "a1");
  CHECK(first_host("rack1-node[003-010]") == "rack1-node003");
  CHECK(first_host("rack[2-3]-node[07,9].local") == "rack2-node07.local");
  for (auto const* const bad :
       {"", ",a", "a[", "a[1", "a[]", "a[x]", "a[-3]", "a[1x]", "a]", "a b"}) {
    CHECK_THROWS_WITH(first_host(bad),
                      "SLURM_JOB_NODELIST is '" + std::string(bad) +
                          "', but must be a list of hosts such as node[01-04,9],login");
  }
}

TEST_CASE("a secret comes from a variable or from a file", "[net][deployment]") {
  CHECK(from({{"RUBATO_TOKEN", " secret "}}).keys.token == " secret ");
  CHECK_THROWS_WITH(from({{"RUBATO_TOKEN", ""}}),
                    "RUBATO_TOKEN is '', but must be the shared secret or not set");
  auto const [content, token] = GENERATE(
      table<std::string, std::string>({{"abc", "abc"}, {"abc\n", "abc"}, {"a b \r\n", "a b "}}));
  scratch_file const file(content);
  CHECK(from({{"RUBATO_TOKEN_FILE", file.name()}}).keys.token == token);
  CHECK_THROWS_WITH(
      from({{"RUBATO_TOKEN_FILE", file.name()}, {"RUBATO_TOKEN", "x"}}),
      "RUBATO_TOKEN_FILE is '" + file.name() + "', but must be not set where RUBATO_TOKEN is");
}

TEST_CASE("a file without a secret is refused", "[net][deployment]") {
  scratch_file const empty("");
  scratch_file const newline("\n");
  std::string const folder = std::filesystem::temp_directory_path().string();
  for (auto const& name : {empty.name(), newline.name(), empty.name() + ".absent", folder}) {
    CHECK_THROWS_WITH(from({{"RUBATO_TOKEN_FILE", name}}),
                      "RUBATO_TOKEN_FILE is '" + name +
                          "', but must be a file that can be read and holds the shared secret");
  }
}

TEST_CASE("a file of secrets that has no end is not read for ever", "[net][deployment]") {
  CHECK_THROWS_WITH(from({{"RUBATO_TOKEN_FILE", "/dev/zero"}}),
                    "RUBATO_TOKEN_FILE is '/dev/zero', but must be a file of at most 65536 bytes");
}

TEST_CASE("of the three files of TLS there are all or none", "[net][deployment]") {
  variables set{
      {"RUBATO_TLS_CERTIFICATE", "c"}, {"RUBATO_TLS_KEY", "k"}, {"RUBATO_TLS_AUTHORITY", "a"}};
  auto const tls = from(set).keys.tls;
  REQUIRE(tls.has_value());
  CHECK(tls->certificate == "c");
  CHECK(tls->key == "k");
  CHECK(tls->authority == "a");
  set.erase("RUBATO_TLS_KEY");
  CHECK_THROWS_WITH(
      from(set),
      "RUBATO_TLS_KEY is not set, but must name a file, as RUBATO_TLS_CERTIFICATE is 'c'");
  set.erase("RUBATO_TLS_CERTIFICATE");
  CHECK_THROWS_WITH(
      from(set),
      "RUBATO_TLS_CERTIFICATE is not set, but must name a file, as RUBATO_TLS_AUTHORITY is 'a'");
}

TEST_CASE("all other variables are taken over", "[net][deployment]") {
  auto const d = from({{"RUBATO_LISTEN", "0.0.0.0:81"},
                       {"RUBATO_ANNOUNCE", "node7:82"},
                       {"RUBATO_BEYOND_LOOPBACK", "1"},
                       {"RUBATO_ON_LOSS", "go-on"},
                       {"RUBATO_SILENCE", "0.25"},
                       {"RUBATO_RECONNECT", "0"},
                       {"RUBATO_BREAKS_MAX", "7"},
                       {"RUBATO_CHECK_FINITE", "1"},
                       {"RUBATO_ROWS_MAX", "68719476736"},
                       {"RUBATO_BYTES_MAX", "9"},
                       {"RUBATO_LOG_FORMAT", "json"},
                       {"RUBATO_LONG_WAIT", "0.5"},
                       {"RUBATO_PATIENCE", "600"}});
  CHECK(d.listen == net::address{.host = "0.0.0.0", .port = 81});
  CHECK(d.announce == net::address{.host = "node7", .port = 82});
  CHECK(d.keys.beyond_loopback);
  CHECK(d.when_lost == net::on_loss::go_on);
  CHECK(d.silence == 250ms);
  CHECK(d.reconnect == 0s);
  CHECK(d.breaks_max == 7);
  CHECK(d.limits.check_finite);
  CHECK(d.limits.rows_max == std::uint64_t{1} << 36);
  CHECK(d.limits.bytes_max == 9);
  CHECK(d.logs == net::log_format::json);
  CHECK_FALSE(from({}).logs);
  CHECK(d.patience == 600s);
  CHECK(d.long_wait == 500ms);
  CHECK_FALSE(from({{"RUBATO_BEYOND_LOOPBACK", "0"}}).keys.beyond_loopback);
  CHECK(from({{"RUBATO_ON_LOSS", "end"}}).when_lost == net::on_loss::end);
}

TEST_CASE("a bad value is refused with its variable and what was expected", "[net][deployment]") {
  auto const [name, value, expected] = GENERATE(table<std::string, std::string, std::string>({
      {"RUBATO_ROLE", "Worker", "worker, server or coordinator"},
      {"RUBATO_LOG_FORMAT", "xml", "text, keyvalue or json"},
      {"RUBATO_SERVERS", "-1", "a whole number from 0 to 65536"},
      {"RUBATO_SERVERS", "99999999999", "a whole number from 0 to 65536"},
      {"RANK", "", "a whole number from 0 to 2147483646"},
      {"RANK", "-1", "a whole number from 0 to 2147483646"},
      {"SLURM_PROCID", "1.5", "a whole number from 0 to 2147483646"},
      {"WORLD_SIZE", "0", "a whole number from 1 to 2147483647"},
      {"OMPI_COMM_WORLD_SIZE", "4 ", "a whole number from 1 to 2147483647"},
      {"MASTER_ADDR", "", "a host's name or number, without a port or brackets"},
      {"MASTER_ADDR", "[::1]", "a host's name or number, without a port or brackets"},
      {"MASTER_ADDR", "a b", "a host's name or number, without a port or brackets"},
      {"MASTER_ADDR", "a:1", "a host's name or number, without a port or brackets"},
      {"MASTER_PORT", "0", "a port from 1 to 65535"},
      {"MASTER_PORT", "65536", "a port from 1 to 65535"},
      {"MASTER_PORT", "+80", "a port from 1 to 65535"},
      {"RUBATO_TOKEN_FILE", "", "the name of a file"},
      {"RUBATO_TLS_KEY", "", "the name of a file"},
      {"RUBATO_BEYOND_LOOPBACK", "yes", "0 or 1"},
      {"RUBATO_ON_LOSS", "go_on", "end or go-on"},
      {"RUBATO_SILENCE", "0", "seconds from 0.001 to 1000000000, such as 2 or 0.5"},
      {"RUBATO_SILENCE", "nan", "seconds from 0.001 to 1000000000, such as 2 or 0.5"},
      {"RUBATO_CHECK_FINITE", "yes", "0 or 1"},
      {"RUBATO_ROWS_MAX", "-1", "a whole number from 0 to 2^64 - 1; 0 is no limit"},
      {"RUBATO_BYTES_MAX", "1 GB", "a whole number from 0 to 2^64 - 1; 0 is no limit"},
      {"RUBATO_BREAKS_MAX", "0", "a whole number from 1 to 2147483647"},
      {"RUBATO_RECONNECT", "-1", "seconds from 0 to 1000000000, such as 2 or 0.5"},
      {"RUBATO_LONG_WAIT", "-1", "seconds from 0 to 1000000000, such as 2 or 0.5"},
      {"RUBATO_PATIENCE", "2s", "seconds from 0.001 to 1000000000, such as 2 or 0.5"},
      {"RUBATO_PATIENCE", "inf", "seconds from 0.001 to 1000000000, such as 2 or 0.5"},
  }));
  variables set{{name, value}};
  // The others of a set are in order.
  if (name == "RUBATO_TLS_KEY")
    set.insert({{"RUBATO_TLS_CERTIFICATE", "c"}, {"RUBATO_TLS_AUTHORITY", "a"}});
  CHECK_THROWS_AS(from(set), option_error);
  CHECK_THROWS_WITH(from(set), name + " is '" + value + "', but must be " + expected);
}

TEST_CASE("a bad address is refused with its variable", "[net][deployment]") {
  auto const name = GENERATE(as<std::string>{}, "RUBATO_COORDINATOR", "RUBATO_LISTEN",
                             "RUBATO_ANNOUNCE");
  CHECK_THROWS_AS(from({{name, "nowhere"}}), option_error);
  CHECK_THROWS_WITH(from({{name, "nowhere"}}), Catch::Contains(name) && Catch::Contains("nowhere"));
}

TEST_CASE("what cannot be meant does not pass the check", "[net][deployment]") {
  net::address const here{.host = "127.0.0.1", .port = 1};
  net::address const far{.host = "far", .port = 1};
  CHECK_THROWS_AS((deployment{.workers = 0, .coordinator = here}.check()), option_error);
  CHECK_THROWS_WITH((deployment{.workers = 0, .coordinator = here}.check()),
                    "deployment::workers must be between 1 and 2147483647, but is 0");
  CHECK_NOTHROW((deployment{.servers = 0, .coordinator = here}.check()));  // of peers
  CHECK_THROWS_WITH((deployment{.servers = 65537, .coordinator = here}.check()),
                    "deployment::servers must be between 0 and 65536, but is 65537");
  CHECK_THROWS_WITH((deployment{.as = role::server, .rank = 0, .servers = 0, .coordinator = here}.check()),
                    Catch::Contains("deployment::rank"));
  CHECK_THROWS_WITH((deployment{.rank = 2, .workers = 2, .coordinator = here}.check()),
                    "deployment::rank must be between 0 and 1, but is 2");
  CHECK_THROWS_WITH(
      deployment{}.check(),
      "deployment::coordinator must have a host and a port other than 0, but is ':0'; from_environment() takes it from "
      "what a launcher says");
  CHECK_THROWS_WITH((deployment{.coordinator = here, .silence = 0s}.check()),
                    "deployment::silence, in milliseconds, must be between 1 and 1000000000000, but is 0");
  for (auto const member : {&deployment::silence, &deployment::reconnect, &deployment::patience}) {
    deployment d{.coordinator = here};
    d.*member = std::chrono::milliseconds(1'000'000'000'000);
    CHECK_NOTHROW(d.check());
    d.*member += 1ms;
    CHECK_THROWS_AS(d.check(), option_error);
    d.*member = std::chrono::milliseconds::max();  // moments would be before now
    CHECK_THROWS_AS(d.check(), option_error);
  }
  CHECK_THROWS_WITH((deployment{.coordinator = here, .long_wait = std::chrono::milliseconds::max()}.check()),
                    "deployment::long_wait, in milliseconds, must be between 0 and 1000000000000, but is "
                    "9223372036854775807");
  CHECK_THROWS_WITH((deployment{.coordinator = here, .breaks_max = 0}.check()),
                    "deployment::breaks_max must be between 1 and 2147483647, but is 0");
  CHECK_THROWS_WITH((deployment{.coordinator = here, .reconnect = -1ms}.check()),
                    "deployment::reconnect, in milliseconds, must be between 0 and 1000000000000, but is -1");
  CHECK_THROWS_WITH((deployment{.coordinator = here, .patience = 0s}.check()),
                    "deployment::patience, in milliseconds, must be between 1 and 1000000000000, but is 0");
  CHECK_THROWS_WITH(
      (deployment{.coordinator = here, .keys = {.tls = net::tls_files{"c", "", "a"}}}.check()),
      "tls_files must name three files, but certificate is 'c', key is '' and authority is 'a'");
  CHECK_NOTHROW(deployment{.coordinator = far}.check());
}

TEST_CASE("listening beyond this machine must be allowed", "[net][deployment]") {
  net::address const far{.host = "far", .port = 1};
  deployment coordinator{.as = role::coordinator, .coordinator = far};
  deployment server{.as = role::server, .coordinator = far, .listen = far};
  std::string const rest =
      " must be on this machine's loopback network unless security::beyond_loopback "
      "(RUBATO_BEYOND_LOOPBACK=1) is set, but is far:1";
  CHECK_THROWS_WITH(coordinator.check(), "deployment::coordinator" + rest);
  CHECK_THROWS_WITH(server.check(), "deployment::listen" + rest);
  coordinator.keys = server.keys = {.token = "secret", .beyond_loopback = true};
  CHECK_NOTHROW(coordinator.check());
  CHECK_NOTHROW(server.check());
}

TEST_CASE("a server listens where the coordinator can be reached from", "[net][deployment]") {
  deployment server{.as = role::server, .coordinator = {.host = "far", .port = 1}};
  CHECK(server.listening().text() == "127.0.0.1:0");  // nobody has allowed more
  server.keys.beyond_loopback = true;
  CHECK(server.listening().text() == "0.0.0.0:0");
  CHECK_THROWS_WITH(server.check(), Catch::Contains("deployment::listen is 0.0.0.0:0, which"));
  server.coordinator.host = "2001:db8::1";
  CHECK(server.listening().text() == "[::]:0");
  server.coordinator = net::address::parse("127.0.0.1:1");
  CHECK(server.listening().text() == "127.0.0.1:0");
  server.coordinator = net::address::parse("unix:/tmp/somewhere");
  CHECK(server.listening().text() == "unix:/tmp/somewhere.server-*");
  CHECK_NOTHROW(server.check());
  server.announce = net::address::parse("127.0.0.1:7");  // a forwarder, which must know where to forward to
  CHECK(server.listening().text() == "127.0.0.1:0");
  server.announce.reset();
  server.coordinator.path = "/" + std::string(net::coordinator_path_max - 1, 'x');
  CHECK(server.listening().text() == "unix:" + server.coordinator.path + ".server-*");
  server.coordinator.path += "x";  // which would be too long with a number after it
  CHECK(server.listening().text() == "127.0.0.1:0");
  server.listen = net::address::parse("far:7");
  CHECK(server.listening().text() == "far:7");
}

TEST_CASE("a server's socket has an absolute path, which others find from other folders", "[net][deployment]") {
  std::string const here = std::filesystem::current_path().string() + "/";
  deployment server{.as = role::server, .listen = net::address::parse("unix:x")};
  CHECK(server.listening().path == here + "x");
  server.listen.reset();
  // With what is put for the `*` it must not be too long.
  std::size_t const room = 79 - std::min<std::size_t>(here.size(), 78);
  server.coordinator = net::address::parse("unix:" + std::string(room, 'x'));
  bool const fits = here.size() < 79;
  CHECK(server.listening().text() ==
        (fits ? "unix:" + here + server.coordinator.path + ".server-*" : "127.0.0.1:0"));
  server.coordinator.path += "x";
  CHECK(server.listening().text() == "127.0.0.1:0");
}

TEST_CASE("a peer listens, so what holds for servers holds for it", "[net][deployment]") {
  net::address const here{.host = "127.0.0.1", .port = 1};
  deployment peer{.servers = 0, .coordinator = here, .listen = net::address{.host = "0.0.0.0", .port = 0}};
  CHECK_THROWS_WITH(peer.check(), Catch::Contains("deployment::listen"));
  peer.servers = 1;  // a worker, which does not listen
  CHECK_NOTHROW(peer.check());
}

TEST_CASE("who listens beyond this machine needs a token or certificates", "[net][deployment]") {
  net::address const far{.host = "far", .port = 1};
  net::address const everywhere{.host = "0.0.0.0", .port = 0};
  deployment coordinator{
      .as = role::coordinator, .coordinator = far, .keys = {.beyond_loopback = true}};
  deployment server = coordinator;
  server.as = role::server;
  server.listen = everywhere;
  CHECK_THROWS_AS(coordinator.check(), option_error);
  CHECK_THROWS_WITH(coordinator.check(),
                    Catch::Contains("deployment::coordinator is far:1, which other machines can") &&
                        Catch::Contains("RUBATO_TOKEN_FILE") &&
                        Catch::Contains("RUBATO_TLS_CERTIFICATE") &&
                        Catch::Contains("security::token") && Catch::Contains("security::tls"));
  CHECK_THROWS_WITH(server.check(), Catch::Contains("deployment::listen is 0.0.0.0:0, which") &&
                                        Catch::Contains("--token-file") &&
                                        Catch::Contains("--tls-certificate"));
  for (deployment d : {coordinator, server}) {
    d.keys.token = "secret";
    CHECK_NOTHROW(d.check());
    d.keys.token.clear();
    d.keys.tls = net::tls_files{"c", "k", "a"};
    CHECK_NOTHROW(d.check());
  }
  // Who does not listen there needs none.
  for (net::address const& here :
       {net::address{.host = "127.0.0.1", .port = 1}, net::address::parse("unix:/tmp/somewhere")}) {
    coordinator.coordinator = here;
    server.listen = here;
    CHECK_NOTHROW(coordinator.check());
    CHECK_NOTHROW(server.check());
  }
  CHECK_NOTHROW((deployment{.coordinator = far, .keys = {.beyond_loopback = true}}.check()));
}
