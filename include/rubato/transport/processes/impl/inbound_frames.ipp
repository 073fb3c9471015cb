// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "rubato/core/rare.hpp"
#include "rubato/core/repeated_row.hpp"
#include "rubato/transport/processes/inbound_frames.hpp"
#include "rubato/transport/processes/question.hpp"

namespace rubato::detail {

std::uint64_t inbound_frames::room() const noexcept {
  std::uint64_t all = 0;
  for (update_buffer const& part : parts_)
    if (part) all += part->held_bytes();
  for (raw_array const& values : coded_) all += values.size_bytes();
  return all;
}

bool inbound_frames::see(wire::memory_meta const& lent, std::uint64_t session, std::shared_ptr<frames_over> over,
                         std::string& why) {
  if (seen_.view && seen_.view->where() != lent)
    throw wire::frame_error("memory for updates in place of what was lent before");
  if (!seen_.view) seen_ = {arena_view::open(lent, why), session, std::move(over)};
  return seen_.view != nullptr;
}

// ---- commits

void inbound_frames::begin_commit(wire::frame_header const& header, std::span<std::byte const> meta,
                                  shard const& server, bool takes, destinations& body) {
  auto const m = wire::from_bytes<wire::commit_meta>(meta);
  if (m.parts.size() != parts_.size())
    throw wire::frame_error("a commit of " + std::to_string(m.parts.size()) + " tables, expected " +
                            std::to_string(parts_.size()));
  std::uint64_t total = 0;
  lent_bytes_ = 0;
  for (std::size_t i = 0; i < m.parts.size(); ++i) {
    wire::part_size const& p = m.parts[i];
    check_place(i, p);
    total += check(i, p, plan_.table(i).updates());
    lent_bytes_ += p.bytes - sent(i, p);
  }
  expect_length(header, total);
  commit_bytes_ = total + lent_bytes_;
  sender const from{worker_id{header.sender}, incarnation_id{header.incarnation}, m.stage};
  // What has been decided of it, or folded, would be another one's.
  if (decided_ == header.sequence && (commit_.from != from || commit_.stamp != m.stamp || commit_.version != m.version))
    throw wire::frame_error("a commit that had broken off came again as another one");
  commit_ = {};
  commit_.from = from;
  commit_.stamp = m.stamp;
  commit_.version = m.version;
  lent_.clear();
  number_ = header.sequence;
  windows_.begin(header.sequence);
  if (is_in_pieces()) RUBATO_RARE("a commit came again of which a part had been folded");
  decide(header.sequence, server, takes);
  if (refused_ != refusal::none) read_over(total);
  else
    for (std::size_t i = 0; i < m.parts.size(); ++i) prepare_part(i, m.parts[i], server);
  windows_.give(body);
}

void inbound_frames::more(shard& server, destinations& body) {
  fold_window(server);
  windows_.give(body);
}

commit_message inbound_frames::take_commit(shard& server) {
  fold_window(server);
  take_lent(server);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    if (parts_[i]) {
      decode(i);
      check_rows(i, parts_[i]->rows, true);
      check_finite(i, parts_[i]->values.bytes());
    }
    commit_.parts.push_back(std::move(parts_[i]));
  }
  return std::move(commit_);
}

/// Once for each commit, also if it breaks off and comes again: some of it may have been folded, or
/// dropped.
void inbound_frames::decide(std::uint64_t sequence, shard const& server, bool takes) {
  if (std::exchange(decided_, sequence) != sequence) refused_ = refusal::none;
  if (refused_ != refusal::none) return;
  refused_ = takes ? server.check(commit_.from, commit_.stamp, commit_.version) : refusal::stranger;
}

void inbound_frames::read_over(std::uint64_t bytes) {
  for (update_buffer& part : parts_) part = {};
  for (raw_array& values : coded_) values.clear();
  windows_.add({.room = {}, .bytes = static_cast<std::size_t>(bytes)});
}

