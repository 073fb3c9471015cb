// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/shuffled_workloads.hpp"

#include <utility>

namespace rubato::bench {

shuffled_workloads::shuffled_workloads(workload_options const& options, loaded_data data, row_order const& shards)
    : options_(options),
      data_(std::move(data)),
      shards_(shards),
      first_(std::make_shared<workload>(options_, data_.train, data_.test)) {}

std::shared_ptr<workload const> shuffled_workloads::at(std::size_t seed) {
  if (seed == 0) return first_;
  std::lock_guard const guard(lock_);
  if (kept_seed_ != seed) {
    kept_ = std::make_shared<workload>(options_, in_order(data_.train, shards_, options_.seed + seed), data_.test);
    kept_seed_ = seed;
  }
  return kept_;
}

}  // namespace rubato::bench
