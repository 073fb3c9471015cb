// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/train/run_peers.hpp"

#include "rubato/peer/topologies.hpp"

namespace rubato::bench {

std::uint64_t peer_updates_in_clock(training const& job) {
  return static_cast<std::uint64_t>(job.steps_per_commit) * job.workers;
}

graph peer_graph(training const& job, protocol_parameters const& with) {
  return parse_graph(with.peers.graph, job.workers);
}

token_queues peer_tokens(protocol_parameters const& with) {
  constexpr std::int64_t usual = 8;
  return {.iterations = with.peers.gap_max.value_or(usual)};
}

sim::scenario peer_scenario(training const& job) {
  sim::scenario s = job.scenario;
  s.server_delay.clear();
  return s;
}

run_result describe_peers(training const& job, std::string_view protocol, staleness s) {
  run_result r = describe(job, protocol, s);
  r.servers = 0;
  r.storage = "dense";
  return r;
}

void fill_in(run_result& r, training const& job, peer_report const& report,
             std::vector<curve_point> curve, std::vector<float> const& parameters) {
  r.seconds = to_seconds(report.elapsed);
  r.steps = r.updates = report.iterations();
  r.seconds_per_update = r.updates == 0 ? 0 : r.seconds / static_cast<double>(r.updates);
  for (peer_metrics const& p : report.peers) {
    time_split const spent = split_of(p);
    r.compute_seconds += spent.compute;
    r.wait_seconds += spent.wait;
    r.bytes_sent += p.bytes_sent;
    r.jumped_over += p.jumped_over;
  }
  r.bytes_received = r.bytes_sent;  // by each other
  r.counted_split = {.compute = r.compute_seconds, .wait = r.wait_seconds};
  fill_in_end(r, job, peer_updates_in_clock(job), std::move(curve), parameters);
}

}  // namespace rubato::bench
