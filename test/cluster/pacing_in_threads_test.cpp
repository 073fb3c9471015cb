// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Conducted paces where workers are threads, in wall time. A machine that stalls for a while breaks
// nothing here: what depends on time is exact in virtual time, and threads are held to what is so
// whenever they run.

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/metrics/implicit_momentum.hpp>
#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/conductor.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/rate_conductor.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/concepts.hpp>
#include <rubato/transport/in_process.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/endpoint.hpp>

#include "asleep.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

using weights = dense<double>;
using doubles = std::vector<double>;
constexpr std::uint64_t rows = 8;

/// Who committed when.
class times_of_commits {
 public:
  explicit times_of_commits(std::uint32_t workers) : times_(workers) {}

  void add(std::uint32_t w, time_point t) {
    std::lock_guard const guard(lock_);
    times_[w].push_back(t);
  }
  /// The greatest difference in commits between two workers at that time. After the run.
  [[nodiscard]] std::int64_t spread_at(time_point t) const {
    std::vector<std::int64_t> made;
    for (auto const& own : times_)
      made.push_back(std::ranges::count_if(own, [&](time_point c) { return c <= t; }));
    auto const [least, most] = std::ranges::minmax(made);
    return most - least;
  }
  [[nodiscard]] std::vector<std::size_t> counts() const {
    std::lock_guard const guard(lock_);
    std::vector<std::size_t> made;
    for (auto const& own : times_) made.push_back(own.size());
    return made;
  }

 private:
  mutable std::mutex lock_;
  std::vector<std::vector<time_point>> times_;
};

/// The training body, the same for virtual and for wall time. `compute` takes its time in process;
/// the simulator goes by the units of work.
template <class GoesOn, class Compute>
auto training(GoesOn goes_on, times_of_commits& times, Compute compute) {
  return [goes_on, &times, compute](auto& worker) {
    doubles w(rows);
    doubles u(rows);
    while (goes_on(worker.now())) {
      worker.pull(w);
      for (std::size_t i = 0; i < rows; ++i) u[i] = 0.01 - 0.1 * w[i];
      worker.push(u);
      compute();
      if (worker.step(1000)) times.add(worker.rank(), worker.now());
    }
  };
}

/// How many of the checkpoints saw all workers within one commit.
int within_one(times_of_commits const& times, duration period, int checkpoints) {
  int good = 0;
  for (int k = 1; k <= checkpoints; ++k) good += times.spread_at(time_point(k * period)) <= 1;
  return good;
}

/// What no run here comes near: whoever waits for something that does not come ends then.
constexpr time_point much_too_late(60s);

/// The numbers of commits that workers are told to have made at the end of a check period, by its start.
class commit_targets {
 public:
  void add(commit_quota const& order) {
    std::lock_guard const guard(lock_);
    by_start_[order.start].insert(order.done.value() + order.commits);
  }
  /// After the run.
  [[nodiscard]] std::map<time_point, std::set<std::int64_t>> const& by_start() const { return by_start_; }

 private:
  std::mutex lock_;
  std::map<time_point, std::set<std::int64_t>> by_start_;
};

/// Hears what its worker is told.
class overheard final : public endpoint_decorator {
 public:
  overheard(endpoint& inner, commit_targets& targets) : endpoint_decorator(inner), targets_(targets) {}

  std::optional<conductor::order> take_order() override {
    auto const taken = inner().take_order();
    if (!taken) return taken;
    commit_quota quota;
    if (taken->size() != sizeof quota) throw std::logic_error("this is no quota");
    std::memcpy(&quota, taken->data(), sizeof quota);
    targets_.add(quota);
    return taken;
  }

 private:
  commit_targets& targets_;
};

/// No time passes for its worker before it pauses.
class punctual final : public endpoint_decorator {
 public:
  using endpoint_decorator::endpoint_decorator;

