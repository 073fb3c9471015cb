// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/server/server_group.hpp"

namespace rubato {

server_group::server_group(blueprint const& plan, threading t) : plan_(plan) {
  plan.check_memory();
  for (std::uint32_t s = 0; s < plan.servers(); ++s)
    shards_.push_back(std::make_unique<shard>(plan, server_id{s}, t));
}

void server_group::begin_stage(stage_id stage, std::size_t protocol, bool changes_tables, recovery what) {
  for (auto& s : shards_) s->begin_stage(stage, protocol, changes_tables, what);
}

void server_group::fold_below(stage_id stage, commit_cut const& mark, std::vector<worker_id>& released) {
  for (auto& s : shards_) s->advance(stage, mark, released);
}

std::vector<table_state> server_group::observe(std::size_t table) const {
  std::vector<table_state> states(shards_.size());
  for (std::size_t s = 0; s < shards_.size(); ++s) shards_[s]->observe(table, states[s]);
  return states;
}

void server_group::read_whole(std::size_t table, std::byte* out) const {
  plan_.table(table).assemble(observe(table), out);
}

void server_group::read_touched(std::size_t table, std::vector<std::uint64_t>& keys,
                                raw_array& values) const {
  gather_touched(observe(table), plan_.table(table).row_bytes(), keys, values);
}

void gather_touched(std::span<table_state const> states, std::size_t row_bytes,
                    std::vector<std::uint64_t>& keys, raw_array& values) {
  std::vector<std::pair<std::uint64_t, std::byte const*>> rows;
  for (table_state const& s : states)
    for (std::size_t i = 0; i < s.keys().size(); ++i)
      rows.emplace_back(s.keys()[i], s.row_values() + i * row_bytes);
  std::ranges::sort(rows);
  keys.clear();
  values.clear();
  values.reserve_bytes(rows.size() * row_bytes);
  for (auto const& [k, from] : rows) {
    keys.push_back(k);
    values.append({from, row_bytes});
  }
}

void server_group::add_counters(run_report& r) const {
  for (auto const& s : shards_) {
    r.versions_peak = std::max(r.versions_peak, s->versions_peak());
    shard_counters const c = s->inspect([](shard_control const& control) { return control.counters(); });
    r.updates = std::max(r.updates, c.commits);
    r.servers += c;
  }
}

std::uint64_t server_group::updates() const {
  std::uint64_t most = 0;
  for (auto const& s : shards_)
    most = std::max(most, s->inspect([](shard_control const& c) { return c.counters().commits; }));
  return most;
}

}  // namespace rubato
