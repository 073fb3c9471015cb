// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "rubato/transport/tcp/server_stats.hpp"
#include "src/tools/server/options.hpp"

namespace rubato::server_tool {

/// A server of some protocol and tables.
class host {
 public:
  virtual ~host() = default;
  /// Serves until all workers have left, or `stop` is called. @throws lost_error
  virtual void run() = 0;
  /// Any thread.
  virtual void stop() noexcept = 0;
  [[nodiscard]] virtual server_stats const& stats() const noexcept = 0;
  [[nodiscard]] virtual net::address bound() const = 0;
};

/// The host for what the options say. @throws option_error
[[nodiscard]] std::unique_ptr<host> make_host(options const& o);

// Each is a file of its own, because each compiles all stores.
[[nodiscard]] std::unique_ptr<host> host_strict_average(options const& o);
[[nodiscard]] std::unique_ptr<host> host_eager_sum(options const& o);
[[nodiscard]] std::unique_ptr<host> host_eager_scale(options const& o);
[[nodiscard]] std::unique_ptr<host> host_eager_revise(options const& o);

/// Is told, once a coordinator listens, how to end it; `stop` may be called until what this returns has
/// been destroyed.
using coordinator_started = std::function<std::shared_ptr<void>(std::function<void()> stop)>;
/// The coordinator for what the options say; blocks until the run is over, or it is stopped.
void coordinate(options const& o, coordinator_started const& started);

}  // namespace rubato::server_tool
