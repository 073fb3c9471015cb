// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/sim/speed.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

namespace rubato::sim {
namespace {

void require(bool good, std::string_view path, std::string_view option, std::string_view expected,
             auto const& value) {
  if (good) return;
  throw option_error(fmt::format("{}.{} must be {}, but is {}", path, option, expected, value));
}

bool positive(double x) { return std::isfinite(x) && x > 0; }

}  // namespace

std::size_t heterogeneity::slow_workers(std::size_t workers) const noexcept {
  // A product such as 0.2 * 55 may land just above the whole number that is meant.
  double const exact = slow_fraction * static_cast<double>(workers);
  return std::min(workers, static_cast<std::size_t>(std::ceil(exact * (1.0 - 1e-12))));
}

void speed_options::validate(std::size_t workers, std::string_view path) const {
  require(work_cost >= duration::zero(), path, "work_cost", "at least 0 ns", work_cost.count());
  require(slowness.size() <= workers, path, "slowness",
          fmt::format("a list of at most {} factors, one per worker", workers), slowness.size());
  for (std::size_t i = 0; i < slowness.size(); ++i) {
    require(positive(slowness[i]), path, fmt::format("slowness[{}]", i),
            "a finite factor greater than 0", slowness[i]);
  }
  require(std::isfinite(heterogeneity.level) && heterogeneity.level >= 1, path,
          "heterogeneity.level", "a finite factor of at least 1", heterogeneity.level);
  require(heterogeneity.slow_fraction >= 0 && heterogeneity.slow_fraction <= 1, path,
          "heterogeneity.slow_fraction", "between 0 and 1", heterogeneity.slow_fraction);
  require(random_slowdown.probability >= 0 && random_slowdown.probability <= 1, path,
          "random_slowdown.probability", "between 0 and 1", random_slowdown.probability);
  require(positive(random_slowdown.factor), path, "random_slowdown.factor",
          "a finite factor greater than 0", random_slowdown.factor);
  jitter.validate(fmt::format("{}.jitter", path));
  for (std::size_t i = 0; i < changes.size(); ++i) {
    slowness_change const& c = changes[i];
    require(c.worker.index() < workers, path, fmt::format("changes[{}].worker", i),
            fmt::format("one of the {} workers", workers), c.worker.value());
    require(c.at >= duration::zero(), path, fmt::format("changes[{}].at", i), "at least 0 ns",
            c.at.count());
    require(positive(c.factor), path, fmt::format("changes[{}].factor", i),
            "a finite factor greater than 0", c.factor);
  }
}

speed_model::speed_model(speed_options const& options, std::size_t workers)
    : work_cost_(static_cast<double>(options.work_cost.count())),
      slowness_(options.slowness),
      random_slowdown_(options.random_slowdown),
      jitter_(options.jitter),
      changes_(options.changes) {
  std::size_t const slow = options.heterogeneity.slow_workers(workers);
  if (slow != 0) slowness_.resize(std::max(workers, slowness_.size()), 1.0);
  for (std::size_t i = workers - slow; i < workers; ++i)
    slowness_[i] *= options.heterogeneity.level;
  std::stable_sort(changes_.begin(), changes_.end(), [](auto const& a, auto const& b) {
    return std::tie(a.worker, a.at) < std::tie(b.worker, b.at);
  });
}

double speed_model::slowness(worker_id worker, time_point now) const noexcept {
  double const usual = worker.index() < slowness_.size() ? slowness_[worker.index()] : 1.0;
  if (changes_.empty()) return usual;
  auto const later = std::upper_bound(
      changes_.begin(), changes_.end(), std::pair(worker, now.since_start()),
      [](auto const& key, slowness_change const& c) { return key < std::pair(c.worker, c.at); });
  bool const changed = later != changes_.begin() && std::prev(later)->worker == worker;
  return changed ? usual * std::prev(later)->factor : usual;
}

duration speed_model::step(worker_id worker, double work, time_point now,
                           random_stream& random) const noexcept {
  RUBATO_ASSERT(work >= 0);
  // The slowdown is drawn even if it cannot happen: turning it on leaves the jitter as it was.
  bool const slowed = random.chance(random_slowdown_.probability);
  double const factor = slowness(worker, now) * (slowed ? random_slowdown_.factor : 1.0);
  return detail::round_nanoseconds(work * work_cost_ * factor * jitter_.draw(random));
}

}  // namespace rubato::sim
