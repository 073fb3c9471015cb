// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <map>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/transport/fibers/worker_fibers.hpp"

namespace rubato {

namespace {

/// Machines of workers, by number, and how many workers each has.
std::map<std::uint32_t, std::uint32_t> machines_in(simulated const& s) {
  std::map<std::uint32_t, std::uint32_t> workers_on;
  std::size_t const placed = std::min<std::size_t>(s.workers, s.scenario.machine_of.size());
  for (std::size_t w = 0; w < placed; ++w) ++workers_on[s.scenario.machine_of[w]];
  std::uint32_t fresh = 0;  // the others have a machine each
  for (std::size_t w = placed; w < s.workers; ++w) {
    while (workers_on.contains(fresh)) ++fresh;
    workers_on[fresh] = 1;
  }
  return workers_on;
}

}  // namespace

std::vector<std::uint32_t> simulated::nodes() const {
  std::vector<std::uint32_t> all;
  for (auto const& [machine, count] : machines_in(*this)) all.push_back(count);
  return all;
}

std::vector<std::uint32_t> simulated::machines_of(std::span<std::uint32_t const> placement) const {
  auto const machines = machines_in(*this);
  if (placement.size() > machines.size())
    throw option_error("run: a placement on " + std::to_string(placement.size()) + " nodes, expected at most " +
                       std::to_string(machines.size()) + " machines");
  std::vector<std::uint32_t> all;
  auto machine = machines.begin();
  for (std::uint32_t const count : placement) {
    auto const& [number, room] = *machine++;
    if (count > room)
      throw option_error("run: a placement with " + std::to_string(count) + " workers on machine " +
                         std::to_string(number) + ", expected at most " + std::to_string(room));
    all.insert(all.end(), count, number);
  }
  return all;
}

std::vector<std::uint32_t> simulated::nodes_of(std::span<std::uint32_t const> machines) const {
  std::vector<std::uint32_t> all;
  std::uint32_t node = 0;
  for (auto const& [machine, count] : machines_in(*this)) {
    if (std::ranges::find(machines, machine) != machines.end()) all.push_back(node);
    ++node;
  }
  return all;
}

std::unique_ptr<simulated_runtime> simulated::open(run_setup setup) const {
  return std::make_unique<detail::worker_fibers>(*this, std::move(setup));
}

}  // namespace rubato