  [[nodiscard]] time_point now() const override { return has_paused_ ? inner().now() : time_point(); }
  void pause(time_point until) override {
    inner().pause(until);
    has_paused_ = true;
  }

 private:
  bool has_paused_ = false;
};

std::vector<std::int64_t> values(run_report const& r) {
  std::vector<std::int64_t> all;
  for (pace_change const& c : r.pace_changes) all.push_back(c.value);
  return all;
}

/// Waits for what other threads do, without a time limit of its own.
template <class Until>
void wait_for(Until until) {
  while (!until()) std::this_thread::sleep_for(100us);
}

/// One step, then a pause until the time it is told.
struct one_step_until {
  time_point at;

  [[nodiscard]] commit_due due(pace_point const&) const noexcept {
    return {.at = at, .steps_max = 1};
  }
};
static_assert(pace_policy<one_step_until>);

}  // namespace

TEST_CASE("adsp in threads: slowed workers commit as often as the others, at nearly all "
          "checkpoints within one",
          "[cluster][adsp]") {
  constexpr std::uint32_t workers = 3;
  constexpr duration period = 100ms;
  constexpr int checkpoints = 12;
  constexpr std::int64_t rate = 2;
  std::vector<double> const slowness{1, 2, 6};
  adsp const protocol{.check_period = period, .first_rate = rate, .search = false};

  // In virtual time it is exact.
  times_of_commits virtual_times(workers);
  cluster simulation{simulated{.workers = workers, .scenario = {.speed = {.slowness = slowness}}}, protocol,
                     weights{.rows = rows}};
  time_point const end(checkpoints * period + period / 2);
  auto const exact =
      simulation.run(training([&](time_point now) { return now < end; }, virtual_times, [] {}));
  CHECK(within_one(virtual_times, period, checkpoints) == checkpoints);
  CHECK(std::ranges::min(virtual_times.counts()) >= rate * checkpoints);
  CHECK(exact.workers[0].steps > exact.workers[1].steps);
  CHECK(exact.workers[1].steps > exact.workers[2].steps);

  // Threads, until the slowest has made so many commits.
  constexpr std::size_t enough = rate * (checkpoints - 2);
  times_of_commits times(workers);
  commit_targets targets;
  decorated const transport{in_process{.workers = workers, .servers = 2, .slowness = slowness},
                            [&](endpoint& e, worker_id) { return std::make_unique<overheard>(e, targets); }};
  cluster c{transport, protocol, weights{.rows = rows}};
  auto const goes_on = [&](time_point now) {
    return now < much_too_late && std::ranges::min(times.counts()) < enough;
  };
  static constexpr duration computes = 1ms;
  auto const report = c.run(training(goes_on, times, [] { std::this_thread::sleep_for(computes); }));
  auto const counts = times.counts();
  CHECK(std::ranges::min(counts) >= enough);
  for (std::uint32_t w = 0; w < workers; ++w) {
    worker_metrics const& m = report.workers[w];
    CHECK(m.wait == 0ns);
    CHECK(m.commits >= counts[w]);
    CHECK(m.commits <= counts[w] + 1);  // the rest goes when the body ends
    CHECK(m.steps >= m.commits - 1);
    CHECK(static_cast<double>(m.steps) * slowness[w] * to_seconds(computes) <= to_seconds(report.elapsed));
  }
  // All are told to have made as many commits at a checkpoint, and R more at the next one.
  CHECK_FALSE(targets.by_start().empty());
  std::int64_t last = 0;
  for (auto const& [start, told] : targets.by_start()) {
    INFO("the period from " << to_seconds(start.since_start()) << " s on");
    CHECK(told.size() == 1);
    CHECK(*told.begin() >= last + rate);
    last = *told.begin();
  }
  CHECK(report.updates == report.total().commits);
  CHECK(values(report) == std::vector<std::int64_t>{rate});
  CHECK(report.implicit_momentum() > 0);
  CHECK(report.implicit_momentum() < 1);
  doubles taus;
  for (auto const& m : report.workers)
    if (m.commits != 0) taus.push_back(static_cast<double>(m.steps) / static_cast<double>(m.commits));
  CHECK(report.implicit_momentum() == Approx(implicit_momentum(taus)));
}

