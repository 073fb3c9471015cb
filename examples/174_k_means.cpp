// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// k-means with mini-batches: four workers put a tenth of their rows at a time into the clusters whose centres are
// nearest, and push what that changes, so counts always add up. Under BSP the same in process and simulated, and where
//   rubato-launch -n 2 -s 1 -- 174_k_means
// starts it, across processes.
#include <cstdint>
#include <cstdio>
#include <numeric>
#include <rubato/algorithm/k_means.hpp>
#include <rubato/core/random.hpp>
#include <rubato/rubato.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/tcp.hpp>
#include <vector>

namespace rb = rubato;

/// 1000 points of the plane, a unit or so around (0, 0), (10, 0), (0, 10) and (10, 10).
rb::data::dataset points() {
  rb::data::dataset_builder rows(2);
  rb::random_stream random(1);
  for (unsigned i = 0; i < 1000; ++i) {
    std::vector<float> const at{static_cast<float>(10 * (i % 2) + random.normal()),
                                static_cast<float>(10 * (i / 2 % 2) + random.normal())};
    rows.add(0, std::vector<std::uint32_t>{0, 1}, at);
  }
  return rows.build();
}

rb::data::dataset const samples = points();
std::vector<double> const start = rb::algorithm::k_means_plus_plus(samples, 4, 1);

/// Prints what has come out where it is told a name.
template <class Transport>
std::vector<double> train(char const* where, Transport const& transport, rb::rules const& protocol) {
  rb::engine engine{transport};
  auto task = rb::algorithm::make_k_means_task(samples, 4);
  rb::algorithm::k_means(task, samples, start,
                         {.clocks = 30, .batch = 0.1, .stage = {.workers = 4, .protocol = protocol}});
  engine.submit(task).wait();
  if (where == nullptr) return {};
  auto const counts = task.parameters<1>();
  std::vector<double> const centres = rb::algorithm::k_means_centres(task, start);
  std::printf("%s, %s: %d rows, mean squared distance %.2f, before %.2f\n", where, protocol.name.c_str(),
              static_cast<int>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})),
              rb::algorithm::k_means_objective(samples, centres), rb::algorithm::k_means_objective(samples, start));
  return centres;
}

int main() {
  auto const across = rb::tcp::from_environment(2);
  if (across.place.as != rb::net::role::worker || across.place.rank != 0)
    return train(nullptr, across, rb::bsp{}), 0;  // serves, or is worker 2 and 3
  rb::in_process const threads{.workers = 4};
  rb::simulated const simulated{.workers = 4, .servers = 2};
  auto const here = train("in process", threads, rb::bsp{});
  auto const there = train("simulated", simulated, rb::bsp{});
  auto const away = train("across processes", across, rb::bsp{});
  std::printf("%s\n", here == there && here == away ? "the same centres" : "other centres");
  train("in process", threads, rb::asp{});
  train("simulated", simulated, rb::asp{});
}
