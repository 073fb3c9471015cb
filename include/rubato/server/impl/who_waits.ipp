// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>

#include "rubato/server/who_waits.hpp"

namespace rubato {
namespace {

std::string said_of(waiting_room::ticket const& who, std::string const& where) {
  return "worker " + std::to_string(who.worker.value()) + " at clock " + std::to_string(who.clock.value()) +
         " waits at " + where + " for ";
}

std::string for_clocks(clock_index need, clock_index c_min, std::optional<worker_id> slowest) {
  std::string text = "c_min " + std::to_string(need.value()) + ", which is " + std::to_string(c_min.value());
  if (slowest) text += " because of worker " + std::to_string(slowest->value());
  return text;
}

std::optional<worker_id> slowest_of(progress const& clocks) {
  if (clocks.live() == 0) return std::nullopt;
  return clocks.slowest();
}

/// Of those that the reader heeds, the first one that is behind.
std::optional<worker_id> awaited_by(waiting_room::ticket const& who, shard_control const& at) {
  progress const& clocks = at.workers();
  for (std::uint32_t w = 0; w < clocks.places(); ++w) {
    worker_id const other{w};
    if (!clocks.contains(other) || clocks.of(other) >= who.need) continue;
    if (other == who.worker || at.admission().heeds(who.worker, other, who.clock)) return other;
  }
  return std::nullopt;
}

std::string describe_wait(waiting_room::ticket const& who, stable_cuts const& cuts) {
  return said_of(who, "the coordinator") + for_clocks(who.need, cuts.c_min(), slowest_of(cuts.workers()));
}

}  // namespace

std::string describe_wait(waiting_room::ticket const& who, shard_control const& at, server_id here) {
  std::string const begun = said_of(who, "server " + std::to_string(here.value()));
  admission_rule const& admission = at.admission();
  if (admission.limits()) return begun + "others to read what it has changed";
  if (admission.by_round())
    return begun + std::to_string(who.need.value()) + " rounds to be over, of which " +
           std::to_string(at.round().value()) + " are";
  if (admission.heeds_some()) {
    auto const other = awaited_by(who, at);
    return begun + for_clocks(who.need, other ? at.workers().of(*other) : at.published(), other);
  }
  return begun + for_clocks(who.need, at.published(), slowest_of(at.workers()));
}

std::string describe_waits(server_group const& servers) {
  std::string text;
  for (std::uint32_t s = 0; s < servers.size(); ++s)
    servers.server(server_id{s}).inspect([&](shard_control const& at) {
      for (auto const& who : at.waiting().tickets()) text += "; " + describe_wait(who, at, server_id{s});
    });
  return text;
}

std::string describe_wait(worker_id who, stable_cuts const& cuts) {
  for (auto const& ticket : cuts.waiting().tickets())
    if (ticket.worker == who) return describe_wait(ticket, cuts);
  return "worker " + std::to_string(who.value()) + " waits at the coordinator";
}

std::string describe_waits(stable_cuts const& cuts) {
  std::string text;
  for (auto const& who : cuts.waiting().tickets()) text += "; " + describe_wait(who, cuts);
  return text;
}

}  // namespace rubato