TEST_CASE("adsp in threads: who joins gets its quota, and commits", "[cluster][adsp]") {
  cluster c{in_process{.workers = 2, .servers = 2},
            adsp{.check_period = 10ms, .first_rate = 2, .search = false}, weights{.rows = rows}};
  std::atomic<int> of_joiner = 0;
  std::atomic<std::int64_t> began = -1;
  auto const report = c.run([&](auto& worker) {
    doubles w(rows);
    doubles const u(rows, 1.0);
    if (worker.rank() == 2) began = worker.clock().value();
    bool added = worker.rank() != 0;
    while (of_joiner < 5) {
      worker.pull(w);
      worker.push(u);
      std::this_thread::sleep_for(200us);
      of_joiner += worker.step() && worker.rank() == 2;
      if (!added && worker.clock() >= clock_index{3}) {
        c.add_worker();
        added = true;
      }
    }
  });
  REQUIRE(report.workers.size() == 3);
  CHECK(began >= 0);
  CHECK(report.workers[2].commits >= 5);
  for (auto const& m : report.workers) CHECK(m.wait == 0ns);
}

TEST_CASE("adsp in threads: the search goes by the loss that the run evaluates, side by side with "
          "the workers",
          "[cluster][adsp]") {
  // Never faster: 2, 3, and 2 for the rest of the epoch; no 3 where a stall lost some losses.
  cluster c{in_process{.workers = 3, .servers = 2},
            adsp{.check_period = 5ms,
                 .epoch = 1h,
                 .probe_period = 20ms,
                 .first_rate = 2,
                 .search = true,
                 .samples = 9},
            weights{.rows = rows}};
  std::atomic<int> evaluated = 0;
  std::atomic<bool> bad_size = false;
  auto const report = c.run(
      [&](auto& worker) {
        doubles w(rows);
        doubles const u(rows, 1.0);
        while (worker.now() < time_point(100ms)) {
          worker.pull(w);
          worker.push(u);
          worker.report_loss(-1e9);  // nobody asks
          worker.step();
        }
      },
      [&](doubles const& w) {
        bad_size = bad_size || w.size() != rows;
        ++evaluated;
        return 1.0;
      });
  CHECK(evaluated >= 1);
  CHECK_FALSE(bad_size);
  // A tick may come so late that the run has ended before.
  auto const v = values(report);
  REQUIRE(!v.empty());
  std::vector<std::int64_t> const tried{2, 3, 2}, gave_up{2, 2};
  REQUIRE(v.size() <= tried.size());
  CHECK((v == gave_up || std::equal(v.begin(), v.end(), tried.begin())));
}

TEST_CASE("ada_comm in threads: the period follows the loss that the run evaluates, and all "
          "workers change at the same clock",
          "[cluster][ada_comm]") {
  constexpr std::uint32_t workers = 4;
  cluster c{in_process{.workers = workers, .servers = 2},
            ada_comm{.first_steps = 16, .interval = 10ms}, weights{.rows = rows}};
  std::atomic<int> evaluated = 0;
  std::mutex lock;
  std::map<std::int64_t, std::set<std::int64_t>> steps_by_clock;
  auto const report = c.run(
      [&](auto& worker) {
        doubles w(rows);
        doubles const u(rows, 1.0);
        while (evaluated < 7) {
          worker.pull(w);
          worker.push(u);
          std::int64_t const clock = worker.clock().value();
          std::int64_t const steps = worker.steps_since_commit() + 1;
          if (!worker.step()) continue;
          std::lock_guard const guard(lock);
          steps_by_clock[clock].insert(steps);
        }
      },
      [&](doubles const&) {
        ++evaluated;
        return 1.0;
      });
  auto const v = values(report);
  REQUIRE(v.size() >= 5);
  CHECK(v == std::vector<std::int64_t>{16, 8, 4, 2, 1});
  for (auto const& [clock, steps] : steps_by_clock) {
    INFO("clock " << clock);
    CHECK(steps.size() == 1);
  }
  CHECK(*steps_by_clock.begin()->second.begin() == 16);
}

