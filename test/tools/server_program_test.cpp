// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Workers that train under protocols with a conductor against rubato-server in a process of its
// own.
#ifdef RUBATO_SERVER_PROGRAM
#include <catch2/catch.hpp>

#include <signal.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "process/children.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/machine_memory.hpp"
#include "rubato/protocol/ada_comm.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/tcp.hpp"
#include "tools/server_processes.hpp"
#include "tools/visitor.hpp"

using namespace rubato;
using Catch::Contains;

namespace {

/// What one worker process came to.
struct trainee_outcome {
  std::string error;
  std::vector<float> parameters;
  std::vector<pace_change> pace_changes;
};

/// Workers in threads of this process, each a worker process to the others. They add ones until
/// they have made so many commits, or are told that it is enough.
template <class Protocol>
class trainees {
 public:
  trainees(test::server_processes const& there, Protocol const& p, std::int64_t clocks)
      : clocks_(clocks), outcomes_(there.workers()) {
    for (std::uint32_t rank = 0; rank < there.workers(); ++rank)
      threads_.emplace_back([this, p, &mine = outcomes_[rank], transport = there.worker(rank)] {
        try {
          train(cluster{transport, p, dense<float>{.rows = 10}}, mine);
        } catch (std::exception const& e) {
          mine.error = e.what();
        }
      });
  }
  ~trainees() { enough(); }
  trainees(trainees const&) = delete;
  trainees& operator=(trainees const&) = delete;

  [[nodiscard]] std::int64_t pushed() const noexcept { return pushed_; }
  void enough() noexcept { enough_ = true; }
  /// Waits for their ends.
  [[nodiscard]] std::vector<trainee_outcome> const& outcomes() {
    threads_.clear();
    return outcomes_;
  }

 private:
  template <class Cluster>
  void train(Cluster c, trainee_outcome& mine) {
    mine.pace_changes = c.run([this](auto& w) { this->add_ones(w); }).pace_changes;
    mine.parameters = c.parameters();
  }

