// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/runs.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <future>
#include <thread>

namespace rubato::bench {
namespace {

/// A run that is cut off at its deadline still gets a last point, from the updates that were under way. An arrival
/// there has not been watched for a clock, as others are: it does not count.
void forget_unwatched_arrival(run_result& r, double deadline) {
  if (!r.seconds_to_target || r.seconds <= deadline || *r.seconds_to_target <= deadline) return;
  if (r.curve.empty() || r.curve.back().seconds > *r.seconds_to_target) return;
  r.seconds_to_target.reset();
  r.updates_to_target.reset();
  r.steps_to_target.reset();
  r.clocks_to_target.reset();
}

}  // namespace

std::vector<run_result> run_all(std::span<candidate const> candidates,
                                std::span<run_order const> orders, std::size_t lanes) {
  std::vector<run_result> results(orders.size());
  if (orders.empty()) return results;
  std::atomic<std::size_t> next = 0;
  auto const run_some = [&] {
    for (std::size_t i; (i = next++) < orders.size();) {
      run_order const& o = orders[i];
      candidate const& c = candidates[o.what.candidate];
      results[i] = c.run(o.what.learning_rate, o.seed, {.at_target = true, .deadline = o.deadline});
      results[i].parameters = {};
      forget_unwatched_arrival(results[i], o.deadline);
    }
  };
  std::vector<std::future<void>> others(std::clamp<std::size_t>(lanes, 1, orders.size()) - 1);
  for (std::future<void>& lane : others) lane = std::async(std::launch::async, run_some);
  run_some();
  for (std::future<void>& lane : others) lane.get();
  return results;
}

std::size_t usual_lanes() { return std::max(1U, std::thread::hardware_concurrency()); }

std::uint64_t cost_of(std::span<run_result const> results) {
  std::uint64_t steps = 0;
  for (run_result const& r : results) steps += r.steps;
  return steps;
}

std::uint64_t cost_until(run_result const& r, double deadline) {
  if (r.seconds <= deadline) return r.steps;
  std::uint64_t steps = 0;
  for (curve_point const& p : r.curve)
    if (p.seconds <= deadline) steps = std::max(steps, p.steps);
  return steps;
}

double loss_at(run_result const& r, double deadline) {
  double loss = r.final_loss;
  for (curve_point const& p : r.curve)
    if (p.seconds <= deadline) loss = p.loss;
  return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
}

bool ended_above_target(run_result const& r, double deadline) {
  return !r.seconds_to_target && (r.seconds <= deadline || !std::isfinite(r.final_loss));
}

double time_to_target(run_result const& r) {
  return r.seconds_to_target.value_or(std::numeric_limits<double>::infinity());
}

double median(std::vector<double> numbers) {
  if (numbers.empty()) return std::numeric_limits<double>::infinity();
  std::ranges::sort(numbers);
  std::size_t const middle = numbers.size() / 2;
  if (numbers.size() % 2 == 1) return numbers[middle];
  return (numbers[middle - 1] + numbers[middle]) / 2;
}

std::vector<double> rate_grid() {
  std::vector<double> rates;
  for (double rate = 1.0 / 256; rate <= 128; rate *= 2) rates.push_back(rate);
  return rates;
}

}  // namespace rubato::bench
