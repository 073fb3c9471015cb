// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstring>

#include "rubato/worker/accumulator.hpp"

namespace rubato {

shared_update accumulator::take() {
  clear_slots();
  if (empty()) return {};
  return std::exchange(current_, {});
}

committed_update accumulator::take_indexed(clock_index stamp) {
  if (!indexed_) index();
  auto slots = std::move(slots_);
  return {stamp, take(), std::move(slots)};
}

std::pair<std::byte*, bool> accumulator::row_of(std::uint64_t row) {
  if (!current_) begin();
  if (!indexed_) index();
  update& u = *current_;
  if (u.whole) return {u.values.data() + static_cast<std::size_t>(row) * row_bytes_, false};
  std::size_t const slot = u.rows.size();
  auto const [at, is_new] = slots().try_emplace(row, slot);
  if (!is_new) return {u.values.data() + at->second * row_bytes_, false};
  try {
    if (may_pad_ && rows_ != 0 && 2 * slot >= std::max<std::uint64_t>(rows_, 16)) {
      make_whole(true);
      return row_of(row);
    }
    return {new_row(row), true};
  } catch (...) {  // no entry points to values that are not there
    slots_->erase(row);
    throw;
  }
}

update_buffer accumulator::room() const {
  update_buffer made = pool_.take();
  made->whole = true;
  made->values.clear();  // or it might be copied to where there is room
  made->values.resize_bytes(static_cast<std::size_t>(rows_) * row_bytes_);
  return made;
}

std::byte* accumulator::new_rows(std::span<std::uint64_t const> rows) {
  update& u = *current_;
  u.values.reserve_bytes(u.values.size_bytes() + rows.size() * row_bytes_);  // first, as there may be no room
  u.rows.insert(u.rows.end(), rows.begin(), rows.end());
  return u.values.extend(rows.size() * row_bytes_);
}

void accumulator::begin() {
  current_ = pool_.take();
  current_->whole = false;
  current_->values.clear();
}

void accumulator::make_whole(bool keep) {
  if (current_ && current_->whole) return;
  update_buffer made = room();
  if (keep) made->values.assign_zeros(made->values.size_bytes());
  if (keep && current_) {
    std::byte const* from = current_->values.data();
    for (std::uint64_t const row : current_->rows) {
      std::memcpy(made->values.data() + static_cast<std::size_t>(row) * row_bytes_, from, row_bytes_);
      from += row_bytes_;
    }
  }
  current_ = std::move(made);
  clear_slots();
}

void accumulator::start_with(update_buffer carried) {
  if (!carried) return;
  current_ = std::move(carried);
  indexed_ = false;  // most often nobody looks for a row of it
}

void accumulator::index() {
  clear_slots();
  indexed_ = false;  // until all are
  for (std::size_t slot = 0; slot < current_->rows.size(); ++slot) slots().emplace(current_->rows[slot], slot);
  indexed_ = true;
}

}  // namespace rubato
