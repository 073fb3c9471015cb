// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "bench/advise/candidate.hpp"
#include "bench/advise/search.hpp"
#include "bench/advise/settings.hpp"
#include "bench/application/application.hpp"
#include "bench/train/shuffled_workloads.hpp"

namespace rubato::bench {

/// What is to be chosen from, on one scenario with one set of data: the protocols of the settings, whose runs differ
/// by seed in all that the simulator draws and in the order of a workload's data; an application's stay as they are.
class problem {
 public:
  /// Loads the data and fills in the target. @throws data_error, option_error
  explicit problem(advise_settings settings);
  problem(problem const&) = delete;
  problem& operator=(problem const&) = delete;

  [[nodiscard]] advise_settings const& settings() const noexcept { return settings_; }
  [[nodiscard]] std::vector<candidate> const& candidates() const noexcept { return candidates_; }
  /// For these candidates: rates and seeds as asked for, first runs of two clocks of the slowest worker.
  [[nodiscard]] search_options search_settings() const;
  /// "lr on synthetic url: 8000 rows, 2000 parameters"
  [[nodiscard]] std::string const& description() const noexcept { return description_; }

 private:
  [[nodiscard]] run_result run(protocol_choice const& protocol, double learning_rate, std::size_t seed,
                               stop_rule const& stop);

  advise_settings settings_;
  // One of these.
  std::unique_ptr<shuffled_workloads> work_;
  std::unique_ptr<application const> app_;

  std::string description_;
  std::vector<candidate> candidates_;
};

}  // namespace rubato::bench