TEST_CASE("ada_comm in threads: without an evaluated loss it goes by what bodies report",
          "[cluster][ada_comm]") {
  constexpr duration interval = 100ms;
  ada_comm const protocol{.first_steps = 16, .interval = interval};
  std::vector<std::int64_t> const expected{16, 2, 1};
  // All that is reported in the first tenth of an interval counts as what it begins with.
  cluster simulation{simulated{.workers = 3}, protocol, weights{.rows = rows}};
  auto const exact = simulation.run([&](auto& worker) {
    doubles w(rows);
    doubles const u(rows, 1.0);
    while (worker.now() < time_point(2 * interval + interval / 2)) {
      worker.pull(w);
      worker.push(u);
      worker.step(1000);
      worker.report_loss(worker.now() < time_point(interval / 10) ? 4.0 : 0.04);
    }
  });
  CHECK(values(exact) == expected);

  // So does the very first report, which comes later here.
  cluster c{in_process{.workers = 3, .servers = 2}, protocol, weights{.rows = rows}};
  std::latch first(1);
  auto const report = c.run([&](auto& worker) {
    doubles w(rows);
    doubles const u(rows, 1.0);
    if (worker.rank() == 0) {
      wait_for([&] { return worker.now() >= time_point(interval / 10); });
      worker.report_loss(4.0);
      first.count_down();
    }
    first.wait();
    for (bool has_shrunk = false; !has_shrunk && worker.now() < much_too_late;) {
      worker.pull(w);
      worker.push(u);
      bool const is_one_step = worker.steps_since_commit() == 0;
      has_shrunk = worker.step() && is_one_step;
      worker.report_loss(0.04);
    }
  });
  CHECK(values(report) == expected);
}

TEST_CASE("ada_comm in threads: who joins makes as many steps as the others",
          "[cluster][ada_comm]") {
  cluster c{in_process{.workers = 2, .servers = 2},
            ada_comm{.first_steps = 16, .interval = 5ms}, weights{.rows = rows}};
  std::mutex lock;
  std::map<std::int64_t, std::set<std::int64_t>> steps_by_clock;
  std::atomic<int> of_joiners = 0;
  std::atomic<int> joined = 0;
  std::atomic<int> evaluated = 0;
  auto const report = c.run(
      [&](auto& worker) {
        doubles w(rows);
        doubles const u(rows, 1.0);
        while (evaluated < 6 || of_joiners < 40 || joined < 4) {
          worker.pull(w);
          worker.push(u);
          std::int64_t const clock = worker.clock().value();
          std::int64_t const steps = worker.steps_since_commit() + 1;
          if (!worker.step()) continue;
          of_joiners += worker.rank() >= 2;
          // One after each change, by the first worker.
          if (worker.rank() == 0 && joined < std::min(4, evaluated.load() - 1)) {
            c.add_worker();
            ++joined;
          }
          std::lock_guard const guard(lock);
          steps_by_clock[clock].insert(steps);
        }
      },
      [&](doubles const&) {
        ++evaluated;
        return 1.0;
      });
  CHECK(report.workers.size() == 6);
  for (auto const& [clock, steps] : steps_by_clock) {
    INFO("clock " << clock);
    CHECK(steps.size() == 1);
  }
}

