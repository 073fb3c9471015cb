// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/error.hpp"
#include "rubato/sim/scenario.hpp"

#include <fmt/core.h>

#include <limits>
#include <set>

namespace rubato::sim {
namespace {

// A node's code holds its index and one bit more.
constexpr std::size_t nodes_max = std::numeric_limits<std::uint32_t>::max() / 2;

// Beyond is what slips produce, such as a -1 that has become unsigned.
constexpr std::uint32_t machines_max = std::uint32_t{1} << 20;

void require_count(std::string_view option, std::size_t count) {
  if (count >= 1 && count <= nodes_max) return;
  throw option_error(
      fmt::format("{} must be between 1 and {}, but is {}", option, nodes_max, count));
}

void require_time(std::string_view option, duration at) {
  if (at >= duration::zero()) return;
  throw option_error(fmt::format("{} must be at least 0 ns, but is {}", option, at.count()));
}

}  // namespace

void scenario::validate(std::size_t workers, std::size_t servers) const {
  require_count("workers", workers);
  require_count("servers", servers);
  std::size_t const workers_ever = workers + joins.size();
  speed.validate(workers_ever);
  network.validate();
  if (server_delay.size() > servers) {
    throw option_error(
        fmt::format("server_delay must be a list of at most {} times, one per server, but is {}",
                    servers, server_delay.size()));
  }
  for (std::size_t i = 0; i < server_delay.size(); ++i) {
    require_time(fmt::format("server_delay[{}]", i), server_delay[i]);
  }
  if (machine_of.size() > workers_ever) {
    throw option_error(
        fmt::format("machine_of must be a list of at most {} machines, one per worker, but is {}",
                    workers_ever, machine_of.size()));
  }
  for (std::size_t i = 0; i < machine_of.size(); ++i) {
    if (machine_of[i] < machines_max) continue;
    throw option_error(
        fmt::format("machine_of[{}] must be below {}, but is {}", i, machines_max, machine_of[i]));
  }
  if (server_machine_of.size() > servers) {
    throw option_error(fmt::format("server_machine_of must be a list of at most {} machines, one per server, but is {}",
                                   servers, server_machine_of.size()));
  }
  for (std::size_t i = 0; i < server_machine_of.size(); ++i) {
    if (server_machine_of[i] < machines_max) continue;
    throw option_error(fmt::format("server_machine_of[{}] must be below {}, but is {}", i, machines_max,
                                   server_machine_of[i]));
  }
  require_time("detection_delay", detection_delay);
  for (std::size_t i = 0; i < joins.size(); ++i) {
    require_time(fmt::format("joins[{}].at", i), joins[i].at);
  }
  std::set<std::uint32_t> lost;
  for (std::size_t i = 0; i < machine_losses.size(); ++i) {
    auto const& [machine, at] = machine_losses[i];
    require_time(fmt::format("machine_losses[{}].at", i), at);
    auto const placed = machine_of.begin() + static_cast<std::ptrdiff_t>(std::min(workers, machine_of.size()));
    if (std::find(machine_of.begin(), placed, machine) == placed)
      throw option_error(fmt::format("machine_losses[{}].machine must be one of machine_of, but is {}", i, machine));
    if (!lost.insert(machine).second)
      throw option_error(fmt::format("machine_losses[{}].machine must be lost only once, but {} is listed twice",
                                     i, machine));
  }
  std::set<worker_id> crashed;
  for (std::size_t i = 0; i < crashes.size(); ++i) {
    require_time(fmt::format("crashes[{}].at", i), crashes[i].at);
    if (crashes[i].worker.index() >= workers_ever) {
      throw option_error(fmt::format("crashes[{}].worker must be one of the {} workers, but is {}",
                                     i, workers_ever, crashes[i].worker.value()));
    }
    if (!crashed.insert(crashes[i].worker).second) {
      throw option_error(
          fmt::format("crashes[{}].worker must crash only once, but {} is listed twice", i,
                      crashes[i].worker.value()));
    }
  }
}

}  // namespace rubato::sim
