// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <functional>
#include <string>

#include "bench/result/run_result.hpp"
#include "bench/train/training.hpp"

namespace rubato::bench {

/// What a search chooses among: a protocol with its parameters, but not its learning rate. The search knows
/// nothing of workloads, nor of what a protocol is.
struct candidate {
  std::string label;
  /// One run, a function of its arguments alone; `seed` counts from 0. It must obey the stop rule and fill in
  /// the curve, `seconds`, `steps`, `final_loss` and, where it got there, `seconds_to_target`.
  /// Thread safety: it is called from several threads at a time.
  std::function<run_result(double learning_rate, std::size_t seed, stop_rule const&)> run;
};

/// A candidate at one rate.
struct arm {
  std::size_t candidate = 0;  ///< its place in the list
  double learning_rate = 0;

  friend bool operator==(arm const&, arm const&) = default;
};

}  // namespace rubato::bench