TEST_CASE("conductor in threads: a loss that throws ends the run and is rethrown; the next run is "
          "as good as new",
          "[cluster]") {
  cluster c{in_process{.workers = 3, .servers = 2},
            ada_comm{.first_steps = 2, .interval = 1ms}, weights{.rows = rows}};
  auto const body = [](auto& worker) {
    doubles w(rows);
    doubles const u(rows, 1.0);
    for (;;) {
      worker.pull(w);
      worker.push(u);
      worker.step();
    }
  };
  for (int again = 0; again < 2; ++again) {
    std::atomic<int> calls = 0;
    CHECK_THROWS_WITH(c.run(body,
                            [&](doubles const&) -> double {
                              if (++calls == 3) throw std::runtime_error("no test data");
                              return 1.0;
                            }),
                      "no test data");
    CHECK(calls == 3);
  }
  CHECK_THROWS_AS(c.run(body, [](doubles const&) -> double { throw 42; }), int);
  auto const report = c.run(
      [](auto& worker) {
        doubles const u(rows, 1.0);
        worker.push(u);
        worker.step();
        worker.step();
      },
      [](doubles const&) { return 1.0; });
  CHECK(report.total().commits == 3);
}

TEST_CASE("conductor in threads: a run that ends while the loss is computed waits for it",
          "[cluster]") {
  for (bool const throws : {false, true}) {
    cluster c{in_process{.workers = 2, .servers = 1},
              ada_comm{.first_steps = 2, .interval = 1h}, weights{.rows = rows}};
    std::atomic<bool> begun = false;
    std::atomic<int> ended = 0;
    std::atomic<bool> done = false;
    auto const run = [&] {
      return c.run(
          [&](auto& worker) {
            doubles const u(rows, 1.0);
            wait_for([&] { return begun.load(); });
            worker.push(u);
            worker.step();
            ++ended;
          },
          [&](doubles const&) {
            begun = true;
            // It is all that is left to wait for.
            wait_for([&] { return ended == 2 && test::all_others_slept(); });
            done = true;
            if (throws) throw std::runtime_error("too late");
            return 1.0;
          });
    };
    if (throws) CHECK_THROWS_WITH(run(), "too late");
    else CHECK(run().total().commits == 2);
    CHECK(done);
  }
}

TEST_CASE("conductor in threads: runs follow one another, each with decisions of its own",
          "[cluster]") {
  cluster c{in_process{.workers = 2, .servers = 2},
            ada_comm{.first_steps = 16, .interval = 1ms}, weights{.rows = rows}};
  for (int again = 0; again < 3; ++again) {
    std::atomic<int> evaluated = 0;
    auto const report = c.run(
        [&](auto& worker) {
          doubles const u(rows, 1.0);
          while (evaluated < 4) {
            worker.push(u);
            worker.step();
          }
        },
        [&](doubles const&) {
          ++evaluated;
          return 1.0;
        });
    auto const v = values(report);
    REQUIRE(v.size() >= 3);
    CHECK(std::vector(v.begin(), v.begin() + 3) == std::vector<std::int64_t>{16, 8, 4});
    CHECK(report.pace_changes.front().at == time_point());
  }
  adsp const paced{.check_period = 1ms, .first_rate = 3, .search = false};
  cluster d{in_process{.workers = 2}, paced, weights{.rows = rows}};
  for (int again = 0; again < 3; ++again) {
    std::atomic<int> commits = 0;
    auto const report = d.run([&](auto& worker) {
      doubles const u(rows, 1.0);
      while (commits < 20) {
        worker.push(u);
        commits += worker.step();
      }
    });
    CHECK(values(report) == std::vector<std::int64_t>{3});
  }
}

TEST_CASE("pause in threads: stopping a run wakes those who pause", "[cluster]") {
  for (time_point const deadline : {time_point(1h), time_point(24h * 365)}) {
    cluster c{in_process{.workers = 3}, with(asp{}, one_step_until{deadline}),
              weights{.rows = rows}};
    std::atomic<int> pausing = 0;
    std::atomic<int> went_on = 0;
    c.run([&](auto& worker) {
      if (worker.rank() == 0) {
        wait_for([&] { return pausing == 2 && test::all_others_slept(); });
        c.stop();
        return;
      }
      ++pausing;
      worker.step();
      ++went_on;
    });
    CHECK(went_on == 0);
  }
}

