// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/storage/multi_version.hpp"

namespace rubato::bench {

run_result run_dyn_sgd(training const& job, protocol_parameters const& with) {
  dyn_sgd const p{.staleness = staleness{with.staleness}, .fold = {.kept = with.kept}};
  multi_version const table{dense_table(job)};
  return with.partition_sync ? run_protocol(rubato::with(p, stable_cut{}), job, table)
                             : run_protocol(p, job, table);
}

}  // namespace rubato::bench
