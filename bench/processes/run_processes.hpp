// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

#include "rubato/net/address.hpp"
#include "rubato/net/deployment.hpp"

namespace rubato::bench {

/// A process of a run has failed; the sentence names it and has what it said last.
class process_failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The processes of a run on this machine, and how they reach each other: on loopback, unless
/// something lies between them.
struct process_plan {
  std::uint32_t workers = 1;
  std::uint32_t servers = 1;
  /// Where servers and workers reach the coordinator, if not where it listens.
  std::function<net::address()> coordinator_address = {};
  /// Where workers reach a server, if not where it listens.
  std::function<net::address(std::uint32_t rank)> server_address = {};
  /// Hears where the coordinator and the servers listen, once all processes have been started.
  std::function<void(net::role as, std::uint32_t rank, net::address const& where)> listening = {};
};

/// What a process does. A coordinator or server says with `listens` where it listens, before it
/// serves. Returns what the process has found out, if anything.
using process_body = std::function<std::string(
    net::deployment const& place, std::function<void(net::address const& where)> const& listens)>;

/// Runs `body` in a coordinator, servers and workers, each of them a copy of this process, so that
/// they have all that this one has loaded. Returns what worker 0 has found out. When one fails, all
/// are ended.
/// @throws process_failure
/// @pre this process has one thread
[[nodiscard]] std::string run_processes(process_plan const& plan, process_body const& body);

}  // namespace rubato::bench
