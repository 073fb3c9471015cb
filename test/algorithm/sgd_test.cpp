// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/sgd.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/ssp.hpp>

#include "algorithm/algorithms.hpp"

namespace rb = rubato;
namespace ra = rubato::algorithm;
namespace rt = rubato::test;
using Catch::Contains;
using phases = std::vector<ra::sgd_phase>;

namespace {

template <class Model, class Transport = rb::simulated>
std::vector<double> trained(Model const& model, rb::data::dataset const& rows, phases const& p,
                            ra::exchange how,
                            Transport const& where = rb::simulated{.workers = 4, .servers = 2}) {
  rb::engine engine{where};
  auto t = ra::make_sgd_task<double>(rows.features());
  ra::sgd(t, model, rows, p, how);
  engine.submit(t).wait();
  return t.parameters();
}

/// What the algorithm does, in a loop; `first` has each phase's first batch.
template <class Model>
std::vector<double> by_hand(Model const& model, rb::data::dataset const& rows, phases const& p,
                            std::vector<std::size_t> const& first) {
  std::vector<double> w(rows.features()), step(w.size());
  for (std::size_t phase = 0; phase < p.size(); ++phase) {
    auto const batches = rows.rows().batches(p[phase].batch);
    for (std::size_t i = 0; i < static_cast<std::size_t>(p[phase].iterations); ++i) {
      model.local_step(batches.at_step(first[phase] + i), p[phase].rate, w, step);
      for (std::size_t j = 0; j < w.size(); ++j) w[j] += step[j];
    }
  }
  return w;
}

}  // namespace

TEST_CASE("sgd: a phase goes on in the scan also where batches do not divide the rows") {
  auto const rows = rt::sparse_rows();  // 240
  rt::logistic const regression{.l2 = 0.01};
  phases const scans{{.batch = 100, .iterations = 7, .rate = 0.5}, {.batch = 50, .iterations = 3, .rate = 1}};
  auto const whole = ra::exchange::whole;
  CHECK(rt::apart(trained(regression, rows, scans, whole), by_hand(regression, rows, scans, {0, 2})) < 1e-13);
  // Where a phase has ended within a batch of the next one, that batch is the first.
  phases const within{{.batch = 5, .iterations = 3, .rate = 0.5}, {.batch = 20, .iterations = 12, .rate = 1}};
  CHECK(rt::apart(trained(regression, rows, within, whole), by_hand(regression, rows, within, {0, 0})) < 1e-13);
  phases const later{{.batch = 50, .iterations = 3, .rate = 0.5}, {.batch = 100, .iterations = 4, .rate = 1}};
  CHECK(rt::apart(trained(regression, rows, later, whole), by_hand(regression, rows, later, {0, 1})) < 1e-13);
  phases const one_scan{{.batch = 100, .rate = 0.5}, {.batch = 50, .iterations = 3, .rate = 1}};
  phases const told{{.batch = 100, .iterations = 3, .rate = 0.5}, one_scan[1]};
  CHECK(rt::apart(trained(regression, rows, one_scan, whole), by_hand(regression, rows, told, {0, 0})) < 1e-13);
}

TEST_CASE("sgd: a batch larger than the data is all of it") {
  auto const rows = rt::sparse_rows();
  rt::logistic const regression{.l2 = 0.01};
  phases const all{{.batch = rows.size(), .rate = 0.5}};
  phases const more{{.batch = ~std::size_t{0}, .rate = 0.5}};
  CHECK(trained(regression, rows, more, ra::exchange::whole) == trained(regression, rows, all, ra::exchange::whole));
}

TEST_CASE("sgd: by key a short last batch counts no more than others") {
  auto const rows = rt::sparse_rows(241, 1000);  // most features occur in a few rows, and one row is the last batch
  rt::logistic const regression{.l2 = 0.1};
  auto const norm = [&](ra::exchange how) {
    double most = 0;
    for (double const x : trained(regression, rows, {{.batch = 60, .iterations = 200, .rate = 0.5}}, how))
      most = std::max(most, std::abs(x));
    return most;
  };
  CHECK(norm(ra::exchange::by_key) < 2 * norm(ra::exchange::whole));
}

TEST_CASE("sgd: one worker does what a loop over the batches does, phase after phase") {
  auto const rows = rt::sparse_rows();
  phases const growing{{.batch = 7, .iterations = 30, .rate = 0.5},
                       {.batch = 70, .iterations = 9, .rate = 1}};
  rt::logistic const regression{.l2 = 0.01};
  auto const w = trained(regression, rows, growing, ra::exchange::whole);
  CHECK(rt::apart(w, by_hand(regression, rows, growing, {0, 3})) < 1e-13);
  rt::svm const machine{.l2 = 0.1};
  CHECK(rt::apart(trained(machine, rows, growing, ra::exchange::whole),
                  by_hand(machine, rows, growing, {0, 3})) < 1e-13);
  CHECK(rt::apart(w, std::vector<double>(w.size())) > 0.1);
}

