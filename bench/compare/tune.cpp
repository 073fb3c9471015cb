// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/tune.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <ranges>

namespace rubato::bench {
namespace {

using wall_clock = std::chrono::steady_clock;

double comparable(double loss) {
  return std::isfinite(loss) ? loss : std::numeric_limits<double>::infinity();
}

/// Beyond there is nothing to find, in single precision.
bool is_a_rate(double rate) { return rate > 1e-30 && rate < 1e30; }

class grid_search {
 public:
  grid_search(tune_options const& options, trial_runner const& run)
      : options_(options), run_(run), began_(wall_clock::now()) {}

  void coarse() {
    // From the middle outwards: a good rate found early cuts short the bad ones.
    double const middle = std::sqrt(options_.least * options_.greatest);
    for (double up = middle, down = middle / options_.factor;
         up <= options_.greatest * 1.0001 || down >= options_.least * 0.9999;
         up *= options_.factor, down /= options_.factor) {
      try_rate(up);
      try_rate(down);
    }
    while (best_is_at_an_end() && is_a_rate(best_ / options_.factor) && is_a_rate(best_ * options_.factor) &&
           !out_of_time())
      try_rate(best_ == trials_.front().learning_rate ? best_ / options_.factor
                                                      : best_ * options_.factor);
  }

  void refine(double factor) {
    double const center = best_;
    try_rate(center / factor);
    try_rate(center * factor);
  }

  tuning_result take() { return {best_, std::move(trials_)}; }

 private:
  void try_rate(double rate) {
    if (!trials_.empty() && out_of_time()) return;
    stop_rule stop{.at_target = true};
    if (auto const* best = best_trial(); best != nullptr && best->seconds_to_target)
      stop.deadline = *best->seconds_to_target;
    run_result const r = run_(rate, stop);
    tuning_trial const trial{rate, r.seconds_to_target, r.final_loss};
    if (auto const* best = best_trial(); best == nullptr || better(trial, *best)) best_ = rate;
    trials_.insert(std::ranges::upper_bound(trials_, rate, {}, &tuning_trial::learning_rate),
                   trial);
  }

  [[nodiscard]] tuning_trial const* best_trial() const {
    auto const it = std::ranges::find(trials_, best_, &tuning_trial::learning_rate);
    return it == trials_.end() ? nullptr : &*it;
  }
  [[nodiscard]] bool best_is_at_an_end() const {
    return best_ == trials_.front().learning_rate || best_ == trials_.back().learning_rate;
  }
  [[nodiscard]] bool out_of_time() const {
    std::chrono::duration<double> const used = wall_clock::now() - began_;
    return used.count() > options_.budget_seconds;
  }

  tune_options const& options_;
  trial_runner const& run_;
  wall_clock::time_point began_;
  std::vector<tuning_trial> trials_;
  double best_ = 0;
};

}  // namespace

bool better(tuning_trial const& a, tuning_trial const& b) {
  if (a.seconds_to_target && b.seconds_to_target)
    return *a.seconds_to_target < *b.seconds_to_target;
  if (a.seconds_to_target || b.seconds_to_target) return a.seconds_to_target.has_value();
  return comparable(a.final_loss) < comparable(b.final_loss);
}

tuning_result tune(tune_options const& options, trial_runner const& run) {
  grid_search search(options, run);
  search.coarse();
  double factor = options.factor;
  for (int i = 0; i < options.refinements; ++i) {
    factor = std::sqrt(factor);
    search.refine(factor);
  }
  return search.take();
}

}  // namespace rubato::bench
