// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/format.h>

namespace rubato::bench {
namespace {

std::string ratio_to_best(run_result const& r, run_result const& best) {
  if (!best.seconds_to_target) return "-";
  if (r.seconds_to_target) return show_ratio(*r.seconds_to_target / *best.seconds_to_target);
  return '>' + show_ratio(r.seconds / *best.seconds_to_target);
}

bool has_families(std::span<run_result const> results) {
  return std::ranges::any_of(results, [&](run_result const& r) { return r.family != results.front().family; });
}

}  // namespace

bool beats(run_result const& a, run_result const& b) {
  if (a.seconds_to_target && b.seconds_to_target)
    return *a.seconds_to_target < *b.seconds_to_target;
  if (a.seconds_to_target || b.seconds_to_target) return a.seconds_to_target.has_value();
  auto const loss = [](run_result const& r) {
    return std::isfinite(r.final_loss) ? r.final_loss : std::numeric_limits<double>::infinity();
  };
  return loss(a) < loss(b);
}

std::vector<run_result> ranked(std::vector<run_result> results) {
  std::ranges::stable_sort(results, beats);
  return results;
}

text_table comparison_table(std::span<run_result const> best_first) {
  text_table t{.head = {"protocol", "rate", "time to target", "ratio", "updates", "time/update",
                        "compute", "send", "wait", "final loss", "accuracy"},
               .rows = {}};
  for (run_result const& r : best_first) {
    bool const reached = r.seconds_to_target.has_value();
    time_split const& time = r.counted_split;
    t.rows.push_back({r.label, r.learning_rate == 0 ? "-" : show_number(r.learning_rate),
                      reached    ? show_seconds(*r.seconds_to_target)
                      : r.target ? "not in " + show_seconds(r.seconds)
                                 : "-",
                      ratio_to_best(r, best_first.front()),
                      fmt::format("{}{}", r.target && !reached ? ">" : "", r.counted_updates()),
                      show_seconds(r.counted_seconds_per_update()),
                      show_share(time.share(time.compute)), show_share(time.share(time.send)),
                      show_share(time.share(time.wait)), fmt::format("{:.5f}", r.final_loss),
                      std::isnan(r.accuracy) ? "-" : fmt::format("{:.2f}%", 100 * r.accuracy)});
  }
  if (!has_families(best_first)) return t;
  t.head.insert(t.head.begin() + 1, "family");
  for (std::size_t i = 0; i < t.rows.size(); ++i) t.rows[i].insert(t.rows[i].begin() + 1, best_first[i].family);
  return t;
}

text_table profile_table(run_result const& r) {
  text_table t{.head = {r.label, "time", "compute", "send", "wait", "", "", "", "steps", "commits"}, .rows = {}};
  for (std::size_t i = 0; i < r.profile.size(); ++i) {
    worker_share const& w = r.profile[i];
    time_split const& s = w.spent;
    t.rows.push_back({fmt::format("worker {}", i), show_seconds(s.total()), show_seconds(s.compute),
                      show_seconds(s.send), show_seconds(s.wait), show_share(s.share(s.compute)),
                      show_share(s.share(s.send)), show_share(s.share(s.wait)), std::to_string(w.steps),
                      std::to_string(w.commits)});
  }
  return t;
}

}  // namespace rubato::bench
