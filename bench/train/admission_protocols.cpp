// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Protocols whose workers wait for something else than the slowest one's clock, or renew their copies meanwhile.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/dssp.hpp"
#include "rubato/protocol/essp.hpp"
#include "rubato/protocol/psp.hpp"
#include "rubato/protocol/vap.hpp"

namespace rubato::bench {

run_result run_psp(training const& job, protocol_parameters const& with) {
  auto const usual = std::int64_t{std::max(1U, job.workers / 10)};
  auto const sample = static_cast<std::uint32_t>(std::min<std::int64_t>(with.sample.value_or(usual), 1 << 30));
  return run_protocol(psp{.staleness = with.staleness, .sample = sample, .of = job.workers, .seed = job.seed}, job);
}

run_result run_essp(training const& job, protocol_parameters const& with) {
  return run_protocol(essp{.staleness = with.staleness}, job);
}

run_result run_dssp(training const& job, protocol_parameters const& with) {
  constexpr std::int64_t apart = 12;  // as in the paper
  std::int64_t const low = std::min(with.staleness, std::numeric_limits<std::int64_t>::max() - 1 - apart);
  return run_protocol(dssp{.low = low, .high = low + apart}, job);
}

/// With one server, whatever the job has: two could let in workers that wait for each other.
run_result run_vap(training const& job, protocol_parameters const&) {
  training alone = job;
  alone.servers = 1;
  return run_protocol(vap{.first = 0.5 * job.learning_rate}, alone);
}

}  // namespace rubato::bench