/// A large whole update has no room here: a server would need as much memory for each worker as for its
/// parameters.
void inbound_frames::prepare_part(std::size_t table, wire::part_size const& p, shard const& server) {
  // Between windows others may read: each chunk of the store is changed as a whole.
  coding const& codec = plan_.table(table).updates();
  std::size_t const unit =
      codec ? codec.coded_piece() : table_state::chunk_bytes(plan_.table(table).row_bytes());
  bool const lent = p.place != 0;
  if (lent) lent_.push_back({table, {seen_.view->at(p.place), static_cast<std::size_t>(p.bytes)}, p.in_turns});
  bool const in_windows = !lent && p.bytes > windowed_body::window_size && unit <= windowed_body::window_size;
  bool const in_runs = p.whole && server.folds_runs(table) && (lent || in_windows);
  windowed_body::stretch through{.room = {}, .table = table, .bytes = sent(table, p), .unit = unit};
  if (p.in_turns) through.window = unit;
  if (in_runs) {
    parts_[table] = {};
    coded_[table].clear();
    if (through.bytes != 0) through.weight = server.weigh(table, commit_.from, commit_.stamp, commit_.version);
    return windows_.add(through);
  }
  destinations room;
  prepare(table, p, static_cast<bool>(codec), room);
  for (auto const one : room) windows_.add({.room = one});
  if (p.in_turns) windows_.add(through);  // the server wants all of it at once: these are read over
}

void inbound_frames::fold_window(shard& server) {
  windows_.take([&](std::size_t table, std::size_t first, std::span<std::byte const> bytes, double weight) {
    if (is_lent(table)) return fold_turn(table, first, weight, server);
    if (plan_.table(table).updates()) return fold_coded(server, table, first, bytes, weight);
    check_finite(table, bytes);
    server.fold_run(table, first / plan_.table(table).row_bytes(), bytes, weight);
  });
}

/// Once all of the commit is here. Values that are checked have to be this server's own, or they might change after
/// that.
void inbound_frames::take_lent(shard& server) {
  if (lent_bytes_ == 0) return;
  frames_over::frame const name{seen_.session, number_};
  auto const all = std::make_shared<borrowed_frame>(seen_.over, name, seen_.view);
  for (lent_values const& l : lent_) {
    update_buffer const& part = parts_[l.table];
    if (!part) {
      if (l.in_turns) continue;  // it has been folded
      fold_lent(l.table, 0, l.values, server.weigh(l.table, commit_.from, commit_.stamp, commit_.version), server);
    } else if (finite_) std::ranges::copy(l.values, part->values.data());
    else part->values = raw_array::borrowed(all, l.values.data(), l.values.size());
  }
}

/// @param first of the bytes, in the part
void inbound_frames::fold_lent(std::size_t table, std::size_t first, std::span<std::byte const> values, double weight,
                               shard& server) {
  if (weight == 0) return;
  std::size_t const row = plan_.table(table).row_bytes();
  std::size_t const window = std::max(row, windowed_body::window_size - windowed_body::window_size % row);
  for (std::size_t done = 0; done < values.size();) {
    auto part = values.subspan(done, std::min(finite_ ? window : values.size(), values.size() - done));
    if (finite_) {
      piece_.assign(part.begin(), part.end());
      part = piece_;
      check_finite(table, part);
    }
    lent_folded_ = true;
    server.fold_run(table, (first + done) / row, part, weight);
    done += part.size();
  }
}

/// A piece of the body has come with the stretch that it begins.
void inbound_frames::fold_turn(std::size_t table, std::size_t first_in_body, double weight, shard& server) {
  auto const lent = std::ranges::find(lent_, table, &lent_values::table);
  lent_turns const turns(lent->values.size(), plan_.table(table).row_bytes());
  std::size_t const t = first_in_body / turns.piece();
  fold_lent(table, turns.first(t), lent->values.subspan(turns.first(t), turns.size(t)), weight, server);
}

/// Whole pieces, but for the last of all. @param first of the bytes, in the part
void inbound_frames::fold_coded(shard& server, std::size_t table, std::size_t first, std::span<std::byte const> bytes,
                                double weight) {
  table_blueprint const& t = plan_.table(table);
  coding const& codec = t.updates();
  std::size_t at = first / codec.coded_piece() * codec.piece_bytes();  // of the values
  auto const all = static_cast<std::size_t>(rows_here(table)) * t.row_bytes();
  for (std::size_t done = 0; done < bytes.size();) {
    piece_.resize(std::min(codec.piece_bytes(), all - at));
    auto const coded = bytes.subspan(done, static_cast<std::size_t>(codec.bytes(piece_.size())));
    codec.decode(coded, piece_);
    check_finite(table, piece_);
    server.fold_run(table, at / t.row_bytes(), piece_, weight);
    at += piece_.size();
    done += coded.size();
  }
}

/// Only what has arrived takes memory as numbers.
void inbound_frames::decode(std::size_t table) {
  table_blueprint const& t = plan_.table(table);
  if (!t.updates()) return;
  update& u = *parts_[table];
  std::uint64_t const rows = u.whole ? rows_here(table) : u.rows.size();
  u.values.resize_bytes(static_cast<std::size_t>(rows) * t.row_bytes());
  t.updates().decode(coded_[table].bytes(), u.values.bytes());
  coded_[table] = {};
}

