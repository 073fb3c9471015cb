// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/sigmod17.hpp"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>
#include <vector>

using namespace rubato::bench;
using namespace rubato::bench::sigmod17;

TEST_CASE("convergence is what the last five clocks and the first good ones say") {
  std::vector<double> const objectives = {9, 3, 8, 4, 1, 3, 5, 7, 9};
  convergence const c = converges(objectives, 4);
  CHECK(c.min_obj == 5);
  CHECK(c.deviation == Approx(std::sqrt(8.0)));
  CHECK(c.clocks == 4);  // the second is below the target, but not its successor
  CHECK_FALSE(converges(objectives, 0.5).clocks);
  CHECK(converges({3, 2, 1}, 1).clocks == 3);
}

TEST_CASE("a run that diverges has converged nowhere") {
  double const none = std::numeric_limits<double>::quiet_NaN();
  convergence const c = converges({1, none, none, none, none, none}, 0.5);
  CHECK(std::isnan(c.min_obj));
  CHECK_FALSE(c.clocks);
  CHECK(std::isnan(converges({}, 1).min_obj));
}

TEST_CASE("a protocol's best rate is better than its neighbours") {
  sensitivity setting({.data_dir = "/no/such/directory", .clocks = 6});
  setting.job.workers = 5;
  setting.job.servers = 2;
  protocol_choice const dyn_sgd = three()[2];
  double const best = setting.best_rate(dyn_sgd);
  trial const at_best = setting.run(dyn_sgd, best);
  CHECK(at_best.label == "dyn_sgd(3)");
  CHECK(at_best.found.min_obj < setting.run(dyn_sgd, best / 64).found.min_obj);
  CHECK(setting.lowest() <= at_best.found.min_obj);
  CHECK(setting.moderate_rate(three()[0]) == setting.best_rate(three()[0]));
}
