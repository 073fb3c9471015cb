// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/mpi.hpp"

#include <fmt/core.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/net/mpi_network.hpp"
#include "rubato/transport/processes/peer_process.hpp"
#include "rubato/transport/processes/serving_process.hpp"

namespace rubato {
namespace {

/// Where the coordinator of this process's next cluster listens. All ranks count alike, so that who is ahead of the
/// others does not meet the last one's, in which it may have had another role.
std::uint16_t next_coordinator() {
  static std::atomic<std::uint32_t> clusters = 0;
  constexpr std::uint32_t numbers = 32767;  // those above are for listeners that need no certain one
  return static_cast<std::uint16_t>(1 + clusters++ % numbers);
}

/// Of one process: whatever the environment says of places is another launcher's.
std::optional<std::string> look_up_all_but_places(std::string_view name) {
  for (std::string_view const other :
       {"RUBATO_ROLE", "RUBATO_COORDINATOR", "RUBATO_LISTEN", "RUBATO_ANNOUNCE", "RUBATO_PLACE_KEY", "MASTER_ADDR",
        "MASTER_PORT", "RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "SLURM_PROCID",
        "SLURM_NTASKS", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (name == other) return std::nullopt;
  char const* const value = std::getenv(std::string(name).c_str());
  if (value == nullptr) return std::nullopt;
  return value;
}

}  // namespace

mpi mpi::from_environment(std::uint32_t threads) {
  mpi result{.place = net::deployment::from_environment(look_up_all_but_places), .threads = threads};
  result.place = result.here();
  return result;
}

net::deployment mpi::here() const {
  auto const [rank, count] = net::this_mpi_rank();
  net::deployment d = place;
  std::uint64_t const others = std::uint64_t{1} + d.servers;
  if (count <= others)
    throw option_error(fmt::format("mpirun has started {} process{}, expected at least {}: a coordinator, {} server{} "
                                   "and a worker",
                                   count, count == 1 ? "" : "es", others + 1, d.servers, d.servers == 1 ? "" : "s"));
  d.workers = static_cast<std::uint32_t>(count - others);
  d.as = rank == 0 ? net::role::coordinator : rank < others ? net::role::server : net::role::worker;
  d.rank = rank == 0 ? 0 : rank < others ? rank - 1 : static_cast<std::uint32_t>(rank - others);
  d.coordinator = net::mpi_network::address_of(0, 1);
  d.listen = net::mpi_network::address_of(rank);
  d.announce.reset();
  return d;
}

std::vector<std::uint32_t> mpi::nodes() const { return std::vector<std::uint32_t>(here().workers, threads); }

void mpi::check() const {
  tcp as_if{.place = here(), .threads = threads};
  as_if.place.coordinator = {.host = "127.0.0.1", .port = 1};
  as_if.place.listen.reset();
  as_if.check();
}

/// One more of this process's clusters.
tcp mpi::as_processes() const {
  net::deployment mine = here();
  mine.coordinator = net::mpi_network::address_of(0, next_coordinator());
  return {.place = mine,
          .threads = threads,
          .seed = seed,
          .background = background,
          .sparse_max = sparse_max,
          .network = [] { return std::make_unique<net::mpi_network>(); }};
}

std::unique_ptr<tcp_runtime> mpi::open(run_setup setup) const {
  check();
  return detail::open_process(as_processes(), std::move(setup));
}

std::unique_ptr<tcp_peer_runtime> mpi::open_peers(peer_setup setup) const {
  check();
  tcp const mine = as_processes();
  bool const adds_up = collectives;
  if (!adds_up && mine.place.as == net::role::coordinator) return detail::open_peer_process(mine, std::move(setup));
  // Ranks that say otherwise join as well, so that those do not wait for them who make another group after that.
  auto const join = [adds_up](net::network& own, detail::parameters_shape const& shape) {
    auto joined = static_cast<net::mpi_network&>(own).join_others(shape.element, shape.size);
    return adds_up ? std::move(joined) : nullptr;
  };
  return detail::open_peer_process(mine, std::move(setup), join);
}

}  // namespace rubato
