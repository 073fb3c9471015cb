// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/flexps.hpp"

#include <catch2/catch.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "bench/reproduce/flexps_schemes.hpp"

using namespace rubato;
using namespace rubato::bench;
using namespace rubato::bench::pvldb18;
using namespace std::chrono_literals;

namespace {

/// A set of which only the first samples are made.
experiment first_of(shape s, double share) {
  s.share = share;
  return {s, {}};
}

stage_report ran(std::size_t stage, std::int64_t iterations, std::uint32_t workers, duration began,
                 duration took, bool probes = false) {
  return {.stage = stage,
          .first = 0,
          .iterations = iterations,
          .probes = probes,
          .where = {workers},
          .began = time_point(began),
          .ended = time_point(began + took),
          .run = {}};
}

}  // namespace

TEST_CASE("the figures of the FlexPS paper have their names") {
  std::set<std::string_view> names;
  for (reproduction const& r : reproductions()) CHECK(names.insert(r.name).second);
  for (char const* figure : {"1", "5", "6", "7", "10", "11"})
    CHECK(names.count(std::string("flexps-figure") + figure) == 1);
}

TEST_CASE("FlexPS: scaled down, an iteration computes, sends and waits for as long as the paper's") {
  simulated const s = machines_of_the_paper();
  CHECK(s.workers == 240);
  CHECK(s.nodes() == std::vector<std::uint32_t>(20, 12));
  auto const& network = s.scenario.network;
  double const message =
      static_cast<double>(network.header_bytes) / static_cast<double>(network.worker_link.bandwidth);
  CHECK(200 * message == Approx(0.02));
  for (shape const& one : {webspam(), kdd()}) {
    experiment const e = first_of(one, 0.001);
    // Bytes and computing of a sample, as many values as ours stand for over those that it has.
    double const values = static_cast<double>(e.rows().nonzeros()) / static_cast<double>(e.rows().size());
    CHECK(values * values_in_one / one.samples_in_one == Approx(one.values).epsilon(0.01));
    CHECK(static_cast<double>(e.rows().features()) * values_in_one == Approx(one.features).epsilon(1e-4));
  }
  CHECK(webspam().rows_for(350) == 350);
  CHECK(kdd().rows_for(1496) == 15);
  CHECK(kdd().rows_for(3) == 1);
}

TEST_CASE(
    "FlexPS: a stage of which a part was made takes what its search did, and the rest at the last pace") {
  task_report r;
  r.stages = {ran(0, 10, 2, 0s, 5s, true), ran(1, 1, 7, 5s, 1s), ran(0, 10, 4, 6s, 3s, true),
              ran(0, 20, 4, 9s, 4s)};
  cost const c = cost_of(r, 0, 100);
  CHECK(c.seconds == Approx(5 + 3 + 80 * 0.2));
  CHECK(c.worker_seconds == Approx(5 * 2 + 3 * 4 + 80 * 0.2 * 4));
  CHECK(cost_of(r, 1, 1).worker_seconds == Approx(7));
  CHECK(degree_of(r, 1) == 7);
  r.degrees = {{.stage = 0, .workers = 3, .probes = {}}};
  CHECK(degree_of(r, 0) == 3);
}

TEST_CASE("FlexPS: what a stage does once in a run counts once, however long the run") {
  // Two runs, each 3 s and then 0.2 s for an iteration; but the first ten take 1 s, as a search makes them.
  auto const made = [](std::int64_t n) {
    duration const rest = (n - 10) * 200ms, again = 3s + n * 200ms;
    task_report r;
    r.stages = {ran(0, 10, 2, 0s, 4s, true), ran(0, n - 10, 4, 4s, rest), ran(1, 1, 7, 4s + rest, 1s),
                ran(0, n, 4, 5s + rest, again)};
    return r;
  };
  CHECK(cost_of(made(20), 0).seconds == Approx(4 + 2 + 3 + 4));
  CHECK(cost_of(made(20), 0).worker_seconds == Approx(2 * 4 + 4 * 9));
  cost const c = cost_of(made(20), made(50), 0, 2 * 1000);
  CHECK(c.seconds == Approx(4 + 198 + 3 + 200));
  CHECK(c.worker_seconds == Approx(2 * 4 + 4 * 401));
}

TEST_CASE("FlexPS: the best degree is found with few tries, and each is tried once") {
  std::vector<std::uint32_t> tried;
  auto const least_at = [&](double best) {
    return [&tried, best](std::uint32_t k) {
      tried.push_back(k);
      return cost{std::abs(std::log(k / best)), static_cast<double>(k)};
    };
  };
  for (std::uint32_t const best : {10U, 20U, 130U, 230U, 240U}) {
    tried.clear();
    CHECK(by_degree(least_at(best)).best(10) == best);
    CHECK(tried.size() < 16);
    CHECK(std::set(tried.begin(), tried.end()).size() == tried.size());
  }
  CHECK(by_degree(least_at(50)).best_of_all(20) == 60);
  CHECK(by_degree(least_at(50)).best_of_all(5, 12) == 10);
}

