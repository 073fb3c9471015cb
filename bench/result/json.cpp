// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/json.hpp"

#include <cmath>
#include <fstream>

#include <nlohmann/json.hpp>

#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

using nlohmann::ordered_json;

template <class T>
ordered_json or_null(std::optional<T> const& x) {
  return x ? ordered_json(*x) : ordered_json(nullptr);
}

/// JSON knows no infinity: what has diverged is null.
ordered_json or_null(double x) {
  return std::isfinite(x) ? ordered_json(x) : ordered_json(nullptr);
}

ordered_json curve_of(run_result const& r) {
  ordered_json curve = ordered_json::array();
  for (curve_point const& p : r.curve)
    curve.push_back(ordered_json::array({p.seconds, p.updates, or_null(p.loss)}));
  return curve;
}

ordered_json trials_of(run_result const& r) {
  ordered_json trials = ordered_json::array();
  for (tuning_trial const& t : r.trials)
    trials.push_back({{"learning_rate", t.learning_rate},
                      {"seconds_to_target", or_null(t.seconds_to_target)},
                      {"final_loss", or_null(t.final_loss)}});
  return trials;
}

ordered_json changes_of(run_result const& r) {
  ordered_json changes = ordered_json::array();
  for (pace_decision const& d : r.pace_changes)
    changes.push_back({{"seconds", d.seconds}, {"value", d.value}, {"reason", d.reason}});
  return changes;
}

ordered_json object_of(run_result const& r) {
  return {
      {"protocol", r.protocol},
      {"transport", r.transport},
      {"storage", r.storage},
      {"workload", r.workload},
      {"workers", r.workers},
      {"servers", r.servers},
      {"staleness", or_null(r.staleness)},
      {"heterogeneity", r.heterogeneity},
      {"learning_rate", r.learning_rate},
      {"seed", r.seed},
      {"time_kind", r.time_kind},
      {"target", or_null(r.target)},
      {"seconds_to_target", or_null(r.seconds_to_target)},
      {"updates_to_target", or_null(r.updates_to_target)},
      {"clocks_to_target", or_null(r.clocks_to_target)},
      {"seconds", r.seconds},
      {"updates", r.updates},
      {"seconds_per_update", r.seconds_per_update},
      {"compute_seconds", r.compute_seconds},
      {"wait_seconds", r.wait_seconds},
      {"send_seconds", r.send_seconds},
      {"bytes_sent", r.bytes_sent},
      {"bytes_received", r.bytes_received},
      {"final_loss", or_null(r.final_loss)},
      {"min_obj", or_null(r.min_obj)},
      {"var_obj", or_null(r.var_obj)},
      {"curve", curve_of(r)},
      {"accuracy", r.accuracy},
      {"staleness_histogram", r.staleness_histogram},
      {"versions_peak", r.versions_peak},
      {"trials", trials_of(r)},
      {"steps", r.steps},
      {"steps_to_target", or_null(r.steps_to_target)},
      {"implicit_momentum", r.implicit_momentum},
      {"pace_changes", changes_of(r)},
      {"jumped_over", r.jumped_over},
  };
}

}  // namespace

ordered_json to_json(std::span<run_result const> results) {
  ordered_json all = ordered_json::array();
  for (run_result const& r : results) all.push_back(object_of(r));
  return all;
}

void write_json(std::span<run_result const> results, std::string const& file) {
  std::ofstream out(file);
  out << to_json(results).dump(1) << '\n';
  if (!out.flush()) throw option_error("--json: cannot write to \"" + file + "\"");
}

}  // namespace rubato::bench
