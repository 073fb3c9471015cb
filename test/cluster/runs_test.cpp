// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/cluster/cluster.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>

namespace rb = rubato;
using namespace std::chrono_literals;

namespace {

using doubles = std::vector<double>;
using dense_doubles = rb::dense<double>;

/// BSP on two rows, once in threads and once in virtual time.
template <class Transport>
using bsp_on = rb::cluster<Transport, rb::bsp, dense_doubles>;

template <class Transport>
std::unique_ptr<bsp_on<Transport>> make(std::uint32_t workers, std::uint32_t servers = 2) {
  return std::make_unique<bsp_on<Transport>>(
      Transport{.workers = workers, .servers = servers}, rb::bsp{}, dense_doubles{.rows = 2});
}

/// `clocks` steps, each of which adds 1 to the mean.
template <class Worker>
void train(Worker& worker, int clocks) {
  doubles w(2);
  doubles const one{1.0, 1.0};
  for (int c = 0; c < clocks; ++c) {
    worker.pull(w);
    worker.push(one);
    worker.step();
  }
}

}  // namespace

TEMPLATE_TEST_CASE("cluster: a body that throws ends the run with its exception, also for those "
                   "who wait for it; the next run is as good as new",
                   "", rb::in_process, rb::simulated) {
  auto cluster = make<TestType>(4);
  for (int again = 0; again < 2; ++again)
    CHECK_THROWS_WITH(cluster->run([](auto& worker) {
      train(worker, 3);
      if (worker.rank() == 2) throw std::runtime_error("out of data");
      for (;;) train(worker, 1);
    }),
                      "out of data");
  double const before = cluster->parameters()[0];
  auto const report = cluster->run([](auto& worker) { train(worker, 5); });
  CHECK(cluster->parameters() == doubles{before + 5, before + 5});
  CHECK(report.updates == 4 * 5);
  CHECK(report.servers.refused == 0);
}

TEMPLATE_TEST_CASE("cluster: a body that throws at once, or something that is no std::exception, "
                   "ends the run too",
                   "", rb::in_process, rb::simulated) {
  auto cluster = make<TestType>(3);
  CHECK_THROWS_AS(cluster->run([](auto& worker) {
    if (worker.rank() == 0) throw 42;
    train(worker, 1000);
  }),
                  int);
}

TEMPLATE_TEST_CASE("cluster: stop ends the run of workers that would go on for ever, and is no "
                   "error",
                   "", rb::in_process, rb::simulated) {
  auto cluster = make<TestType>(3);
  std::atomic<int> unwound = 0;
  auto const report = cluster->run([&](auto& worker) {
    struct counted {
      std::atomic<int>& n;
      ~counted() { ++n; }
    } const on_the_stack{unwound};
    for (;;) {
      train(worker, 1);
      if (worker.rank() == 1 && worker.clock() == rb::clock_index{4}) cluster->stop();
    }
  });
  CHECK(unwound == 3);
  // Who got to clock 4 had read at clock 3: three commits of each were in, and nobody is beyond.
  CHECK(report.updates >= 3 * 3);
  CHECK(report.updates <= 3 * 5);
  CHECK(cluster->run([](auto& worker) { train(worker, 1); }).updates == 3);
}

TEMPLATE_TEST_CASE("cluster: a body that swallows every std::exception does not keep the run alive",
                   "", rb::in_process, rb::simulated) {
  auto cluster = make<TestType>(2);
  CHECK_THROWS_AS(cluster->run([](auto& worker) {
    if (worker.rank() == 0) throw std::logic_error("first");
    for (;;) try {
        train(worker, 1);
      } catch (std::exception const&) {
      }
  }),
                  std::logic_error);
}

TEMPLATE_TEST_CASE("cluster: runs follow one another, with clocks anew and the parameters as they "
                   "were",
                   "", rb::in_process, rb::simulated) {
  doubles const start{5.0, -5.0};
  auto const cluster = std::make_unique<bsp_on<TestType>>(
      TestType{.workers = 4, .servers = 2}, rb::bsp{}, dense_doubles{.rows = 2, .init = start});
  CHECK(cluster->parameters() == start);
  CHECK(cluster->workers() == 4);
  for (int i = 1; i <= 3; ++i) {
    std::atomic<int> wrong = 0;  // Catch's macros are not for several threads
    auto const report = cluster->run([&](auto& worker) {
      wrong += worker.clock() != rb::clock_index{0};
      train(worker, 4);
      wrong += worker.clock() != rb::clock_index{4};
    });
    CHECK(wrong == 0);
    CHECK(report.updates == 16);
    CHECK(report.workers.size() == 4);
    CHECK(cluster->updates() == 16);
    CHECK(cluster->parameters() == doubles{5.0 + 4 * i, -5.0 + 4 * i});
  }
}

TEMPLATE_TEST_CASE("cluster: who ends early holds nobody up, and M is the number of commits of "
                   "each stamp (rules §1)",
                   "", rb::in_process, rb::simulated) {
  auto cluster = make<TestType>(4, 3);
  auto const report = cluster->run([](auto& worker) {
    doubles const u{static_cast<double>(12 * (worker.rank() + 1)), 1.0};
    doubles w(2);
    for (std::uint32_t c = 0; c <= 2 * worker.rank(); ++c) {
      worker.pull(w);
      worker.push(u);
      worker.step();
    }
  });
  // Ranks 0 to 3 make 1, 3, 5 and 7 commits.
  CHECK(cluster->parameters() == doubles{30 + 2 * 36 + 2 * 42 + 2 * 48, 7});
  CHECK(report.updates == 16);
}

