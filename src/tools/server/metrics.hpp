// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <memory>
#include <string>

#include "rubato/net/address.hpp"
#include "rubato/transport/processes/server_stats.hpp"

namespace rubato::server_tool {

/// The counters in Prometheus's text format.
[[nodiscard]] std::string prometheus_text(server_stats const& stats);

/// Answers `GET /metrics` over HTTP in a thread of its own, on a loopback address.
class metrics_page {
 public:
  /// @throws option_error when the address is beyond loopback; error (errc::io) when it cannot be bound
  metrics_page(net::address const& at, server_stats const& stats);
  ~metrics_page();
  metrics_page(metrics_page const&) = delete;
  metrics_page& operator=(metrics_page const&) = delete;

  [[nodiscard]] net::address bound() const;

 private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace rubato::server_tool
