// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Protocols whose servers fold when enough updates are there, and one that weighs them by their age.
#include <algorithm>
#include <cstdint>

#include "bench/train/pacing.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/fed_avg.hpp"
#include "rubato/protocol/fed_buff.hpp"
#include "rubato/protocol/k_async.hpp"
#include "rubato/protocol/k_sync.hpp"
#include "rubato/protocol/staleness_aware.hpp"

namespace rubato::bench {
namespace {

/// What it is told, or these parts of the workers.
std::uint32_t round_size_of(training const& job, protocol_parameters const& with, std::uint32_t parts,
                            std::uint32_t of) {
  auto const usual = std::int64_t{std::max(1U, job.workers * parts / of)};
  return static_cast<std::uint32_t>(std::min<std::int64_t>(with.round_size.value_or(usual), 1 << 30));
}

}  // namespace

run_result run_k_sync(training const& job, protocol_parameters const& with) {
  return run_protocol(k_sync{.k = round_size_of(job, with, 3, 4)}, job);
}

run_result run_k_async(training const& job, protocol_parameters const& with) {
  return run_protocol(k_async{.k = round_size_of(job, with, 3, 4)}, job);
}

run_result run_fed_avg(training const& job, protocol_parameters const& with) {
  std::int64_t const steps = local_steps_of(job, with);
  std::uint32_t const clients = std::min(round_size_of(job, with, 1, 2), job.workers);
  return run_every(fed_avg{.clients = clients, .of = job.workers, .steps = steps, .seed = job.seed}, steps, job);
}

run_result run_fed_buff(training const& job, protocol_parameters const& with) {
  std::int64_t const steps = local_steps_of(job, with);
  return run_every(fed_buff{.k = round_size_of(job, with, 1, 2), .steps = steps}, steps, job);
}

run_result run_staleness_aware(training const& job, protocol_parameters const&) {
  return run_protocol(staleness_aware{}, job);
}

}  // namespace rubato::bench
