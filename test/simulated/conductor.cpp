// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The coordinator's half of a pace in virtual time: when it is called, and what it does not keep
// alive.
#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <rubato/cluster/cluster.hpp>
#include <rubato/core/error.hpp>
#include <rubato/core/run_stopped.hpp>
#include <rubato/protocol/ada_comm.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/transport/concepts.hpp>
#include <rubato/transport/simulated.hpp>
#include <rubato/worker/endpoint.hpp>

#include "simulated/quiet.hpp"

using namespace rubato;
using namespace std::chrono_literals;

namespace {

/// Admits a read at clock c once everybody is at c + 1: nobody ever is.
struct asks_too_much {
  [[nodiscard]] staleness bound() const noexcept { return 0; }
  [[nodiscard]] clock_index need(clock_index c, staleness) const noexcept { return c.next(); }
  [[nodiscard]] clock_index cache_need(clock_index c, staleness) const noexcept { return c; }
};
static_assert(admission_policy<asks_too_much>);

/// Due every 100 ms; who has made three steps pauses until then.
struct three_steps {
  [[nodiscard]] commit_due due(pace_point const& p) const noexcept {
    return {.at = time_point((p.clock.value() + 1) * 100ms), .steps_max = 3};
  }
};
static_assert(pace_policy<three_steps>);

using test::doubles, test::quiet, test::until;

template <class Cluster>
void no_more_events_than(Cluster& c, std::uint64_t most) {
  c.runtime().on_event([left = most]() mutable {
    if (left-- == 0) throw std::runtime_error("the run does not end");
  });
}

}  // namespace

TEST_CASE("pause: who has made the most steps that its pace allows sleeps until the commit is due",
          "[simulated]") {
  cluster c{simulated{.workers = 1, .scenario = quiet()}, with(asp{}, three_steps{}),
            dense<double>{.rows = 2}};
  auto const report = c.run(until(1s));
  auto const& w = report.workers[0];
  CHECK(report.elapsed == 1s);
  CHECK(w.commits == 10);
  CHECK(w.steps == 30);
  CHECK(w.wait == 10 * 70ms);
  CHECK(w.compute == 10 * 30ms);
  CHECK(w.send == 0ns);
}

TEST_CASE("pause: stopping a run ends it in virtual time too", "[simulated]") {
  cluster c{simulated{.workers = 2, .scenario = quiet(2)}, with(asp{}, three_steps{}),
            dense<double>{.rows = 2}};
  c.runtime().on_event([&] {
    if (c.now() >= time_point(50ms)) c.stop();
  });
  CHECK(c.run(until(1h)).elapsed <= 100ms);
}

TEST_CASE("pause: it is waiting also where it is cut short", "[simulated]") {
  auto const hears_of_it = [](endpoint& inner, worker_id) -> std::unique_ptr<endpoint> {
    struct cut_short : endpoint_decorator {
      using endpoint_decorator::endpoint_decorator;
      void pause(time_point t) override {
        endpoint_decorator::pause(t);
        throw run_stopped{};
      }
    };
    return std::make_unique<cut_short>(inner);
  };
  cluster c{decorated{simulated{.workers = 1, .scenario = quiet()}, hears_of_it}, with(asp{}, three_steps{}),
            dense<double>{.rows = 2}};
  auto const report = c.run([](auto& w) {
    for (int i = 0; i < 4; ++i) w.step();
  });
  CHECK(report.workers[0].compute == 30ms);
  CHECK(report.workers[0].wait == 70ms);
}

