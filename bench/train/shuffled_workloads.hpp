// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>

#include "bench/train/load_data.hpp"
#include "bench/train/row_order.hpp"
#include "bench/train/workload.hpp"

namespace rubato::bench {

/// A workload whose rows lie in another order for each seed, so that workers get other shards and batches, unless
/// they are to stay as the file has them. Seed 0 has the order of the data. One of the others is kept at a time, for they are used one after the other.
/// Thread safety: any thread may ask.
class shuffled_workloads {
 public:
  shuffled_workloads(workload_options const& options, loaded_data data, row_order const& shards = {});

  [[nodiscard]] workload const& first() const noexcept { return *first_; }
  /// O(rows) where it is not the one that was asked for last.
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

}  // namespace rubato::bench
