// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/regret.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "bench/reproduce/registry.hpp"
#include "rubato/core/error.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/ssp.hpp"

using namespace rubato;
using namespace rubato::bench;

namespace {

constexpr std::int64_t regret_updates = 4800;

/// A problem and where the means of its first components are least, for runs of `regret_updates`.
struct regret_fixture {
  explicit regret_fixture(std::size_t features, double noise)
      : problem({.rows = regret_updates, .features = features, .noise = noise}, 7) {
    for (std::int64_t const t : {300, 1200, 4800})
      optima.push_back({t, problem.minimize(static_cast<std::size_t>(t))});
    double squared = 0;
    for (double const x : optima.back().best.at) squared += x * x;
    diameter = std::sqrt(2 * squared);
  }
  [[nodiscard]] regret_setting setting(std::int64_t s, std::uint32_t workers) const {
    return {.problem = problem,
            .optima = optima,
            .bound = {.diameter = diameter, .lipschitz = 1, .staleness = s, .workers = workers}};
  }

  convex_problem problem;
  std::vector<optimum> optima;
  double diameter = 0;
};

double mean_value(convex_problem const& p, std::size_t count, std::span<double const> x) {
  double sum = 0;
  for (std::size_t i = 0; i < count; ++i) sum += p.value(i, x);
  return sum / static_cast<double>(count);
}

/// Theorem 1's regret after each number of updates, and that its region was large enough.
void check_bound(regret_run const& r, regret_setting const& s, double factor) {
  REQUIRE(r.regrets.size() == s.optima.size());
  for (std::size_t i = 0; i < s.optima.size(); ++i) {
    CHECK(r.regrets[i] <= s.bound.at(static_cast<double>(s.optima[i].updates), factor));
    CHECK(r.regrets[i] > 0);
  }
  CHECK(r.region <= s.bound.diameter * s.bound.diameter);
  CHECK(r.unexplained < 1e-9);
}

}  // namespace

TEST_CASE("components of a convex problem are Lipschitz with 1, and their slopes are derivatives") {
  convex_problem const p({.rows = 50, .features = 3, .noise = 0.2}, 1);
  std::vector<double> const x = {0.3, -0.7, 0.2};
  for (std::size_t i = 0; i < p.size(); ++i) {
    auto const a = p.row(i);
    CHECK(a[0] * a[0] + a[1] * a[1] + a[2] * a[2] == Approx(1));
    CHECK(std::abs(p.slope(i, x)) <= 1);
    constexpr double h = 1e-6;
    std::vector<double> const up = {x[0] + h * a[0], x[1] + h * a[1], x[2] + h * a[2]};
    std::vector<double> const down = {x[0] - h * a[0], x[1] - h * a[1], x[2] - h * a[2]};
    CHECK((p.value(i, up) - p.value(i, down)) / (2 * h) == Approx(p.slope(i, x)).margin(1e-6));
  }
}

TEST_CASE("a convex problem is least where it says, for as many components as asked") {
  convex_problem const p({.rows = 200, .features = 3, .noise = 0.2}, 1);
  for (std::size_t const count : {2U, 20U, 200U}) {
    minimum const m = p.minimize(count);
    CHECK(m.gradient <= 1e-12);
    CHECK(m.value == Approx(mean_value(p, count, m.at)).margin(1e-12));
    for (std::size_t k = 0; k < 3; ++k)
      for (double const off : {-1e-3, 1e-3}) {
        std::vector<double> beside = m.at;
        beside[k] += off;
        CHECK(mean_value(p, count, beside) > m.value);
      }
  }
  CHECK_THROWS_AS(p.minimize(0), option_error);
  CHECK_THROWS_AS(p.minimize(201), option_error);
  CHECK_THROWS_AS(convex_problem({.rows = 0}, 1), option_error);
  CHECK_THROWS_AS(convex_problem({.rows = 5, .features = 0}, 1), option_error);
  CHECK_THROWS_AS(convex_problem({.rows = 5, .noise = -1}, 1), option_error);
}

TEST_CASE("a regret bound is that of the theorem") {
  regret_bound const b{.diameter = 2, .lipschitz = 3, .staleness = 3, .workers = 2};  // (s + 1)P = 8
  CHECK(b.delay() == 8);
  CHECK(b.step_size(1) == Approx(2.0 / 12));
  CHECK(b.step_size(25) == Approx(2.0 / 60));
  CHECK(b.at(100) == Approx(4 * 6 * 0.4));
  CHECK(b.at(100, 5) == Approx(5 * 6 * 0.4));
  double const from = b.proven_from();  // 3 + 1/16 + 8/sqrt(T) = 4
  CHECK(3 + 1.0 / 16 + 8 / std::sqrt(from) == Approx(4));
}

