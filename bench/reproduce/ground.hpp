// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/workloads.hpp"
#include "bench/result/run_result.hpp"
#include "bench/result/text.hpp"
#include "bench/train/training.hpp"
#include "rubato/protocol/rules.hpp"
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
  [[nodiscard]] double bytes() const {
    return static_cast<double>(run.bytes_sent + run.bytes_received) * static_cast<double>(run.counted_updates()) /
           static_cast<double>(run.updates);
  }
};

/// Logistic regression on synthetic data, in virtual time: where headline claims of papers are tried. Says what it is.
class ground {
 public:
  ground(reproduce_options const& options, std::uint32_t workers, sim::scenario const& scenario);

  /// `protocol(rate)` that commits after each `steps` local steps, at the rate that is best.
  [[nodiscard]] finish run(std::function<rules(double rate)> const& protocol, std::int64_t steps) const;
  /// At this rate, for as many clocks, wherever the target is, and with so many servers.
  [[nodiscard]] finish run_at(double rate, rules const& protocol, std::int64_t clocks, std::uint32_t servers) const;

 private:
  workloads_by_seed data_;
  training job_;
};

/// Of a table with `empty_table`'s head.
[[nodiscard]] std::vector<std::string> row(std::string name, finish const& f);
[[nodiscard]] text_table empty_table();

}  // namespace rubato::bench
