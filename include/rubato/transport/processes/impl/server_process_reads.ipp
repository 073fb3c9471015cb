// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/transport/processes/server_process.hpp"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>
#include <vector>

#include "rubato/core/rare.hpp"
#include "rubato/server/who_waits.hpp"
#include "rubato/transport/processes/impl/answering_for_itself.ipp"
#include "rubato/transport/processes/outbound_frames.hpp"

// What a server answers, now or when others have committed.
namespace rubato::detail {

/// A question that has to wait is moved from.
void server_process::take_request(session& s, asked_read& asked) {
  if (asked.read.cut && asked.read.from.stage == stage_ && !plan_.synchronized(protocol_))
    throw wire::frame_error("a request of a cut, which there are none of under this protocol");
  if (asked.by_observer) return observe(s, asked);
  worker_id const reader = asked.read.from.worker;
  if (!speaks_for(s, reader.value())) return refuse(s, asked.read.from, asked.ticket, refusal::stranger);
  if (joins(s, asked)) return;
  withdraw(reader);  // it waits for nothing that it has asked before
  read_slot& slot = s.answers[asked.table];
  prepare(slot, asked.table, asked.asked);
  slot.rows.swap(asked.rows);
  released_.clear();
  auto const [refused, done] = shard_->admit(asked.table, asked.read, slot, released_);
  if (done) answer(s, asked, slot, {});
  slot.rows.swap(asked.rows);
  if (!released_.empty()) release();
  if (done) return;  // it goes out with what else has been asked for, see `drained`
  // Who waits for a cut waits for orders that are still on their way.
  if (refused != refusal::none && refused != refusal::cut)
    return refuse(s, asked.read.from, asked.ticket, refused);
  waiting_reads held{.from = &s, .reads = {}, .cut_is_early = refused == refusal::cut};
  held.reads.push_back({std::move(asked), network_->now()});
  waiting_.insert_or_assign(reader, std::move(held));
}

/// Whether a question waits with others that its worker has asked at the same clock. However often it asks, no more than
/// one about each table is here.
bool server_process::joins(session& s, asked_read& asked) {
  auto const at = waiting_.find(asked.read.from.worker);
  if (at == waiting_.end() || at->second.from != &s) return false;
  std::vector<waiting_read>& reads = at->second.reads;
  if (!asked.read.goes_with(reads.front().asked.read)) return false;
  if (std::ranges::any_of(reads, [&](waiting_read const& r) { return r.asked.table == asked.table; })) return false;
  RUBATO_RARE("a question waits with others of its worker");
  reads.push_back({std::move(asked), network_->now()});
  return true;
}

void server_process::observe(session& s, asked_read const& asked) {
  read_slot& slot = s.answers[asked.table];
  prepare(slot, asked.table, selection::all);
  slot.stamp = {};
  if (slot.asked == selection::all) shard_->observe(asked.table, slot.state);
  answer(s, asked, slot, {});
}

void server_process::answer(session& s, asked_read const& asked, read_slot& slot, duration held) {
  wire::frame_header h;
  h.kind = +wire::kind::reply;
  h.table = asked.table;
  h.sender = asked.by_observer ? wire::observer : asked.read.from.worker.value();
  h.incarnation = asked.read.from.incarnation.value();
  h.sequence = asked.ticket;
  wire::reply_meta meta{.server_clock = slot.stamp.server_clock,
                        .included = slot.stamp.included,
                        .version = slot.stamp.version,
                        .folded_below = slot.stamp.folded_below,
                        .held = held,
                        .asked = asked.asked,
                        .rows = 0};
  std::uint64_t const bytes = send_answer(s, h, meta, asked.table, slot);
  s.longest_answers[asked.table] = std::max(s.longest_answers[asked.table], bytes);
  touched_.push_back(&s);
  stats_.add(stats_.reads, 1);
  stats_.add(stats_.bytes_sent, bytes);
}

/// An answer that is read from the table while it is sent. What fails then is no fault of the connection's.
class server_process::own_body final : public net::body_source {
 public:
  own_body(server_process& server, std::unique_ptr<net::body_source> of) : server_(server), of_(std::move(of)) {}
  [[nodiscard]] std::span<std::byte const> next() override {
    std::span<std::byte const> piece;
    server_.answering_for_itself([&] { piece = of_->next(); });
    return piece;
  }
  [[nodiscard]] std::span<std::byte const> next_beside() override {
    std::span<std::byte const> piece;
    server_.answering_for_itself([&] { piece = of_->next_beside(); });
    return piece;
  }

