// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/bsp.hpp"

namespace rubato::bench {

run_result run_bsp(training const& job, protocol_parameters const&) {
  return run_protocol(bsp{}, job);
}

}  // namespace rubato::bench
