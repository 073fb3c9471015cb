// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/setup/peers.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

#include <fmt/format.h>

#include "bench/train/run_peers.hpp"
#include "rubato/core/error.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/topologies.hpp"

namespace rubato::bench {
namespace {

/// The updates that the worst-off node has in an iteration, its own included.
std::size_t least_updates(graph const& g) {
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (std::uint32_t i = 0; i < g.size(); ++i)
    least = std::min(least, g.in(worker_id{i}).size() + 1);
  return least;
}

std::optional<std::string> obstacle_of_graph(protocol_choice const& p, graph const& g) {
  std::string const named = fmt::format("the graph {} of {} nodes", g.name(), g.size());
  if (p.entry->needs_sides && !g.two_coloring())
    return named + " is not bipartite, so peers that average in pairs could deadlock";
  if (p.entry->needs_sides && !g.undirected())
    return named + " is directed, but peers average in pairs";
  if (p.entry->needs_backups && p.with.peers.backups >= 0 &&
      static_cast<std::size_t>(p.with.peers.backups) >= least_updates(g))
    return fmt::format("in {} a node has {} updates, its own included, and cannot do without {}",
                       named, least_updates(g), p.with.peers.backups);
  try {
    (void)mixing_matrix::automatic(g);
  } catch (option_error const& e) {
    return e.what();
  }
  return std::nullopt;
}

std::optional<std::string> obstacle_of_scenario(protocol_choice const& p, training const& job) {
  if (job.transport != transport_kind::simulated) return std::nullopt;
  if (!job.scenario.joins.empty()) return "in the scenario workers join, but peers cannot";
  if (!job.scenario.crashes.empty() && !p.entry->bears_loss)
    return "in the scenario workers are lost, and it cannot go on without one";
  return std::nullopt;
}

}  // namespace

std::optional<std::string> obstacle(protocol_choice const& protocol, training const& job) {
  // Over MPI the ranks are dealt out once, for all protocols.
  if (protocol.entry->run == run_vap && job.transport == transport_kind::mpi && job.servers > 1)
    return protocol.label() + ": needs --servers 1 over MPI, for two servers could let in workers that wait for each other";
  if (protocol.has_servers()) return std::nullopt;
  std::uint32_t const peers = job_of_peers(job).workers;
  auto what = obstacle_of_graph(protocol, parse_graph(protocol.with.peers.graph, peers));
  if (!what) what = obstacle_of_scenario(protocol, job);
  if (what) what->insert(0, protocol.label() + ": ");
  return what;
}

std::optional<std::string> obstacle(protocol_choice const& protocol, application_options const& app) {
  if (!protocol.entry->adds_up)
    return fmt::format("{}: --workload {} runs under bsp, ssp and asp, whose servers add commits up as they are",
                       protocol.label(), name_of(app.kind));
  if (app.kind == application_kind::lasso && protocol.entry->run == run_asp && !app.damping)
    return "asp: no --damping of the Lasso is known to be safe without a bound on staleness, so one must be given";
  return std::nullopt;
}

std::vector<std::string> leave_out_impossible(std::vector<protocol_choice>& protocols, training const& job,
                                              std::optional<application_options> const& app) {
  if (app) std::erase_if(protocols, [](protocol_choice const& p) { return !p.by_name && !p.entry->adds_up; });
  std::vector<std::string> reasons;
  std::erase_if(protocols, [&](protocol_choice const& p) {
    auto const what = app ? obstacle(p, *app) : obstacle(p, job);
    if (what && p.by_name) throw option_error("--protocols: " + *what);
    if (what) reasons.push_back(*what);
    return what.has_value();
  });
  return reasons;
}

}  // namespace rubato::bench
