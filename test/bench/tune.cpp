// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/tune.hpp"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace rubato::bench;

namespace {

/// A protocol whose time to the target is least at `best`, and infinite far from it.
trial_runner valley(double best, double reach, std::vector<double>* tried = nullptr) {
  return [=](double rate, stop_rule const& stop) {
    if (tried != nullptr) tried->push_back(rate);
    double const distance = std::abs(std::log(rate / best));
    run_result r;
    r.final_loss = distance;
    if (distance < reach && 1 + distance <= stop.deadline) r.seconds_to_target = 1 + distance;
    return r;
  };
}

}  // namespace

TEST_CASE("tuning finds the best rate up to the finest step") {
  for (double const best : {0.01, 0.3, 5.0}) {
    INFO(best);
    double const found = tune({}, valley(best, 100)).learning_rate;
    CHECK(std::abs(std::log(found / best)) <= std::log(2.0) / 2);
  }
}

TEST_CASE("a grid whose best is at an end grows") {
  double const found = tune({}, valley(200, 100)).learning_rate;
  CHECK(found > 100);
}

TEST_CASE("a grid grows until its best is at no end, however far that is") {
  for (double const best : {1e-9, 1e9}) {
    auto const result = tune({}, valley(best, 100));
    CHECK(std::abs(std::log(result.learning_rate / best)) <= std::log(2.0) / 2);
    CHECK(result.learning_rate > result.trials.front().learning_rate);
    CHECK(result.learning_rate < result.trials.back().learning_rate);
  }
}

TEST_CASE("where no rate is better than a greater one the search ends all the same") {
  auto const result = tune({}, [](double rate, stop_rule const&) {
    run_result r;
    r.final_loss = -rate;
    return r;
  });
  CHECK(result.learning_rate > 1e20);
}

TEST_CASE("where no rate reaches the target the lowest final objective counts") {
  double const found = tune({}, valley(0.01, 0)).learning_rate;
  CHECK(std::abs(std::log(found / 0.01)) <= std::log(2.0) / 2);
}

TEST_CASE("trials are reported in ascending order, each rate once") {
  std::vector<double> tried;
  auto const result = tune({}, valley(0.3, 100, &tried));
  CHECK(result.trials.size() == tried.size());
  CHECK(std::ranges::is_sorted(result.trials, std::ranges::less{}, &tuning_trial::learning_rate));
  std::ranges::sort(tried);
  CHECK(std::ranges::adjacent_find(tried) == tried.end());
}

TEST_CASE("a budget that is used up ends the search with what there is") {
  std::vector<double> tried;
  auto const result = tune({.budget_seconds = -1}, valley(0.3, 100, &tried));
  CHECK(tried.size() == 1);
  CHECK(result.learning_rate == tried[0]);
}

TEST_CASE("a trial that diverges loses to one that does not") {
  tuning_trial const lost{1, std::nullopt, std::nan("")};
  tuning_trial const poor{1, std::nullopt, 10};
  tuning_trial const good{1, 5.0, 1};
  CHECK(better(poor, lost));
  CHECK_FALSE(better(lost, poor));
  CHECK(better(good, poor));
}
