// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "bench/result/run_result.hpp"
#include "bench/train/body.hpp"
#include "bench/train/training.hpp"
#include "rubato/peer/graph.hpp"
#include "rubato/peer/peer_rules.hpp"
#include "rubato/protocol/rules.hpp"

namespace rubato::bench {

/// How the servers keep the model's parameters.
enum class storage_kind {
  dense,          ///< in one copy
  multi_version,  ///< with updates apart by version, for a merge that asks for it
};

/// One run of `p` that commits after every `steps`-th local step.
/// @throws option_error for what cannot be meant
[[nodiscard]] run_result run_every(rules const& p, std::int64_t steps, training const& job,
                                   storage_kind storage = storage_kind::dense);
/// One run of `p` at the job's pace.
[[nodiscard]] run_result run_protocol(rules const& p, training const& job,
                                      storage_kind storage = storage_kind::dense);
/// One run of `p`, whose pace decides when workers commit, until the slowest has done its part.
[[nodiscard]] run_result run_at_own_pace(rules const& p, training const& job);

/// A run of servers and workers, but for the transport.
struct server_run {
  rules const& protocol;
  training const& job;
  run_length length;
  storage_kind storage;
};

// One source file each; the result that they are given says what is run.
[[nodiscard]] run_result run_simulated(server_run const& what, run_result r);
[[nodiscard]] run_result run_in_process(server_run const& what, run_result r);
/// In as many processes of this machine as the job has workers, beside those of its servers and a
/// coordinator. @throws process_failure
[[nodiscard]] run_result run_across_processes(server_run const& what, run_result r);

/// The MPI job that this program's process is a rank of, as `rubato-bench-mpi` says it: empty elsewhere.
struct mpi_job {
  std::uint32_t ranks = 0;
  /// Tells the others that a protocol is to be run.
  std::function<void(std::string const& label, training const& job)> begin = {};
  std::function<run_result(server_run const& what, run_result r)> run = {};
  std::function<run_result(peer_rules const& p, graph const& among, training const& job, run_result r)> run_peers = {};
};
[[nodiscard]] mpi_job& over_mpi();

}  // namespace rubato::bench
