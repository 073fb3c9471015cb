// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/algorithm/lasso.hpp>

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <rubato/core/error.hpp>
#include <rubato/core/random.hpp>
#include <rubato/data/libsvm.hpp>
#include <rubato/metrics/worker_metrics.hpp>
#include <rubato/protocol/adsp.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/k_sync.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/streaming_diloco.hpp>
#include <rubato/storage/kkt_filter.hpp>

#include "algorithm/algorithms.hpp"
#include "data/real_data.hpp"
#include "seeds.hpp"

namespace rb = rubato;
namespace ra = rubato::algorithm;
namespace rd = rubato::data;
using Catch::Contains;
using doubles = std::vector<double>;

namespace {

/// Rows with few of the features each, and labels from w* = (3, -2, 1, 0, ...) by spaced features, with noise.
rd::dataset lasso_rows(std::size_t n = 150, std::size_t features = 40) {
  rd::dataset_builder rows(features);
  rb::random_stream random(7);
  for (std::size_t i = 0; i < n; ++i) {
    std::vector<std::uint32_t> indices;
    std::vector<float> values;
    double label = 0.05 * random.normal();
    for (std::uint32_t j = 0; j < features; ++j) {
      if (!random.chance(0.3)) continue;
      float const value = static_cast<float>(random.normal());
      indices.push_back(j);
      values.push_back(value);
      double const truth = j == 3 ? 3 : j == 17 ? -2 : j == 30 ? 1 : 0;
      label += truth * static_cast<double>(value);
    }
    rows.add(static_cast<float>(label), indices, values);
  }
  return rows.build();
}

/// All columns alike: what parallel coordinate descent finds hardest.
rd::dataset alike_columns() {
  rd::dataset_builder rows(8);
  rb::random_stream random(3);
  std::vector<std::uint32_t> const all{0, 1, 2, 3, 4, 5, 6, 7};
  for (int i = 0; i < 20; ++i) {
    float const value = static_cast<float>(random.normal());
    rows.add(2 * value, all, std::vector<float>(8, value));
  }
  return rows.build();
}

struct lasso_result {
  doubles w, residual;
  friend bool operator==(lasso_result const&, lasso_result const&) = default;
};

template <class Transport = rb::simulated>
lasso_result lasso_of(rd::dataset const& rows, ra::lasso_options const& o,
                      Transport const& where = rb::simulated{.workers = 4, .servers = 2},
                      std::span<double const> init = {}, rb::worker_metrics* descent = nullptr) {
  rb::engine engine{where};
  auto t = ra::make_lasso_task<double>(rows, init);
  ra::lasso(t, rows, o);
  auto const report = engine.submit(t).wait();
  if (descent != nullptr) *descent = report.stages.back().run.total();
  return {t.template parameters<0>(), t.template parameters<1>()};
}

/// What a filter makes of a simulated run: where it ends, and the shares of the other one's work and bytes.
struct filtered_lasso {
  lasso_result got;
  double work, read, sent;
};

filtered_lasso with_filter(rd::dataset const& rows, ra::lasso_options o, rb::kkt_filter const& filter) {
  rb::simulated const where{.workers = 4, .servers = 2};
  rb::worker_metrics without, with;
  o.filter = {};
  lasso_of(rows, o, where, {}, &without);
  o.filter = filter;
  auto got = lasso_of(rows, o, where, {}, &with);
  auto const share = [](auto part, auto whole) { return static_cast<double>(part) / static_cast<double>(whole); };
  return {std::move(got), share(with.compute.count(), without.compute.count()),
          share(with.bytes_received, without.bytes_received), share(with.bytes_sent, without.bytes_sent)};
}

double lasso_F(rd::dataset const& rows, doubles const& w, double lambda) {
  return ra::lasso_objective(rows, std::span<double const>(w), lambda);
}

/// Coordinate descent on a matrix that is stored in full. In each pass `residual` is as the pass before has left
/// it, and `change` is what this one has done to it, as a worker has them.
lasso_result plain_lasso(rd::dataset const& rows, double lambda, std::int64_t passes, std::size_t batches = 1) {
  std::size_t const n = rows.size(), d = rows.features();
  std::vector<doubles> column(d, doubles(n));
  doubles norm(d), w(d), residual(n);
  for (std::size_t i = 0; i < n; ++i) {
    residual[i] = static_cast<double>(rows[i].label);
    for (std::size_t k = 0; k < rows[i].indices.size(); ++k)
      column[rows[i].indices[k]][i] = static_cast<double>(rows[i].values[k]);
  }
  for (std::size_t j = 0; j < d; ++j)
    for (double const x : column[j]) norm[j] += x * x;
  auto const rows_count = static_cast<double>(n);
  for (std::int64_t pass = 0; pass < passes; ++pass) {
    doubles change(n);
    std::size_t const turn = static_cast<std::size_t>(pass) % batches;
    for (std::size_t j = d * turn / batches; j < d * (turn + 1) / batches; ++j) {
      if (norm[j] == 0) continue;
      double product = 0;
      for (std::size_t i = 0; i < n; ++i) product += column[j][i] * (residual[i] + change[i]);
      double const curvature = norm[j] / rows_count;
      double const at = curvature * w[j] + product / rows_count;
      double const shrunk = std::max(std::abs(at) - lambda, 0.0) / curvature;
      double const move = (at < 0 ? -shrunk : shrunk) - w[j];
      w[j] += move;
      for (std::size_t i = 0; i < n; ++i) change[i] -= column[j][i] * move;
    }
    for (std::size_t i = 0; i < n; ++i) residual[i] += change[i];
  }
  return {w, residual};
}

/// By how much w misses the conditions of Karush, Kuhn and Tucker: x_j·r/n = λ sign(w_j), or at most λ where
/// w_j = 0.
double kkt_violation(rd::dataset const& rows, doubles const& w, double lambda) {
  doubles gradient(w.size());
  doubles const residual = ra::lasso_residual(rows, std::span<double const>(w));
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t k = 0; k < rows[i].indices.size(); ++k)
      gradient[rows[i].indices[k]] +=
          static_cast<double>(rows[i].values[k]) * residual[i] / static_cast<double>(rows.size());
  double most = 0;
  for (std::size_t j = 0; j < w.size(); ++j)
    most = std::max(most, w[j] == 0 ? std::abs(gradient[j]) - lambda
                                    : std::abs(gradient[j] - std::copysign(lambda, w[j])));
  return most;
}

