// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/svrg.hpp>

#include <catch2/catch.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <rubato/algorithm/sgd.hpp>
#include <rubato/core/error.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/streaming_diloco.hpp>

#include "algorithm/algorithms.hpp"

namespace rb = rubato;
namespace ra = rubato::algorithm;
namespace rt = rubato::test;
using Catch::Contains;

namespace {

template <class Model, class Transport = rb::simulated>
std::vector<double> trained(Model const& model, rb::data::dataset const& rows, ra::svrg_options const& o,
                            Transport const& where = rb::simulated{.workers = 4, .servers = 2}) {
  rb::engine engine{where};
  auto t = ra::make_svrg_task<double>(rows.features());
  ra::svrg(t, model, rows, o);
  engine.submit(t).wait();
  return t.parameters();
}

/// Algorithm 1, in loops; batches as the algorithm draws them.
template <class Model>
std::vector<double> by_hand(Model const& model, rb::data::dataset const& rows, ra::svrg_options const& o) {
  ra::svrg_small_steps const body(model, rows, o);
  std::vector<double> w(rows.features()), anchor(w), mu(w), here(w), there(w);
  for (std::int64_t epoch = 0; epoch < o.epochs; ++epoch) {
    model.gradient(rows, anchor, mu);
    std::vector<double> sum(w.size());
    std::int64_t const steps = o.steps_in(epoch, rows.size());
    for (std::int64_t i = 0; i < steps; ++i) {
      auto const batch = body.batch(epoch + 1, i);
      model.gradient(batch, w, here);
      model.gradient(batch, anchor, there);
      for (std::size_t j = 0; j < w.size(); ++j) sum[j] += w[j] -= o.rate * (here[j] - there[j] + mu[j]);
    }
    anchor = w;
    if (o.snapshot == ra::svrg_snapshot::mean)
      for (std::size_t j = 0; j < w.size(); ++j) anchor[j] = sum[j] / static_cast<double>(steps);
  }
  return w;
}

double objective(rt::logistic const& m, rb::data::dataset const& rows, std::vector<double> const& w) {
  return m.objective(rows, std::span<double const>(w));
}

}  // namespace

TEST_CASE("svrg: one worker does what Algorithm 1 does") {
  auto const rows = rt::sparse_rows();
  rt::logistic const model{.l2 = 0.01};
  ra::svrg_options const o{.epochs = 4, .batch = 6, .steps = 30, .rate = 0.5};
  auto const w = trained(model, rows, o);
  CHECK(rt::apart(w, by_hand(model, rows, o)) < 1e-12);
  ra::svrg_options const other{.epochs = 4, .batch = 6, .steps = 30, .rate = 0.5, .seed = 2};
  CHECK(rt::apart(w, trained(model, rows, other)) > 1e-6);
}

TEST_CASE("svrg: SVRG++ doubles its epochs, and takes gradients at the means of the iterates") {
  auto const rows = rt::sparse_rows();
  rt::logistic const model{.l2 = 0.01};
  auto o = ra::svrg_options::plus_plus();
  o.epochs = 4;
  o.batch = 6;
  o.steps = 5;
  o.rate = 0.5;
  auto const w = trained(model, rows, o);
  CHECK(rt::apart(w, by_hand(model, rows, o)) < 1e-12);
  auto t = ra::make_svrg_task<double>(rows.features());
  auto const stages = ra::svrg(t, model, rows, o);
  std::vector<std::int64_t> steps;
  for (auto const& s : t.program())
    if (s.stage == stages.small_steps.number()) steps.push_back(s.iterations.value_or(-1));
  CHECK(steps == std::vector<std::int64_t>{5, 10, 20, 40});
  o.snapshot = ra::svrg_snapshot::last;
  CHECK(rt::apart(trained(model, rows, o), w) > 1e-6);
}

TEST_CASE("svrg: under BSP workers share batches and gradients, and do what one does", "[threads]") {
  auto const rows = rt::sparse_rows();
  rt::logistic const model{.l2 = 0.01};
  for (auto const snapshot : {ra::svrg_snapshot::last, ra::svrg_snapshot::mean})
    for (auto const how : {ra::exchange::whole, ra::exchange::by_key}) {
      ra::svrg_options o{
          .epochs = 3, .batch = 6, .steps = 12, .growth = 2, .rate = 0.3, .snapshot = snapshot, .how = how};
      auto const one = trained(model, rows, o);
      o.full_gradient.workers = 4;
      o.small_steps.workers = 3;
      CHECK(rt::apart(trained(model, rows, o), one) < 1e-12);
      CHECK(rt::apart(trained(model, rows, o, rb::in_process{.workers = 4, .servers = 2}), one) < 1e-12);
      o.slices = 30;
      o.full_gradient.workers = o.small_steps.workers = rb::automatic;
      o.full_gradient.search = o.small_steps.search = {.probe = 4, .growth = 2};
      CHECK(rt::apart(trained(model, rows, o), one) < 1e-12);
    }
}

