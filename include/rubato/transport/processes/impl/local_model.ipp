// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/run_stopped.hpp"
#include "rubato/partition/range.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/processes/local_model.hpp"

namespace rubato::detail {

bool moves_tables(run_setup const& setup) {
  return std::ranges::any_of(setup.changes, [](table_changes const& c) { return c.moved.has_value(); });
}

run_setup beside_local_models(run_setup setup) {
  for (std::size_t p = 0; p < setup.changes.size(); ++p)
    if (setup.changes[p].moved) setup.protocols[p] = bsp{};
  return setup;
}

local_model::local_model(run_setup const& setup, std::uint32_t threads, std::uint64_t seed, std::uint64_t sparse_max)
    : setup_(setup), threads_(threads), seed_(seed), sparse_max_(sparse_max), tables_(setup_.tables.size()) {
  setup_.changes.clear();  // servers see to them
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    table_description& d = setup_.tables[i];
    d.init = {};
    d.init_keys = {};
    d.partition = partition_rule(range{});  // one server has them all, in the order of their keys
    tables_[i].row_bytes = d.width * size_of(d.element);
  }
}

void local_model::open(single_machine const& how) {
  run_setup setup = setup_;
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    auto& make = setup.tables[i].make_host;
    make = [this, i, chunk_bytes = how.chunk_bytes, inner = std::move(make)](store_shape const& shape) {
      return make_host(i, inner(shape), shape, chunk_bytes);
    };
  }
  runtime_ = in_process{.workers = threads_, .seed = seed_}.open(std::move(setup));
}

std::unique_ptr<table_host> local_model::make_host(std::size_t i, std::unique_ptr<table_host> inner,
                                                   store_shape const& shape, std::size_t chunk_bytes) {
  if (!setup_.tables[i].bounded) {
    tables_[i].touched = inner.get();
    return inner;
  }
  auto made = std::make_unique<on_demand_host>(
      std::move(inner), shape, tables_[i].row_bytes, chunk_bytes,
      [this, i](std::span<row_run const> keys, std::byte* out) { home_->rows.read(i, keys, out); });
  tables_[i].bounded = made.get();
  return made;
}

run_report local_model::run(run_request stage, home const& from, bool keep) {
  home_ = &from;
  bool const is_here = keep && runtime_ != nullptr;
  if (home_->is_stopped() && !is_here) {  // nothing would be done with what comes
    runtime_.reset();
    return {};
  }
  if (!is_here) open(*stage.local);
  std::unique_ptr<runtime> here = std::move(runtime_);  // gone if anything fails
  prepare(stage.local->prepare == preparation::integral, is_here);
  protocol_ = stage.protocol;
  bool const keeps = stage.keeps_tables;
  run_report r = run_here(*here, std::move(stage));
  try {
    home_->checkpoint();
  } catch (run_stopped const&) {  // what has been done counts, here and in stages whose tables these were
    give_back(*here);
    throw;
  }
  if (!keeps || home_->is_stopped()) give_back(*here);
  runtime_ = std::move(here);
  return r;
}

/// `stop` may have been called before there was anything to stop: then bodies find it out as they begin.
run_report local_model::run_here(runtime& here, run_request request) {
  struct noted {
    local_model& of;
    explicit noted(local_model& m, runtime& r) : of(m) {
      std::lock_guard const guard(of.lock_);
      of.running_ = &r;
    }
    ~noted() {
      std::lock_guard const guard(of.lock_);
      of.running_ = nullptr;
    }
  } const until_it_ends(*this, here);
  request.body = [this, body = std::move(request.body)](worker_core& w) {
    home_->checkpoint();
    if (home_->is_stopped()) throw run_stopped{};
    body(w);
  };
  return here.run(std::move(request));
}

std::uint32_t local_model::add_worker() {
  std::lock_guard const guard(lock_);
  if (running_ == nullptr) throw usage_error(errc::stale_handle, "add_worker: no run is under way");
  return running_->add_worker();
}

void local_model::stop() noexcept {
  std::lock_guard const guard(lock_);
  if (running_ != nullptr) running_->stop();
}

// ---- what comes

void local_model::prepare(bool all, bool is_here) {
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].bounded == nullptr) {
      if (!is_here) prepare_touched(i);
    } else if (all) {
      prepare_whole(i);
    }
  }
}

/// In one go, and not by chunks, each of which takes the way there and back. Of those that are here already
/// the others' values are the same.
void local_model::prepare_whole(std::size_t i) {
  on_demand_host& t = *tables_[i].bounded;
  if (t.rows_here() != 0) return t.bring_all();
  std::uint64_t const rows = setup_.tables[i].rows;
  raw_array values;
  values.resize_bytes(static_cast<std::size_t>(rows) * tables_[i].row_bytes);
  home_->read_whole(i, values.data());
  t.put(values.bytes());
}

void local_model::prepare_touched(std::size_t i) {
  update u;
  home_->read_touched(i, u.rows, u.values);
  if (!u.empty()) tables_[i].touched->assign(u);
}

// ---- from process to process

void local_model::expect(single_machine const& how) { open(how); }

void local_model::take(moved_rows const& rows) {
  table const& t = tables_[rows.table];
  if (t.bounded == nullptr) {
    update u{.whole = false, .rows = rows.keys, .values = rows.values};
    return t.touched->assign(u);
  }
  if (!t.bounded->is_chunk(rows.run))
    throw wire::frame_error("rows " + std::to_string(rows.run.first) + " and the next, which are no chunk of table " +
                            std::to_string(rows.table));
  t.bounded->put(rows.run, rows.values.bytes(), rows.changed);
}

