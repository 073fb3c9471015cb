// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Where rubato-server takes its place from: options, and what launchers leave in the environment.
#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/net/deployment.hpp"
#include "src/tools/server/options.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

/// Variables for as long as it lives.
class surroundings {
 public:
  explicit surroundings(std::map<std::string, std::string> set) : set_(std::move(set)) {
    for (auto const& [name, value] : set_) REQUIRE(setenv(name.c_str(), value.c_str(), 1) == 0);
  }
  ~surroundings() {
    for (auto const& [name, value] : set_) unsetenv(name.c_str());
  }
  surroundings(surroundings const&) = delete;
  surroundings& operator=(surroundings const&) = delete;

 private:
  std::map<std::string, std::string> set_;
};

/// What rubato-server takes for its place; a coordinator is given no tables.
net::deployment place_of(std::vector<std::string> given, bool has_tables = true) {
  given.insert(given.begin(), "rubato-server");
  if (has_tables) given.insert(given.end(), {"--rows", "7"});
  std::vector<char const*> argv;
  for (auto const& word : given) argv.push_back(word.c_str());
  int exit_code = 0;
  auto const o = server_tool::parse(static_cast<int>(argv.size()), argv.data(), exit_code);
  REQUIRE(o);
  return o->place;
}

struct numbered {
  net::role as;
  std::optional<std::uint32_t> rank;
  std::uint32_t workers;

  bool operator==(numbered const&) const = default;
};

numbered place_in(std::map<std::string, std::string> const& set, std::vector<std::string> const& given,
                  bool has_tables = true) {
  surroundings const around(set);
  auto const d = place_of(given, has_tables);
  return {d.as, d.rank, d.workers};
}

}  // namespace

TEST_CASE("numbers of launchers that do not go with rubato-server's options count for nothing", "[tools][server]") {
  using enum net::role;
  for (std::map<std::string, std::string> const& stale : std::vector<std::map<std::string, std::string>>{
           {},
           {{"WORLD_SIZE", "4"}},                                            // without a number
           {{"RANK", "9"}},                                                  // of one process
           {{"RANK", "1"}, {"WORLD_SIZE", "2"}},                             // too few for all roles
           {{"RANK", "x"}, {"WORLD_SIZE", "-4"}},
           {{"RANK", "5"}, {"WORLD_SIZE", "6"}},                             // a worker's
           {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "9"}},                   // a coordinator's, as in a job's script
           {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
           {{"RUBATO_ROLE", "worker"}, {"RANK", "1"}, {"WORLD_SIZE", "1"}},
           {{"RUBATO_ROLE", "peer"}, {"RANK", "1"}, {"RUBATO_SERVERS", "x"}}}) {
    for (auto const& [name, value] : stale) UNSCOPED_INFO(name << "=" << value);
    CHECK(place_in(stale, {"--role", "server", "--servers", "2", "--rank", "1", "--workers", "3"}) ==
          numbered{server, 1, 3});
    CHECK(place_in(stale, {"--role", "server", "--servers", "2", "--workers", "3"}) == numbered{server, {}, 3});
    CHECK(place_in(stale, {"--role", "coordinator", "--servers", "2", "--workers", "3"}, false).workers == 3);
  }
  std::map<std::string, std::string> const script{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "9"}};
  CHECK(place_in(script, {"--workers", "3"}) == numbered{server, {}, 3});
  CHECK(place_in(script, {"--with-coordinator", "--workers", "3"}) == numbered{server, {}, 3});
  CHECK(place_in(script, {"--rank", "0"}) == numbered{server, 0, 1});
}

TEST_CASE("what rubato-server's options leave open, launchers' variables say", "[tools][server]") {
  using enum net::role;
  std::map<std::string, std::string> all{{"RANK", "2"}, {"WORLD_SIZE", "7"}};
  CHECK(place_in(all, {"--servers", "2"}) == numbered{server, 1, 4});  // the first server's number follows from theirs
  CHECK(place_in(all, {"--servers", "2", "--role", "server"}) == numbered{server, 1, 4});
  CHECK(place_in(all, {"--servers", "2", "--rank", "0"}) == numbered{server, 0, 4});
  CHECK(place_in(all, {"--servers", "2", "--workers", "4"}) == numbered{server, 1, 4});
  all["RANK"] = "0";
  CHECK(place_in(all, {"--servers", "2"}, false) == numbered{coordinator, 0, 4});
  CHECK(place_in(all, {"--servers", "2", "--role", "coordinator"}, false) == numbered{coordinator, 0, 4});

  std::map<std::string, std::string> const by_role{
      {"RUBATO_ROLE", "server"}, {"RANK", "1"}, {"WORLD_SIZE", "4"}, {"RUBATO_SERVERS", "2"}};
  CHECK(place_in(by_role, {}) == numbered{server, 1, 4});
  CHECK(place_in(by_role, {"--role", "server", "--workers", "8"}) == numbered{server, 1, 8});
  CHECK(place_in(by_role, {"--rank", "0"}) == numbered{server, 0, 4});
  CHECK(place_in(by_role, {"--role", "coordinator"}, false) == numbered{coordinator, {}, 4});
}

TEST_CASE("a worker's number is not that of a server", "[tools][server]") {
  CHECK(place_in({{"RUBATO_ROLE", "worker"}, {"RANK", "3"}, {"WORLD_SIZE", "4"}}, {}) ==
        numbered{net::role::server, {}, 4});
  CHECK(place_in({{"RANK", "3"}, {"WORLD_SIZE", "7"}, {"RUBATO_SERVERS", "2"}}, {}) ==
        numbered{net::role::server, {}, 4});
}

TEST_CASE("rubato-server looks at no variable whose option it is given", "[tools][server]") {
  surroundings const around({{"MASTER_ADDR", "h:1"},
                             {"MASTER_PORT", "x"},
                             {"SLURM_NODELIST", "["},
                             {"RUBATO_LISTEN", "nowhere"},
                             {"RUBATO_BEYOND_LOOPBACK", "x"},
                             {"RUBATO_ON_LOSS", "x"},
                             {"RUBATO_SILENCE", "x"},
                             {"RUBATO_RECONNECT", "x"},
                             {"RUBATO_PATIENCE", "x"},
                             {"RUBATO_BREAKS_MAX", "x"},
                             {"RUBATO_CHECK_FINITE", "x"},
                             {"RUBATO_ROWS_MAX", "x"},
                             {"RUBATO_BYTES_MAX", "x"},
                             {"RUBATO_LOG_FORMAT", "x"}});
  auto const d = place_of({"--coordinator", "unix:/x/y", "--listen", "127.0.0.1:7", "--beyond-loopback", "--on-loss",
                           "go-on", "--silence", "7", "--reconnect", "8", "--patience", "9", "--breaks-max", "10",
                           "--check-finite", "--rows-max", "11", "--bytes-max", "12", "--log-format", "json"});
  CHECK(d.coordinator.path == "/x/y");
  CHECK(d.silence == std::chrono::seconds(7));
  CHECK(d.breaks_max == 10);
  CHECK(d.limits.bytes_max == 12);
  CHECK_THROWS_WITH(place_of({"--coordinator", "unix:/x/y"}), Contains("RUBATO_LISTEN"));
}
