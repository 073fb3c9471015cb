// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Protocols without a server.
#include <cstdint>

#include "bench/train/protocols.hpp"
#include "bench/train/run_peers.hpp"
#include "rubato/peer/ad_psgd.hpp"
#include "rubato/peer/all_reduce.hpp"
#include "rubato/peer/gap.hpp"
#include "rubato/peer/gossip.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/peer_rules.hpp"
#include "rubato/peer/prague.hpp"
#include "rubato/peer/push_sum.hpp"
#include "rubato/peer/reduce.hpp"

namespace rubato::bench {
namespace {

token_queues peer_tokens(protocol_parameters const& with) {
  constexpr std::int64_t usual = 8;
  return {.iterations = with.peers.gap_max.value_or(usual)};
}

}  // namespace

run_result run_hop(training const& job, protocol_parameters const& with) {
  iteration_order const order = with.peers.order;
  if (!with.peers.gap_max) return run_peers(hop(order), "hop", staleness{0}, job, with);
  return run_peers(hop(peer_tokens(with), order), "hop", staleness{0}, job, with);
}

run_result run_hop_backup(training const& job, protocol_parameters const& with) {
  gather_all_but const gather{static_cast<std::uint32_t>(with.peers.backups)};
  return run_peers(hop(gather, peer_tokens(with), with.peers.order), "hop_backup", staleness{0},
                   job, with);
}

run_result run_hop_stale(training const& job, protocol_parameters const& with) {
  staleness const s{with.peers.staleness};
  peer_rules p = hop(gather_newest{s}, peer_tokens(with), with.peers.order);
  if (with.peers.plainly) p = hop(gather_newest{s}, reduce_plainly{}, peer_tokens(with), with.peers.order);
  return run_peers(p, "hop_stale", s, job, with);
}

run_result run_hop_hybrid(training const& job, protocol_parameters const& with) {
  staleness const s{with.peers.staleness};
  gather_hybrid const gather{s, static_cast<std::uint32_t>(with.peers.backups)};
  return run_peers(hop(gather, peer_tokens(with), with.peers.order), "hop_hybrid", s, job, with);
}

run_result run_hop_skip(training const& job, protocol_parameters const& with) {
  gather_all_but const gather{static_cast<std::uint32_t>(with.peers.backups)};
  bounded_jump const jump{.trigger = with.peers.jump_trigger,
                          .iterations_max = with.peers.jump_max};
  return run_peers(hop(gather, peer_tokens(with), jump, with.peers.order), "hop_skip", staleness{0},
                   job, with);
}

run_result run_notify_ack(training const& job, protocol_parameters const& with) {
  return run_peers(hop(rubato::notify_ack{}, with.peers.order), "notify_ack", staleness{0}, job,
                   with);
}

run_result run_ad_psgd(training const& job, protocol_parameters const& with) {
  return run_peers(rubato::ad_psgd{.seed = job.seed}, "ad_psgd", staleness::infinite(), job, with);
}

run_result run_all_reduce(training const& job, protocol_parameters const& with) {
  return run_peers(rubato::all_reduce{}, "all_reduce", staleness{0}, job, with);
}

run_result run_push_sum(training const& job, protocol_parameters const& with) {
  std::int64_t const delay = with.peers.delay;
  return run_peers(rubato::push_sum{.delay = delay}, "push_sum", staleness{delay}, job, with);
}

run_result run_gossip(training const& job, protocol_parameters const& with) {
  return run_peers(rubato::gossip{.seed = job.seed}, "gossip", staleness::infinite(), job, with);
}

run_result run_prague(training const& job, protocol_parameters const& with) {
  rubato::prague const p{.group = static_cast<std::uint32_t>(with.peers.group), .seed = job.seed};
  return run_peers(p, "prague", staleness{0}, job, with);
}

}  // namespace rubato::bench
