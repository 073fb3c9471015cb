// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "bench/compare/tune.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/workloads.hpp"
#include "bench/result/text.hpp"
#include "bench/train/run.hpp"
#include "rubato/sim/scenario.hpp"

namespace rubato::bench {

/// How a protocol does at its best rate.
struct finish {
  run_result run;

  [[nodiscard]] bool arrived() const { return run.seconds_to_target.has_value(); }
  [[nodiscard]] double seconds() const {
    return run.seconds_to_target.value_or(std::numeric_limits<double>::infinity());
  }
  /// Up to the target, after which a run goes on for a pass.
  [[nodiscard]] double bytes() const { return to_target(run.bytes_sent + run.bytes_received); }
  [[nodiscard]] double bytes_sent() const { return to_target(run.bytes_sent); }

 private:
  [[nodiscard]] double to_target(std::uint64_t all) const {
    return static_cast<double>(all) * static_cast<double>(run.counted_updates()) / static_cast<double>(run.updates);
  }
};

/// A row of `empty_table`, and that: rate, time, updates, bytes and loss.
[[nodiscard]] std::vector<std::string> row(std::string name, finish const& f);
[[nodiscard]] text_table empty_table();

/// What a `ground` is.
struct ground_options {
  std::uint32_t workers = 8;
  sim::link_options link{};   ///< added to those of "paper-cluster"
  double batch = 0.005;       ///< of a worker's rows, in a local step
  row_order shards{};
  std::int64_t steps = 6'000;  ///< at most
  std::size_t features = 500;
};

/// Logistic regression on synthetic data, which all protocols of a comparison are given, in virtual time. Prints what
/// it is.
class ground {
 public:
  ground(reproduce_options const& options, ground_options const& how);

  [[nodiscard]] training const& job() const noexcept { return job_; }

  /// `protocol(rate)` that commits after each `steps` local steps, at the rate that is best.
  template <class Protocol>
  [[nodiscard]] finish run(Protocol protocol, std::int64_t steps) const {
    auto const at = [&](double rate, stop_rule const& stop) {
      training once = job_;
      once.learning_rate = rate;
      once.stop = stop;
      return run_every(protocol(rate), steps, once);
    };
    return {at(tune({}, at).learning_rate, {.at_target = true})};
  }

 private:
  workloads_by_seed data_;
  training job_;
};

}  // namespace rubato::bench
