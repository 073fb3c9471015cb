// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/transport/processes/server_tables.hpp"

namespace rubato::detail {

server_tables::server_tables(endpoint& link, blueprint const& plan, sender const& self, giver give)
    : link_(link), plan_(plan), self_(self), give_(std::move(give)), slots_(plan.servers()) {}

void server_tables::read(std::size_t table, std::span<row_run const> keys, std::byte* out) {
  std::lock_guard const one(reading_);
  keys_.clear();
  for (row_run const& r : keys)
    for (std::uint64_t k = 0; k < r.count; ++k) keys_.push_back(r.first + k);
  plan_.table(table).where().locate(keys_, places_);
  for (read_slot& s : slots_) s.rows.clear();
  for (layout::place const& p : places_) slots_[p.server.index()].rows.push_back(p.local);
  read_header const header{.from = self_, .clock = {}, .bound = staleness{0}};
  for (std::uint32_t s = 0; s < slots_.size(); ++s) {
    if (slots_[s].rows.empty()) continue;
    slots_[s].asked = selection::rows;
    link_.request(server_id{s}, table, header, slots_[s]);
  }
  link_.wait();
  std::size_t const row = plan_.table(table).row_bytes();
  std::vector<std::size_t> taken(slots_.size());
  for (layout::place const& p : places_)
    out = std::copy_n(slots_[p.server.index()].values.data() + row * taken[p.server.index()]++, row, out);
}

void server_tables::give(std::size_t table, std::span<std::uint64_t const> keys, std::span<std::byte const> values) {
  plan_.table(table).where().locate(keys, places_);
  std::vector<update> parts(slots_.size());
  std::size_t const row = plan_.table(table).row_bytes();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    update& u = parts[places_[i].server.index()];
    u.rows.push_back(places_[i].local);
    u.values.append(values.subspan(i * row, row));
  }
  for (std::uint32_t s = 0; s < parts.size(); ++s)
    if (!parts[s].empty()) give_(server_id{s}, table, std::move(parts[s]));
}

}  // namespace rubato::detail
