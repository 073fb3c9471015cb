// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <functional>
#include <memory>

#include "bench/processes/cluster.hpp"
#include "bench/result/run_result.hpp"
#include "bench/train/body.hpp"
#include "bench/train/training.hpp"

namespace rubato::bench {

/// Makes the cluster of one process.
using cluster_maker = std::function<std::unique_ptr<process_cluster>(net::deployment const& place)>;

/// Runs the training body in as many processes of this machine as the job has workers, beside those
/// of its servers and a coordinator, and fills in what was measured; but for the parameters, which
/// stay where they were. @throws process_failure
[[nodiscard]] run_result train_across_processes(cluster_maker const& make, training const& job,
                                                run_length const& length, run_result r);

}  // namespace rubato::bench
