// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/server/host.hpp"

#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/core/time.hpp"
#include "rubato/net/asio_network.hpp"
#include "rubato/protocol/ada_comm.hpp"
#include "rubato/protocol/adsp.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/fixed_ada_comm.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/transport/processes/coordinator_process.hpp"

namespace rubato::server_tool {

rules protocol_of(options const& o) {
  if (o.protocol == "bsp") return bsp{};
  if (o.protocol == "asp") return asp{};
  if (o.protocol == "ssp") return ssp{.staleness = o.staleness};
  if (o.protocol == "con_sgd") return con_sgd{.staleness = o.staleness, .fold = {.lambda = o.lambda}};
  if (o.protocol == "dyn_sgd") return dyn_sgd{.staleness = o.staleness};
  if (o.protocol == "fixed_ada_comm") return fixed_ada_comm{};  // how long is the workers' business
  if (o.protocol == "ada_comm")
    return ada_comm{.first_steps = o.first_steps, .interval = seconds(o.interval), .gamma = o.gamma};
  if (o.protocol == "adsp")
    return adsp{.check_period = seconds(o.check_period),
                .epoch = seconds(o.epoch),
                .probe_period = seconds(o.probe_period),
                .first_rate = o.first_rate,
                .search = o.search,
                .global_rate = o.lambda};
  throw option_error("--protocol: \"" + o.protocol + "\" is none that rubato-server knows");
}

blueprint blueprint_of(options const& o) {
  std::vector<table_description> tables;
  for (table_options const& t : o.tables) tables.push_back(description_of(t));
  blueprint plan{protocol_of(o), o.place.servers, std::move(tables)};
  try {
    detail::check_memory(plan, o.place);
  } catch (option_error const& e) {
    throw option_error(std::string("--rows, --width: ") + e.what());
  }
  return plan;
}

host::host(options const& o, blueprint plan)
    : plan_(std::move(plan)),
      server_(std::make_unique<net::asio_network>(o.place.busy_poll), plan_, plan_.agreement(), o.place,
              std::uint64_t{1} << 30) {}

void coordinate(options const& o, coordinator_started const& started, coordinator_stats& stats, std::string agreed) {
  detail::coordinator_process process(std::make_unique<net::asio_network>(o.place.busy_poll), o.place,
                                      std::vector{protocol_of(o)}, std::move(agreed));
  process.count_in(stats);
  auto const until_over = started([&process] { process.stop(); });
  process.run();
}

}  // namespace rubato::server_tool
