// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <span>

#include "rubato/net/log.hpp"
#include "rubato/transport/processes/lent_memory.hpp"
#include "rubato/wire/secret.hpp"

namespace rubato::detail {

void lent_memory::make(server_id self, net::network& network) {
  self_ = self;
  std::uint64_t bytes = 0;
  for (table_blueprint const& t : plan_.tables())
    if (t.may_be_looked_at(self)) bytes += t.where().rows_of(self) * t.row_bytes();
  if (bytes == 0) return;
  wire::secret key{};
  network.random(std::as_writable_bytes(std::span(key)));
  arena_ = chunk_arena::make(bytes, key);
  if (!arena_) net::log(net::log_level::info, "this system gives no memory to share, so parameters are sent");
}

void lent_memory::offer(net::link& to) const {
  if (!arena_ || !to.is_local()) return;
  wire::frame_header h;
  h.kind = +wire::kind::memory;
  to.send(h, wire::to_bytes(arena_->where()));
}

void lent_memory::take_mapped(std::optional<pinned_states>& pins, std::uint64_t number) const {
  if (arena_ && number == arena_->where().number && !pins) pins.emplace(*arena_);
}

/// Each worker of the process may be reading one state of a table while another is asked for.
bool lent_memory::may_pin(std::optional<pinned_states> const& pins, std::uint64_t workers, std::size_t table) const {
  return pins && plan_.table(table).may_be_looked_at(self_) && pins->size() < pins_of_a_process &&
         pins->of_table(table) <= workers;
}

std::optional<std::span<std::byte const>> lent_memory::pin(std::optional<pinned_states>& pins, std::uint64_t workers,
                                                           std::size_t table, shard const& of, table_state& state,
                                                           wire::reply_meta& meta) {
  if (!may_pin(pins, workers, table)) return std::nullopt;
  bool const streams = of.streams(table);
  if (streams) of.host(table).snapshot(state, {});
  auto const pin = pins->add(table, state, places_);
  if (streams) state.clear();
  if (!pin) return std::nullopt;
  meta.pin = pin->number;
  meta.slot = pin->slot;
  return wire::bytes_of(places_);
}

}  // namespace rubato::detail