TEST_CASE("svrg: each epoch draws its batches anew, the same for all who ask") {
  auto const rows = rt::sparse_rows();
  ra::svrg_small_steps const body(rt::logistic{}, rows, ra::svrg_options{.batch = 6});
  int the_same = 0;
  for (std::int64_t i = 0; i < 40; ++i) {
    auto const first = [&](std::int64_t epoch) { return body.batch(epoch, i)[0].indices.data(); };
    CHECK(first(1) == first(1));
    the_same += first(1) == first(2);
  }
  CHECK(the_same < 10);  // of 40 batches, 1 in the mean
}

TEST_CASE("svrg: slices without a row do no harm") {
  auto const rows = rt::sparse_rows(9, 20);
  rt::logistic const model{.l2 = 0.01};
  ra::svrg_options o{.epochs = 2, .batch = 3, .steps = 4, .rate = 0.3};
  auto const one = trained(model, rows, o);
  o.slices = 50;
  o.full_gradient = {.workers = rb::automatic, .search = {.probe = 2}};
  CHECK(rt::apart(trained(model, rows, o), one) < 1e-12);
}

TEST_CASE("svrg: by key is the same where all features occur") {
  auto const rows = rt::full_rows();
  rt::logistic const model{.l2 = 0.05};
  ra::svrg_options o{.epochs = 3, .batch = 6, .rate = 0.3};
  o.small_steps.workers = 3;
  auto const whole = trained(model, rows, o);
  o.how = ra::exchange::by_key;
  CHECK(rt::apart(trained(model, rows, o), whole) < 1e-12);
}

TEST_CASE("svrg: steps by key are without bias: over all batches their mean is the full gradient") {
  auto const rows = rt::sparse_rows();  // 240: cut into batches without a rest
  rt::logistic const model{.l2 = 0.05};
  ra::svrg_options const o{.batch = 8, .rate = 1, .how = ra::exchange::by_key};
  ra::feature_rarity const rarity(rows);
  ra::svrg_small_steps const body(model, rows, o, rarity);
  rb::random_stream random(3);
  std::vector<double> w(rows.features()), x(w), mu(w), gradient(w), mean(w.size());
  for (std::size_t j = 0; j < w.size(); ++j) w[j] = random.normal(), x[j] = random.normal();
  rt::logistic{}.gradient(rows, x, mu);
  model.gradient(rows, w, gradient);
  // The tables in a step's hands.
  struct reader {
    std::vector<double> const* of;
    void pull(std::span<double>) const {}
    void pull(std::span<rb::key const> keys, std::span<double> out) const {
      for (std::size_t i = 0; i < keys.size(); ++i) out[i] = (*of)[keys[i].index()];
    }
  };
  struct {
    std::vector<double> const *x, *mu;
    reader operator[](rb::table_tag<1>) const { return {x}; }
    reader operator[](rb::table_tag<2>) const { return {mu}; }
  } tables{&x, &mu};
  auto const batches = rows.rows().batches(o.batch);
  double spread = 0;
  for (auto const batch : batches)
    for (std::uint32_t rank = 0; rank < 3; ++rank) {
      ra::batch_part<double> const part(batch, rank, 3, o.how, rarity,
                                        static_cast<double>(rows.size()) / static_cast<double>(batches.size()));
      ra::svrg_anchor<double> anchor;
      anchor.look_up(tables, part);
      std::vector<double> at, step;
      part.pull(reader{&w}, at);
      body.write_step(part, at, anchor, step);
      for (std::size_t j = 0; j < step.size(); ++j) {
        mean[part.keys()[j].index()] -= step[j] / static_cast<double>(batches.size());
        spread = std::max(spread, std::abs(step[j]));
      }
    }
  for (std::size_t j = 0; j < w.size(); ++j)
    if (rarity[j] == 0) gradient[j] = 0;    // nobody ever moves it
  CHECK(rt::apart(mean, gradient) < 1e-6);  // rarity is a float
  CHECK(spread > 0.05);
}