TEST_CASE("the regret under BSP is that of a program without workers") {
  regret_fixture const f(3, 0.1);
  constexpr std::uint32_t workers = 4;
  regret_setting const s = f.setting(0, workers);
  regret_run const r = measure_regret(s, with(bsp{}, sum{}), update_weight::one);
  std::vector<double> x(3), next(3);
  double sum_of_values = 0;
  std::size_t i = 0;
  for (std::size_t t = 0; t < static_cast<std::size_t>(regret_updates); ++t) {
    if (t % workers == 0) x = next;
    sum_of_values += f.problem.value(t, x);
    double const step = s.bound.step_size(static_cast<double>(t + 1)) * f.problem.slope(t, x);
    for (std::size_t k = 0; k < 3; ++k) next[k] -= step * f.problem.row(t)[k];
    if (t + 1 != static_cast<std::size_t>(f.optima[i].updates)) continue;
    CHECK(r.regrets[i] == Approx(sum_of_values / static_cast<double>(t + 1) - f.optima[i].best.value).margin(1e-10));
    ++i;
  }
  CHECK(i == f.optima.size());
  CHECK(r.views.mean == 1.5);  // worker p lacks those of the p before it in its clock
  CHECK(r.views.most == 3);
  CHECK(r.views.most_lag == 0);
  CHECK(r.most_staleness == 0);
}

TEST_CASE("SSP's regret is below the bound of 001, and views lack no more than Lemma 1 says") {
  std::int64_t const staleness_tried = GENERATE(1, 3);
  double const heterogeneity = GENERATE(1.0, 2.0);
  for (regret_fixture const& f : {regret_fixture(10, 0.1), regret_fixture(1, 0)}) {
    constexpr std::uint32_t workers = 6;
    regret_setting s = f.setting(staleness_tried, workers);
    s.heterogeneity = heterogeneity;
    basic_ssp<strict> const p{.staleness = staleness{staleness_tried}};
    regret_run const r = measure_regret(s, p, update_weight::one);
    check_bound(r, s, regret_bound::of_ssp);
    CHECK(r.regrets[2] <= 0.5 * r.regrets[0]);  // 16 times the updates: as T^-1/2 it is a quarter
    CHECK(r.views.most <= 2 * staleness_tried * (workers - 1));
    CHECK(r.views.oldest_missing <= staleness_tried);
    CHECK(r.views.newest_extra <= staleness_tried - 1);
    CHECK(r.most_staleness == staleness_tried);
    CHECK(r.views.most_lag == staleness_tried);
    CHECK(r.views.mean_lag > 0);
    CHECK(r.views.mean_lag <= r.mean_staleness);  // copies may have more than they promise
  }
}

TEST_CASE("ASP's views are beyond any such bound") {
  regret_fixture const f(1, 0);
  constexpr std::int64_t as_if = 3;
  regret_run const r = measure_regret(f.setting(as_if, 6), asp{}, update_weight::one);
  CHECK(r.views.most_lag > 100 * as_if);
  CHECK(r.views.most > 2 * as_if * 5);
  CHECK(r.most_staleness == 64);
  CHECK(r.unexplained < 1e-9);
}

TEST_CASE("ConSGD's and DynSGD's regrets are below the bounds of 000, and mu is between 1 and M") {
  regret_fixture const f(10, 0.1);
  constexpr std::uint32_t workers = 6;
  regret_setting const s = f.setting(3, workers);
  con_sgd const con{.staleness = 3, .fold = {.lambda = 1.0 / workers}};
  check_bound(measure_regret(s, con, update_weight::by_workers), s, workers + 3.0);
  regret_run const r = measure_regret(s, dyn_sgd{.staleness = 3}, update_weight::by_version);
  check_bound(r, s, r.mean_sharing + 3);
  CHECK(r.mean_sharing >= 1);
  CHECK(r.mean_sharing < workers);
  CHECK(r.mean_share > 1 / r.mean_sharing);  // which 000's proof takes it for
  // With a barrier all share a version, and DynSGD is ConSGD.
  regret_setting const barrier = f.setting(0, workers);
  regret_run const even = measure_regret(barrier, dyn_sgd{.staleness = 0}, update_weight::by_version);
  CHECK(even.mean_sharing == workers);
  con_sgd const same{.staleness = 0, .fold = {.lambda = 1.0 / workers}};
  CHECK(even.regrets.back() ==
        Approx(measure_regret(barrier, same, update_weight::by_workers).regrets.back()).margin(1e-9));
}

TEST_CASE("a regret is not measured without what it needs") {
  regret_fixture const f(1, 0);
  regret_setting s = f.setting(1, 7);  // which does not divide 4800
  CHECK_THROWS_AS(measure_regret(s, asp{}, update_weight::one), option_error);
  s.bound.workers = 0;
  CHECK_THROWS_AS(measure_regret(s, asp{}, update_weight::one), option_error);
  s.bound.workers = 4;
  s.optima = {};
  CHECK_THROWS_AS(measure_regret(s, asp{}, update_weight::one), option_error);
  std::vector<optimum> wrong = {f.optima[1], f.optima[0]};
  s.optima = wrong;
  CHECK_THROWS_AS(measure_regret(s, asp{}, update_weight::one), option_error);
  wrong = {f.optima[2]};
  wrong[0].updates = 2 * regret_updates;
  s.optima = wrong;
  CHECK_THROWS_AS(measure_regret(s, asp{}, update_weight::one), option_error);
}

TEST_CASE("the theorem's measurement has its name") {
  auto const all = reproductions();
  CHECK(std::ranges::count(all, std::string_view("ssp-theorem1"), &reproduction::name) == 1);
}
