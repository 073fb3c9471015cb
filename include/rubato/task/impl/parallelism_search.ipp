// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/task/parallelism_search.hpp"

namespace rubato {

void search_options::check() const {
  if (probe < 1) throw option_error("search: probe must be at least 1 iteration, but is " + std::to_string(probe));
  if (first < 1) throw option_error("search: first must be at least 1 worker");
  if (limit != 0 && limit < first)
    throw option_error("search: limit must be 0 or at least first (" + std::to_string(first) + "), but is " +
                       std::to_string(limit));
  if (!(growth > 1) || !std::isfinite(growth)) throw option_error("search: growth must be finite and above 1");
}

parallelism_search::parallelism_search(search_options const& options, std::int64_t iterations,
                                       std::uint32_t limit)
    : options_(options), iterations_(iterations), limit_(limit), degree_(options.first) {
  options_.check();
  if (iterations < 1)
    throw option_error("search: a stage whose degree is found while it runs needs iterations, at least 1");
  if (limit == 0) throw option_error("search: there are no workers");
  if (options_.limit != 0) limit_ = std::min(limit_, options_.limit);
  degree_ = std::min(degree_, limit_);
}

std::optional<parallelism_search::sub_stage> parallelism_search::next() const {
  std::int64_t const left = iterations_ - done_;
  if (left == 0) return std::nullopt;
  if (!searching_) return sub_stage{best(), done_, left, false};
  return sub_stage{degree_, done_, std::min(left, options_.probe), true};
}

void parallelism_search::ran(duration elapsed) {
  sub_stage const what = *next();
  done_ += what.iterations;
  disturbed_ = false;
  if (!what.probes) return;
  probes_.push_back({what.workers, what.iterations, elapsed / what.iterations});
  std::size_t const n = probes_.size();
  bool const slower = n > 1 && probes_[n - 1].per_iteration > probes_[n - 2].per_iteration;
  if (slower || degree_ == limit_) {
    searching_ = false;
    return;
  }
  double const grown = std::ceil(static_cast<double>(degree_) * options_.growth);
  degree_ = grown < static_cast<double>(limit_) ? static_cast<std::uint32_t>(grown) : limit_;
}

void parallelism_search::ran_unmeasured() {
  done_ += next()->iterations;
  disturbed_ = false;
}

void parallelism_search::ran_disturbed(duration elapsed) {
  if (disturbed_) return ran(elapsed);
  ran_unmeasured();
  disturbed_ = true;
}

void parallelism_search::limit_to(std::uint32_t workers) {
  limit_ = std::min(limit_, workers);
  if (degree_ <= limit_) return;
  degree_ = limit_;
  disturbed_ = false;
  if (!probes_.empty() && probes_.back().workers >= limit_) searching_ = false;
}

void parallelism_search::run_again(std::int64_t iterations) { iterations_ += iterations; }

duration parallelism_search::cost() const noexcept {
  duration least = duration::max();
  for (probe const& p : probes_) least = std::min(least, p.per_iteration);
  duration sum{};
  for (probe const& p : probes_) sum += (p.per_iteration - least) * p.iterations;
  return sum;
}

std::uint32_t parallelism_search::best() const noexcept {
  std::uint32_t best = degree_;
  duration least = duration::max();
  for (probe const& p : probes_)
    if (p.per_iteration < least) {
      least = p.per_iteration;
      best = p.workers;
    }
  return std::min(best, limit_);  // up to there times have fallen
}

}  // namespace rubato
