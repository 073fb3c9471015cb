// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/transport/processes/outbound_frames.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

state_body::state_body(table_state& state) {
  swap(state_, state);
  state.clear();
}

/// First the rows' numbers, where only some are held.
std::span<std::byte const> state_body::next() {
  for (; next_ <= state_.chunks(); ++next_) {
    std::span<std::byte const> piece;
    if (next_ == 0) piece = std::as_bytes(state_.keys());
    else piece = {state_.chunk(next_ - 1).data(), state_.chunk(next_ - 1).size_bytes()};
    if (piece.empty()) continue;
    ++next_;
    return piece;
  }
  return {};
}

live_body::live_body(table_host const& host, std::uint64_t bytes, std::shared_ptr<std::uint64_t> to_come)
    : host_(host), bytes_(bytes), to_come_(std::move(to_come)) {
  *to_come_ += bytes_;
}
live_body::~live_body() { *to_come_ -= bytes_; }

std::span<std::byte const> live_body::next() {
  // Before the next one is taken, so that a fold need not copy them.
  while (given_ > 0) chunks_[--given_] = {};
  return next_beside();
}

std::span<std::byte const> live_body::next_beside() {
  if (next_ == host_.chunks() || given_ == chunks_.size()) return {};
  block_ref& chunk = chunks_[given_++];
  chunk = host_.chunk(next_++);
  std::uint64_t const taken = std::min<std::uint64_t>(bytes_, chunk.size_bytes());
  bytes_ -= taken;
  *to_come_ -= taken;
  return {chunk.data(), chunk.size_bytes()};
}

coded_body::coded_body(table_state& state, coding const& answers) : answers_(answers) {
  swap(state_, state);
  state.clear();
}

coded_body::coded_body(table_host const& host, std::uint64_t bytes, coding const& answers,
                       std::shared_ptr<std::uint64_t> to_come)
    : answers_(answers), host_(&host), bytes_(bytes), to_come_(std::move(to_come)) {
  *to_come_ += bytes_;
}

coded_body::~coded_body() {
  if (to_come_) *to_come_ -= bytes_;
}

std::span<std::byte const> coded_body::next() {
  if (!std::exchange(keys_given_, true))
    if (auto const keys = std::as_bytes(state_.keys()); !keys.empty()) return keys;
  if (chunk_ == (host_ != nullptr ? host_->chunks() : state_.chunks())) return {};
  block_ref const chunk = host_ != nullptr ? host_->chunk(chunk_) : state_.chunk(chunk_);
  ++chunk_;
  coded_.resize(answers_.bytes(chunk.size_bytes()));
  answers_.encode({chunk.data(), chunk.size_bytes()}, coded_);
  std::uint64_t const taken = std::min<std::uint64_t>(bytes_, coded_.size());
  bytes_ -= taken;
  if (to_come_) *to_come_ -= taken;
  return coded_;
}

commit_frame::commit_frame(commit_message&& m, std::span<table_blueprint const> tables, update_memory const* seen,
                           std::size_t at_once_max)
    : message_(std::move(m)) {
  wire::commit_meta meta{
      .stage = message_.from.stage, .stamp = message_.stamp, .version = message_.version, .parts = {}};
  for (std::size_t i = 0; i < message_.parts.size(); ++i) {
    update const& u = *message_.parts[i];
    if (i < tables.size() && tables[i].updates() && !u.empty()) {
      coding const& updates = tables[i].updates();
      coded_.resize(message_.parts.size());
      coded_[i].resize_bytes(static_cast<std::size_t>(updates.bytes(u.values.size_bytes())));
      updates.encode(u.values.bytes(), coded_[i].bytes());
    }
    auto const values = values_of(i);
    std::uint64_t const place = seen != nullptr ? seen->place_of(values) : 0;
    bool in_turns = false;
    if (place != 0) {
      in_turns = u.whole && values.size() > at_once_max && i < tables.size() &&
                 lent_turns::are_possible(values.size(), tables[i].row_bytes());
      if (u.whole && !in_turns) at_once_max -= std::min(at_once_max, values.size());
      lends_.resize(i + 1);
      lends_[i] = {true, in_turns ? tables[i].row_bytes() : 0};
      lent_ += values.size() - (in_turns ? turns_of(i).sent() : 0);
    }
    meta.parts.push_back({u.whole, u.rows.size(), values.size(), place, in_turns});
  }
  meta_ = wire::to_bytes(meta);
}

wire::frame_header commit_frame::header() const {
  wire::frame_header h;
  h.kind = +wire::kind::commit;
  h.sender = message_.from.worker.value();
  h.incarnation = message_.from.incarnation.value();
  return h;
}

void commit_frame::gather(std::vector<std::span<std::byte const>>& body) const {
  for (std::size_t i = 0; i < message_.parts.size(); ++i) {
    body.push_back(wire::bytes_of(message_.parts[i]->rows));
    if (!is_lent(i)) body.push_back(values_of(i));
    else if (lends_[i].row_bytes != 0) gather_pieces(i, body);
  }
}

void commit_frame::gather_pieces(std::size_t part, std::vector<std::span<std::byte const>>& body) const {
  lent_turns const turns = turns_of(part);
  for (std::size_t t = 0; t < turns.count(); ++t)
    body.push_back(values_of(part).subspan(turns.first(t), turns.piece(t)));
}

values_frame::values_frame(std::uint16_t table, update values)
    : table_(table), values_(std::move(values)) {
  meta_ = wire::to_bytes(
      wire::part_size{values_.whole, values_.rows.size(), values_.values.size_bytes()});
}

wire::frame_header values_frame::header() const {
  wire::frame_header h;
  h.kind = +wire::kind::values;
  h.table = table_;
  return h;
}

void values_frame::gather(std::vector<std::span<std::byte const>>& body) const {
  body.push_back(wire::bytes_of(values_.rows));
  body.push_back(values_.values.bytes());
}

}  // namespace rubato::detail
