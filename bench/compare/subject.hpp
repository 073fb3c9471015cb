// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "bench/application/application.hpp"
#include "bench/setup/settings.hpp"
#include "bench/train/shuffled_workloads.hpp"
#include "bench/train/training.hpp"

namespace rubato::bench {

/// What is trained, with its data: a model on rows, or an application.
class subject {
 public:
  /// Loads or makes what the settings ask for. @throws data_error, option_error
  explicit subject(compare_settings const& settings);

  /// Lets a job refer to it, which it must outlive.
  void put_into(training& job) const noexcept {
    job.work = work_ ? &work_->first() : nullptr;
    job.app = app_.get();
  }
  /// A workload with its rows in the order of that seed, from 0 for the first; null of an application, whose data stay
  /// as they are. Thread safety: any thread may ask.
  [[nodiscard]] std::shared_ptr<workload const> at(std::size_t seed) const { return work_ ? work_->at(seed) : nullptr; }
  /// "mlp of 6634 parameters on synthetic digits: 8000 rows, 196 features"
  [[nodiscard]] std::string const& description() const noexcept { return description_; }

 private:
  std::unique_ptr<shuffled_workloads> work_;
  std::unique_ptr<application const> app_;
  std::string description_;
};

}  // namespace rubato::bench
