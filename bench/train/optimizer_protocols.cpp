// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Protocols whose servers move the parameters element by element.
#include <cstdint>

#include "bench/train/pacing.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/async_diloco.hpp"
#include "rubato/protocol/dc_asgd.hpp"
#include "rubato/protocol/diloco.hpp"
#include "rubato/protocol/easgd.hpp"
#include "rubato/protocol/fed_adam.hpp"
#include "rubato/protocol/slow_mo.hpp"

namespace rubato::bench {
namespace {

/// A protocol whose workers make local steps, as many as it is told or `fixed_ada_comm` makes.
template <class P>
run_result run_local_steps(training const& job, protocol_parameters const& with) {
  std::int64_t const steps = local_steps_of(job, with);
  return run_every(P{.steps = steps}, steps, job);
}

}  // namespace

run_result run_fed_adam(training const& job, protocol_parameters const& with) {
  return run_local_steps<fed_adam>(job, with);
}

run_result run_slow_mo(training const& job, protocol_parameters const& with) {
  return run_local_steps<slow_mo>(job, with);
}

run_result run_diloco(training const& job, protocol_parameters const& with) {
  return run_local_steps<diloco>(job, with);
}

run_result run_async_diloco(training const& job, protocol_parameters const& with) {
  return run_local_steps<async_diloco>(job, with);
}

run_result run_easgd(training const& job, protocol_parameters const& with) {
  return run_local_steps<easgd>(job, with);
}

run_result run_dc_asgd(training const& job, protocol_parameters const&) {
  return run_protocol(dc_asgd{.fold = {.rate = job.learning_rate}}, job);
}

}  // namespace rubato::bench
