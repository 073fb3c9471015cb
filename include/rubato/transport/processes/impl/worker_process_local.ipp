// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Stages in single-machine mode.
#pragma once

#include <algorithm>
#include <optional>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/transport/processes/rows_transfer.hpp"
#include "rubato/transport/processes/worker_process.hpp"

namespace rubato::detail {

/// For the others the node that has all workers has one, which deals with the servers. It has the tables, and runs
/// the stage on them. Another node has one more, if it has kept them.
run_request worker_process::in_single_machine_mode(run_request request) {
  local_report_.reset();
  auto const before = std::exchange(kept_, std::nullopt);
  if (before && before->in_debt && (!request.local || request.changes_tables))
    throw option_error("run: the last one has kept the tables, expected one in single-machine mode that goes on "
                       "with them");
  if (!request.local) {
    drop_tables();
    return request;
  }
  if (!plan().changes(request.protocol).moved)
    throw option_error("run: single-machine mode, expected a protocol of which the setup says so (`moved`)");
  std::uint32_t const node = only_node(request.placement);
  bool const stays = before && before->node == node && !request.changes_tables;
  bool const moves = !stays && before && before->in_debt;
  if (!(stays && node == rank()) && !(moves && before->node == rank())) drop_tables();
  kept_ = {node, stays || moves ? before->how : *request.local, request.keeps_tables};
  run_request outer{.body = {},
                    .protocol = request.protocol,
                    .placement = request.placement,
                    .changes_tables = request.changes_tables,
                    .recover = request.recover,
                    .step = request.step,
                    .iterations = request.iterations,
                    .stop_asked = request.stop_asked};
  outer.placement[node] = 1;
  if (moves) {
    outer.placement.resize(std::max<std::size_t>(outer.placement.size(), before->node + 1));
    outer.placement[before->node] = 1;
  }
  request.placement = {request.placement[node]};
  request.changes_tables = false;
  request.stop_asked = nullptr;  // see `local_model::home`
  outer.body = [this, node, stays, moves, stage = std::move(request)](worker_core& w) {
    if (rank() == node) run_here(w, stage, stays, moves);
    else hand_over(w);
  };
  return outer;
}

/// Nothing goes on with those that are here.
void worker_process::drop_tables() noexcept {
  if (local_) local_->drop();
}

/// What the one worker that the others know of does for those that they do not know of.
local_model::home worker_process::home_of(server_tables& rows, process_endpoint& link) {
  return {rows, [this](std::size_t table, std::byte* out) { read_whole(table, out); },
          [this](std::size_t table, auto& keys, raw_array& values) { read_touched(table, keys, values); },
          [&link] { link.checkpoint(); }, [this] { return stopping(); }};
}

server_tables worker_process::tables_of(worker_core& w, process_endpoint& link) {
  return {link, plan(), w.identity(), [this](server_id s, std::size_t table, update values) {
            links_->post(s, std::make_shared<values_frame const>(static_cast<std::uint16_t>(table), std::move(values)));
          }};
}

void worker_process::run_here(worker_core& w, run_request stage, bool stays, bool moves) {
  process_endpoint& link = find(w.identity().stage, w.id())->link;
  server_tables rows = tables_of(w, link);
  local_model::home const home = home_of(rows, link);
  if (moves) receive_tables(w.identity().stage, home);
  local_report_ = local_->run(std::move(stage), home, stays || moves);
  links_->settle();
}

void worker_process::receive_tables(stage_id stage, local_model::home const& home) {
  local_->expect(kept_->how);
  try {
    rows_receiver from(options_.make_network(), options_.place, plan(),
                       [this](moved_rows const& r) { local_->take(r); });
    links_->tell(wire::tables_wanted{stage, from.address(), from.session()});
    from.receive(home.checkpoint);
  } catch (...) {
    local_->drop();
    throw;
  }
}

void worker_process::hand_over(worker_core& w) {
  process_endpoint& link = find(w.identity().stage, w.id())->link;
  links_->turns().wait([this] { return unwinds() || has_destination_.load(std::memory_order_acquire); });
  link.checkpoint();
  wire::send_tables to;
  {
    std::lock_guard const guard(lock_);
    to = destination_;
  }
  server_tables rows = tables_of(w, link);
  local_model::home const home = home_of(rows, link);
  rows_sender out(options_.make_network(), options_.place, to.address, to.session, home.checkpoint);
  local_->hand_over(home, [&out](moved_rows&& r) { out.send(std::move(r)); });
  out.finish();
}

}  // namespace rubato::detail
