// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <limits>
#include <string>

#include "rubato/transport/processes/read_question.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

void read_question::renew(read_header const& read, read_slot& slot, inquiry& by) {
  slot_ = &slot;
  asker = &by;
  coded_answer_ = static_cast<bool>(table_.answers());
  header.kind = +wire::kind::request;
  header.table = static_cast<std::uint16_t>(number_);
  header.sender = read.from.worker.value();
  header.incarnation = read.from.incarnation.value();
  wire::write(wire::request_meta{.stage = read.from.stage,
                                 .clock = read.clock,
                                 .bound = read.bound,
                                 .asked = slot.asked,
                                 .rows = slot.asked == selection::rows ? slot.rows.size() : 0,
                                 .has_cut = read.cut != nullptr,
                                 .cut_size = read.cut ? read.cut->size() : 0,
                                 .cut_c_min = read.cut ? read.cut->c_min() : clock_index{},
                                 .renews = read.renews},
              meta);
  write_body(read);
}

void read_question::renew_observation(read_slot& slot, inquiry& by) {
  slot.asked = selection::all;
  renew(read_header{}, slot, by);
  header.sender = wire::observer;
  coded_answer_ = false;
}

void read_question::write_body(read_header const& read) {
  body.clear();
  auto const append = [this](auto const& many) {
    auto const bytes = std::as_bytes(std::span(many));
    body.insert(body.end(), bytes.begin(), bytes.end());
  };
  if (read.cut) append(read.cut->below());
  if (slot_->asked == selection::rows) append(slot_->rows);
}

void read_question::begin(wire::frame_header const& h, std::span<std::byte const> said,
                          std::vector<std::span<std::byte>>& to) {
  auto const m = wire::from_bytes<wire::reply_meta>(said);
  if (h.kind != +wire::kind::reply || m.asked != slot_->asked)
    throw wire::frame_error("an answer to another question");
  slot_->stamp = {m.server_clock, m.included, m.version, m.folded_below};
  slot_->admitted = slot_->arrived + m.held;
  slot_->coded = 0;
  pin = m.pin;
  if (pin != 0 && (memory == nullptr || m.asked != selection::all || !table_.bounded() || coded_answer_))
    throw wire::frame_error("an answer that lies in memory which cannot be seen, or is not to be looked for there");
  switch (slot_->asked) {
    case selection::nothing: return expect_length(h, 0);
    case selection::rows: {
      std::size_t const bytes = slot_->rows.size() * table_.row_bytes();
      expect_length(h, values_length(bytes));
      slot_->values.resize_bytes(bytes);
      if (coded_answer_) return await_coded(bytes, to);
      to.push_back(slot_->values.bytes());
      return;
    }
    case selection::all:
      if (pin == 0) return begin_all(h, m.rows, to);
      memory->check_slot(slot_of_pin_ = m.slot);
      return begin_places(h, to);
  }
}

coding const& read_question::answers() const noexcept {
  return slot_->asked == selection::rows ? table_.answers_by_key() : table_.answers();
}

std::uint64_t read_question::values_length(std::uint64_t bytes) const noexcept {
  return coded_answer_ ? answers().bytes(bytes) : bytes;
}

/// The chunks' places come, and the chunks themselves are taken from there once they have.
void read_question::begin_places(wire::frame_header const& h, std::vector<std::span<std::byte>>& to) {
  std::size_t const row = table_.row_bytes();
  std::size_t const bytes = static_cast<std::size_t>(table_.where().rows_of(server_)) * row;
  std::size_t const chunk = table_state::chunk_bytes(row);
  places_.resize((bytes + chunk - 1) / chunk);
  expect_length(h, places_.size() * sizeof(std::uint64_t));
  to.push_back(wire::bytes_of(places_));
}

bool read_question::take() {
  if (pin == 0) return true;
  std::size_t const row = table_.row_bytes();
  std::size_t left = static_cast<std::size_t>(table_.where().rows_of(server_)) * row;
  room_.clear();
  if (!slot_->scattered.empty()) room_ = slot_->scattered;
  else
    slot_->state.receive(left, row, [this](std::byte* to, std::size_t n, std::size_t) { room_.emplace_back(to, n); });
  pieces_.clear();
  for (std::uint64_t const place : places_) {
    std::size_t const n = std::min(left, table_state::chunk_bytes(row));
    memory->check_place(place, n);
    pieces_.emplace_back(memory->at(place), n);
    left -= n;
  }
  copy_pieces(pieces_, room_);
  return memory->holds(pin, slot_of_pin_);
}

