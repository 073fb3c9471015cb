// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/processes/process_usage.hpp"

namespace rubato::detail {

process_usage::process_usage(blueprint const& plan, net::server_limits const& limits)
    : plan_(plan), limits_(limits), known_(plan.tables().size()) {}

process_usage::made process_usage::of(std::uint32_t process) const {
  auto const at = made_.find(process);
  return at == made_.end() ? made{} : at->second;
}

process_usage::made process_usage::new_in(commit_message const& m) const {
  made fresh;
  for (std::size_t i = 0; i < m.parts.size(); ++i) {
    if (plan_.table(i).bounded()) continue;
    std::uint64_t rows = 0;
    for (std::uint64_t const row : m.parts[i]->rows) rows += known_[i].contains(row) ? 0 : 1;
    fresh.rows += rows;
    fresh.bytes += rows * (sizeof(std::uint64_t) + plan_.table(i).row_bytes());
  }
  return fresh;
}

bool process_usage::take_rows(std::uint32_t process, commit_message const& m) {
  if (limits_.rows_max == 0 && limits_.bytes_max == 0) return true;
  made const fresh = new_in(m);
  if (fresh.rows == 0) return true;
  made all = of(process);
  all.rows += fresh.rows;
  all.bytes += fresh.bytes;
  if (limits_.rows_max != 0 && all.rows > limits_.rows_max) return false;
  if (limits_.bytes_max != 0 && all.bytes > limits_.bytes_max) return false;
  for (std::size_t i = 0; i < m.parts.size(); ++i)
    if (!plan_.table(i).bounded())
      for (std::uint64_t const row : m.parts[i]->rows) known_[i].try_emplace(row, char{});
  made_[process] = all;
  return true;
}

std::uint64_t process_usage::rows_of(std::uint32_t process) const { return of(process).rows; }
std::uint64_t process_usage::bytes_of(std::uint32_t process) const { return of(process).bytes; }

}  // namespace rubato::detail
