// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/storage/on_demand_host.hpp"

namespace rubato {

on_demand_host::on_demand_host(std::unique_ptr<table_host> inner, store_shape const& shape, std::size_t row_bytes,
                               std::size_t chunk_bytes, source bring)
    : inner_(std::move(inner)),
      rows_(shape.rows),
      row_bytes_(row_bytes),
      chunk_rows_(std::max<std::uint64_t>(1, chunk_bytes / row_bytes)),
      source_(std::move(bring)),
      chunks_(static_cast<std::size_t>((rows_ + chunk_rows_ - 1) / chunk_rows_)),
      missing_(chunks_.size()) {}

row_run on_demand_host::rows_of(std::size_t chunk) const noexcept {
  std::uint64_t const first = chunk * chunk_rows_;
  return {first, std::min(chunk_rows_, rows_ - first)};
}

// ---- rows come

void on_demand_host::need(std::vector<std::size_t>& chunks, std::size_t chunk) const {
  if (chunks_[chunk].load(std::memory_order_acquire) == absent) chunks.push_back(chunk);
}

void on_demand_host::bring(std::span<std::uint64_t const> rows) const {
  if (is_complete()) return;
  std::vector<std::size_t> chunks;
  for (std::uint64_t const row : rows) need(chunks, chunk_of(row));
  bring_chunks(chunks);
}

void on_demand_host::bring(row_run const& rows) const {
  if (is_complete() || rows.count == 0) return;
  std::vector<std::size_t> chunks;
  for (std::size_t c = chunk_of(rows.first); c <= chunk_of(rows.first + rows.count - 1); ++c) need(chunks, c);
  bring_chunks(chunks);
}

void on_demand_host::bring(update const& u) const {
  if (u.whole) bring({0, rows_});
  else bring(u.rows);
}

void on_demand_host::bring_all() const { bring({0, rows_}); }

void on_demand_host::put(std::span<std::byte const> all_rows) {
  inner_->assign_run(0, all_rows);
  for (auto& c : chunks_) c.store(here, std::memory_order_relaxed);
  missing_.store(0, std::memory_order_release);
}

bool on_demand_host::is_chunk(row_run const& rows) const noexcept {
  return rows.first < rows_ && rows == rows_of(chunk_of(rows.first));
}

void on_demand_host::put(row_run const& chunk, std::span<std::byte const> values, bool has_changed) {
  inner_->assign_run(chunk.first, values);
  auto& standing_of = chunks_[chunk_of(chunk.first)];
  standing const before = standing_of.exchange(has_changed ? changed : here, std::memory_order_relaxed);
  if (before == absent) missing_.fetch_sub(1, std::memory_order_release);
}

void on_demand_host::for_each_here(std::function<void(row_run const&, bool)> const& f) const {
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    if (standing const is = chunks_[c].load(std::memory_order_relaxed); is != absent) f(rows_of(c), is == changed);
}

void on_demand_host::bring_chunks(std::vector<std::size_t>& chunks) const {
  if (chunks.empty()) return;
  std::ranges::sort(chunks);
  std::lock_guard const one(bringing_);
  std::vector<row_run> runs;
  std::size_t bytes = 0;
  std::size_t last = chunks_.size();
  for (std::size_t const c : chunks) {
    // Another thread may have brought it meanwhile.
    if (std::exchange(last, c) == c || chunks_[c].load(std::memory_order_relaxed) != absent) continue;
    runs.push_back(rows_of(c));
    bytes += static_cast<std::size_t>(runs.back().count) * row_bytes_;
    if (bytes < bytes_at_a_time) continue;
    bring_runs(runs, std::exchange(bytes, 0));
    runs.clear();
  }
  if (!runs.empty()) bring_runs(runs, bytes);
}

/// @pre `bringing_` is locked
void on_demand_host::bring_runs(std::span<row_run const> runs, std::size_t bytes) const {
  raw_array values;
  values.resize_bytes(bytes);
  source_(runs, values.data());
  std::span<std::byte const> left = values.bytes();
  {
    std::unique_lock const alone(moving_);
    for (row_run const& r : runs) {
      std::size_t const n = static_cast<std::size_t>(r.count) * row_bytes_;
      inner_->assign_run(r.first, left.first(n));
      left = left.subspan(n);
    }
  }
  for (row_run const& r : runs) chunks_[chunk_of(r.first)].store(here, std::memory_order_release);
  missing_.fetch_sub(runs.size(), std::memory_order_release);
}

std::uint64_t on_demand_host::rows_here() const noexcept {
  std::uint64_t n = 0;
  for (std::size_t c = 0; c < chunks_.size(); ++c)
    if (chunks_[c].load(std::memory_order_relaxed) != absent) n += rows_of(c).count;
  return n;
}

// ---- rows are changed

void on_demand_host::note_changed(std::size_t chunk) noexcept {
  auto& standing_of = chunks_[chunk];  // written only where it is news: threads share it
  if (standing_of.load(std::memory_order_relaxed) != changed) standing_of.store(changed, std::memory_order_relaxed);
}

void on_demand_host::note_changed(row_run const& rows) noexcept {
  if (rows.count == 0) return;
  for (std::size_t c = chunk_of(rows.first); c <= chunk_of(rows.first + rows.count - 1); ++c) note_changed(c);
}

void on_demand_host::note_changed(update const& u) noexcept {
  if (u.whole) return note_changed({0, rows_});
  for (std::uint64_t const row : u.rows) note_changed(chunk_of(row));
}

std::vector<row_run> on_demand_host::take_changed() {
  std::vector<row_run> runs;
  for (std::size_t c = 0; c < chunks_.size(); ++c) {
    standing is = changed;
    if (!chunks_[c].compare_exchange_strong(is, here, std::memory_order_relaxed)) continue;
    row_run const r = rows_of(c);
    if (!runs.empty() && runs.back().first + runs.back().count == r.first) runs.back().count += r.count;
    else runs.push_back(r);
  }
  return runs;
}

// ---- as a host

template <class F>
void on_demand_host::use(F f) const {
  if (is_complete()) return f();
  std::shared_lock const guard(moving_);
  f();
}

void on_demand_host::assign(update const& values) {
  bring(values);
  note_changed(values);
  use([&] { inner_->assign(values); });
}

void on_demand_host::assign_run(std::uint64_t first, std::span<std::byte const> values) {
  row_run const rows{first, values.size() / row_bytes_};
  bring(rows);
  note_changed(rows);
  use([&] { inner_->assign_run(first, values); });
}

/// Nothing needs to come any more.
void on_demand_host::clear() {
  for (auto& c : chunks_) c.store(changed, std::memory_order_relaxed);
  missing_.store(0, std::memory_order_release);
  inner_->clear();
}

void on_demand_host::fold(std::span<weighted_part const> step, std::optional<double> decay) {
  if (decay) {  // a velocity moves every row
    bring_all();
    note_changed({0, rows_});
  }
  for (weighted_part const& p : step) {
    bring(*p.part);
    note_changed(*p.part);
  }
  use([&] { inner_->fold(step, decay); });
}

void on_demand_host::step(std::span<weighted_part const> updates, element_step const& how) {
  bring_all();  // it may move every row
  note_changed({0, rows_});
  use([&] { inner_->step(updates, how); });
}

void on_demand_host::fold_run(std::uint64_t first, std::span<std::byte const> values, double weight) {
  row_run const rows{first, values.size() / row_bytes_};
  bring(rows);
  note_changed(rows);
  use([&] { inner_->fold_run(first, values, weight); });
}

void on_demand_host::read(std::span<std::uint64_t const> rows, std::byte* out, table_view const& seen) const {
  if (seen.own) bring_all();  // a copy may be made
  bring(rows);
  use([&] { inner_->read(rows, out, seen); });
}

void on_demand_host::snapshot(table_state& out, table_view const& seen) const {
  bring_all();
  inner_->snapshot(out, seen);
}

block_ref on_demand_host::chunk(std::size_t i) const {
  bring_all();
  return inner_->chunk(i);
}

std::size_t on_demand_host::bytes() const {
  std::size_t n = 0;
  use([&] { n = inner_->bytes(); });
  return n;
}

void on_demand_host::expire(version_worth const& worth) {
  use([&] { inner_->expire(worth); });
}

void on_demand_host::for_each_version(std::function<void(version_state const&)> const& f) const {
  use([&] { inner_->for_each_version(f); });
}

std::size_t on_demand_host::live_versions() const {
  std::size_t n = 0;
  use([&] { n = inner_->live_versions(); });
  return n;
}

/// Its rows are folded into the others when the version is over.
void on_demand_host::add_version(version_index v, update const& u, double weight) {
  bring(u);
  note_changed(u);
  use([&] { inner_->add_version(v, u, weight); });
}

}  // namespace rubato
