// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string_view>

#include "bench/result/run_result.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/training.hpp"
#include "rubato/peer/graph.hpp"
#include "rubato/peer/peer_rules.hpp"

namespace rubato::bench {

// An update of a peer is an iteration: one mini-batch, and an exchange with its neighbors. So that
// protocols compare, peers make as many local steps as workers of servers do,
// `training::local_steps`; their rates decay after as many local steps; and a clock is as many
// updates as there are local steps in a clock of the others.

/// The job as peers do it: over MPI all ranks but the first have one, those too that are servers in other runs.
[[nodiscard]] training job_of_peers(training const& job);
/// The updates that all peers together make in a clock.
[[nodiscard]] std::uint64_t peer_updates_in_clock(training const& job);
/// The graph that the peers of a job stand on. @throws option_error
[[nodiscard]] graph peer_graph(training const& job, protocol_parameters const& with);
/// The scenario as far as it concerns peers: there are no servers to be delayed.
[[nodiscard]] sim::scenario peer_scenario(training const& job);

/// One run of `p` among peers, whose parameters are looked at as their average.
/// @param s how many iterations old an update may be that a peer counts
[[nodiscard]] run_result run_peers(peer_rules const& p, std::string_view name, staleness s,
                                   training const& job, protocol_parameters const& with);

/// The same over processes that it starts itself, one for each peer. @param r says what is run
[[nodiscard]] run_result run_peers_across_processes(peer_rules const& p, graph const& among, training const& job,
                                                    run_result r);

}  // namespace rubato::bench
