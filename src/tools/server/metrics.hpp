// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <string>

#include "rubato/net/address.hpp"
#include "rubato/transport/processes/coordinator_stats.hpp"
#include "rubato/transport/processes/server_stats.hpp"

namespace rubato::server_tool {

/// Who is watched on a page: a server, a coordinator, or both in one process.
struct watched {
  server_stats const* server = nullptr;
  coordinator_stats const* coordinator = nullptr;
};

/// The counters in Prometheus's text format; of a server and of a coordinator also this process's memory.
[[nodiscard]] std::string prometheus_text(server_stats const& stats);
[[nodiscard]] std::string prometheus_text(coordinator_stats const& stats);
[[nodiscard]] std::string prometheus_text(watched const& who);

/// Answers over HTTP in a thread of its own, on a loopback address.
///
/// | `GET` | answer |
/// |---|---|
/// | `/metrics`, `/` | the counters |
/// | `/healthz` | 200: the process is there |
/// | `/readyz` | 200 once workers can be served: a server has its place, and a coordinator has seen all that the first run needs; 503 with what is missing before |
class metrics_page {
 public:
  /// @param who outlives this
  /// @throws option_error when the address is beyond loopback; error (errc::io) when it cannot be bound
  metrics_page(net::address const& at, watched const& who);
  ~metrics_page();
  metrics_page(metrics_page const&) = delete;
  metrics_page& operator=(metrics_page const&) = delete;

  [[nodiscard]] net::address bound() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace rubato::server_tool
