// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <cmath>
#include <utility>

#include "bench/advise/advice.hpp"
#include "bench/advise/runs.hpp"

namespace rubato::bench {
namespace {

template <class Get>
double median_of(std::vector<run_result> const& runs, Get get) {
  std::vector<double> all;
  for (run_result const& r : runs) all.push_back(static_cast<double>(get(r)));
  return median(std::move(all));
}

std::uint64_t whole(double x) { return static_cast<std::uint64_t>(std::llround(x)); }

run_result summary(finalist const& f) {
  std::vector<run_result> const& runs = f.runs;
  run_result s = runs.front();
  double const seconds = f.median_seconds();
  if (s.learning_rate != 0)  // its rate has been searched for
    s.trials = {{s.learning_rate, s.seconds_to_target, s.final_loss}};
  s.seconds_to_target.reset();
  s.updates_to_target.reset();
  s.steps_to_target.reset();
  s.seconds = median_of(runs, [](run_result const& r) { return r.seconds; });
  s.updates = whole(median_of(runs, [](run_result const& r) { return r.updates; }));
  s.steps = whole(median_of(runs, [](run_result const& r) { return r.steps; }));
  if (std::isfinite(seconds)) {
    s.seconds_to_target = seconds;
    s.updates_to_target = whole(median_of(runs, [](run_result const& r) { return r.counted_updates(); }));
    s.steps_to_target = whole(median_of(runs, [](run_result const& r) { return r.counted_steps(); }));
  }
  s.counted_split = {};
  s.final_loss = s.accuracy = 0;
  for (run_result const& r : runs) {
    s.counted_split.compute += r.counted_split.compute;
    s.counted_split.send += r.counted_split.send;
    s.counted_split.wait += r.counted_split.wait;
    s.final_loss += r.final_loss / static_cast<double>(runs.size());
    s.accuracy += r.accuracy / static_cast<double>(runs.size());
  }
  return s;
}

}  // namespace

std::vector<run_result> summaries(search_result const& found) {
  std::vector<run_result> all;
  for (finalist const& f : found.finalists) all.push_back(summary(f));
  // A runner-up far behind was cut off; on the new seeds it had the time that it needs.
  if (all.size() > 1 && !all[1].seconds_to_target && !found.last.runner_up.empty())
    all[1] = summary({found.finalists[1].what, found.last.runner_up});
  return all;
}

}  // namespace rubato::bench