TEST_CASE("pause in threads: it is over when the commit is due, and counts as waiting",
          "[cluster]") {
  cluster c{in_process{.workers = 2}, with(asp{}, one_step_until{time_point(30ms)}),
            weights{.rows = rows}};
  std::atomic<int> early = 0;
  auto const report = c.run([&](auto& worker) {
    doubles const u(rows, 1.0);
    worker.push(u);
    if (!worker.step() || worker.now() < time_point(30ms)) ++early;
  });
  CHECK(early == 0);
  CHECK(report.total().commits == 2);
  for (auto const& m : report.workers) CHECK(m.wait <= report.elapsed);

  // Who is not held up before waits all of the time.
  decorated const transport{in_process{.workers = 2},
                            [](endpoint& e, worker_id) { return std::make_unique<punctual>(e); }};
  cluster d{transport, with(asp{}, one_step_until{time_point(30ms)}), weights{.rows = rows}};
  auto const in_time = d.run([](auto& worker) { worker.step(); });
  for (auto const& m : in_time.workers) {
    CHECK(m.wait >= 30ms);
    CHECK(m.wait <= in_time.elapsed);
  }
}

TEST_CASE("conductor in threads: ticks, losses, reports, joiners and a stop, all at once",
          "[cluster]") {
  for (int round = 0; round < 3; ++round) {
    cluster c{in_process{.workers = 4, .servers = 3},
              adsp{.check_period = 100us,
                   .epoch = 1ms,
                   .probe_period = 200us,
                   .first_rate = 1,
                   .search = true,
                   .samples = 9},
              weights{.rows = rows}};
    std::atomic<int> commits = 0;
    std::atomic<int> joined = 0;
    auto const body = [&](auto& worker) {
      doubles w(rows);
      doubles const u(rows, 0.001);
      std::int64_t steps = 0;
      while (steps < 4000) {
        worker.pull(w);
        worker.push(u);
        worker.report_loss(1.0 / static_cast<double>(1 + steps));
        commits += worker.step();
        ++steps;
        if (steps == 100 && joined < 4 && ++joined <= 4) c.add_worker();
        if (round == 2 && commits > 50) c.stop();
        if (worker.rank() % 2 == 1 && steps > 2000) return;
      }
    };
    auto const report = round == 0 ? c.run(body) : c.run(body, [&](doubles const& w) {
      return 1 / (1 + w[0]);
    });
    CHECK(report.workers.size() <= 8);
    CHECK(report.servers.refused == 0);
    for (auto const& m : report.workers) CHECK(m.wait == 0ns);
  }
}

TEST_CASE("adsp in threads: a loss that takes longer than a check period makes nobody commit more",
          "[cluster][adsp]") {
  constexpr std::int64_t rate = 5;
  constexpr int periods = 12;
  cluster c{in_process{.workers = 2},
            adsp{.check_period = 20ms,
                 .epoch = 1h,
                 .probe_period = 10min,
                 .first_rate = rate,
                 .search = true,
                 .samples = 100'000},
            weights{.rows = rows}};
  auto const report = c.run(
      [&](auto& worker) {
        doubles const u(rows, 1.0);
        while (worker.now() < time_point(periods * 20ms)) {
          worker.push(u);
          std::this_thread::sleep_for(100us);
          worker.step();
        }
      },
      [](doubles const&) {
        std::this_thread::sleep_for(15ms);
        return 1.0;
      });
  // A stalled machine makes fewer; one more each for what is pushed last.
  for (auto const& m : report.workers) CHECK(m.commits <= rate * (periods + 1) + 1);
}
