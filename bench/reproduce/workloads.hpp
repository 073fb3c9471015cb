// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/reproduce/registry.hpp"
#include "bench/train/load_data.hpp"
#include "bench/train/workload.hpp"

namespace rubato::bench {

/// Data and a model, in as many orders and with as many initial parameters as there are seeds.
class workloads_by_seed {
 public:
  workloads_by_seed(loaded_data data, workload_options model, row_order const& shards = {});

  [[nodiscard]] std::string const& name() const noexcept { return data_.name; }
  [[nodiscard]] std::size_t rows() const noexcept { return data_.train.size(); }
  /// The rows in an order, and a model with initial weights, of the seed's own.
  [[nodiscard]] workload const& with_seed(std::uint64_t seed);

 private:
  loaded_data data_;
  workload_options model_;
  row_order shards_;
  std::vector<std::pair<std::uint64_t, std::unique_ptr<workload>>> by_seed_;
};

/// So many images of MNIST in 14 x 14 to train on, or synthetic digits where MNIST is not there,
/// which is said.
[[nodiscard]] loaded_data load_digits(reproduce_options const& options, std::size_t images);

}  // namespace rubato::bench