 private:
  server_process& server_;
  std::unique_ptr<net::body_source> of_;
};

std::uint64_t server_process::send_answer(session& s, wire::frame_header const& h, wire::reply_meta& meta,
                                          std::size_t table, read_slot& slot) {
  if (meta.asked == selection::nothing) {
    s.link.send(h, written(meta));
    return 0;
  }
  coding const& codec = plan_.table(table).answers();
  if (codec && h.sender != wire::observer) return send_coded(s, h, meta, table, slot);
  if (meta.asked == selection::rows) {
    s.link.send(h, written(meta), slot.values.bytes());
    return slot.values.size_bytes();
  }
  if (auto const places = memory_.pin(s.pinned, workers_in(s), table, *shard_, slot.state, meta)) {
    s.link.send(h, written(meta), *places);
    stats_.add(stats_.reads_in_memory, 1);
    return places->size();
  }
  table_blueprint const& t = plan_.table(table);
  if (shard_->streams(table)) {
    std::uint64_t const bytes = t.where().rows_of(*self_) * t.row_bytes();
    s.link.send(h, written(meta), bytes,
                std::make_unique<own_body>(*this, std::make_unique<live_body>(shard_->host(table), bytes, s.to_come)));
    return bytes;
  }
  meta.rows = slot.state.keys().size();
  std::uint64_t const bytes = slot.state.bytes();
  s.link.send(h, written(meta), bytes, std::make_unique<state_body>(slot.state));
  return bytes;
}

/// The shard has rounded what is in the slot, so that it is written as it is; tables that are streamed are rounded here.
std::uint64_t server_process::send_coded(session& s, wire::frame_header const& h, wire::reply_meta& meta,
                                         std::size_t table, read_slot& slot) {
  table_blueprint const& t = plan_.table(table);
  if (meta.asked == selection::rows) {
    coding const& by_key = t.answers_by_key();
    coded_.resize(static_cast<std::size_t>(by_key.bytes(slot.values.size_bytes())));
    by_key.encode(slot.values.bytes(), coded_);
    s.link.send(h, written(meta), coded_);
    return coded_.size();
  }
  if (shard_->streams(table)) {
    std::uint64_t const bytes = t.answers().bytes(t.where().rows_of(*self_) * t.row_bytes());
    s.link.send(h, written(meta), bytes,
                std::make_unique<own_body>(*this, std::make_unique<coded_body>(shard_->host(table), bytes, t.answers(),
                                                                               s.to_come)));
    return bytes;
  }
  meta.rows = slot.state.keys().size();
  std::uint64_t const keys = slot.state.keys().size_bytes();
  std::uint64_t const bytes = keys + t.answers().bytes(slot.state.bytes() - keys);
  s.link.send(h, written(meta), bytes, std::make_unique<coded_body>(slot.state, t.answers()));
  return bytes;
}

std::span<std::byte const> server_process::written(wire::reply_meta const& meta) {
  wire::write(meta, meta_);
  return meta_;
}

/// What the shard is to put into the slot for such a question.
void server_process::prepare(read_slot& slot, std::size_t table, selection asked) const noexcept {
  slot.streamed = asked == selection::all && shard_->streams(table);
  slot.asked = slot.streamed ? selection::nothing : asked;
}

/// Answers those whom the last commit, order or mark let go on.
void server_process::release() {
  for (worker_id const w : released_) {
    auto entry = waiting_.extract(w);
    if (entry.empty()) continue;
    session& s = *entry.mapped().from;
    for (waiting_read& r : entry.mapped().reads) {
      duration const held = network_->now() - r.since;
      read_slot& slot = s.answers[r.asked.table];
      prepare(slot, r.asked.table, r.asked.asked);
      slot.rows = std::move(r.asked.rows);
      shard_->read_released(r.asked.table, r.asked.read, slot);
      answer(s, r.asked, slot, held);
    }
  }
  flush();
}

void server_process::flush() {
  return_commits();
  for (session* s : touched_) s->link.flush();
  touched_.clear();
  stats_.set(stats_.reads_waiting, waiting_.size());
  weigh_memory();
  if (stage_ != stage_id{})
    stats_.set(stats_.clock, shard_->inspect([](auto const& control) {
      return static_cast<std::uint64_t>(control.published().value());
    }));
}

void server_process::retry_early() {
  if (!plan_.synchronized(protocol_)) return;
  std::vector<waiting_reads> again;
  for (auto at = waiting_.begin(); at != waiting_.end();)
    if (at->second.cut_is_early) {
      again.push_back(std::move(at->second));
      at = waiting_.erase(at);
    } else {
      ++at;
    }
  for (waiting_reads& all : again)
    for (waiting_read& r : all.reads) take_request(*all.from, r.asked);
  if (!again.empty()) flush();  // nothing else may follow that would
}

/// The connection is gone, and with it the questions; the other end asks again.
void server_process::withdraw(worker_id reader) {
  if (waiting_.erase(reader) != 0) shard_->withdraw(reader);
}
void server_process::withdraw(session& s) {
  std::erase_if(waiting_, [&](auto const& entry) {
    if (entry.second.from != &s) return false;
    RUBATO_RARE("a question was withdrawn with its connection");
    shard_->withdraw(entry.first);
    return true;
  });
}

// ---- who waits for long

std::optional<net::network::clock::time_point> server_process::waits_since() const {
  std::optional<net::network::clock::time_point> first;
  for (auto const& [reader, waits] : waiting_) {
    auto const since = waits.reads.front().since;
    first = std::min(first.value_or(since), since);
  }
  return first;
}

/// The one that has waited for longest: whom it waits for the others are likely to wait for, too.
std::string server_process::who_waits() const {
  auto const& longest = *std::ranges::min_element(
      waiting_, {}, [](auto const& entry) { return entry.second.reads.front().since; });
  std::string text = "worker " + std::to_string(longest.first.value()) + " waits for orders of the coordinator";
  shard_->inspect([&](shard_control const& at) {
    for (auto const& ticket : at.waiting().tickets())
      if (ticket.worker == longest.first) text = describe_wait(ticket, at, *self_);
  });
  if (waiting_.size() > 1) text += "; " + std::to_string(waiting_.size() - 1) + " more wait";
  return "a read of " + text;  // which may have been asked for ahead of time
}

void server_process::count(session& s, std::uint64_t ticket) {
  wire::frame_header h;
  h.kind = +wire::kind::counted;
  h.sequence = ticket;
  s.link.send(h, wire::to_bytes(counters().commits));
}

shard_counters server_process::counters() const {
  return shard_->inspect([](auto const& control) { return control.counters(); });
}

}  // namespace rubato::detail