/// Whether no update was lost: the residual's table holds y - Xw.
void check_residual(rd::dataset const& rows, lasso_result const& got, double tolerance = 1e-11) {
  CHECK(rb::test::apart(got.residual, ra::lasso_residual(rows, std::span<double const>(got.w))) < tolerance);
}

}  // namespace

TEST_CASE("lasso: one worker does what a plain loop of coordinate descent does, bit for bit", "[algorithm]") {
  auto const rows = lasso_rows();
  auto const how = GENERATE(ra::exchange::whole, ra::exchange::by_key);
  auto const batches = GENERATE(std::size_t{1}, std::size_t{10});
  for (std::int64_t const clocks : {1, 7, 40})
    CHECK(lasso_of(rows, {.lambda = 0.1, .clocks = clocks, .batch = 1.0 / static_cast<double>(batches), .how = how}) ==
          plain_lasso(rows, 0.1, clocks, batches));
}

TEST_CASE("lasso: four workers end at the optimum, with exact zeros and no update lost", "[algorithm][numeric]") {
  auto const rows = lasso_rows();
  double const best = lasso_F(rows, plain_lasso(rows, 0.1, 2000).w, 0.1);
  auto const protocol = GENERATE(rb::rules(rb::bsp{}), rb::rules(rb::ssp{.staleness = 2}));
  auto const batch = GENERATE(1.0, 0.1);
  auto const how = GENERATE(ra::exchange::whole, ra::exchange::by_key);
  INFO(protocol.name << ", batches of " << batch);
  ra::lasso_options const o{.lambda = 0.1,
                            .clocks = static_cast<std::int64_t>(500 / batch),
                            .batch = batch,
                            .how = how,
                            .residual = {.workers = 3},
                            .descent = {.workers = 4, .protocol = protocol}};
  auto const check = [&](lasso_result const& got) {
    CHECK(lasso_F(rows, got.w, 0.1) == Approx(best).epsilon(1e-3));
    CHECK(ra::lasso_objective(std::span<double const>(got.residual), std::span<double const>(got.w), 0.1) ==
          Approx(best).epsilon(1e-3));
    CHECK(kkt_violation(rows, got.w, 0.1) < 1e-6);
    for (std::size_t j = 0; j < got.w.size(); ++j) {
      INFO("w_" << j);
      CHECK((got.w[j] != 0) == (j == 3 || j == 17 || j == 30));
    }
    check_residual(rows, got);
  };
  check(lasso_of(rows, o));
  check(lasso_of(rows, o, rb::in_process{.workers = 4, .servers = 2}));
}