TEST_CASE("svrg: it comes near the optimum at a rate that does not fall, where SGD stays away from it", "[numeric]") {
  auto const rows = rt::sparse_rows(480);
  rt::logistic const model{.l2 = 0.01};
  double const best = objective(model, rows, rt::descended(model, rows, 2, 3000));
  auto sgd = ra::make_sgd_task<double>(rows.features());
  ra::sgd(sgd, model, rows, {{.batch = 8, .iterations = 30 * 120, .rate = 0.5}});
  rb::engine engine{rb::simulated{}};
  engine.submit(sgd).wait();
  CHECK(objective(model, rows, sgd.parameters()) - best > 1e-4);
  for (auto const how : {ra::exchange::whole, ra::exchange::by_key}) {
    ra::svrg_options o{.epochs = 30, .batch = 8, .rate = 0.5, .how = how};
    o.full_gradient.workers = 4;
    o.small_steps = {.workers = 2, .protocol = rb::ssp{.staleness = 1}};
    CHECK(objective(model, rows, trained(model, rows, o)) - best < 1e-6);
    auto plus = ra::svrg_options::plus_plus();
    plus.epochs = 8;
    plus.steps = 15;
    plus.batch = 8;
    plus.rate = 0.5;
    plus.how = how;
    CHECK(objective(model, rows, trained(model, rows, plus)) - best < 1e-5);
  }
}

TEST_CASE("svrg: it trains a support vector machine", "[unthreaded]") {
  auto const rows = rt::sparse_rows();
  rt::svm const model{.l2 = 0.05};
  auto const at = [&](std::vector<double> const& w) {
    return model.objective(rows, std::span<double const>(w));
  };
  ra::svrg_options const o{.epochs = 20, .batch = 8, .rate = 0.1, .how = ra::exchange::by_key};
  CHECK(at(trained(model, rows, o)) < at(rt::descended(model, rows, 0.05, 4000)) + 0.01);
}

TEST_CASE("svrg: bad options are refused by name") {
  auto const rows = rt::sparse_rows(10);
  auto const refused = [&](ra::svrg_options const& o) {
    auto t = ra::make_svrg_task<double>(rows.features());
    ra::svrg(t, rt::logistic{}, rows, o);
  };
  CHECK_THROWS_WITH(refused({.epochs = 0}), Contains("svrg: epochs"));
  CHECK_THROWS_WITH(refused({.batch = 0}), Contains("svrg: batch"));
  CHECK_THROWS_WITH(refused({.full_gradient = {.workers = 3, .protocol = rb::k_sync{.k = 2}}}),
                    Contains("svrg: full_gradient has a protocol"));
  rb::stage_options const keeps_back{.protocol = rb::streaming_diloco{.steps = 2, .fragments = 2}};
  CHECK_THROWS_WITH(refused({.full_gradient = keeps_back}),
                    Contains("svrg: full_gradient has a protocol with a filter"));
  CHECK_NOTHROW(refused({.small_steps = keeps_back}));  // which only makes fewer of them
  CHECK_THROWS_WITH(refused({.steps = -1}), Contains("svrg: steps"));
  CHECK_THROWS_WITH(refused({.growth = 0.5}), Contains("svrg: growth"));
  CHECK_THROWS_WITH(refused({.epochs = 80, .growth = 2}), Contains("svrg: growth makes too many steps"));
  CHECK_THROWS_WITH(refused({.rate = -1}), Contains("svrg: rate"));
  CHECK_THROWS_WITH(refused({.slices = 0}), Contains("svrg: slices"));
  CHECK_NOTHROW(refused({.slices = std::int64_t{1} << 60}));
  CHECK_THROWS_WITH(refused({.slices = std::int64_t{1} << 61}), Contains("svrg: slices must be at most"));
  auto other = ra::make_svrg_task<double>(rows.features());
  CHECK_THROWS_WITH(ra::svrg(other, rt::logistic{.l2 = -1}, rows, {}), Contains("l2 must be finite and at least 0"));
  CHECK_THROWS_WITH(refused({.full_gradient = {.iterations = 2}}),
                    Contains("svrg: full_gradient has iterations"));
  CHECK_THROWS_WITH(refused({.small_steps = {.cleared = {1}}}), Contains("svrg: small_steps has"));
  CHECK_THROWS_WITH(refused({.full_gradient = {.copied = {{.to = 1, .from = 0}}}}),
                    Contains("svrg: full_gradient has"));
}

TEST_CASE("svrg: a worker that joins a full gradient is refused, as its rows are others' already") {
  ra::svrg_options const o{.epochs = 1, .batch = 8, .full_gradient = {.workers = 2}};
  CHECK_THROWS_WITH(trained(rt::logistic{}, rt::sparse_rows(40), o, rt::with_joiner()),
                    Contains("svrg: worker 2 has joined"));
}