/// Values of so many bytes come as a codec has written them, and wait beside for the rest.
void read_question::await_coded(std::uint64_t bytes, std::vector<std::span<std::byte>>& to) {
  slot_->coded = values_length(bytes);
  coded_.resize_bytes(static_cast<std::size_t>(slot_->coded));
  to.push_back(coded_.bytes());
}

void read_question::decode() {
  if (!coded_answer_ || slot_->coded == 0) return;
  coding const& answers = this->answers();
  if (slot_->asked == selection::rows) return answers.decode(coded_.bytes(), slot_->values.bytes());
  std::span<std::byte const> left = coded_.bytes();
  for (std::size_t i = 0; i < slot_->state.chunks(); ++i) {
    block_ref& chunk = slot_->state.chunk(i);
    auto const n = static_cast<std::size_t>(answers.bytes(chunk.size_bytes()));
    answers.decode(left.first(n), {chunk.mutable_data(), chunk.size_bytes()});
    left = left.subspan(n);
  }
}

void read_question::begin_all(wire::frame_header const& h, std::uint64_t rows,
                              std::vector<std::span<std::byte>>& to) {
  std::size_t const row = table_.row_bytes();
  if (table_.bounded()) {
    std::size_t const bytes = static_cast<std::size_t>(table_.where().rows_of(server_)) * row;
    expect_length(h, values_length(bytes));
    if (coded_answer_) {
      slot_->state.receive(bytes, row, [](std::byte*, std::size_t, std::size_t) {});
      return await_coded(bytes, to);
    }
    if (!slot_->scattered.empty()) to.insert(to.end(), slot_->scattered.begin(), slot_->scattered.end());
    else
      slot_->state.receive(bytes, row,
                           [&](std::byte* chunk, std::size_t n, std::size_t) { to.emplace_back(chunk, n); });
    return;
  }
  std::uint64_t const bytes =
      bytes_for(rows, sizeof(std::uint64_t) + row, std::numeric_limits<std::uint64_t>::max());
  std::uint64_t const key_bytes = rows * sizeof(std::uint64_t), value_bytes = rows * row;
  expect_length(h, key_bytes + values_length(value_bytes));
  if (bytes > sparse_max_) refuse(bytes);
  slot_->state.receive_rows(static_cast<std::size_t>(rows), row,
                            [&](std::span<std::uint64_t> keys, std::byte* values) {
                              to.push_back(std::as_writable_bytes(keys));
                              if (!coded_answer_) to.emplace_back(values, keys.size() * row);
                            });
  if (coded_answer_) await_coded(value_bytes, to);
}

void read_question::refuse(std::uint64_t bytes) const {
  throw answer_too_large("table " + std::to_string(number_) + " cannot be read as a whole: its rows on server " +
                         std::to_string(server_.value()) + " take " + std::to_string(bytes) +
                         " bytes, and tcp::sparse_max allows " + std::to_string(sparse_max_) +
                         " in one message");
}

read_questions::read_questions(blueprint const& plan, std::uint64_t sparse_max)
    : servers_(plan.servers()) {
  for (std::size_t table = 0; table < plan.tables().size(); ++table)
    for (std::uint32_t s = 0; s < plan.servers(); ++s)
      all_.push_back(std::make_unique<read_question>(plan, table, server_id{s}, sparse_max));
}

count_question::count_question(inquiry& by) {
  header.kind = +wire::kind::count;
  asker = &by;
}

void count_question::begin(wire::frame_header const& h, std::span<std::byte const> m,
                           std::vector<std::span<std::byte>>&) {
  if (h.kind != +wire::kind::counted) throw wire::frame_error("an answer to another question");
  expect_length(h, 0);
  count = wire::from_bytes<std::uint64_t>(m);
}

}  // namespace rubato::detail