TEST_CASE("conductor: ticks that go on for ever do not keep a deadlocked run alive",
          "[simulated]") {
  auto const check = [](auto protocol, bool evaluated) {
    cluster c{simulated{.workers = 2, .servers = 2}, protocol, dense<double>{.rows = 2}};
    no_more_events_than(c, 100'000);
    auto const body = until(1h);
    if (evaluated)
      CHECK_THROWS_AS(c.run(body, [](auto const&) { return 1.0; }), deadlock_error);
    else
      CHECK_THROWS_AS(c.run(body), deadlock_error);
    CHECK_THROWS_WITH(c.run(body), Catch::Contains("worker 1 at clock 0"));
  };
  for (bool const evaluated : {false, true}) {
    check(with(adsp{.check_period = 1ms, .epoch = 10ms, .probe_period = 1ms}, asks_too_much{}),
          evaluated);
    check(with(ada_comm{.interval = 1ms}, asks_too_much{}), evaluated);
  }
}

TEST_CASE("conductor: a run that ends does not go on for its ticks", "[simulated]") {
  cluster c{simulated{.workers = 2, .scenario = quiet(2)},
            adsp{.check_period = 1ms, .search = false}, dense<double>{.rows = 2}};
  no_more_events_than(c, 100'000);
  CHECK(c.run(until(1s)).elapsed == 1s);
  CHECK(c.run([](auto&) {}).elapsed == 0s);
}

TEST_CASE("conductor: an evaluated loss that is no number does not stop time", "[simulated]") {
  for (double const loss : {std::nan(""), HUGE_VAL}) {
    auto const check = [&](auto protocol) {
      cluster c{simulated{.workers = 1, .scenario = quiet()}, protocol, dense<double>{.rows = 2}};
      no_more_events_than(c, 100'000);
      CHECK(c.run(until(2s), [&](auto const&) { return loss; }).elapsed == 2s);
    };
    check(adsp{.check_period = 100ms, .epoch = 1s, .probe_period = 100ms});
    check(ada_comm{.interval = 100ms});
  }
}

TEST_CASE("conductor: the loss is evaluated when it was promised, on the parameters of that moment",
          "[simulated]") {
  auto const moments = [](auto protocol, bool reports) {
    cluster c{simulated{.workers = 1, .scenario = quiet()}, with(protocol, sum{}),
              dense<double>{.rows = 2}};
    no_more_events_than(c, 100'000);
    std::vector<duration> asked;
    auto const report = c.run(
        [&](auto& w) {
          doubles const one(2, 1.0);
          while (w.now() < time_point(1s)) {
            w.push(one);
            w.step();
            if (reports) w.report_loss(std::sin(to_seconds(w.now().since_start())) * 1e3);
          }
        },
        [&](doubles const& w) {
          CHECK(w == c.observe());
          asked.push_back(c.now().since_start());
          return 1 / (1 + to_seconds(c.now().since_start()));
        });
    return std::pair(asked, report.pace_changes);
  };
  // Two probes of 100 ms, 10 samples each; then nothing until the epoch's end.
  adsp const search{.check_period = 50ms,
                    .epoch = 1s,
                    .probe_period = 100ms,
                    .first_rate = 1,
                    .search = true,
                    .samples = 10};
  auto const [asked, changes] = moments(search, false);
  std::vector<duration> expected;
  std::size_t const probes =
      1 + static_cast<std::size_t>(std::ranges::count(changes, std::string("faster"),
                                                      [](auto const& c) { return c.reason; }));
  for (int i = 0; i < 10 * static_cast<int>(probes + 1); ++i) expected.push_back(i * 10ms + 5ms);
  CHECK(asked == expected);
  CHECK(probes <= 2);
  // ADACOMM asks at the start and at each interval's end.
  ada_comm const adaptive{.first_steps = 4, .interval = 300ms};
  auto const [ada_asked, ada_changes] = moments(adaptive, false);
  CHECK(ada_asked == std::vector<duration>{0ms, 300ms, 600ms, 900ms});
  CHECK(ada_changes.size() >= 3);
  // What bodies report meanwhile counts for nothing.
  CHECK(moments(search, true) == std::pair(asked, changes));
  CHECK(moments(adaptive, true) == std::pair(ada_asked, ada_changes));
}

TEST_CASE("conductor: without an evaluated loss it goes by what bodies report", "[simulated]") {
  auto const changes = [](bool falls) {
    cluster c{simulated{.workers = 3, .scenario = quiet(3)},
              ada_comm{.first_steps = 16, .interval = 1s}, dense<double>{.rows = 2}};
    no_more_events_than(c, 100'000);
    return c
        .run([&](auto& w) {
          doubles all(2);
          while (w.now() < time_point(3500ms)) {
            w.pull(all);
            w.step();
            bool const begins = w.now() < time_point(100ms);
            w.report_loss(begins || !falls ? 4.0 : 1.0);
          }
        })
        .pace_changes;
  };
  auto const values = [](std::vector<pace_change> const& all) {
    std::vector<std::int64_t> v;
    for (auto const& c : all) v.push_back(c.value);
    return v;
  };
  CHECK(values(changes(true)) == std::vector<std::int64_t>{16, 8, 4, 2});
  CHECK(values(changes(false)) == std::vector<std::int64_t>{16, 8, 4, 2});
  CHECK(changes(true)[1].reason != changes(false)[1].reason);
}

TEST_CASE("conductor: a loss that throws ends the run, and the next run is as good as new",
          "[simulated]") {
  cluster c{simulated{.workers = 2, .scenario = quiet(2)},
            ada_comm{.first_steps = 16, .interval = 1s}, dense<double>{.rows = 2}};
  no_more_events_than(c, 100'000);
  int calls = 0;
  auto const bad = [&](auto const&) -> double {
    if (++calls == 5) throw std::runtime_error("no test data");
    return 1.0;
  };
  CHECK_THROWS_WITH(c.run(until(1h), bad), "no test data");
  auto const report = c.run(until(2500ms), [](auto const&) { return 1.0; });
  CHECK(report.pace_changes.size() == 3);  // 16, 8, 4: it began anew
  CHECK(report.pace_changes[0].value == 16);
  CHECK(report.pace_changes[2].at == time_point(2s));
}
