// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/result/json.hpp"

#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "bench/result/writable.hpp"
#include "rubato/core/error.hpp"

namespace rubato::bench {
namespace {

using nlohmann::ordered_json;

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

ordered_json split_of(time_split const& s) {
  return {{"compute", s.compute}, {"send", s.send}, {"wait", s.wait}};
}

ordered_json profile_of(run_result const& r) {
  ordered_json profile = ordered_json::array();
  for (worker_share const& w : r.profile) {
    ordered_json one = split_of(w.spent);
    one["steps"] = w.steps;
    one["commits"] = w.commits;
    profile.push_back(std::move(one));
  }
  return profile;
}

ordered_json object_of(run_result const& r) {
  return {
      {"protocol", r.protocol},
      {"transport", r.transport},
      {"storage", r.storage},
      {"workload", r.workload},
      {"workers", r.workers},
      {"servers", r.servers},
      {"staleness", r.staleness ? ordered_json(*r.staleness) : ordered_json(nullptr)},
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
      {"round", r.round},
      {"accuracy", or_null(r.accuracy)},
      {"staleness_histogram", r.staleness_histogram},
      {"versions_peak", r.versions_peak},
      {"trials", trials_of(r)},
      {"steps", r.steps},
      {"steps_to_target", or_null(r.steps_to_target)},
      {"implicit_momentum", r.implicit_momentum},
      {"pace_changes", changes_of(r)},
      {"jumped_over", r.jumped_over},
      {"counted_split", split_of(r.counted_split)},
      {"profile", profile_of(r)},
  };
}

/// Reads the fields of an object one by one.
class reader {
 public:
  explicit reader(ordered_json const& from) : from_(from) {}

  template <class T>
  void operator()(char const* name, T& into) const {
    take(from_.at(name), into);
  }

 private:
  template <class T>
  static void take(ordered_json const& value, T& into) {
    value.get_to(into);
  }
  static void take(ordered_json const& value, double& into) {
    into = value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
  }
  template <class T>
  static void take(ordered_json const& value, std::optional<T>& into) {
    if (!value.is_null()) into = value.get<T>();
  }
  static void take(ordered_json const& value, time_split& into) {
    reader const field(value);
    field("compute", into.compute);
    field("send", into.send);
    field("wait", into.wait);
  }
  static void take(ordered_json const& value, worker_share& into) {
    take(value, into.spent);
    reader const field(value);
    field("steps", into.steps);
    field("commits", into.commits);
  }
  static void take(ordered_json const& value, pace_decision& into) {
    reader const field(value);
    field("seconds", into.seconds);
    field("value", into.value);
    field("reason", into.reason);
  }
  static void take(ordered_json const& value, tuning_trial& into) {
    reader const field(value);
    field("learning_rate", into.learning_rate);
    field("seconds_to_target", into.seconds_to_target);
    field("final_loss", into.final_loss);
  }
  static void take(ordered_json const& value, curve_point& into) {
    take(value.at(0), into.seconds);
    take(value.at(1), into.updates);
    take(value.at(2), into.loss);
  }
  template <class T>
  static void take(ordered_json const& value, std::vector<T>& into) {
    for (ordered_json const& one : value) take(one, into.emplace_back());
  }

  ordered_json const& from_;
};

run_result read_result(ordered_json const& object) {
  run_result r;
  reader const field(object);
  field("protocol", r.protocol);
  field("transport", r.transport);
  field("storage", r.storage);
  field("workload", r.workload);
  field("workers", r.workers);
  field("servers", r.servers);
  field("staleness", r.staleness);
  field("heterogeneity", r.heterogeneity);
  field("learning_rate", r.learning_rate);
  field("seed", r.seed);
  field("time_kind", r.time_kind);
  field("target", r.target);
  field("seconds_to_target", r.seconds_to_target);
  field("updates_to_target", r.updates_to_target);
  field("clocks_to_target", r.clocks_to_target);
  field("seconds", r.seconds);
  field("updates", r.updates);
  field("seconds_per_update", r.seconds_per_update);
  field("compute_seconds", r.compute_seconds);
  field("wait_seconds", r.wait_seconds);
  field("send_seconds", r.send_seconds);
  field("bytes_sent", r.bytes_sent);
  field("bytes_received", r.bytes_received);
  field("final_loss", r.final_loss);
  field("min_obj", r.min_obj);
  field("var_obj", r.var_obj);
  field("curve", r.curve);
  field("round", r.round);
  field("accuracy", r.accuracy);
  field("staleness_histogram", r.staleness_histogram);
  field("versions_peak", r.versions_peak);
  field("trials", r.trials);
  field("steps", r.steps);
  field("steps_to_target", r.steps_to_target);
  field("implicit_momentum", r.implicit_momentum);
  field("pace_changes", r.pace_changes);
  field("jumped_over", r.jumped_over);
  field("counted_split", r.counted_split);
  field("profile", r.profile);
  return r;
}

}  // namespace

ordered_json or_null(double x) { return std::isfinite(x) ? ordered_json(x) : ordered_json(nullptr); }
ordered_json or_null(std::optional<double> const& x) { return x ? or_null(*x) : ordered_json(nullptr); }
ordered_json or_null(std::optional<std::uint64_t> const& x) { return x ? ordered_json(*x) : ordered_json(nullptr); }

ordered_json to_json(run_result const& result) { return object_of(result); }

run_result from_json(ordered_json const& object) {
  try {
    return read_result(object);
  } catch (nlohmann::json::exception const& e) {
    throw data_error(std::string("this is no result: ") + e.what());
  }
}

ordered_json to_json(std::span<run_result const> results) {
  ordered_json all = ordered_json::array();
  for (run_result const& r : results) all.push_back(object_of(r));
  return all;
}

void check_json_is_possible(std::string const& file) {
  if (!file.empty() && !is_writable(file)) throw option_error("--json: cannot write to \"" + file + '"');
}

void write_json(std::span<run_result const> results, std::string const& file) {
  std::ofstream out(file);
  out << to_json(results).dump(1) << '\n';
  if (!out.flush()) throw option_error("--json: cannot write to \"" + file + "\"");
}

}  // namespace rubato::bench
