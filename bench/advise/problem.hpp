// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "bench/advise/candidate.hpp"
#include "bench/advise/search.hpp"
#include "bench/advise/settings.hpp"
#include "bench/application/application.hpp"
#include "bench/train/load_data.hpp"
#include "bench/train/workload.hpp"

namespace rubato::bench {

/// A workload whose rows lie in another order for each seed, so that workers get other shards and batches, unless
/// they are to stay as the file has them. Seed 0 has
/// the order in which `compare` has them. One of the others is kept at a time, for they are used one after the other.
/// Thread safety: any thread may ask.
class shuffled_workloads {
 public:
  shuffled_workloads(workload_options const& options, loaded_data data, row_order const& shards = {});

  [[nodiscard]] workload const& first() const noexcept { return *first_; }
  [[nodiscard]] std::shared_ptr<workload const> at(std::size_t seed);

 private:
  workload_options options_;
  loaded_data data_;
  row_order shards_;
  std::shared_ptr<workload const> first_;
  std::mutex lock_;
  std::size_t kept_seed_ = 0;
  std::shared_ptr<workload const> kept_;
};

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
