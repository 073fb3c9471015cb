// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/transport/fibers/local_tables.hpp"

namespace rubato::detail {

namespace {
/// All workers of the stage are on one machine, so any stands for it.
constexpr worker_id on_the_machine{0};
}  // namespace

std::size_t local_tables::part::bytes_of(std::size_t chunk) const noexcept {
  return static_cast<std::size_t>(std::min(chunk_rows, rows - chunk * chunk_rows)) * row_bytes;
}

local_tables::local_tables(blueprint const& plan, single_machine const& how, std::uint32_t machine, std::uint64_t seed)
    : plan_(plan), machine_(machine), draws_(~seed, ~std::uint64_t{0}) {
  for (table_blueprint const& t : plan.tables())
    for (std::uint32_t s = 0; s < plan.servers(); ++s) {
      part p{.rows = t.where().rows_of(server_id{s}), .row_bytes = t.row_bytes(), .chunks = {}};
      p.chunk_rows = std::max<std::uint64_t>(1, how.chunk_bytes / p.row_bytes);
      p.chunks.resize(static_cast<std::size_t>((p.rows + p.chunk_rows - 1) / p.chunk_rows));
      parts_.push_back(std::move(p));
    }
}

// ---- what comes

time_point local_tables::begin(single_machine const& how, server_group const& servers, sim::network& between,
                               time_point now) {
  between_ = &between;
  prepare_ = how.prepare;
  time_point ready = now;
  bool const first = !std::exchange(begun_, true);
  for (std::size_t i = 0; i < plan_.tables().size(); ++i)
    for (std::uint32_t s = 0; s < plan_.servers(); ++s) {
      part& p = part_of(server_id{s}, i);
      for (chunk& c : p.chunks)  // times begin anew
        if (c.arrives != time_point::max()) c.arrives = now;
      if (!plan_.table(i).bounded()) {
        if (std::uint64_t const bytes = first ? touched_bytes(servers, server_id{s}, i) : 0; bytes != 0)
          ready = std::max(ready, bring(server_id{s}, bytes, 0, now));
      } else if (prepare_ == preparation::integral) {
        ready = std::max(ready, bring_all(server_id{s}, p, now));
      }
    }
  return ready;
}

time_point local_tables::move_to(std::uint32_t machine, sim::station from, server_group const& servers,
                                 sim::network& between, time_point now) {
  machine_ = machine;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < plan_.tables().size(); ++i)
    for (std::uint32_t s = 0; s < plan_.servers(); ++s) {
      part const& p = part_of(server_id{s}, i);
      for (std::size_t c = 0; c < p.chunks.size(); ++c)
        if (p.chunks[c].arrives != time_point::max()) bytes += p.bytes_of(c);
      if (!plan_.table(i).bounded()) bytes += touched_bytes(servers, server_id{s}, i);
    }
  return between.send(from, on_the_machine, bytes, now, draws_).delivered;
}

/// There and back: the bytes leave when the question is there.
time_point local_tables::bring(server_id s, std::uint64_t bytes, std::uint64_t asking, time_point now) {
  duration const there = send(on_the_machine, s, asking, now) - now;
  return send(s, on_the_machine, bytes, now) + there;
}

time_point local_tables::bring_all(server_id s, part& p, time_point now) {
  read_slot all;
  all.asked = selection::all;
  return bring(s, static_cast<std::size_t>(&p - parts_.data()) / plan_.servers(), all, now);
}

time_point local_tables::bring(server_id s, std::size_t table, read_slot const& asked, time_point now) {
  part& p = part_of(s, table);
  time_point ready = now;
  std::vector<std::size_t> missing;
  auto const look = [&](std::size_t i) {
    chunk& c = p.chunks[i];
    if (c.arrives != time_point::max()) {
      ready = std::max(ready, c.arrives);
    } else {
      missing.push_back(i);
      c.arrives = now;  // until it is known
    }
  };
  if (p.chunks.empty()) return ready;
  if (asked.asked == selection::all)
    for (std::size_t i = 0; i < p.chunks.size(); ++i) look(i);
  else if (asked.asked == selection::rows)
    for (std::uint64_t const row : asked.rows) look(static_cast<std::size_t>(row / p.chunk_rows));
  if (missing.empty()) return ready;
  std::uint64_t bytes = 0;
  for (std::size_t const i : missing) bytes += p.bytes_of(i);
  // Who wants all of it need not name any.
  std::uint64_t const asking = asked.asked == selection::all ? 0 : missing.size() * sizeof(std::uint64_t);
  time_point const arrives = bring(s, bytes, asking, now);
  for (std::size_t const i : missing) p.chunks[i].arrives = arrives;
  return std::max(ready, arrives);
}

// ---- what goes back

void local_tables::note(server_id s, commit_message const& m) {
  for (std::size_t i = 0; i < m.parts.size(); ++i) {
    part& p = part_of(s, i);
    update const& u = *m.parts[i];
    if (u.empty()) continue;
    p.changed = true;
    if (u.whole)
      for (chunk& c : p.chunks) c.changed = true;
    else if (!p.chunks.empty())
      for (std::uint64_t const row : u.rows) p.chunks[static_cast<std::size_t>(row / p.chunk_rows)].changed = true;
  }
}

time_point local_tables::give_back(server_group const& servers, sim::network& between, time_point now) {
  between_ = &between;
  time_point done = now;
  for (std::size_t i = 0; i < plan_.tables().size(); ++i)
    for (std::uint32_t s = 0; s < plan_.servers(); ++s) {
      part& p = part_of(server_id{s}, i);
      std::uint64_t bytes = 0;
      for (std::size_t c = 0; c < p.chunks.size(); ++c)
        if (std::exchange(p.chunks[c].changed, false)) bytes += p.bytes_of(c);
      if (std::exchange(p.changed, false) && !plan_.table(i).bounded()) bytes = touched_bytes(servers, server_id{s}, i);
      if (bytes != 0) done = std::max(done, send(on_the_machine, server_id{s}, bytes, now));
    }
  return done;
}

std::uint64_t local_tables::touched_bytes(server_group const& servers, server_id s, std::size_t table) const {
  table_state state;
  servers.server(s).observe(table, state);
  return state.bytes();
}

time_point local_tables::send(sim::station from, sim::station to, std::uint64_t bytes, time_point now) {
  return between_->send(from, to, bytes, now, draws_).delivered;
}

}  // namespace rubato::detail