TEST_CASE("FlexPS: stages have the degrees that are best for each, one stage the best for all") {
  auto const at = [](double work, double per_worker) {
    return [=](std::uint32_t k) { return cost{work / k + per_worker * k, work + per_worker * k * k}; };
  };
  dynamic_workload const w = try_degrees({{at(10000, 1)}, {at(400, 1), at(12, 0.1)}});
  REQUIRE(w.best.size() == 2);
  CHECK(w.best[0].workers == 100);
  CHECK_FALSE(w.best[0].local);
  CHECK(w.best[1].workers == 10);
  CHECK(w.best[1].local);
  CHECK(w.optimal.seconds == Approx(200 + 2.2));
  CHECK(w.spread.seconds == Approx(200 + 40));
  CHECK(w.constant == 70);
  CHECK(w.constant_cost.seconds == Approx(10400.0 / 70 + 140));
}

TEST_CASE("FlexPS: a model passes the card of the machine that fetches it, and again as it goes back") {
  experiment const e = first_of(webspam(), 0.001);
  double const vector = 16'609'143 * 4.0 / 125e6 * 19 / 20;
  double const messages = 19 * 100e-6;
  for (preparation const how : {preparation::integral, preparation::on_demand}) {
    auto const r = e.sgd(learner::svm, {{.batch = 350, .iterations = 1, .stage = on_one_machine(12, how)}});
    CHECK(cost_of(r, 0).seconds == Approx(2 * (vector + messages)).epsilon(0.05));
  }
  // A small step of SVRG reads three, and changes one.
  algorithm::svrg_options o{.epochs = 1, .batch = 350, .steps = 1, .how = algorithm::exchange::by_key};
  o.small_steps = on_one_machine(12, preparation::on_demand);
  CHECK(cost_of(e.small_steps(o), 0).seconds == Approx(4 * (vector + messages)).epsilon(0.05));
}

TEST_CASE("FlexPS: as few chunks are as many of the paper's") {
  CHECK(static_cast<double>(scaled_down(preparation::on_demand).chunk_bytes) * values_in_one ==
        Approx(64 * 1024).epsilon(0.01));
}

TEST_CASE("FlexPS: small batches are best on one machine, without its network") {
  experiment const e = first_of(kdd(), 0.001);
  auto const ten_steps = [&](stage_options const& stage) {
    auto const made = [&](std::int64_t n) {
      algorithm::svrg_options o{.epochs = 1, .batch = 15, .steps = n, .how = algorithm::exchange::by_key};
      o.small_steps = stage;
      return e.small_steps(o);
    };
    return cost_of(made(500), made(600), 0, 510).seconds - cost_of(made(500), 0).seconds;
  };
  double const there = ten_steps(on_one_machine(12, preparation::on_demand));
  CHECK(there < 0.2 * ten_steps(with_workers(12)));
  // The largest part of a batch is two samples of 11 values, each in two gradients.
  CHECK(there >= 10 * 2 * 2 * 11 * 10e-6);
}

TEST_CASE("FlexPS: 20 workers on one machine pay for every iteration, or once for the model") {
  shape s = webspam();
  s.share = 0.01;
  experiment const e(s, {}, workers_on_one_machine(20));
  auto const made = [&](std::int64_t n, std::optional<single_machine> const& local) {
    stage_options const stage{.workers = 20, .local = local};
    return cost_of(e.sgd(learner::logistic, {{.batch = 350, .iterations = n, .stage = stage}}), 0).seconds;
  };
  single_machine const local = scaled_down(preparation::on_demand);
  CHECK(made(1, local) > made(1, {}));
  CHECK(made(10, local) - made(1, local) < 0.2 * (made(10, {}) - made(1, {})));
}

TEST_CASE("FlexPS: degrees found while a stage runs come near the best and far from random ones") {
  experiment const e = first_of(webspam(), 0.01);
  constant_batch const c = measure_constant_batch(e, 0.001, {.probe = 10, .first = machines}, 1, 3);
  CHECK(c.iterations == 1000);
  CHECK(c.optimal.seconds > 0);
  CHECK(c.automatic.seconds <= 1.12 * c.optimal.seconds);
  CHECK(c.automatic.worker_seconds <= 1.2 * c.optimal.worker_seconds);
  CHECK(c.from_one.seconds > c.automatic.seconds);  // a batch takes one worker long
  CHECK(c.random.seconds > 1.5 * c.automatic.seconds);
}