TEST_CASE("lasso: a KKT filter saves work and bytes, and ends at the same optimum", "[algorithm][numeric]") {
  auto const rows = lasso_rows();
  double const best = lasso_F(rows, plain_lasso(rows, 0.1, 2000).w, 0.1);
  auto const protocol = GENERATE(rb::rules(rb::bsp{}), rb::rules(rb::ssp{.staleness = 2}));
  auto const batch = GENERATE(1.0, 0.2);
  auto const how = GENERATE(ra::exchange::whole, ra::exchange::by_key);
  INFO(protocol.name << ", batches of " << batch);
  auto const [got, work, read, sent] = with_filter(rows,
                                                   {.lambda = 0.1,
                                                    .clocks = static_cast<std::int64_t>(500 / batch),
                                                    .batch = batch,
                                                    .how = how,
                                                    .residual = {.workers = 3},
                                                    .descent = {.workers = 4, .protocol = protocol}},
                                                   {.passes = 10});
  CHECK(lasso_F(rows, got.w, 0.1) == Approx(best).epsilon(1e-3));
  CHECK(kkt_violation(rows, got.w, 0.1) < 1e-6);
  for (std::size_t j = 0; j < got.w.size(); ++j) CHECK((got.w[j] != 0) == (j == 3 || j == 17 || j == 30));
  check_residual(rows, got);
  CHECK(work < 0.4);
  CHECK(read < 0.9);  // who has one coordinate to move needs the whole residual for it
  if (how == ra::exchange::by_key) {
    CHECK(read < 0.5);
    CHECK(sent < 0.6);
  }
}

TEST_CASE("lasso: a KKT filter loses no coordinate that becomes active late", "[algorithm]") {
  // Column 0 is orthogonal to the labels, and to the residual it is not once the other worker has moved column 1,
  // which it does slowly: minimal are w_1 = 2 - 4 lambda and w_0 = -(2 - 6 lambda).
  rd::dataset_builder builder(2);
  builder.add(2, std::vector<std::uint32_t>{1}, std::vector<float>{1});
  builder.add(0, std::vector<std::uint32_t>{0, 1}, std::vector<float>{1, 1});
  auto const rows = builder.build();
  auto const how = GENERATE(ra::exchange::whole, ra::exchange::by_key);
  ra::lasso_options const every{.lambda = 0.1, .clocks = 15, .damping = 0.05, .how = how, .descent = {.workers = 2}};
  ra::lasso_options some = every;
  some.filter = {.passes = 20};
  auto const where = rb::simulated{.workers = 2};
  double const moved_once = lasso_of(rows, some, where).w[0];
  CHECK(moved_once < 0);  // by the last pass, which goes over all
  CHECK(lasso_of(rows, every, where).w[0] < 3 * moved_once);
  some.clocks = 2000;
  auto const got = lasso_of(rows, some, where);
  CHECK(got.w[0] == Approx(-1.4));
  CHECK(got.w[1] == Approx(1.6));
  CHECK(kkt_violation(rows, got.w, 0.1) < 1e-9);
  check_residual(rows, got);
}

TEST_CASE("lasso: under BSP the same, bit for bit, in threads and simulated", "[algorithm]") {
  auto const rows = lasso_rows();
  auto const filter = GENERATE(rb::kkt_filter{}, rb::kkt_filter{.passes = 3});
  ra::lasso_options const o{.lambda = 0.1, .clocks = 60, .batch = 0.3, .filter = filter, .descent = {.workers = 4}};
  CHECK(lasso_of(rows, o) == lasso_of(rows, o, rb::in_process{.workers = 4, .servers = 3}));
}

