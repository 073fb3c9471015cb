// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Protocols whose workers wait for something else than the slowest one's clock, whichever way they are carried: all go
// on to the end, and every update counts once.
#include <catch2/catch.hpp>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/protocol/dssp.hpp>
#include <rubato/protocol/fed_avg.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/psp.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/vap.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/transport/tcp.hpp>

#include "transport/processes/server_process_bench.hpp"
#include "transport/processes/serving.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

constexpr std::uint32_t worker_count = 4;
constexpr std::int64_t clock_count = 100;
constexpr std::size_t rows_of_it = 3;

std::vector<rules> by_other_admissions() {
  return {psp{.staleness = 1, .sample = 2, .of = worker_count}, dssp{.low = 1, .high = 4}, vap{.first = 0},
          vap{.first = 20}, with(rules(fed_avg{.clients = 2, .of = worker_count}), sum{})};
}

std::uint32_t servers_of(rules const& p) { return p.admission.limits() ? 1 : 2; }

/// Adds up, also without a read in between, and ends at a clock of its own.
template <class Worker>
void add_up(Worker& worker) {
  std::vector<double> w(rows_of_it), one(rows_of_it, 1);
  for (std::int64_t n = 0; n < clock_count + worker.rank(); ++n) {
    if (n % 3 != 0) worker.pull(w);
    worker.push(one);
    worker.step();
  }
}
constexpr double all_together = worker_count * clock_count + worker_count * (worker_count - 1) / 2.0;

template <class Transport>
double sum_of(Transport transport, rules const& p) {
  cluster c{std::move(transport), p, dense<double>{.rows = rows_of_it}};
  c.run([](auto& worker) { add_up(worker); });
  return c.parameters()[1];
}

/// In processes that this program plays; what the last worker reads once all have ended.
double sum_over_tcp(rules const& p, int number) {
  net::deployment place;
  place.coordinator.path = "/tmp/rubato-admissions-" + std::to_string(::getpid()) + "-" + std::to_string(number);
  place.silence = 10s;
  place.patience = 20s;
  place.servers = servers_of(p);
  place.workers = worker_count;
  double sum = 0;
  auto const play = [&](net::role as, std::uint32_t rank) {
    return std::thread([place, as, rank, &p, &sum]() mutable {
      place.as = as;
      place.rank = rank;
      cluster c{tcp{.place = place}, p, dense<double>{.rows = rows_of_it}};
      c.run([](auto& worker) { add_up(worker); });
      c.run([&sum](auto& worker) {
        std::vector<double> w(rows_of_it);
        worker.pull(w);
        if (worker.rank() == 0) sum = w[1];
      });
    });
  };
  std::vector<std::thread> all;
  all.push_back(play(net::role::coordinator, 0));
  for (std::uint32_t s = 0; s < place.servers; ++s) all.push_back(play(net::role::server, s));
  for (std::uint32_t w = 0; w < worker_count; ++w) all.push_back(play(net::role::worker, w));
  for (auto& t : all) t.join();
  return sum;
}

}  // namespace

TEST_CASE("who waits for some, or by value, goes on in every transport", "[threads]") {
  int number = 0;
  for (rules const& p : by_other_admissions()) {
    INFO(p.name);
    std::uint32_t const servers = servers_of(p);
    CHECK(sum_of(in_process{.workers = worker_count, .servers = servers}, p) == all_together);
    CHECK(sum_of(in_process{.workers = worker_count, .servers = servers, .process_cache = true}, p) == all_together);
    sim::scenario const uneven{.speed = {.work_cost = 1ms, .slowness = {1, 1.3, 1, 3}, .jitter = sim::uniform{0.5, 2}}};
    CHECK(sum_of(simulated{.workers = worker_count, .servers = servers, .scenario = uneven}, p) == all_together);
    CHECK(sum_over_tcp(p, number++) == all_together);
  }
}

TEMPLATE_TEST_CASE("a run that begins with other workers than its admission draws among is refused", "", in_process,
                   simulated) {
  auto const run_with = [](std::uint32_t workers) {
    psp const among_four{.staleness = 1, .sample = 2, .of = worker_count};
    cluster c{TestType{.workers = workers}, among_four, dense<double>{.rows = 2}};
    c.run([](auto& worker) { worker.commit(); });
  };
  CHECK_NOTHROW(run_with(worker_count));
  CHECK_THROWS_WITH(run_with(worker_count + 1),
                    Catch::Contains("run: it begins with 5 workers, expected 4, of which psp draws some"));
  CHECK_THROWS_AS(run_with(worker_count - 1), option_error);
}

TEST_CASE("between processes of several threads an admission draws among all of these", "[tcp]") {
  test::silence_in_log const silence;
  dense<double> const table{.rows = 2};
  psp const among_four{.of = 4};
  std::uint32_t const threads = GENERATE(1U, 2U);
  test::serving const run({.workers = 2, .servers = 1}, among_four, {describe(table)});
  std::vector<std::string> refused(2);
  test::in_processes(2, [&](std::uint32_t rank) {
    try {
      cluster c{run.process(rank, threads), among_four, table};
      c.run([](auto& worker) { worker.commit(); });
    } catch (option_error const& e) {
      refused[rank] = e.what();
    } catch (error const&) {  // it has heard that the other was refused, or that it is gone
      if (threads == 2) throw;
    }
  });
  std::string const sentence = refused[0].empty() ? refused[1] : refused[0];
  if (threads == 2) CHECK(sentence.empty());
  else CHECK_THAT(sentence, Catch::Contains("run: it begins with 2 workers, expected 4"));
}
