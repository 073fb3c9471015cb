// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <numeric>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/partition/layout.hpp"
#include "rubato/partition/locator.hpp"

namespace rubato {

void check_server(server_id s, key k, table_shape shape) {
  if (s.value() >= shape.servers)
    throw option_error("partition: key " + std::to_string(k.value()) + " was given to server " +
                       std::to_string(s.value()) + ", expected one below " +
                       std::to_string(shape.servers));
}

layout::layout(partition_rule const& partition, table_shape shape) : rows_(shape.rows) {
  rows_of_.resize(shape.servers, 0);
  std::array<std::uint64_t, 1024> keys;
  std::array<std::uint32_t, keys.size()> servers;
  for (std::uint64_t first = 0; first < shape.rows; first += keys.size()) {
    auto const n = static_cast<std::size_t>(std::min<std::uint64_t>(keys.size(), shape.rows - first));
    std::iota(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(n), first);
    partition.servers_of(std::span(keys).first(n), shape, servers.data());
    for (std::size_t i = 0; i < n; ++i) {
      server_id const s{servers[i]};
      check_server(s, key{keys[i]}, shape);
      add(key{keys[i]}, s);
    }
  }
  group_by_server();
}

void layout::add(key k, server_id s) {
  if (runs_.empty() || runs_.back().server != s)
    runs_.push_back({k.value(), 0, s, rows_of_[s.index()]});
  ++runs_.back().rows;
  ++rows_of_[s.index()];
}

void layout::group_by_server() {
  first_of_.resize(rows_of_.size() + 1, 0);
  for (run const& r : runs_) ++first_of_[r.server.index() + 1];
  std::partial_sum(first_of_.begin(), first_of_.end(), first_of_.begin());
  by_server_.resize(runs_.size());
  std::vector<std::size_t> next(first_of_.begin(), first_of_.end() - 1);
  for (std::size_t i = 0; i < runs_.size(); ++i) by_server_[next[runs_[i].server.index()]++] = i;
}

std::span<std::size_t const> layout::runs_of(server_id s, std::uint64_t local) const noexcept {
  std::span<std::size_t const> const all = runs_of(s);
  auto const later = std::ranges::upper_bound(
      all, local, {}, [this](std::size_t i) { return runs_[i].local_first; });
  auto const before = static_cast<std::size_t>(later - all.begin());
  return all.subspan(before == 0 ? 0 : before - 1);
}

void locator::locate(std::span<std::uint64_t const> keys, std::vector<layout::place>& out) const {
  out.resize(keys.size());
  if (layout_) {
    for (std::size_t i = 0; i < keys.size(); ++i) out[i] = layout_->locate(key{keys[i]});
    return;
  }
  if (shape_.servers == 1) {
    for (std::size_t i = 0; i < keys.size(); ++i) out[i] = {server_id{0}, keys[i]};
    return;
  }
  std::array<std::uint32_t, 256> servers;
  for (std::size_t first = 0; first < keys.size(); first += servers.size()) {
    auto const part = keys.subspan(first, std::min(servers.size(), keys.size() - first));
    partition_.servers_of(part, shape_, servers.data());
    for (std::size_t i = 0; i < part.size(); ++i) {
      server_id const s{servers[i]};
      check_server(s, key{part[i]}, shape_);
      out[first + i] = {s, part[i]};
    }
  }
}

layout::place locator::locate(key k) const {
  if (layout_) return layout_->locate(k);
  std::uint64_t const one = k.value();
  std::uint32_t number;
  partition_.servers_of({&one, 1}, shape_, &number);
  server_id const s{number};
  check_server(s, k, shape_);
  return {s, one};
}

}  // namespace rubato