TEST_CASE("sgd: under BSP workers share a batch, and do what one does", "[threads]") {
  auto const rows = rt::sparse_rows();
  rt::logistic const model{.l2 = 0.01};
  for (auto const how : {ra::exchange::whole, ra::exchange::by_key}) {
    phases p{{.batch = 30, .iterations = 25, .rate = 0.5}};
    auto const one = trained(model, rows, p, how);
    p[0].stage.workers = 4;
    CHECK(rt::apart(trained(model, rows, p, how), one) < 1e-13);
    CHECK(rt::apart(trained(model, rows, p, how, rb::in_process{.workers = 4, .servers = 2}), one) < 1e-13);
    p[0].stage.workers = rb::automatic;
    CHECK(rt::apart(trained(model, rows, p, how), one) < 1e-13);
    p[0].batch = 2;  // and half of the workers have no row
    p[0].stage.workers = 1;
    auto const few = trained(model, rows, p, how);
    p[0].stage.workers = 4;
    CHECK(rt::apart(trained(model, rows, p, how), few) < 1e-13);
  }
}

TEST_CASE("sgd: by key is the same where all features occur, and without a regulariser") {
  phases const p{{.batch = 6, .iterations = 30, .rate = 0.5, .stage = {.workers = 3}}};
  auto const full = rt::full_rows();
  rt::logistic const regularised{.l2 = 0.05};
  CHECK(rt::apart(trained(regularised, full, p, ra::exchange::by_key),
                  trained(regularised, full, p, ra::exchange::whole)) < 1e-13);
  auto const rows = rt::sparse_rows();
  rt::svm const plain{};
  CHECK(rt::apart(trained(plain, rows, p, ra::exchange::by_key),
                  trained(plain, rows, p, ra::exchange::whole)) < 1e-13);
  CHECK(rt::apart(trained(regularised, rows, p, ra::exchange::by_key),
                  trained(regularised, rows, p, ra::exchange::whole)) > 1e-6);
}

TEST_CASE("sgd: batches that grow end nearer the optimum than those they begin with", "[numeric]") {
  auto const rows = rt::sparse_rows(480);
  rt::logistic const model{.l2 = 0.01};
  auto const best = model.objective(rows, std::span<double const>(rt::descended(model, rows, 2, 3000)));
  for (auto const how : {ra::exchange::whole, ra::exchange::by_key}) {
    phases p{{.batch = 2, .iterations = 1000, .rate = 2, .stage = {.workers = 2}}};
    double const small = model.objective(rows, std::span<double const>(trained(model, rows, p, how)));
    p.push_back({.batch = 480, .iterations = 200, .rate = 2, .stage = {.workers = 4}});
    double const grown = model.objective(rows, std::span<double const>(trained(model, rows, p, how)));
    CHECK(grown - best < 1e-6);
    CHECK(small - best > 10 * (grown - best) + 1e-4);
  }
}

TEST_CASE("sgd: other protocols train as well") {
  auto const rows = rt::sparse_rows();
  rt::svm const model{.l2 = 0.01};
  double const at_zero = model.objective(rows, std::vector<double>(rows.features()));
  for (auto const& protocol : {rb::rules(rb::asp{}), rb::rules(rb::ssp{.staleness = 2})}) {
    phases const p{
        {.batch = 12, .iterations = 400, .rate = 0.5, .stage = {.workers = 4, .protocol = protocol}}};
    auto const w = trained(model, rows, p, ra::exchange::by_key);
    CHECK(model.objective(rows, std::span<double const>(w)) < 0.8 * at_zero);
  }
}

TEST_CASE("sgd: a phase is one scan unless it says otherwise") {
  auto const rows = rt::sparse_rows(25);
  auto t = ra::make_sgd_task<double>(rows.features());
  auto const stages = ra::sgd(t, rt::logistic{}, rows, {{.batch = 10}, {.batch = 10, .iterations = 7}});
  REQUIRE(stages.size() == 2);
  CHECK(t.stages()[stages[0].number()].options.iterations == 3);
  CHECK(t.stages()[stages[1].number()].options.iterations == 7);
  CHECK(t.program().size() == 2);
}

TEST_CASE("sgd: bad options are refused by name") {
  auto const rows = rt::sparse_rows(10);
  auto const refused = [&](ra::sgd_phase const& p) {
    auto t = ra::make_sgd_task<double>(rows.features());
    ra::sgd(t, rt::logistic{}, rows, {p});
  };
  CHECK_THROWS_WITH(refused({.batch = 0}), Contains("sgd: batch"));
  CHECK_THROWS_WITH(refused({.iterations = -1}), Contains("sgd: iterations"));
  CHECK_THROWS_WITH(refused({.rate = 0}), Contains("sgd: rate"));
  CHECK_THROWS_WITH(refused({.stage = {.iterations = 3}}), Contains("sgd: stage has iterations"));
  CHECK_THROWS_WITH(refused({.stage = {.cleared = {0}}}), Contains("cleared"));
  auto t = ra::make_sgd_task<double>(3);
  CHECK_THROWS_WITH(ra::sgd(t, rt::logistic{.l2 = -1}, rows, {{}}), Contains("l2 must be finite and at least 0"));
  CHECK_THROWS_WITH(ra::sgd(t, rt::logistic{}, rb::data::dataset{}, {{}}), Contains("there must be rows"));
}
