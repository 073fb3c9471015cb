// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <numeric>
#include <string>

#include "rubato/core/error.hpp"
#include "rubato/core/machine_memory.hpp"
#include "rubato/partition/layout.hpp"
#include "rubato/partition/locator.hpp"

namespace rubato {

void check_server(server_id s, key k, table_shape shape) {
  if (s.value() >= shape.servers)
    throw option_error("partition: key " + std::to_string(k.value()) + " was given to server " +
                       std::to_string(s.value()) + ", expected one below " +
                       std::to_string(shape.servers));
}

namespace detail {

constexpr std::uint64_t layout_samples = 64;  ///< places all over the table

/// How many runs there will be, by how far they go on from there: half of their length, on the average.
inline double probable_runs_in_runs(partition_rule const& partition, table_shape shape) {
  double ahead = 0;
  for (std::uint64_t i = 0; i < layout_samples; ++i) {
    std::uint64_t const k = shape.rows / layout_samples * i;
    ahead += static_cast<double>(std::max(*partition.run_end(key{k}, shape), k + 1) - k);
  }
  return static_cast<double>(shape.rows) * static_cast<double>(layout_samples) / (2 * ahead);
}

/// The same by how often the server changes among 64 keys there. Partitions whose runs are short are like `hash`,
/// the same everywhere.
inline double probable_runs(partition_rule const& partition, table_shape shape) {
  std::array<std::uint64_t, 64> keys;
  std::array<std::uint32_t, keys.size()> servers;
  if (shape.rows < layout_samples * keys.size()) return static_cast<double>(shape.rows);
  if (partition.run_end(key{0}, shape)) return probable_runs_in_runs(partition, shape);
  std::uint64_t changes = 0;
  for (std::uint64_t i = 0; i < layout_samples; ++i) {
    std::iota(keys.begin(), keys.end(), (shape.rows - keys.size()) / (layout_samples - 1) * i);
    partition.servers_of(keys, shape, servers.data());
    for (std::size_t k = 1; k < keys.size(); ++k) changes += servers[k] != servers[k - 1] ? 1 : 0;
  }
  return static_cast<double>(shape.rows) * static_cast<double>(changes) /
         static_cast<double>(layout_samples * (keys.size() - 1));
}

/// Before any loop over rows.
inline void check_layout(partition_rule const& partition, table_shape shape, std::size_t run_bytes) {
  constexpr std::uint64_t asked_max = std::uint64_t{1} << 33;  // some ten seconds
  if (shape.rows > asked_max && !partition.run_end(key{0}, shape))
    throw option_error("partition: it would be asked for each of " + std::to_string(shape.rows) +
                       " rows, expected at most " + std::to_string(asked_max) +
                       ", or a partition with run_end, as range and range_hash have it");
  double const bytes = probable_runs(partition, shape) * static_cast<double>(run_bytes);
  std::uint64_t const there = machine_memory();
  if (bytes > static_cast<double>(there))
    throw option_error("partition: it scatters " + std::to_string(shape.rows) +
                       " rows so that to know where they are takes " +
                       text_of_bytes(static_cast<std::uint64_t>(bytes)) + ", and there are " + text_of_bytes(there) +
                       ": range and range_hash keep neighbors together");
}

}  // namespace detail

layout::layout(partition_rule const& partition, table_shape shape) : rows_(shape.rows) {
  detail::check_layout(partition, shape, sizeof(run) + 2 * sizeof(std::size_t));
  rows_of_.resize(shape.servers, 0);
  if (shape.rows != 0 && partition.run_end(key{0}, shape)) add_runs(partition, shape);
  else add_keys(partition, shape);
  group_by_server();
  index();
}

void layout::add_runs(partition_rule const& partition, table_shape shape) {
  std::uint32_t server;
  for (std::uint64_t first = 0, end; first < shape.rows; first = end) {
    partition.servers_of({&first, 1}, shape, &server);
    check_server(server_id{server}, key{first}, shape);
    end = std::min(std::max(*partition.run_end(key{first}, shape), first + 1), shape.rows);
    add(key{first}, end - first, server_id{server});
  }
}

void layout::add_keys(partition_rule const& partition, table_shape shape) {
  std::array<std::uint64_t, 1024> keys;
  std::array<std::uint32_t, keys.size()> servers;
  for (std::uint64_t first = 0; first < shape.rows; first += keys.size()) {
    auto const n = static_cast<std::size_t>(std::min<std::uint64_t>(keys.size(), shape.rows - first));
    std::iota(keys.begin(), keys.begin() + static_cast<std::ptrdiff_t>(n), first);
    partition.servers_of(std::span(keys).first(n), shape, servers.data());
    for (std::size_t i = 0; i < n; ++i) {
      server_id const s{servers[i]};
      check_server(s, key{keys[i]}, shape);
      add(key{keys[i]}, 1, s);
    }
  }
}

void layout::add(key k, std::uint64_t rows, server_id s) {
  if (runs_.empty() || runs_.back().server != s)
    runs_.push_back({k.value(), 0, s, rows_of_[s.index()]});
  runs_.back().rows += rows;
  rows_of_[s.index()] += rows;
}

void layout::group_by_server() {
  first_of_.resize(rows_of_.size() + 1, 0);
  for (run const& r : runs_) ++first_of_[r.server.index() + 1];
  std::partial_sum(first_of_.begin(), first_of_.end(), first_of_.begin());
  by_server_.resize(runs_.size());
  std::vector<std::size_t> next(first_of_.begin(), first_of_.end() - 1);
  for (std::size_t i = 0; i < runs_.size(); ++i) by_server_[next[runs_[i].server.index()]++] = i;
}

/// As many stretches as there are runs, and where those are few, more, so that seldom two are in one.
void layout::index() {
  if (rows_ == 0) return;
  std::size_t const most = std::max(runs_.size(), std::min<std::size_t>(16 * runs_.size(), 4096));
  while (((rows_ - 1) >> stretch_bits_) >= most) ++stretch_bits_;
  std::uint64_t const stretches = ((rows_ - 1) >> stretch_bits_) + 1;
  run_at_.reserve(static_cast<std::size_t>(stretches) + 1);
  std::size_t at = 0;
  for (std::uint64_t i = 0; i < stretches; ++i) {
    while (at + 1 < runs_.size() && runs_[at + 1].first <= i << stretch_bits_) ++at;
    run_at_.push_back(at);
  }
  run_at_.push_back(runs_.size() - 1);
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
