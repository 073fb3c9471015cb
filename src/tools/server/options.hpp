// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/net/address.hpp"
#include "rubato/net/deployment.hpp"
#include "rubato/net/log_format.hpp"
#include "src/tools/server/tables.hpp"

namespace rubato::server_tool {

/// What `rubato-server` was told on its command line.
struct options {
  net::deployment place = {.as = net::role::server};

  std::string protocol = "ssp";
  rubato::staleness staleness = 3;
  std::optional<double> lambda;  ///< con_sgd and adsp: what an update counts

  // paces with a conductor; in seconds
  double check_period = 60;
  double epoch = 1200;
  double probe_period = 120;
  std::int64_t first_rate = 1;
  bool search = true;
  std::int64_t first_steps = 16;
  double interval = 60;
  double gamma = 0.5;

  std::vector<table_options> tables;

  bool with_coordinator = false;  ///< this server process also coordinates
  std::optional<net::address> metrics;
  bool verbose = false;
  [[nodiscard]] net::log_format logs() const { return place.logs.value_or(net::log_format::text); }
};

/// Options win over the environment. Returns nothing when all that was asked for has been printed
/// (`--help`), with `exit_code` to end with.
/// @throws option_error that names the option and what was expected
[[nodiscard]] std::optional<options> parse(int argc, char const* const* argv, int& exit_code);

}  // namespace rubato::server_tool
