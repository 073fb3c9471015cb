// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/processes/server_process.hpp"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

// What a server keeps for worker processes, and when it is too much.
namespace rubato::detail {

/// Whoever commits far ahead of the others is not listened to any more: what it says has to be kept
/// until they are there. Workers that keep to the protocol wait before; under unbounded staleness
/// with synchronized reads they may not, and this is where their run ends.
void server_process::check_held(session& s, std::uint64_t bytes) {
  s.longest_commit = std::max(s.longest_commit, bytes);
  if (!plan_.protocol(protocol_).visibility.holds_back()) return;
  constexpr std::uint64_t overhead = 256;  // of a commit, besides what it holds
  s.unweighed += bytes + overhead;
  if (s.unweighed < held_max_ / 16) return;
  s.unweighed = 0;
  // A worker may be as far ahead as a read may lag, and one commit more is on its way.
  auto const ahead = static_cast<std::uint64_t>(
      std::min<std::int64_t>(plan_.protocol(protocol_).admission.bound().clocks(), 62) + 2);
  std::uint64_t const one = std::max<std::uint64_t>(s.longest_commit, shard_->memory().parameters);
  std::uint64_t const most = held_max_ + workers_in(s) * ahead * (one + overhead);
  if (std::uint64_t const held = held_of(s, overhead); held > most)
    throw wire::frame_error(std::to_string(held) + " bytes of commits are ahead of what the slowest "
                            "worker has committed, expected at most " + std::to_string(most));
}

/// Whoever goes on without reading the answers is not listened to any more: they take memory here.
void server_process::check_debt(session const& s) const {
  constexpr std::uint64_t always = 64 * 1024 * 1024;
  if (s.link.unsent() <= always) return;
  // Each of its workers may have one answer about each table under way, and so may whoever looks on. One more may be
  // given up already.
  std::uint64_t const answers = std::accumulate(s.longest_answers.begin(), s.longest_answers.end(), std::uint64_t{0});
  std::uint64_t const most = always + 2 * (workers_in(s) + 2) * answers;
  if (s.link.unsent() > most)
    throw wire::frame_error("more comes, but " + std::to_string(s.link.unsent()) +
                            " bytes of answers have not been read");
}

void server_process::take_rows(session const& s, commit_message const& m) {
  process_usage::limit beyond = usage_.take_rows(s.process, m);
  if (beyond != process_usage::limit::none && plan_.protocol(protocol_).visibility.holds_back()) {
    // Some of what was held back may have been left out since, late or of somebody lost, with rows that are nowhere.
    for (std::size_t i = 0; i < plan_.tables().size(); ++i) recount_rows(i);
    beyond = usage_.take_rows(s.process, m);
  }
  if (beyond == process_usage::limit::none) return;
  net::server_limits const& l = place_.limits;
  std::string const rows = std::to_string(usage_.rows_of(s.process)) + " rows of its own";
  if (beyond == process_usage::limit::rows) beyond_limits(s, "rows_max", l.rows_max, rows);
  beyond_limits(s, "bytes_max", l.bytes_max, rows + ", " + std::to_string(usage_.bytes_of(s.process)) + " bytes");
}

/// What the stage has taken out of tables counts for nobody any more.
void server_process::recount_rows(wire::begin_stage const& m) {
  if (!usage_.counts()) return;
  table_changes const& c = plan_.changes(m.protocol);
  for (std::size_t i = 0; i < plan_.tables().size(); ++i) {
    bool const changed = m.changes_tables && (std::ranges::find(c.cleared, i) != c.cleared.end() ||
                                              std::ranges::find(c.copied, i, &table_copy::to) != c.copied.end());
    if (changed || m.recover == recovery::restore) recount_rows(i);
  }
}

/// Only those count that are in the table, or held back for it.
void server_process::recount_rows(std::size_t table) {
  if (plan_.table(table).bounded()) return;
  table_state now;
  shard_->observe(table, now);
  std::vector<std::uint64_t> rows(now.keys().begin(), now.keys().end());
  shard_->inspect([&](auto const& control) {
    control.for_each_held([&](held_commit const& h) {
      auto const& part = *h.message.parts[table];
      rows.insert(rows.end(), part.rows.begin(), part.rows.end());
    });
  });
  usage_.keep_only(table, std::move(rows));
}

/// What is held back is weighed again only when it may have become too much.
void server_process::check_limits(session& s) {
  std::uint64_t const most = place_.limits.bytes_max;
  if (most == 0) return;
  std::uint64_t questions = 0;
  for (auto const& [reader, all] : waiting_)
    if (all.from == &s)
      for (waiting_read const& r : all.reads) questions += r.asked.bytes();
  std::uint64_t const others = usage_.bytes_of(s.process) + s.unread() + questions;
  if (others + s.weighed + s.since_weighed <= most) return;
  s.weighed = held_of(s, 0);
  s.since_weighed = 0;
  if (others + s.weighed > most)
    beyond_limits(s, "bytes_max", most, std::to_string(others + s.weighed) + " bytes that are kept for it");
}

void server_process::beyond_limits(session const& s, char const* name, std::uint64_t most, std::string const& what) {
  stats_.add(stats_.over_limits, 1);
  throw wire::frame_error("worker process " + std::to_string(s.process) + " asks for more, with " + what + ": " + name +
                          " of this server is " + std::to_string(most));
}

std::uint64_t server_process::held_of(session const& s, std::uint64_t overhead) const {
  std::uint64_t held = 0;
  shard_->inspect([&](auto const& control) {
    control.for_each_held([&](held_commit const& h) {
      if (speaks_for(s, h.info.from.value())) held += h.message.held_bytes() + overhead;
    });
  });
  return held;
}

/// Asks every table, and looks at every commit that is held back: not for each message.
void server_process::weigh_memory() {
  auto const now = network_->now();
  if (!shard_ || now - weighed_ < std::chrono::seconds(1)) return;
  weighed_ = now;
  shard_memory const m = shard_->memory();
  stats_.set(stats_.table_bytes, m.parameters);
  stats_.set(stats_.held_bytes, m.log);
  stats_.set(stats_.held_commits, shard_->inspect([](auto const& control) { return control.held_back(); }));
}

}  // namespace rubato::detail
