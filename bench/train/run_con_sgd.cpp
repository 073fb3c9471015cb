// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/con_sgd.hpp"

namespace rubato::bench {

run_result run_con_sgd(training const& job, std::int64_t staleness) {
  return run_protocol(con_sgd{.staleness = rubato::staleness{staleness}}, job);
}

}  // namespace rubato::bench
