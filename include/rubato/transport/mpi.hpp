// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "rubato/run/peer_runtime.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/transport/task_mode.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato {

/// `tcp` between the ranks of an MPI job: the same processes, over messages of MPI in place of sockets. Needs the CMake
/// target `rubato::mpi` (`find_package(rubato COMPONENTS mpi)`).
///
///     rubato::cluster cluster{rubato::mpi{.place = {.servers = 2}}, rubato::ssp{.staleness = 3}, …};
///
/// All ranks run the same program, `mpirun -n 7 ./train` or `srun --mpi=pmix -n 7 ./train`: rank 0 coordinates, the
/// next are the servers, all others workers, whose `rank()` starts at 0. A process of a higher rank than 0 needs no
/// address, port or token, as MPI knows them all.
///
/// A rank that dies ends the job, as MPI has it, whatever `place.when_lost` says; that is about bodies that throw.
/// `main` returns something else than 0 where `run` throws, so that mpirun does. See `net::mpi_network` for who
/// initializes MPI, and for its threads.
struct mpi {
  /// How many servers there are (of peers none), times and limits. What a rank is follows from its number, and so do
  /// the addresses: what is said here of these is not used. Keys are refused.
  net::deployment place = {};
  std::uint32_t threads = 1;  ///< workers in this process
  std::uint64_t seed = 1;     ///< of the workers' random streams
  bool background = false;    ///< see `tcp::background`
  std::uint64_t sparse_max = std::uint64_t{1} << 30;  ///< see `tcp::sparse_max`
  /// `all_reduce` adds up by MPI_Iallreduce. MPI says in which order: all peers get the same bits, as MPI requires, and
  /// so they should the next time for the same numbers and ranks; but not always those that the ring of messages gives,
  /// which other transports have, and this one without collectives. All ranks say the same.
  bool collectives = true;

  /// With `RUBATO_SERVERS`, and what else `net::deployment::from_environment` reads that is no address, role or
  /// number. Collective, as `net::this_mpi_rank` is, which it calls. @throws option_error
  [[nodiscard]] static mpi from_environment(std::uint32_t threads = 1);

  using runtime_type = tcp_runtime;
  /// Joins the run, or begins to listen. All ranks make their clusters in the same order. @throws as `tcp::open`
  [[nodiscard]] std::unique_ptr<tcp_runtime> open(run_setup setup) const;

  using peer_runtime_type = tcp_peer_runtime;
  /// Joins a run of peers, or coordinates one: `place.servers` is 0, rank 0 coordinates and each other rank has a peer.
  /// @throws as `tcp::open_peers`
  [[nodiscard]] std::unique_ptr<tcp_peer_runtime> open_peers(peer_setup setup) const;

  static constexpr task_mode tasks = task_mode::one_at_a_time;
  /// The worker processes, each with room for `threads` workers.
  [[nodiscard]] std::vector<std::uint32_t> nodes() const;

  /// `place` as this rank has it: its role, its number, how many workers there are, and the coordinator of the first
  /// cluster. @throws option_error where there are not enough ranks
  [[nodiscard]] net::deployment here() const;
  /// @throws option_error
  void check() const;

 private:
  [[nodiscard]] tcp as_processes() const;
};

}  // namespace rubato