// ---- requests

void inbound_frames::begin_request(wire::frame_header const& header, std::span<std::byte const> meta,
                                   stage_id stage, staleness bound, destinations& body) {
  auto const m = wire::from_bytes<wire::request_meta>(meta);
  if (header.table >= parts_.size())
    throw wire::frame_error("a request about table " + std::to_string(header.table) +
                            ", expected one below " + std::to_string(parts_.size()));
  if (m.stage == stage && m.bound > bound)
    throw wire::frame_error("a request with staleness " + std::to_string(m.bound.clocks()) +
                            ", which is more than the protocol's");
  if ((m.rows != 0 && m.asked != selection::rows) || (m.cut_size != 0 && !m.has_cut))
    throw wire::frame_error("a request with rows or clocks that it does not ask for");
  if (header.sender == wire::observer && m.asked != selection::all)
    throw wire::frame_error("a request of nobody's for less than a whole table");
  constexpr std::uint64_t workers_max = 1 << 20;
  std::uint64_t const cut = bytes_for(m.cut_size, sizeof(clock_index), workers_max * 8);
  std::uint64_t const rows = bytes_for(m.rows, sizeof(std::uint64_t), rows_max(header.table) * 8);
  expect_length(header, cut + rows);
  question_.table = header.table;
  question_.ticket = header.sequence;
  question_.by_observer = header.sender == wire::observer;
  question_.read = {{worker_id{header.sender}, incarnation_id{header.incarnation}, m.stage},
                    m.clock,
                    m.bound,
                    {},
                    m.renews};
  question_.asked = m.asked;
  has_cut_ = m.has_cut;
  cut_c_min_ = m.cut_c_min;
  cut_.resize(static_cast<std::size_t>(m.cut_size));
  question_.rows.resize(static_cast<std::size_t>(m.rows));
  if (!cut_.empty()) body.push_back(wire::bytes_of(cut_));
  if (!question_.rows.empty()) body.push_back(wire::bytes_of(question_.rows));
}

asked_read& inbound_frames::take_request() {
  check_rows(question_.table, question_.rows, false);
  if (has_cut_) {
    std::vector<clock_index> below;
    for (std::int64_t const c : cut_) below.emplace_back(c);
    question_.read.cut = std::make_shared<commit_cut const>(std::move(below), cut_c_min_);
  }
  return question_;
}

// ---- values

void inbound_frames::begin_values(wire::frame_header const& header, std::span<std::byte const> meta,
                                  destinations& body) {
  auto const m = wire::from_bytes<wire::part_size>(meta);
  if (header.table >= parts_.size())
    throw wire::frame_error("values of table " + std::to_string(header.table) + ", which there is not");
  if (m.place != 0) throw wire::frame_error("values that begin a table and are not in the body");
  expect_length(header, check(header.table, m, {}));
  prepare(header.table, m, false, body);
}

void inbound_frames::take_values(std::uint16_t table, shard& server, bool initial) {
  update_buffer const values = std::move(parts_[table]);
  if (initial && plan_.table(table).bounded() && !values->whole)
    throw wire::frame_error("initial values of some rows of a dense table");
  check_rows(table, values->rows, true);
  check_finite(table, values->values.bytes());
  server.host(table).assign(*values);
}

// ---- checks

/// Rows that one request may name: it takes memory for the answer.
std::uint64_t inbound_frames::rows_max(std::size_t table) const {
  std::uint64_t const most = sparse_max_ / row_bytes(table);
  // Who asks for a row twice gets it twice, within reason.
  return plan_.table(table).bounded() ? std::max<std::uint64_t>(most, 2 * rows_here(table)) : most;
}

void inbound_frames::check_place(std::size_t table, wire::part_size const& p) const {
  std::string const update = "an update of table " + std::to_string(table);
  auto const bytes = static_cast<std::size_t>(p.bytes);
  bool const may_go_in_turns =
      p.place != 0 && p.whole && lent_turns::are_possible(bytes, plan_.table(table).row_bytes());
  if (p.in_turns && !may_go_in_turns)
    throw wire::frame_error(update + " in turns, expected a whole one that is lent, of more than a chunk, and of " +
                            "rows of at most " + std::to_string(windowed_body::window_size) + " bytes");
  if (p.place == 0) return;
  if (plan_.table(table).updates()) throw wire::frame_error(update + ", which has a codec, in memory that was lent");
  if (!seen_.view) throw wire::frame_error(update + " in memory that this server does not see");
  constexpr std::uint64_t alignment = 64;
  if (p.place % alignment != 0)
    throw wire::frame_error(update + " at " + std::to_string(p.place) + ", expected a multiple of " +
                            std::to_string(alignment));
  seen_.view->check_place(p.place, p.bytes);
}

