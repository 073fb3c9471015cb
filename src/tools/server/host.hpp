// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rubato/server/blueprint.hpp"
#include "rubato/transport/processes/coordinator_stats.hpp"
#include "rubato/transport/processes/server_process.hpp"
#include "src/tools/server/options.hpp"

namespace rubato::server_tool {

/// The protocol that was named on the command line.
[[nodiscard]] rules protocol_of(options const& o);

/// That protocol, and the tables: takes as long as it takes to ask partitions where rows are.
/// @throws option_error where they do not go together, or memory is not enough for this server's part
[[nodiscard]] blueprint blueprint_of(options const& o);

/// A server of some protocol and tables.
class host {
 public:
  /// @param plan as `blueprint_of` makes it of the same options @throws option_error
  host(options const& o, blueprint plan);

  /// Serves until all workers have left, or `stop` is called. @throws lost_error
  void run() { server_.run(); }
  /// Any thread.
  void stop() noexcept { server_.stop(); }
  /// It is about to be, after the coordinator. Any thread.
  void expect_stop() noexcept { server_.expect_stop(); }
  [[nodiscard]] server_stats const& stats() const noexcept { return server_.stats(); }
  [[nodiscard]] net::address bound() const { return server_.bound(); }

 private:
  blueprint plan_;
  detail::server_process server_;
};

/// Is told, once a coordinator listens, how to end it; `stop` may be called until what this returns has
/// been destroyed.
using coordinator_started = std::function<std::shared_ptr<void>(std::function<void()> stop)>;
/// The coordinator for what the options say; blocks until the run is over, or it is stopped. Counts in `stats`.
/// @param agreed what all must agree on, where it is known: a coordinator alone has no tables
void coordinate(options const& o, coordinator_started const& started, coordinator_stats& stats,
                std::string agreed = {});

}  // namespace rubato::server_tool
