// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/net/asio_network.hpp"
#include "rubato/net/connection.hpp"
#include "rubato/transport/processes/local_model.hpp"
#include "rubato/transport/processes/serving_process.hpp"
#include "rubato/transport/processes/worker_process.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato {

namespace detail {

namespace {
[[noreturn]] void refuse_to_look() {
  throw usage_error(errc::stale_handle,
                    "only worker processes can read the parameters: this one serves them; ask "
                    "cluster.runtime().has_workers() first");
}
}  // namespace

serving_process::serving_process(tcp const& options, run_setup setup)
    : place_(options.place),
      plan_(std::move(setup.protocols), place_.servers, std::move(setup.tables), std::move(setup.changes)) {
  std::string agreed = plan_.agreement();
  std::vector<bool> moves_tables;
  for (std::size_t p = 0; p < plan_.protocols().size(); ++p) moves_tables.push_back(plan_.changes(p).moved.has_value());
  plan_.forget_initial_values();  // they come from worker process 0
  if (place_.as == net::role::server)
    server_ = std::make_unique<server_process>(options.make_network(), plan_, std::move(agreed), place_,
                                               options.sparse_max);
  else
    coordinator_ =
        std::make_unique<coordinator_process>(options.make_network(), place_, plan_.protocols(),
                                                         std::move(agreed), std::move(moves_tables));
}

run_report serving_process::run(run_request) {
  if (server_) server_->run();
  else coordinator_->run();
  return {};
}

bool serving_process::is_in() const noexcept { return coordinator_ != nullptr || server_->number().has_value(); }

void serving_process::stop() {
  if (server_) server_->stop();
  else coordinator_->stop();
}

net::address serving_process::bound() const { return server_ ? server_->bound() : coordinator_->bound(); }

std::uint32_t serving_process::add_worker() {
  throw usage_error(errc::stale_handle, "add_worker: this process has no workers");
}
void serving_process::read_whole(std::size_t, std::byte*) const { refuse_to_look(); }
void serving_process::read_touched(std::size_t, std::vector<std::uint64_t>&, raw_array&) const {
  refuse_to_look();
}
std::uint64_t serving_process::updates() const { refuse_to_look(); }
server_group const& serving_process::servers() const { refuse_to_look(); }
void serving_process::cut(server_id) {
  throw usage_error(errc::stale_handle, "cut: only worker processes are connected to servers");
}

std::size_t tables_max() {
  wire::commit_meta said;
  std::size_t const of_none = wire::to_bytes(said).size();
  said.parts.resize(1);
  std::size_t const of_each = wire::to_bytes(said).size() - of_none;
  constexpr std::size_t numbers = std::size_t{std::numeric_limits<decltype(wire::frame_header::table)>::max()} + 1;
  return std::min(numbers, (net::connection_options().meta_max - of_none) / of_each);
}

std::unique_ptr<tcp_runtime> open_process(tcp const& options, run_setup setup) {
  if (options.place.servers == 0)
    throw option_error("a cluster's tables are on servers, but the number of servers is 0: expected 1 or more "
                       "(RUBATO_SERVERS, rubato-launch -s); peers, which have none, make a peer_group");
  if (setup.tables.size() > tables_max())
    throw option_error("tables: " + std::to_string(setup.tables.size()) + ", expected at most " +
                       std::to_string(tables_max()) + " where they are in other processes");
  if (options.place.logs) net::set_log_format(*options.place.logs);
  if (options.place.as == net::role::worker) return std::make_unique<worker_process>(options, std::move(setup));
  return std::make_unique<serving_process>(options, beside_local_models(std::move(setup)));
}

}  // namespace detail

tcp tcp::from_environment(std::uint32_t threads) {
  return {.place = net::deployment::from_environment(), .threads = threads};
}

std::unique_ptr<net::network> tcp::make_network() const {
  return network ? network() : std::make_unique<net::asio_network>(place.busy_poll);
}

void tcp::check() const {
  place.check();
  if (threads == 0) throw option_error("tcp: threads must be at least 1");
}

std::unique_ptr<tcp_runtime> tcp::open(run_setup setup) const {
  check();
  return detail::open_process(*this, std::move(setup));
}

}  // namespace rubato
