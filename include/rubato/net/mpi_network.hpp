// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "rubato/core/element.hpp"
#include "rubato/net/collective.hpp"
#include "rubato/net/network.hpp"

namespace rubato::net {

/// This process among those of an MPI job.
struct mpi_rank {
  std::uint32_t number = 0;  ///< its rank in MPI_COMM_WORLD
  std::uint32_t count = 1;   ///< how many ranks there are
};

/// Which one this is. The first call in a process initializes MPI, unless the program has, and is collective: all ranks
/// make it. @throws option_error where MPI has been finalized, or was initialized for fewer threads than
/// MPI_THREAD_SERIALIZED
[[nodiscard]] mpi_rank this_mpi_rank();

/// Messages of MPI, from rank to rank; needs the CMake target `rubato::mpi`.
///
/// An address is a rank and a number of one's own choice, `rank-3:1` as text; with number 0 the network picks one.
/// Large bodies are sent from where they are and received where they are wanted, by MPI's nonblocking messages; they
/// travel on a duplicate of MPI_COMM_WORLD, apart from the program's own. A rank that waits looks for messages
/// again and again: at once at first, so that an answer is found without delay, then it lets others run in between,
/// and then it sleeps for an eighth of the time for which nothing has come, a millisecond at most.
///
/// There is nothing that ends would prove to each other, since it is `mpirun` that lets ranks in: keys are refused. A
/// rank that dies ends the job, as MPI has it. Nothing arrives, and nothing large leaves, while a process is in no call
/// of MPI's. A body whose connection closes while a piece of it arrives makes that `close` wait for the piece; and the
/// last piece of one that is being sent stays in memory, with its source, until the other rank has taken it.
///
/// Several networks may be there, each used by one thread at a time. All calls of MPI are made one at a time
/// (MPI_THREAD_SERIALIZED); a program whose bodies call MPI meanwhile initializes it for MPI_THREAD_MULTIPLE.
/// MPI is finalized at the program's end by whoever initialized it. The first network of a process is made by all
/// ranks, and takes as long as the slowest.
class mpi_network final : public network {
 public:
  /// @throws option_error as `this_mpi_rank`
  mpi_network();
  ~mpi_network() override;
  mpi_network(mpi_network const&) = delete;
  mpi_network& operator=(mpi_network const&) = delete;

  /// Where a rank is.
  [[nodiscard]] static address address_of(std::uint32_t rank, std::uint16_t number = 0);

  /// A collective of all ranks but the first, whose member 0 is rank 1: sums by MPI_Iallreduce, while this network
  /// runs. MPI says in which order numbers are added up: it must give all members the same bits, and should give them
  /// again for the same numbers of as many ranks. All these ranks make theirs in the same order.
  /// @param size how many numbers each member gives @throws option_error in rank 0
  [[nodiscard]] std::unique_ptr<collective> join_others(element_type element, std::size_t size);

  std::shared_ptr<void> dial(address const& to, security const& keys, connection_options const& options,
                             dialed done) override;
  std::unique_ptr<listener> listen(address const& at, security const& keys, listener_options const& options,
                                   accepted f) override;
  std::shared_ptr<void> at(clock::time_point when, std::function<void()> f) override;
  clock::time_point now() const override { return clock::now(); }
  void run_one(clock::time_point deadline = clock::time_point::max()) override;
  void poll() override;
  void interrupt() noexcept override;
  std::optional<address> reached(address const& bound, address const& from) const override;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace rubato::net
