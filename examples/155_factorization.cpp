// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Recommendations by alternating least squares: the users' factors and the items' in turn, each by a
// number of workers of its own. The factors are the same, bit for bit, wherever and by however many they are computed.
#include <cmath>
#include <cstdio>
#include <rubato/algorithm/als.hpp>
#include <rubato/data/ratings.hpp>
#include <rubato/rubato.hpp>
#include <rubato/task/engine.hpp>
#include <span>
#include <vector>

namespace rb = rubato;

rb::data::ratings const known =
    rb::data::make_synthetic_ratings({.users = 600, .items = 50, .factors = 3, .per_user = 25, .noise = 0.2});

template <class Transport>
std::vector<float> train(char const* where, Transport const& transport) {
  rb::engine engine{transport};
  auto task = rb::algorithm::make_als_task(known, 3);
  rb::algorithm::als(task, known, {.factors = 3, .l2 = 0.001, .users = {.workers = 8}, .items = {.workers = 2}});
  engine.submit(task).wait();
  std::vector<float> const users = task.parameters<0>(), items = task.parameters<1>();
  double const squares =
      rb::algorithm::als_objective(known, std::span<float const>(users), std::span<float const>(items), 0);
  std::printf("%s: off by %.2f\n", where, std::sqrt(squares / static_cast<double>(known.size())));
  return users;
}

int main() {
  auto const here = train("in process", rb::in_process{.workers = 8});
  auto const there = train("simulated", rb::simulated{.workers = 8, .servers = 3});
  std::printf("%s\n", here == there ? "the same factors" : "other factors");
}