TEST_CASE("lasso: with the default damping no clock of BSP makes the objective more; without any it diverges",
          "[algorithm]") {
  auto const rows = alike_columns();
  ra::lasso_options o{.lambda = 0.01, .clocks = 1, .descent = {.workers = 4}};
  double before = lasso_F(rows, doubles(8), o.lambda);
  double const start = before;
  for (; o.clocks <= 12; ++o.clocks) {
    double const now = lasso_F(rows, lasso_of(rows, o).w, o.lambda);
    CHECK(now <= before * (1 + 1e-12));
    before = now;
  }
  double const best = lasso_F(rows, plain_lasso(rows, o.lambda, 300).w, o.lambda);
  CHECK(before == Approx(best).epsilon(1e-3));
  o.damping = 1;
  CHECK(lasso_F(rows, lasso_of(rows, o).w, o.lambda) > start);
  o.damping.reset();
  o.clocks = 100;
  o.descent.protocol = rb::ssp{.staleness = 2};
  CHECK(lasso_F(rows, lasso_of(rows, o).w, o.lambda) == Approx(best).epsilon(1e-3));
}

TEST_CASE("lasso: the safe damping is by workers with columns, staleness and steps of a commit", "[algorithm]") {
  ra::lasso_options o;
  CHECK(o.safe_damping(1, 100) == 1.0);
  CHECK(o.safe_damping(4, 100) == 1.0 / 4);
  CHECK(o.safe_damping(4, 2) == 1.0 / 2);
  o.descent.protocol = rb::ssp{.staleness = 2};
  CHECK(o.safe_damping(4, 100) == 1.0 / 16);
  o.descent.protocol = rb::with(rb::ssp{.staleness = 2}, rb::every{3});
  CHECK(o.safe_damping(4, 100) == 1.0 / 46);
  o.descent.protocol = rb::asp{};
  CHECK(!o.safe_damping(4, 100));
}

TEST_CASE("lasso: asynchronous workers converge with a damping that is given, and lose no update", "[algorithm]") {
  auto const rows = lasso_rows();
  double const best = lasso_F(rows, plain_lasso(rows, 0.1, 2000).w, 0.1);
  auto const got = lasso_of(rows, {.lambda = 0.1,
                                   .clocks = 400,
                                   .damping = 0.1,
                                   .descent = {.workers = 4, .protocol = rb::asp{}}});
  CHECK(lasso_F(rows, got.w, 0.1) == Approx(best).epsilon(1e-3));
  check_residual(rows, got);
}

TEST_CASE("lasso: a round begins with the residual computed anew, from any w", "[algorithm][unthreaded]") {
  auto const rows = lasso_rows();
  doubles init(rows.features());
  for (std::size_t j = 0; j < init.size(); ++j) init[j] = 0.1 * static_cast<double>(j) - 2;
  auto const started =
      lasso_of(rows, {.lambda = 0.1, .clocks = 1, .descent = {.workers = 4}}, rb::simulated{.workers = 4}, init);
  check_residual(rows, started);
  double const best = lasso_F(rows, plain_lasso(rows, 0.1, 2000).w, 0.1);
  auto const got =
      lasso_of(rows, {.lambda = 0.1, .clocks = 50, .rounds = 4, .residual = {.workers = 2}, .descent = {.workers = 4}},
               rb::simulated{.workers = 4}, init);
  CHECK(lasso_F(rows, got.w, 0.1) == Approx(best).epsilon(1e-3));
  check_residual(rows, got);
}

TEST_CASE("lasso: floats drift by no more than is said, and a new round is without it", "[algorithm]") {
  auto const rows = lasso_rows();
  rb::engine engine{rb::simulated{.workers = 4}};
  auto const drift = [&](std::int64_t rounds) {
    auto t = ra::make_lasso_task<float>(rows);
    ra::lasso(t, rows, {.lambda = 0.001, .clocks = 200, .rounds = rounds, .descent = {.workers = 4}});
    engine.submit(t).wait();
    std::vector<float> const w = t.parameters<0>(), held = t.parameters<1>();
    std::vector<float> const anew = ra::lasso_residual(rows, std::span<float const>(w));
    double most = 0;
    for (std::size_t i = 0; i < held.size(); ++i)
      most = std::max(most, std::abs(static_cast<double>(held[i]) - static_cast<double>(anew[i])));
    return most;
  };
  double const once = drift(1);
  CHECK(once > 0);
  CHECK(once < 200 * 6e-8 * (4 * 10 + 30));  // |r_i| is below 10 and Σ |x_ij w_j| below 30
  CHECK(drift(3) < once);
}

