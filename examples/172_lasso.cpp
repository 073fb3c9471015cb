// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The Lasso by parallel coordinate descent: four workers, who own a quarter of the features each, find the few of 200
// that labels are made of. Under BSP w is the same, bit for bit, in process and simulated; under SSP nearly so.
//   rubato-launch -n 2 -s 1 -- 172_lasso
// does so across processes, too, where w is the same once more.
// A KKT filter leaves out the other features for ten clocks at a time, and rows of the residual that only they need.
#include <cstdint>
#include <cstdio>
#include <rubato/algorithm/lasso.hpp>
#include <rubato/core/random.hpp>
#include <rubato/rubato.hpp>
#include <rubato/task/engine.hpp>
#include <rubato/transport/tcp.hpp>
#include <span>
#include <vector>

namespace rb = rubato;

/// 500 rows of 20 features; a label is 2 x_10 - x_70 + 0.5 x_130, and noise.
rb::data::dataset measured() {
  rb::data::dataset_builder rows(200);
  rb::random_stream random(1);
  for (std::uint32_t i = 0; i < 500; ++i) {
    std::vector<std::uint32_t> features;
    std::vector<float> values;
    double label = 0.05 * random.normal();
    for (std::uint32_t j = i % 10U; j < 200; j += 10) {
      features.push_back(j);
      values.push_back(static_cast<float>(random.normal()));
      label += (j == 10 ? 2 : j == 70 ? -1 : j == 130 ? 0.5 : 0) * static_cast<double>(values.back());
    }
    rows.add(static_cast<float>(label), features, values);
  }
  return rows.build();
}

rb::data::dataset const samples = measured();

/// Prints what has come out where it is told a name.
template <class Transport>
std::vector<double> train(char const* where, Transport const& transport, rb::rules const& protocol) {
  rb::engine engine{transport};
  auto task = rb::algorithm::make_lasso_task(samples);
  rb::algorithm::lasso(task, samples, {.lambda = 0.01, .descent = {.workers = 4, .protocol = protocol}});
  engine.submit(task).wait();
  if (where == nullptr) return {};
  std::vector<double> const w = task.parameters();
  std::printf("%s, %s: objective %.4f, w is not 0 at", where, protocol.name.c_str(),
              rb::algorithm::lasso_objective(samples, std::span<double const>(w), 0.01));
  for (std::size_t j = 0; j < w.size(); ++j)
    if (w[j] != 0) std::printf(" %zu", j);
  std::printf("\n");
  return w;
}

/// What workers measured of the descent, in virtual time, where they exchange rows of the residual by key.
rb::worker_metrics train_filtered(rb::kkt_filter const& filter) {
  rb::engine engine{rb::simulated{.workers = 4, .servers = 2}};
  auto task = rb::algorithm::make_lasso_task(samples);
  rb::algorithm::lasso(
      task, samples,
      {.lambda = 0.01, .how = rb::algorithm::exchange::by_key, .filter = filter, .descent = {.workers = 4}});
  auto const report = engine.submit(task).wait();
  std::vector<double> const w = task.parameters();
  rb::worker_metrics const total = report.stages.back().run.total();
  double const objective = rb::algorithm::lasso_objective(samples, std::span<double const>(w), 0.01);
  std::printf("left out for %d passes: objective %.4f, computed for %.1f ms, read %.1f kB, sent %.1f kB\n",
              static_cast<int>(filter.passes), objective, 1e3 * rb::to_seconds(total.compute),
              static_cast<double>(total.bytes_received) / 1e3, static_cast<double>(total.bytes_sent) / 1e3);
  return total;
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
  std::printf("%s\n", here == there && here == away ? "the same w" : "another w");
  train("in process", threads, rb::ssp{.staleness = 2});
  train("simulated", simulated, rb::ssp{.staleness = 2});

  auto const all = train_filtered({}), active = train_filtered({.passes = 10});
  std::printf("saved %.0f%% of the computing and %.0f%% of what is read\n",
              100 * (1 - rb::to_seconds(active.compute) / rb::to_seconds(all.compute)),
              100 * (1 - static_cast<double>(active.bytes_received) / static_cast<double>(all.bytes_received)));
}
