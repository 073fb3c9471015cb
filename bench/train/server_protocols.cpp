// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Protocols with servers.
#include <cstdint>
#include <optional>

#include "bench/train/pacing.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/run.hpp"
#include "rubato/protocol/ada_comm.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/fixed_ada_comm.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"

namespace rubato::bench {
namespace {

/// The protocol with the momentum that its servers are asked for, if any.
rules with_global_momentum(rules p, protocol_parameters const& with,
                           std::optional<double> global_rate = {}) {
  if (with.global_momentum) p.merge = momentum{.mu = *with.global_momentum, .eta = global_rate};
  return p;
}

/// The protocol with the merge that is named in place of its own, if one is.
rules with_merge(rules p, protocol_parameters const& with) {
  if (!with.merge) return p;
  switch (with.merge->how) {
    case named_merge::kind::sum:
      p.merge = sum{};
      break;
    case named_merge::kind::average:
      p.merge = average{};
      break;
    case named_merge::kind::scale:
      p.merge = scale{.lambda = with.merge->weight};
      break;
  }
  return p;
}

/// What an update counts under a momentum: the same as without. None: 1/M.
std::optional<double> weight_of(protocol_parameters const& with) {
  if (!with.merge || with.merge->how == named_merge::kind::average) return std::nullopt;
  return with.merge->weight;
}

training tuned(training job, protocol_parameters const& with) {
  job.batch_tune = with.batch_tune;
  return job;
}

}  // namespace

run_result run_bsp(training const& job, protocol_parameters const& with) {
  return run_protocol(with_global_momentum(with_merge(bsp{}, with), with, weight_of(with)), tuned(job, with));
}

run_result run_ssp(training const& job, protocol_parameters const& with) {
  return run_protocol(with_merge(ssp{.staleness = staleness{with.staleness}}, with), job);
}

run_result run_asp(training const& job, protocol_parameters const& with) {
  return run_protocol(with_merge(asp{}, with), job);
}

run_result run_con_sgd(training const& job, protocol_parameters const& with) {
  con_sgd const p{.staleness = staleness{with.staleness}, .fold = {.lambda = with.global_rate}};
  return run_protocol(with_merge(p, with), job);
}

run_result run_dyn_sgd(training const& job, protocol_parameters const& with) {
  rules p = dyn_sgd{.staleness = staleness{with.staleness}, .fold = {.kept = with.kept}};
  if (with.partition_sync) p.visibility = stable_cut{};
  return run_protocol(p, job, storage_kind::multi_version);
}

run_result run_fixed_ada_comm(training const& job, protocol_parameters const& with) {
  std::int64_t const steps = local_steps_of(job, with);
  return run_every(with_global_momentum(fixed_ada_comm{.steps = steps}, with), steps,
                   tuned(job, with));
}

run_result run_ada_comm(training const& job, protocol_parameters const& with) {
  return run_at_own_pace(ada_comm{.first_steps = local_steps_of(job, with),
                                  .interval = pace_times_of(job, with).interval},
                         job);
}

run_result run_adsp(training const& job, protocol_parameters const& with) {
  pace_times const t = pace_times_of(job, with);
  adsp const p{.check_period = t.check_period,
               .epoch = t.epoch,
               .probe_period = t.probe_period,
               .first_rate = with.commit_rate.value_or(1),
               .search = !with.commit_rate,
               .global_rate = with.global_rate};
  return run_at_own_pace(with_global_momentum(p, with, with.global_rate), job);
}

}  // namespace rubato::bench