namespace {

/// Five workers of 1 to 5 steps, each of which pushes 5: of weight 1/5, 15 in all.
template <class Transport, class Protocol>
double sum_of_unequal_workers(Protocol p) {
  rb::cluster<Transport, Protocol, dense_doubles> cluster(Transport{.workers = 5, .servers = 2}, p,
                                                          dense_doubles{.rows = 2});
  cluster.run([](auto& worker) {
    doubles w(2);
    for (std::uint32_t c = 0; c <= worker.rank(); ++c) {
      worker.pull(w);
      worker.push(doubles{5.0, 5.0});
      worker.step();
    }
  });
  auto const& sums = cluster.parameters();
  CHECK(sums[0] == sums[1]);
  return sums[0];
}

}  // namespace

TEMPLATE_TEST_CASE("cluster: outside of a barrier early finishers do not raise the others' weights (rules §4)", "",
                   rb::in_process, rb::simulated) {
  auto const run = [](rb::rules const& r) { return sum_of_unequal_workers<TestType>(r); };
  CHECK(run(with(rb::ssp{.staleness = 2}, rb::average{})) == 15);
  CHECK(run(with(rb::ssp{.staleness = 2}, rb::strict{}, rb::average{})) == 15);
  CHECK(run(rb::con_sgd{.staleness = 2}) == 15);
  CHECK(run(with(rb::asp{}, rb::stable_cut{}, rb::average{})) == 15);
  CHECK(run(with(rb::adsp{}, rb::every_step{})) == 15);
}

TEST_CASE("cluster: a worker that is lost does not count in M, one that has returned does (rules §4)") {
  rb::sim::scenario scenario;
  scenario.speed.work_cost = 1s;
  scenario.crashes = {{.worker = rb::worker_id{2}, .at = 500ms}};  // noticed after 100 ms
  rb::cluster cluster(rb::simulated{.workers = 3, .servers = 1, .scenario = scenario},
                      with(rb::asp{}, rb::average{}), dense_doubles{.rows = 1});
  cluster.run([](auto& worker) {
    for (int c = 0; c < (worker.rank() == 0 ? 4 : 1); ++c) {
      worker.push(doubles{2.0});
      worker.step();
    }
  });
  CHECK(cluster.parameters()[0] == 4 + 1);
}

TEMPLATE_TEST_CASE("cluster: a worker that a body adds joins at c_min, and is waited for from then "
                   "on (rules §1)",
                   "", rb::in_process, rb::simulated) {
  auto cluster = make<TestType>(2);
  std::mutex lock;
  std::vector<std::int64_t> started;
  std::vector<std::uint32_t> added;
  std::vector<std::uint32_t> counts(3);
  auto const report = cluster->run([&](auto& worker) {
    {
      std::lock_guard const guard(lock);
      if (worker.rank() >= 2) started.push_back(worker.clock().value());
      counts.at(worker.rank()) = worker.count();
    }
    doubles w(2);
    while (worker.clock() < rb::clock_index{20}) {
      worker.pull(w);
      if (worker.rank() == 0 && worker.clock() == rb::clock_index{7})
        added.push_back(cluster->add_worker());
      worker.push(doubles{1.0, 1.0});
      worker.step();
    }
  });
  CHECK(added == std::vector<std::uint32_t>{2});
  // So that a part of the data is the joiner's.
  CHECK(counts == std::vector<std::uint32_t>{2, 2, 3});
  REQUIRE(started.size() == 1);
  CHECK(started[0] >= 7);
  CHECK(started[0] <= 20);
  // Everybody has pushed once in every clock.
  for (double const x : cluster->parameters()) CHECK(x == Approx(20.0));
  CHECK(report.workers.size() == 3);
  CHECK(report.updates == 40 + 20 - static_cast<std::uint64_t>(started[0]));
}

TEMPLATE_TEST_CASE("cluster: adding a worker when no run is under way is a usage_error", "",
                   rb::in_process, rb::simulated) {
  auto cluster = make<TestType>(1);
  CHECK_THROWS_AS(cluster->add_worker(), rb::usage_error);
  cluster->run([](auto& worker) { train(worker, 1); });
  CHECK_THROWS_WITH(cluster->add_worker(), Catch::Contains("no run"));
}

TEMPLATE_TEST_CASE("cluster: observe shows the folded state during a run, and waits for nobody", "",
                   rb::in_process, rb::simulated) {
  auto cluster = make<TestType>(3);
  std::atomic<int> differing = 0;
  cluster->run([&](auto& worker) {
    doubles w(2);
    for (int c = 0; c < 10; ++c) {
      worker.pull(w);
      // Nobody can complete this clock before this worker has committed.
      auto const before = cluster->now();
      differing += cluster->observe() != w;
      if (std::is_same_v<TestType, rb::simulated>) differing += cluster->now() != before;
      worker.push(doubles{1.0, 2.0});
      differing += cluster->observe() != w;
      worker.step();
    }
  });
  CHECK(differing == 0);
  CHECK(cluster->observe() == cluster->parameters());
}
