// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/transport/processes/process_usage.hpp"

namespace rubato::detail {

process_usage::process_usage(blueprint const& plan, net::server_limits const& limits)
    : plan_(plan), limits_(limits), owners_(plan.tables().size()) {}

process_usage::made process_usage::of(std::uint32_t process) const {
  auto const at = made_.find(process);
  return at == made_.end() ? made{} : at->second;
}

std::uint64_t process_usage::bytes_in(std::size_t table) const {
  return sizeof(std::uint64_t) + plan_.table(table).row_bytes();
}

process_usage::limit process_usage::exceeded(made const& all) const {
  if (limits_.rows_max != 0 && all.rows > limits_.rows_max) return limit::rows;
  if (limits_.bytes_max != 0 && all.bytes > limits_.bytes_max) return limit::bytes;
  return limit::none;
}

process_usage::limit process_usage::take_rows(std::uint32_t process, commit_message const& m) {
  last_.clear();
  if (!counts()) return limit::none;
  made all = of(process);
  for (std::size_t i = 0; i < m.parts.size(); ++i) {
    if (plan_.table(i).bounded()) continue;
    for (std::uint64_t const row : m.parts[i]->rows) {
      if (!owners_[i].try_emplace(row, process).second) continue;
      last_.push_back({i, row});
      ++all.rows;
      all.bytes += bytes_in(i);
    }
  }
  if (last_.empty()) return limit::none;
  made_[process] = all;
  limit const beyond = exceeded(all);
  if (beyond != limit::none) give_back();
  return beyond;
}

void process_usage::give_back() {
  for (taken_row const& t : last_) {
    auto const at = owners_[t.table].find(t.row);
    discharge(t.table, at->second);
    owners_[t.table].erase(at);
  }
  last_.clear();
}

void process_usage::discharge(std::size_t table, std::uint32_t owner) {
  made& m = made_[owner];
  --m.rows;
  m.bytes -= bytes_in(table);
}

void process_usage::keep_only(std::size_t table, std::vector<std::uint64_t> rows) {
  std::ranges::sort(rows);
  last_.clear();
  row_map<std::uint32_t> kept;
  for (auto const& [row, owner] : owners_[table]) {
    if (std::ranges::binary_search(rows, row)) kept.try_emplace(row, owner);
    else discharge(table, owner);
  }
  owners_[table] = std::move(kept);
}

std::uint64_t process_usage::rows_of(std::uint32_t process) const { return of(process).rows; }
std::uint64_t process_usage::bytes_of(std::uint32_t process) const { return of(process).bytes; }

}  // namespace rubato::detail