  template <class Worker>
  void add_ones(Worker& w) {
    std::vector<float> x(10);
    std::vector<float> const ones(10, 1);
    auto const give_up = std::chrono::steady_clock::now() + test::patience;
    while (!enough_ && w.clock().value() < clocks_ && std::chrono::steady_clock::now() < give_up) {
      w.pull(x);
      w.push(ones);
      ++pushed_;
      w.step();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  std::int64_t const clocks_;
  std::atomic<bool> enough_ = false;
  std::atomic<std::int64_t> pushed_ = 0;
  std::vector<trainee_outcome> outcomes_;
  std::vector<std::jthread> threads_;  // last: they use the others
};

constexpr std::int64_t endless = 1'000'000'000;
ada_comm const two_steps{.first_steps = 2};

test::server_plan ada_comm_plan(std::uint32_t workers, std::uint32_t servers) {
  return {.workers = workers,
          .servers = servers,
          .protocol = {"--protocol", "ada_comm", "--first-steps", "2"},
          .tables = {"--rows", "10"}};
}

test::server_plan one_of_each(test::words const& more) {
  auto plan = ada_comm_plan(1, 1);
  plan.tables.insert(plan.tables.end(), more.begin(), more.end());
  return plan;
}

/// Where the page is that this server has told of.
net::address page_of(test::child const& server) {
  std::string const text = server.value("metrics on");
  std::string const before = "http://";
  return net::address::parse(text.substr(before.size(), text.find("/metrics") - before.size()));
}

std::string const ready_please = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n";

/// The number that a page shows for this; nothing if none.
std::string shown(net::address const& page, std::string const& name) {
  std::string const answer = test::get(page, test::counters_please);
  auto const at = answer.find("\n" + name + " ");
  if (at == std::string::npos) return "";
  auto const begin = at + name.size() + 2;
  return answer.substr(begin, answer.find('\n', begin) - begin);
}

}  // namespace

TEST_CASE("workers under ADSP train with rubato-server, at the pace that it was told",
          "[process]") {
  test::server_processes there({.own_coordinator = GENERATE(false, true),
                                .protocol = {"--protocol", "adsp", "--check-period", "0.05",
                                             "--first-rate", "3", "--no-search"},
                                .tables = {"--rows", "10", "--lambda", "0.25"}});
  trainees all(there, adsp{.global_rate = 0.25}, 5);
  for (auto const& [error, parameters, pace_changes] : all.outcomes()) {
    CHECK(error == "");
    CHECK(parameters == std::vector<float>(10, 0.25f * static_cast<float>(all.pushed())));
    REQUIRE(pace_changes.size() == 1);
    CHECK(pace_changes[0].value == 3);
  }
  there.check_end();
}

TEST_CASE("a server that is asked to end while workers train does so, and they name it",
          "[process]") {
  bool const coordinates = GENERATE(false, true);
  test::server_processes there(ada_comm_plan(2, 2));
  trainees all(there, two_steps, endless);
  REQUIRE(test::comes_true([&] { return all.pushed() > 20; }));
  test::child& asked = there.server(coordinates ? 0 : 1);
  test::child& other = there.server(coordinates ? 1 : 0);
  asked.send(SIGTERM);
  CHECK(asked.wait() == 0);
  for (auto const& o : all.outcomes())
    if (coordinates)  // the other server ends with it, so they may miss any of the three first
      CHECK_THAT(o.error, Contains(" was lost"));
    else
      CHECK_THAT(o.error, Contains("server 1 ("));
  int const code = other.wait();
  CHECK(code == 1);
  CHECK_THAT(other.errors(), Contains(coordinates ? "the coordinator was lost" : "server 1 ("));
}

TEST_CASE("rubato-server logs who comes and goes only if asked to", "[process]") {
  bool const verbose = GENERATE(false, true);
  test::server_processes there(one_of_each(verbose ? test::words{"--verbose"} : test::words{}));
  trainees all(there, two_steps, 5);
  CHECK(all.outcomes()[0].error == "");
  there.check_end();
  std::string const log = there.server(0).errors();
  if (verbose)
    CHECK_THAT(log, Contains("rubato-server: server 0 is here\n") &&
                        Contains("rubato-server: worker 0 is here\n") && Contains(": connected\n"));
  else
    CHECK(log.empty());
}

TEST_CASE("rubato-server's page counts while workers train", "[process]") {
  test::server_processes there(one_of_each({"--metrics", "0"}));
  REQUIRE(there.server(0).prints("/metrics\n"));
  auto const page = page_of(there.server(0));
  CHECK(shown(page, "rubato_commits_total") == "0");
  CHECK(shown(page, "rubato_connections") == "0");
  CHECK_THAT(test::get(page, ready_please), Contains(" 503 "));
  trainees all(there, two_steps, endless);
  CHECK(test::comes_true([&] {
    std::string const commits = shown(page, "rubato_commits_total");
    return !commits.empty() && std::stoll(commits) > 5;
  }));
  CHECK(shown(page, "rubato_connections") == "1");
  CHECK(shown(page, "rubato_stage") == "1");
  CHECK(test::comes_true([&] { return shown(page, "rubato_coordinator_running") == "1"; }));
  CHECK(shown(page, "rubato_coordinator_workers") == "1");
  CHECK(shown(page, "rubato_coordinator_servers") == "1");
  CHECK(shown(page, "rubato_coordinator_handshakes_total") == "2");
  CHECK(std::stoll("0" + shown(page, "rubato_table_bytes")) >= 40);
  CHECK_THAT(test::get(page, ready_please), Contains(" 200 "));
  all.enough();
  CHECK(all.outcomes()[0].error == "");
  there.check_end();
}

TEST_CASE("rubato-server refuses tables beyond memory at once, by the option's name", "[process]") {
  test::scratch const here;
  std::string const rows = std::to_string(machine_memory() / 4 + 1);
  test::child refused(here.path() / "server", {RUBATO_SERVER_PROGRAM, "--rows", "10," + rows}, {});
  CHECK(refused.wait() == 2);
  CHECK_THAT(refused.errors(),
             Contains("--rows") && Contains("table 1: " + rows + " rows") && Contains("iB of memory"));
}

TEST_CASE("rubato-server ends by the signal that comes while it asks where its rows are", "[process]") {
  test::scratch const here;
  // 500 million keys to be asked for, of which one run comes: time, and no memory.
  test::child asked(here.path() / "server",
                    {RUBATO_SERVER_PROGRAM, "--rows", "500000000", "--partition", "hash", "--listen",
                     "unix:" + (here.path() / "s").string(), "--coordinator", "unix:" + (here.path() / "c").string()},
                    {});
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  asked.send(SIGTERM);
  CHECK(asked.wait() == 128 + SIGTERM);
  CHECK(asked.output().empty());
}

TEST_CASE("a worker that pushes NaN to a server that checks is cut off, and hears why", "[process]") {
  test::server_processes there(one_of_each({"--check-finite", "--log-format", "keyvalue"}));
  std::string said;
  try {
    cluster c{there.worker(0), two_steps, dense<float>{.rows = 10}};
    c.run([](auto& w) {
      for (int i = 0; i < 100; ++i) {
        w.push(std::vector<float>(10, std::numeric_limits<float>::quiet_NaN()));
        w.step();
        std::vector<float> x(10);
        w.pull(x);
      }
    });
  } catch (lost_error const& e) {
    said = e.what();
  }
  CHECK_THAT(said, Contains("server 0") && Contains("NaN") && Contains("check_finite"));
  (void)there.server(0).wait();
  CHECK_THAT(there.server(0).errors(), Contains("level=warning program=rubato-server message=\""));
}
#endif