TEST_CASE("lasso: workers without columns do nothing, columns without values stay zero", "[algorithm]") {
  rd::dataset_builder builder(3);
  builder.add(2, std::vector<std::uint32_t>{1}, std::vector<float>{1});
  auto const rows = builder.build();
  auto const got = lasso_of(rows, {.lambda = 0.5, .clocks = 60, .descent = {.workers = 7}},
                            rb::simulated{.workers = 7});
  CHECK(got.w[0] == 0);
  CHECK(got.w[1] == Approx(1.5));
  CHECK(got.w[2] == 0);
  CHECK(got.residual[0] == Approx(0.5));
  auto const none = lasso_of(rows, {.lambda = 2, .clocks = 60, .descent = {.workers = 7}}, rb::simulated{.workers = 7});
  CHECK(none.w == doubles(3));
}

TEST_CASE("lasso: a9a, with its labels as numbers", "[algorithm]") {
  if (rb::test::sanitized()) {  // others run the same code
    WARN("left out under a sanitizer, for the time it takes");
    return;
  }
  auto const path = rubato_test::real_data("a9a");
  if (!path) return;
  auto const all = rd::read_libsvm(*path);
  std::vector<std::size_t> some;
  for (std::size_t i = 0; i < 4000; ++i) some.push_back(i);
  auto const rows = all.gather(some);
  double const best = lasso_F(rows, plain_lasso(rows, 0.01, 150).w, 0.01);
  for (auto const& [protocol, clocks] : {std::pair(rb::rules(rb::bsp{}), 600), {rb::ssp{.staleness = 2}, 2400}}) {
    auto const got = lasso_of(rows, {.lambda = 0.01,
                                     .clocks = clocks,  // of which damping by 1/16 in place of 1/4 takes more
                                     .residual = {.workers = 4},
                                     .descent = {.workers = 4, .protocol = protocol}});
    INFO(protocol.name);
    CHECK(lasso_F(rows, got.w, 0.01) == Approx(best).epsilon(1e-3));
    CHECK(kkt_violation(rows, got.w, 0.01) < 1e-3);
    check_residual(rows, got, 1e-9);
  }
  auto const [got, work, read, sent] = with_filter(
      rows, {.lambda = 0.01, .clocks = 600, .residual = {.workers = 4}, .descent = {.workers = 4}}, {.passes = 10});
  CHECK(lasso_F(rows, got.w, 0.01) == Approx(best).epsilon(1e-3));
  CHECK(kkt_violation(rows, got.w, 0.01) < 1e-3);
  check_residual(rows, got, 1e-9);
  CHECK(work < 0.9);  // most of the stored values are in columns that stay
  CHECK(read < 0.9);
  CHECK(sent < 0.9);
}

TEST_CASE("lasso: a KKT filter saves most of the work on RCV1's text, of whose words few matter", "[algorithm]") {
  if (rb::test::sanitized()) {  // others run the same code
    WARN("left out under a sanitizer, for the time it takes");
    return;
  }
  auto const path = rubato_test::real_data("rcv1_sample_train.libsvm.gz");
  if (!path) return;
  auto const rows = rd::read_libsvm(*path);
  auto const [got, work, read, sent] =
      with_filter(rows,
                  {.lambda = 0.002,
                   .clocks = 200,
                   .how = ra::exchange::by_key,
                   .residual = {.workers = 4},
                   .descent = {.workers = 4}},
                  {.passes = 10});
  CAPTURE(work, read, sent);
  CHECK(kkt_violation(rows, got.w, 0.002) < 1e-9);
  CHECK(work < 0.25);
  CHECK(read < 0.6);
  CHECK(sent < 0.5);
}

