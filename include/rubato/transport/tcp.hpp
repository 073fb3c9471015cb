// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/core/error.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/transport/tcp/runtime.hpp"

namespace rubato {

/// Workers, servers and a coordinator are processes, on one machine or many.
///
/// Every process makes a `cluster` with the same protocol and tables, and its own place. In a worker
/// process `run` runs the body on its `threads` workers; in a server or coordinator process the body
/// is not called, and `run` serves the others until all workers have left.
///
///     rubato::cluster cluster{rubato::tcp::from_environment(), rubato::ssp{.staleness = 3}, …};
///
/// Initial values are those of worker process 0. What becomes of a run when a process is lost,
/// `net::deployment` says.
struct tcp {
  net::deployment place = {};
  std::uint32_t threads = 1;  ///< workers in this process
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

  /// The place is as a launcher says it; see `net::deployment::from_environment`.
  [[nodiscard]] static tcp from_environment(std::uint32_t threads = 1) {
    return {.place = net::deployment::from_environment(), .threads = threads};
  }

  template <protocol Protocol, table_spec... Tables>
  using runtime = tcp_runtime<Protocol, Tables...>;

  /// @throws option_error
  void check() const {
    place.check();
    if (threads == 0) throw option_error("tcp: threads must be at least 1");
  }
};

template <protocol Protocol, table_spec... Tables>
tcp_runtime<Protocol, Tables...>::tcp_runtime(tcp const& options, Protocol p, Tables... tables)
    : tcp_runtime((options.check(), options.place), options.threads, options.seed,
                  options.sparse_max, options.background, std::move(p), std::move(tables)...) {}

}  // namespace rubato
