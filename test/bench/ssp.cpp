// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/ssp.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/core/time.hpp"

using namespace rubato;
using namespace rubato::bench;
using namespace rubato::bench::nips13;

namespace {

/// Small synthetic data, as no real data is found.
reproduce_options no_ssp_data() { return {.data_dir = "/no/such/directory"}; }

/// Of four workers one in four steps takes six times as long.
constexpr conditions two_with_stragglers{.machines = 2, .threads = 2, .slowdown = 4};

/// A run of which the curve is known: a point for each commit of one worker.
outcome made_outcome(staleness s, std::vector<double> const& losses) {
  outcome o{.bound = s, .result = {}, .workers = 1};
  for (std::size_t i = 0; i < losses.size(); ++i)
    o.result.curve.push_back({.seconds = 2.0 * static_cast<double>(i), .updates = i, .loss = losses[i]});
  return o;
}

}  // namespace

TEST_CASE("SSP: few draws by Zipf's law differ, many have all kinds") {
  CHECK(distinct_of_zipf(1000, 0) == 0);
  CHECK(distinct_of_zipf(100'000, 2) == Approx(2).epsilon(0.02));
  CHECK(distinct_of_zipf(1000, 1e6) == Approx(1000));
  CHECK(distinct_of_zipf(1, 5) == Approx(1 - std::exp(-5.0)));
}

TEST_CASE("SSP: a worker's clock computes and sends for as long as the paper's") {
  conditions const c{.machines = 2, .threads = 2};
  for (problem const& p : {topic_modeling(no_ssp_data()), matrix_factorization(no_ssp_data())}) {
    experiment const e(p, 0.5, 1);
    clock_size const here = e.measured(c.workers()), there = p.of_the_paper(0.5 / 4);
    sim::scenario const s = e.job(c, 1).scenario;
    CHECK(here.units * to_seconds(s.speed.work_cost) == Approx(there.units * p.seconds_per_unit).epsilon(0.01));
    CHECK(here.bytes / static_cast<double>(s.network.worker_link.bandwidth) ==
          Approx(there.bytes / 1.25e9).epsilon(0.01));
    CHECK(s.machine_of == std::vector<std::uint32_t>{0, 0, 1, 1});
    CHECK(s.server_machine_of == std::vector<std::uint32_t>{0, 1});
    CHECK(s.one_process_per_machine);
  }
  CHECK(topic_modeling(no_ssp_data()).of_the_paper(1).units == Approx(1e10));
}

TEST_CASE("SSP: under stragglers BSP waits for longer than SSP, and both compute for as long") {
  experiment const e(topic_modeling(no_ssp_data()), 0.5, 1);
  panel const p = run_panel(e, two_with_stragglers, 8, {0, 4});
  REQUIRE(p.runs.size() == 3);
  CHECK(p.runs[0].label() == "bsp");
  CHECK(p.runs[1].label() == "ssp(4)");
  REQUIRE(p.asp() != nullptr);
  CHECK(p.asp()->label() == "asp");
  CHECK(p.runs[0].wait() > 2 * p.runs[1].wait());
  CHECK(p.runs[0].ratio() > p.runs[1].ratio());
  CHECK(p.runs[1].clocks_per_second() > p.runs[0].clocks_per_second());
  CHECK(p.asp()->wait() == 0);
  // The others have BSP's time, and make more clocks in it.
  CHECK(p.runs[0].result.updates == 4 * 9);
  CHECK(p.runs[1].result.updates > 4 * 9);
  CHECK(p.runs[1].result.seconds == Approx(p.runs[0].result.seconds).epsilon(0.1));
  CHECK(p.lowest <= p.runs[0].result.final_loss);
  for (outcome const& o : p.runs) {
    CHECK(o.compute() == Approx(p.runs[0].compute()).epsilon(0.1));
    CHECK(o.transfer() > 0);
    CHECK(o.share_from_process() > 0);
    // Where time went is the run, but for workers that are done before the others.
    double const clock = o.compute() + o.transfer() + o.wait();
    CHECK(clock * o.clocks_per_second() > 0.5);
    CHECK(clock * o.clocks_per_second() <= 1.001);
    CHECK(o.result.final_loss < p.start);
  }
  conditions apart = two_with_stragglers;
  apart.has_process_cache = false;
  CHECK(e.run(0, 0, e.job(apart, 4)).share_from_process() == 0);
}

TEST_CASE("SSP: each protocol has the rate with which it does best") {
  problem few = matrix_factorization(no_ssp_data());
  few.rates = {1.0 / 1024, 1.0 / 32, 4.0};
  experiment const e(few, 0.5, 1);
  panel const p = run_panel(e, {.machines = 2, .threads = 2}, 4, {0, 2});
  REQUIRE(p.runs.size() == 3);
  for (outcome const& o : p.runs) CHECK(o.rate == 1.0 / 32);
  CHECK(p.best_ssp().label() == "ssp(2)");
}

TEST_CASE("SSP: there is no asynchronous Lasso") {
  problem few = lasso_regression(no_ssp_data());
  few.from.features = 200;
  few.from.nonzeros = 20;
  experiment const e(few, 0.5, 1);
  panel const p = run_panel(e, {.machines = 2, .threads = 2}, 6, {0, 2});
  REQUIRE(p.runs.size() == 2);
  CHECK(p.asp() == nullptr);
  CHECK(p.best_ssp().label() == "ssp(2)");
  CHECK(p.bsp().result.final_loss < p.start);
}

TEST_CASE("SSP: quality is read off at clocks, convergence at times, and the best arrives first") {
  outcome const slow = made_outcome(1, {10, 8, 6, 4, 2, 2});
  CHECK(slow.objective_after(2.5) == 6);
  CHECK(slow.objective_at(2.5) == 8);
  CHECK(slow.seconds_to(4) == 6);
  CHECK_FALSE(slow.seconds_to(1));
  panel p{.runs = {made_outcome(0, {10, 0, 0}), slow, made_outcome(2, {10, 9, 0, 0}), made_outcome(4, {10, 3, 3})},
          .start = 10,
          .lowest = 0};
  CHECK(p.at(0.8) == Approx(2));
  CHECK(p.best_ssp().label() == "ssp(2)");
  p.runs.pop_back();
  p.runs.pop_back();
  CHECK(p.best_ssp().label() == "ssp(1)");  // though it does not get there
}
