// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/measure.hpp"

#include <algorithm>

namespace rubato::bench {

bool common_end::reached(server_group const& servers, training_worker const& worker) {
  if (worker.steps_since_commit() != 0) return false;
  if (worker.rank() < done_.size() && worker.metrics().steps >= static_cast<std::uint64_t>(steps_))
    done_[worker.rank()].store(true, std::memory_order_relaxed);
  bool all = true;
  servers.server(server_id{0}).inspect([&](shard_control const& control) {
    for (std::uint32_t i = 0; all && i < done_.size(); ++i)
      all = done_[i].load(std::memory_order_relaxed) || !control.workers().contains(worker_id{i});
  });
  return all;
}

std::uint64_t whole_updates(server_group const& servers) {
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (std::uint32_t s = 0; s < servers.size(); ++s)
    servers.server(server_id{s}).inspect([&](shard_control const& control) {
      least = std::min(least, control.counters().commits);
    });
  return least;
}

}  // namespace rubato::bench
