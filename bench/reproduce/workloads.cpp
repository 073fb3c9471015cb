// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/workloads.hpp"

#include <fmt/format.h>

namespace rubato::bench {

workloads_by_seed::workloads_by_seed(loaded_data data, workload_options model, row_order const& shards)
    : data_(std::move(data)), model_(std::move(model)), shards_(shards) {}

workload const& workloads_by_seed::with_seed(std::uint64_t seed) {
  for (auto const& [s, w] : by_seed_)
    if (s == seed) return *w;
  model_.seed = seed;
  by_seed_.emplace_back(seed,
                        std::make_unique<workload>(model_, in_order(data_.train, shards_, seed), data_.test));
  return *by_seed_.back().second;
}

loaded_data load_digits(reproduce_options const& options, std::size_t images) {
  data_source from{.labels = label_use::classes, .rows = images * 5 / 4};
  if (auto const file = options.data_file("train-images-idx3-ubyte.gz"))
    from.file = *file;
  else
    fmt::print("MNIST is not there (see --data-dir): synthetic digits.\n");
  loaded_data all = load_data(from, options.seed);
  if (all.train.size() <= images) return all;
  double const share = static_cast<double>(images) / static_cast<double>(all.train.size());
  return {all.train.split(share, options.seed).test, all.test, "MNIST"};
}

}  // namespace rubato::bench
