// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/shuffled_workloads.hpp"

#include <utility>

namespace rubato::bench {

shuffled_workloads::shuffled_workloads(workload_options const& options, loaded_data data)
    : options_(options),
      data_(std::move(data)),
      first_(std::make_shared<workload>(options_, data_.train, data_.test)) {}

std::shared_ptr<workload const> shuffled_workloads::at(std::size_t seed) {
  if (seed == 0) return first_;
  std::lock_guard const guard(lock_);
  if (kept_seed_ != seed) {
    kept_ = std::make_shared<workload>(options_, data_.train.shuffled(options_.seed + seed), data_.test);
    kept_seed_ = seed;
  }
  return kept_;
}

}  // namespace rubato::bench