TEST_CASE("lasso: options that cannot be meant are refused", "[algorithm]") {
  auto const rows = lasso_rows();
  auto const made = [&](ra::lasso_options const& o) {
    auto t = ra::make_lasso_task<double>(rows);
    ra::lasso(t, rows, o);
  };
  CHECK_NOTHROW(made({}));
  CHECK_THROWS_WITH(made({.lambda = -1}), Contains("lambda must be finite and at least 0"));
  CHECK_THROWS_WITH(made({.lambda = std::nan("")}), Contains("lambda must be finite"));
  CHECK_THROWS_WITH(made({.clocks = 0}), Contains("clocks must be at least 1"));
  CHECK_THROWS_WITH(made({.damping = 0.25, .descent = {.workers = 3, .protocol = rb::k_sync{.k = 2}}}),
                    Contains("lasso: descent has a protocol that leaves out what comes late"));
  CHECK_THROWS_WITH(made({.residual = {.workers = 3, .protocol = rb::k_sync{.k = 2}}}),
                    Contains("lasso: residual has a protocol"));
  rb::rules const keeps_back = rb::streaming_diloco{.steps = 2, .fragments = 2};
  CHECK_THROWS_WITH(made({.residual = {.protocol = keeps_back}}),
                    Contains("lasso: residual has a protocol with a filter"));
  CHECK_THROWS_WITH(made({.damping = 0.25, .descent = {.protocol = keeps_back}}),
                    Contains("lasso: descent has a protocol with a filter"));
  CHECK_THROWS_WITH(made({.rounds = 0}), Contains("rounds must be at least 1"));
  CHECK_THROWS_WITH(made({.batch = 0}), Contains("batch must be above 0 and at most 1"));
  CHECK_THROWS_WITH(made({.batch = 1.5}), Contains("batch must be above 0 and at most 1"));
  CHECK_THROWS_WITH(made({.filter = {.passes = -1}}), Contains("kkt_filter: passes must be at least 0, but is -1"));
  CHECK_THROWS_WITH(made({.filter = {.margin = 2}}), Contains("kkt_filter: margin must be in [0, 1]"));
  CHECK_THROWS_WITH(made({.lambda = 0, .filter = {.passes = 5}}), Contains("above 0 where there is a filter"));
  CHECK_THROWS_WITH(made({.damping = 0}), Contains("damping must be above 0 and at most 1"));
  CHECK_THROWS_WITH(made({.damping = 2}), Contains("damping must be above 0 and at most 1"));
  CHECK_THROWS_WITH(made({.descent = {.protocol = rb::asp{}}}), Contains("damping must be given"));
  CHECK_THROWS_WITH(made({.residual = {.iterations = 2}}), Contains("lasso: residual has iterations"));
  CHECK_THROWS_WITH(made({.descent = {.cleared = {0}}}), Contains("lasso: descent has iterations"));
  CHECK_THROWS_WITH(made({.residual = {.workers = rb::automatic}}), Contains("expected a number of workers"));
  rd::dataset const nothing;
  auto t = ra::make_lasso_task<double>(rows);
  CHECK_THROWS_AS(ra::lasso(t, nothing, {}), rb::option_error);
  rb::engine engine{rb::simulated{.workers = 2}};
  auto const fewer = lasso_rows(20, 40);
  auto other = ra::make_lasso_task<double>(fewer);
  ra::lasso(other, rows, {});
  CHECK_THROWS_AS(engine.submit(other).wait(), rb::error);
}

TEST_CASE("lasso: a worker that joins is refused, as its rows and columns are others' already", "[algorithm]") {
  auto const rows = lasso_rows();
  CHECK_THROWS_WITH(lasso_of(rows, {.residual = {.workers = 2}}, rb::test::with_joiner()),
                    Contains("lasso: worker 2 has joined"));
  rb::engine engine{rb::test::with_joiner()};
  auto t = ra::make_lasso_task<double>(rows);
  t.run(t.stage({.workers = 2}, ra::lasso_descent<double>(rd::columns(rows), {})));
  CHECK_THROWS_WITH(engine.submit(t).wait(), Contains("lasso: worker 2 has joined"));
}
