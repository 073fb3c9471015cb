// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <utility>

#include "rubato/core/raw_array.hpp"
#include "rubato/storage/table_change.hpp"
#include "rubato/storage/table_host.hpp"

namespace rubato {

namespace {

/// The touched rows.
update touched_rows_of(table_state const& state) {
  update u{.whole = false, .rows = {state.keys().begin(), state.keys().end()}, .values = {}};
  if (!state.empty()) u.values.append({state.row_values(), state.chunk(0).size_bytes()});
  return u;
}

update touched_rows_of(table_host const& table) {
  table_state state;
  table.snapshot(state, {});
  return touched_rows_of(state);
}

/// @tparam Source a host or a state: both have chunks of whole rows
template <class Source>
void set_table(table_host& to, Source const& from, bool bounded, std::size_t row_bytes) {
  to.clear();
  if (!bounded) return to.assign(touched_rows_of(from));
  std::uint64_t row = 0;
  for (std::size_t i = 0; i < from.chunks(); ++i) {
    block_ref const& rows = from.chunk(i);
    to.assign_run(row, {rows.data(), rows.size_bytes()});
    row += rows.size_bytes() / row_bytes;
  }
}

}  // namespace

void copy_table(table_host& to, table_host const& from, bool bounded, std::size_t row_bytes) {
  set_table(to, from, bounded, row_bytes);
}

void restore_table(table_host& to, table_state const& from, bool bounded, std::size_t row_bytes) {
  set_table(to, from, bounded, row_bytes);
}

void apply_to_table(table_host& table, table_function const& f, bool bounded, std::size_t row_bytes) {
  if (!bounded) {
    update rows = touched_rows_of(table);
    f.change(rows.values.bytes());
    return table.assign(rows);
  }
  std::uint64_t row = 0;
  for (std::size_t i = 0; i < table.chunks(); ++i) {
    raw_array values;
    {
      block_ref const rows = table.chunk(i);
      values.append({rows.data(), rows.size_bytes()});
    }
    f.change(values.bytes());
    table.assign_run(row, values.bytes());
    row += values.size_bytes() / row_bytes;
  }
}

}  // namespace rubato