void local_model::hand_over(home const& from, std::function<void(moved_rows&& rows)> const& give) {
  home_ = &from;
  std::unique_ptr<runtime> const here = std::move(runtime_);
  if (here == nullptr) return;
  for (std::size_t i = 0; i < tables_.size(); ++i)
    if (tables_[i].bounded == nullptr) hand_over_touched(*here, i, give);
    else hand_over_chunks(*here, i, give);
}

void local_model::hand_over_chunks(runtime& here, std::size_t i, std::function<void(moved_rows&& rows)> const& give) {
  on_demand_host const& t = *tables_[i].bounded;
  std::size_t const row = tables_[i].row_bytes;
  raw_array all;
  if (!as_it_lies(i)) {
    all.resize_bytes(static_cast<std::size_t>(setup_.tables[i].rows) * row);
    here.read_whole(i, all.data());
  }
  t.for_each_here([&](row_run const& rows, bool changed) {
    moved_rows piece{.table = i, .run = rows, .changed = changed};
    if (!all.empty()) {
      piece.values.append(std::as_const(all).bytes().subspan(static_cast<std::size_t>(rows.first) * row,
                                                             static_cast<std::size_t>(rows.count) * row));
    } else {
      std::vector<std::uint64_t> keys(static_cast<std::size_t>(rows.count));
      std::iota(keys.begin(), keys.end(), rows.first);
      piece.values.resize_bytes(keys.size() * row);
      t.read(keys, piece.values.data(), {});
    }
    give(std::move(piece));
  });
}

/// Rows of a table that is not bounded, of which servers take no more in one message.
std::size_t local_model::touched_at_a_time(std::size_t i) const noexcept {
  constexpr std::uint64_t usual = 4096;
  std::uint64_t const most = sparse_max_ / (sizeof(std::uint64_t) + tables_[i].row_bytes);
  return static_cast<std::size_t>(std::clamp<std::uint64_t>(most, 1, usual));
}

void local_model::hand_over_touched(runtime& here, std::size_t i, std::function<void(moved_rows&& rows)> const& give) {
  std::vector<std::uint64_t> keys;
  raw_array values;
  here.read_touched(i, keys, values);
  std::size_t const most = touched_at_a_time(i);
  for (std::size_t first = 0; first < keys.size(); first += most) {
    std::size_t const n = std::min(most, keys.size() - first);
    moved_rows piece{.table = i};
    auto const some = std::span(keys).subspan(first, n);
    piece.keys.assign(some.begin(), some.end());
    piece.values.append(std::as_const(values).bytes().subspan(first * tables_[i].row_bytes, n * tables_[i].row_bytes));
    give(std::move(piece));
  }
}

// ---- what goes back

/// Whether the store has all that there is of a table: nothing is held back, or kept by version.
bool local_model::as_it_lies(std::size_t i) const {
  return !setup_.protocols[protocol_].visibility.synchronized() && !setup_.tables[i].keeps_versions;
}

void local_model::give_back(runtime& here) {
  for (std::size_t i = 0; i < tables_.size(); ++i) {
    if (tables_[i].bounded == nullptr) give_touched(here, i);
    else if (as_it_lies(i)) give_changed(i);
    else give_whole(here, i);
  }
}

/// A piece at a time: the table may be larger than memory.
void local_model::give_changed(std::size_t i) {
  constexpr std::uint64_t piece_bytes = 1 << 20;
  std::uint64_t const piece = std::max<std::uint64_t>(1, piece_bytes / tables_[i].row_bytes);
  std::vector<std::uint64_t> keys;
  raw_array values;
  for (row_run r : tables_[i].bounded->take_changed())
    for (; r.count != 0; r.first += keys.size(), r.count -= keys.size()) {
      keys.resize(static_cast<std::size_t>(std::min(piece, r.count)));
      std::iota(keys.begin(), keys.end(), r.first);
      values.resize_bytes(keys.size() * tables_[i].row_bytes);
      tables_[i].bounded->read(keys, values.data(), {});
      home_->rows.give(i, keys, values.bytes());
    }
}

void local_model::give_whole(runtime& here, std::size_t i) {
  auto const changed = tables_[i].bounded->take_changed();
  if (changed.empty()) return;
  std::size_t const row = tables_[i].row_bytes;
  raw_array values;
  values.resize_bytes(static_cast<std::size_t>(setup_.tables[i].rows) * row);
  here.read_whole(i, values.data());
  for (row_run const& r : changed) {
    std::vector<std::uint64_t> keys(static_cast<std::size_t>(r.count));
    std::iota(keys.begin(), keys.end(), r.first);
    auto const some = std::as_const(values).bytes().subspan(static_cast<std::size_t>(r.first) * row, keys.size() * row);
    home_->rows.give(i, keys, some);
  }
}

void local_model::give_touched(runtime& here, std::size_t i) {
  std::vector<std::uint64_t> keys;
  raw_array values;
  here.read_touched(i, keys, values);
  std::size_t const row = tables_[i].row_bytes;
  std::size_t const most = touched_at_a_time(i);
  for (std::size_t first = 0; first < keys.size(); first += most) {
    std::size_t const n = std::min(most, keys.size() - first);
    home_->rows.give(i, std::span(keys).subspan(first, n), std::as_const(values).bytes().subspan(first * row, n * row));
  }
}

}  // namespace rubato::detail