/// The bytes of a part's values in the body.
std::size_t inbound_frames::sent(std::size_t table, wire::part_size const& p) const noexcept {
  auto const bytes = static_cast<std::size_t>(p.bytes);
  if (p.place == 0) return bytes;
  return p.in_turns ? lent_turns(bytes, plan_.table(table).row_bytes()).sent() : 0;
}

/// The bytes in the body of a part that fits its table.
std::uint64_t inbound_frames::check(std::size_t table, wire::part_size const& p, coding const& by) const {
  table_blueprint const& t = plan_.table(table);
  std::uint64_t const most = t.bounded() ? rows_here(table) : sparse_max_ / row_bytes(table);
  std::uint64_t const rows = p.whole ? rows_here(table) : p.rows;
  if ((p.whole && (!t.bounded() || p.rows != 0)) || rows > most || p.bytes != by.bytes(rows * t.row_bytes()))
    throw wire::frame_error("an update of table " + std::to_string(table) + " with " +
                            std::to_string(p.rows) + " rows and " + std::to_string(p.bytes) +
                            " bytes of values, expected at most " + std::to_string(most) + " rows of " +
                            std::to_string(t.row_bytes()) + " bytes");
  return p.rows * sizeof(std::uint64_t) + sent(table, p);
}

void inbound_frames::prepare(std::size_t table, wire::part_size const& p, bool coded, destinations& body) {
  update_buffer& part = parts_[table];
  bool const borrows = p.place != 0 && !finite_;
  // What is borrowed nobody may write, as those do who take a buffer from a pool.
  part = borrows ? update_buffer(update{}) : plan_.table(table).pool().take();
  part->whole = p.whole;
  part->rows.resize(static_cast<std::size_t>(p.rows));
  body.push_back(wire::bytes_of(part->rows));
  if (borrows) return;
  raw_array& values = coded ? coded_[table] : part->values;
  values.resize_bytes(static_cast<std::size_t>(p.bytes));
  if (p.place == 0) body.push_back(values.bytes());
}

void inbound_frames::check_rows(std::size_t table, std::vector<std::uint64_t> const& rows,
                                bool once) const {
  if (!holds_all(table, rows)) {
    auto bad = std::ranges::find_if(rows, [&](std::uint64_t row) { return !holds(table, row); });
    if (bad == rows.end()) bad = rows.begin();  // a user's partition that says one thing of many, another of each
    throw wire::frame_error("row " + std::to_string(*bad) + " of table " + std::to_string(table) +
                            ", which is not on this server");
  }
  if (!once) return;
  if (auto const twice = repeated_row().find(rows))
    throw wire::frame_error("an update names row " + std::to_string(*twice) + " twice");
}

void inbound_frames::check_finite(std::size_t table, std::span<std::byte const> values) {
  if (!finite_) return;
  with_element(plan_.table(table).element(), [&]<class T>() {
    if constexpr (std::floating_point<T>) {
      std::span const all(reinterpret_cast<T const*>(values.data()), values.size() / sizeof(T));
      auto const bad = std::ranges::find_if(all, [](T x) { return !std::isfinite(x); });
      if (bad == all.end()) return;
      was_not_finite_ = true;
      throw wire::frame_error(std::string("an update of table ") + std::to_string(table) + " with " +
                              (std::isnan(*bad) ? "NaN" : "infinity") +
                              " in it, and this server takes finite ones only (check_finite)");
    }
  });
}

/// A partition is asked for all of them at once.
bool inbound_frames::holds_all(std::size_t table, std::span<std::uint64_t const> rows) const {
  locator const& where = plan_.table(table).where();
  if (where.bounded()) {
    std::uint64_t const here = where.rows_of(self_);
    bool all = true;
    for (std::uint64_t const row : rows) all &= row < here;
    return all;
  }
  if (!where.contains_all(rows)) return false;
  if (auto const only = where.only_server()) return *only == self_;
  std::vector<layout::place> places;
  where.locate(rows, places);
  return std::ranges::all_of(places, [this](layout::place const& at) { return at.server == self_; });
}

bool inbound_frames::holds(std::size_t table, std::uint64_t row) const {
  locator const& where = plan_.table(table).where();
  if (where.bounded()) return row < where.rows_of(self_);
  return where.contains(key{row}) && where.locate(key{row}).server == self_;
}

}  // namespace rubato::detail
