// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rubato/net/deployment.hpp"
#include "rubato/net/network.hpp"
#include "rubato/run/peer_runtime.hpp"
#include "rubato/run/runtime.hpp"
#include "rubato/transport/task_mode.hpp"

namespace rubato {

/// A process of a run of several: what it is, beside what every runtime can do.
///
/// In a process that serves, `run` serves the others until all workers have left, and `stop` ends that;
/// the parameters can be read in worker processes only.
class tcp_runtime : public runtime {
 public:
  /// What this process is.
  [[nodiscard]] virtual net::role role() const noexcept = 0;
  /// This process's number among those of its role.
  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  /// Where this server or coordinator listens. @throws usage_error in a worker process
  [[nodiscard]] virtual net::address bound() const = 0;
  /// For tests: breaks this worker process's connection to a server.
  virtual void cut(server_id s) = 0;
};

/// A process of a run of peers: what it is, beside what every runtime can do.
///
/// In the coordinator's process `run` serves the others until all peers have left, and `stop` ends that.
class tcp_peer_runtime : public peer_runtime {
 public:
  /// A worker, which has a peer, or the coordinator.
  [[nodiscard]] virtual net::role role() const noexcept = 0;
  /// The rank of the peer that this process has; 0 in the coordinator's.
  [[nodiscard]] virtual std::uint32_t rank() const noexcept = 0;
  /// Where this process listens.
  [[nodiscard]] virtual net::address bound() const = 0;
  /// For tests: breaks this peer's connections to and from another one.
  virtual void cut(std::uint32_t rank) = 0;
};

/// Workers, servers and a coordinator are processes, on one machine or many.
///
/// Every process makes a `cluster` with the same protocol and tables, and its own place. In a worker
/// process `run` runs the body on its `threads` workers; in a server or coordinator process the body
/// is not called, and `run` serves the others until all workers have left.
///
///     rubato::cluster cluster{rubato::tcp::from_environment(), rubato::ssp{.staleness = 3}, …};
///
/// Peers have no servers (`net::deployment::servers` is 0): each worker process has one of them, and every process
/// makes a `peer_group` with the same graph, protocol, step and parameters.
///
///     rubato::peer_group group{rubato::tcp::from_environment(), rubato::ring(4), rubato::hop(), step, w0};
///
/// Initial values of tables are those of worker process 0. What becomes of a run when a process is lost,
/// `net::deployment` says.
struct tcp {
  net::deployment place = {};  ///< what this process is, and where the others are
  std::uint32_t threads = 1;  ///< workers in this process; of peers there is one
  std::uint64_t seed = 1;     ///< of the workers' random streams
  /// A thread of its own sends and receives while all workers of this process compute: for large
  /// commits, which otherwise hold their worker up until most of them has left, and for large
  /// prefetches. Small commits cost more with it.
  bool background = false;
  /// Most bytes of a sparse table's rows in one message, for every process by itself. To read a whole
  /// table of which one server holds more throws error (errc::bad_option), and the run may go on. A
  /// commit of more, a pull that names more rows and initial values of more, at one server, are taken
  /// for a fault: that server closes the link, and the worker process is lost.
  std::uint64_t sparse_max = std::uint64_t{1} << 30;
  /// Makes what this process talks through, in place of sockets: `net::asio_network` where it is empty.
  net::network_maker network{};

  /// The place is as a launcher says it; see `net::deployment::from_environment`.
  [[nodiscard]] static tcp from_environment(std::uint32_t threads = 1);

  using runtime_type = tcp_runtime;
  /// Joins the run, or begins to listen. @throws option_error for what cannot be meant, and for more than 2519 tables;
  /// lost_error, or error with errc::refused, when it is not let in
  [[nodiscard]] std::unique_ptr<tcp_runtime> open(run_setup setup) const;

  using peer_runtime_type = tcp_peer_runtime;
  /// Joins a run of peers, or coordinates one. @throws as `open`; option_error also where there are servers
  [[nodiscard]] std::unique_ptr<tcp_peer_runtime> open_peers(peer_setup setup) const;

  static constexpr task_mode tasks = task_mode::one_at_a_time;
  /// The worker processes, each with room for `threads` workers.
  [[nodiscard]] std::vector<std::uint32_t> nodes() const {
    return std::vector<std::uint32_t>(place.workers, threads);
  }

  /// What `network` makes, or an `asio_network`.
  [[nodiscard]] std::unique_ptr<net::network> make_network() const;
  /// @throws option_error
  void check() const;
};

}  // namespace rubato
