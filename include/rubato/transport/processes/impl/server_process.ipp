// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <variant>

#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/net/log.hpp"
#include "rubato/transport/processes/listening.hpp"
#include "rubato/transport/processes/outbound_frames.hpp"
#include "rubato/transport/processes/question.hpp"
#include "rubato/transport/processes/server_process.hpp"

namespace rubato::detail {

void check_memory(blueprint const& plan, net::deployment const& place) {
  if (place.rank) return plan.check_memory(server_id{*place.rank});
  if (plan.servers() == 1) plan.check_memory(server_id{0});
}

namespace {
/// Before anything listens.
blueprint const& within_memory(blueprint const& plan, net::deployment const& place) {
  check_memory(plan, place);
  return plan;
}
}  // namespace

server_process::server_process(std::unique_ptr<net::network> network, blueprint const& plan,
                               std::string agreed, net::deployment const& place,
                               std::uint64_t sparse_max, std::uint64_t held_max)
    : plan_(within_memory(plan, place)),
      memory_(plan),
      place_(place),
      sparse_max_(sparse_max),
      held_max_(held_max),
      network_(std::move(network)),
      usage_(plan, place.limits),
      door_(*network_, connection_limits(place),
            [this](auto guest, auto const& said) { welcome(std::move(guest), said); },
            guests_limit(place)),
      listener_(listen_as(place, *network_, between(net::role::server, net::role::worker, listener_limits(place)),
                          [this](auto fresh) { door_.receive(std::move(fresh)); })),
      coordinator_(*network_, *this, place,
                   {.as = net::role::server,
                    .rank = place.rank,
                    .listens = announced(place, *network_, listener_->bound()).text(),
                    .agreed = std::move(agreed),
                    .pid = 0,
                    .place_key = {}}) {}

void server_process::run() {
  while (!over_ && !stop_asked_) {
    network_->run_one();
    forget_sessions();
  }
  for (auto& [id, s] : sessions_)
    if (failure_) s->link.refuse(failure_->sentence());
    else s->link.close();
  coordinator_.close();
  if (failure_) failure_->raise();
}

void server_process::stop() noexcept {
  stop_asked_ = true;
  network_->interrupt();
}

void server_process::poll() {
  network_->poll();
  forget_sessions();
}

// ---- worker processes

server_session::server_session(server_process& server, net::hello const& said, std::string const& who)
    : server_(server),
      process(said.number),
      incarnation(said.incarnation),
      link(*server.network_, *this, link_limits(server.place_), who),
      arriving(server.plan_, *server.self_, server.sparse_max_, server.place_.limits.check_finite),
      answers(server.plan_.tables().size()),
      longest_answers(answers.size()) {}

void server_session::begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
                           std::vector<std::span<std::byte>>& body) {
  server_.begin(*this, header, meta, body);
}
void server_session::more(net::link&, wire::frame_header const&,
                          std::vector<std::span<std::byte>>& body) {
  arriving.more(*server_.shard_, body);
}
void server_session::end(net::link&, wire::frame_header const& header) { server_.end(*this, header); }
std::uint64_t server_session::unread() const noexcept {
  std::uint64_t const all = link.unsent();
  return all - std::min(all, *to_come);
}
void server_session::drained(net::link&) { server_.flush(); }
void server_session::resumed(net::link&) {
  if (std::exchange(had_connection, true)) server_.stats_.add(server_.stats_.reconnects, 1);
  server_.count_connections();
  server_.memory_.offer(link);
}
void server_session::broken(net::link&, std::string const&) {
  pinned.reset();
  server_.withdraw(*this);
}
void server_session::lost(net::link&, std::string const& reason, bool expected) {
  server_.lose(*this, reason, expected);
}

/// The coordinator's word on a process goes another way than the process's own, and may come later.
void server_process::open_door() {
  door_.open([this](net::hello const& said) {
    return said.as == net::role::worker && enrolments_.judge(said, self_->value()) == enrolments::verdict::early;
  });
}

/// Before anything else of a session, and each time that it connects.
void server_process::welcome(std::unique_ptr<net::connection> guest, net::hello const& said) {
  std::string const name = "worker process " + std::to_string(said.number);
  auto const send_away = [&](std::string const& why, std::string const& reason) {
    net::log(net::log_level::warning, guest->peer() + ": " + name + " was refused: " + why);
    net::refuse(*guest, reason);
  };
  if (auto const why = guest->shown().objection(said.as, said.number)) return send_away(*why, *why);
  auto const judged = enrolments_.judge(said, self_->value());
  if (said.as != net::role::worker || judged == enrolments::verdict::forged)
    return send_away("it is not the one that was enrolled",
                     "this is not the " + name + " that the coordinator has enrolled");
  auto const at = sessions_.find(said.session);
  bool const is_over = at == sessions_.end() ? past_.contains(said.session) : at->second->over;
  if (is_over || judged == enrolments::verdict::over) {
    RUBATO_RARE("a process came back to a server after it had been given up");
    return send_away("it has been given up", "this process was given up as lost; it can only start anew");
  }
  if (at != sessions_.end()) {
    if (at->second->process != said.number || at->second->incarnation != said.incarnation)
      return send_away("its session is another's", "this session is another process's");
    return at->second->link.adopt(std::move(guest), said);
  }
  if (std::ranges::any_of(sessions_, [&](auto const& entry) {
        session const& other = *entry.second;
        return !other.over && other.process == said.number && other.incarnation == said.incarnation;
      }))
    return net::refuse(*guest, name + " is here already");
  auto fresh = std::make_unique<session>(*this, said, name);
  session& s = *fresh;
  sessions_.emplace(said.session, std::move(fresh));
  s.link.adopt(std::move(guest), said);
}

void server_process::begin(session& s, wire::frame_header const& header, std::span<std::byte const> meta,
                           std::vector<std::span<std::byte>>& body) {
  switch (static_cast<wire::kind>(header.kind)) {
    case wire::kind::commit:
      return s.arriving.begin_commit(header, meta, *shard_, speaks_for(s, header.sender), body);
    case wire::kind::request:
      return s.arriving.begin_request(header, meta, stage_, plan_.protocol(protocol_).admission.bound(), body);
    case wire::kind::values: return s.arriving.begin_values(header, meta, body);
    case wire::kind::count:
    case wire::kind::mapped:
    case wire::kind::released: return expect_length(header, 0);
    default:
      throw wire::frame_error("a frame of kind " + std::to_string(header.kind) +
                              ", which is not for a server");
  }
}

void server_process::end(session& s, wire::frame_header const& header) {
  if (header.kind == +wire::kind::mapped) return memory_.take_mapped(s.pinned, header.sequence);
  if (header.kind == +wire::kind::released) {
    if (s.pinned) s.pinned->release(header.sequence);
    return;
  }
  check_debt(s);
  check_limits(s);
  switch (static_cast<wire::kind>(header.kind)) {
    case wire::kind::commit: return take_commit(s, header);
    case wire::kind::request: return take_request(s, s.arriving.take_request());
    case wire::kind::values:
      if (stage_ != stage_id{} && !has_tables(s))
        throw wire::frame_error("values of rows came from a process that does not have the tables");
      return s.arriving.take_values(header.table, *shard_, stage_ == stage_id{});
    default: return count(s, header.sequence);
  }
}

void server_process::lose(session& s, std::string const& reason, bool expected) {
  if (!expected) net::log(net::log_level::warning, s.link.who() + ": " + reason);
  end_session(s);
  count_connections();
}

void server_process::end_session(session& s) {
  s.over = some_are_over_ = true;
  s.pinned.reset();
  if (s.arriving.is_in_pieces()) shard_->count_partly_folded();
  stats_.add(stats_.connections_lost, 1);
  if (s.arriving.was_not_finite()) stats_.add(stats_.not_finite, 1);
  withdraw(s);
}

/// Of sessions that are over only the last names are kept, to know who comes back. Not from inside of a
/// link.
void server_process::forget_sessions() {
  if (!std::exchange(some_are_over_, false)) return;
  std::erase_if(sessions_, [&](auto const& entry) {
    if (!entry.second->over) return false;
    std::erase(touched_, entry.second.get());
    past_.remember(entry.first);
    return true;
  });
}

void server_process::count_connections() {
  stats_.set(stats_.connections, static_cast<std::uint64_t>(std::ranges::count_if(
                                     sessions_, [](auto const& entry) { return entry.second->link.is_up(); })));
}

std::uint64_t server_process::workers_in(session const& s) const {
  auto const at = workers_of_.find(s.process);
  return at == workers_of_.end() ? 0 : at->second.size();
}

/// Whether this worker is one of the session's process, in this stage.
bool server_process::speaks_for(session const& s, std::uint32_t worker) const {
  auto const at = workers_of_.find(s.process);
  return at != workers_of_.end() && std::ranges::find(at->second, worker_id{worker}) != at->second.end();
}

/// Whether the stage is in single-machine mode, there.
bool server_process::has_tables(session const& s) const {
  return plan_.changes(protocol_).moved && workers_in(s) != 0;
}

// ---- commits

void server_process::take_commit(session& s, wire::frame_header const& header) {
  commit_message m = s.arriving.take_commit(*shard_);
  sender const from = m.from;
  clock_index const next = m.stamp.next();
  released_.clear();
  if (refusal const r = apply(s, header, std::move(m)); r != refusal::none) {
    check_may_be_late(s, from, r);
    if (s.arriving.is_in_pieces()) shard_->count_partly_folded();
    refuse(s, from, 0, r);
    return s.arriving.end_commit();
  }
  stats_.add(stats_.commits, 1);
  stats_.add(stats_.bytes_received, header.length);
  if (plan_.synchronized(protocol_)) coordinator_.send(wire::progress_note{stage_, from.worker, next});
  release();
  retry_early();
  report_when_over();
  check_held(s, header.length);
  s.since_weighed += header.length;
  s.arriving.end_commit();
}

/// Who is given up, or has not heard that a run is over, may still commit. Whatever else is refused nobody sends whose
/// program is sound: the worker's clock would stand still from now on, and everybody wait for it.
void server_process::check_may_be_late(session const& s, sender const& from, refusal why) {
  if (from.stage < stage_ || (why == refusal::stranger && speaks_for(s, from.worker.value()))) return;
  stats_.add(stats_.refused, 1);
  throw wire::frame_error("a commit of worker " + std::to_string(from.worker.value()) + " was refused, for " +
                          to_string(why));
}

refusal server_process::apply(session const& s, wire::frame_header const& header, commit_message&& m) {
  if (refusal const r = s.arriving.refused(); r != refusal::none) {
    shard_->count_refused();
    return r;
  }
  if (!speaks_for(s, header.sender)) return refusal::stranger;
  take_rows(s, m);
  m.arrived = time_point(std::chrono::duration_cast<duration>(network_->now().time_since_epoch()));
  refusal const r = shard_->commit(std::move(m), released_);
  if (r != refusal::none) usage_.give_back();
  return r;
}

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

void server_process::refuse(session& s, sender const& whom, std::uint64_t ticket, refusal why) {
  stats_.add(stats_.refused, 1);
  wire::frame_header h;
  h.kind = +wire::kind::refused;
  h.sender = whom.worker.value();
  h.incarnation = whom.incarnation.value();
  h.sequence = ticket;
  s.link.send(h, wire::to_bytes(wire::refused_meta{whom.stage, why}));
}

// ---- reads

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
    s.link.send(h, written(meta), bytes, std::make_unique<live_body>(shard_->host(table), bytes, s.to_come));
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
                std::make_unique<coded_body>(shard_->host(table), bytes, t.answers(), s.to_come));
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
  for (session* s : touched_) s->link.flush();
  touched_.clear();
  stats_.set(stats_.reads_waiting, waiting_.size());
  weigh_memory();
  if (stage_ != stage_id{})
    stats_.set(stats_.clock, shard_->inspect([](auto const& control) {
      return static_cast<std::uint64_t>(control.published().value());
    }));
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

void server_process::count(session& s, std::uint64_t ticket) {
  wire::frame_header h;
  h.kind = +wire::kind::counted;
  h.sequence = ticket;
  s.link.send(h, wire::to_bytes(counters().commits));
}

shard_counters server_process::counters() const {
  return shard_->inspect([](auto const& control) { return control.counters(); });
}

// ---- the coordinator

void server_process::welcomed(wire::welcome const& w) {
  self_ = server_id{w.process};
  try {
    plan_.check_memory(self_);
  } catch (option_error const& e) {
    over_ = true;
    return fail(e.code(), e.what());
  }
  if (may_share_memory()) memory_.make(*self_, *network_);
  shard_ = std::make_unique<shard>(plan_, *self_, threading::single, memory_.arena());
  memory_.settle();
  open_door();
  stats_.set(stats_.ready, 1);
  weigh_memory();
}

/// Only where nobody can come but from this machine: elsewhere it would be the same as the heap, and cost more. What is
/// pinned would have to count as kept for a process, where that is limited.
bool server_process::may_share_memory() const {
  return place_.share_memory && listener_->bound().is_unix() && place_.limits.bytes_max == 0;
}

void server_process::told(wire::control_message const& said) {
  std::visit([this](auto const& m) { this->on(m); }, said);
}

template <class Other>
void server_process::on(Other const&) {
  throw wire::frame_error("the coordinator said something that is not for a server");
}

void server_process::on(wire::begin_stage const& m) {
  if (m.protocol >= plan_.protocols().size()) throw wire::frame_error("a stage of a protocol that there is not");
  stage_ = m.stage;
  protocol_ = m.protocol;
  stats_.set(stats_.stage, stage_.value());
  ending_ = false;
  waiting_.clear();
  workers_of_.clear();
  shard_->begin_stage(stage_, protocol_, m.changes_tables, m.recover);
  recount_rows(m);
}

void server_process::on(wire::server_order const& m) {
  released_.clear();
  if (m.order.what == membership_order::kind::enlist) workers_of_[m.process].push_back(m.order.worker);
  wire::order_done done{m.order, shard_->order(m.order, released_)};
  coordinator_.send(std::move(done));
  release();
  retry_early();
  report_when_over();
}

void server_process::on(wire::cut_mark const& m) {
  released_.clear();
  shard_->advance(m.stage, commit_cut(m.below, m.c_min), released_);
  release();
  retry_early();
}

void server_process::on(wire::admission const& m) {
  enrolments_.admit(m);
  open_door();
}

void server_process::on(wire::expel const& m) {
  enrolments_.expel(m);
  for (auto const& [id, s] : sessions_)
    if (s->process == m.process && s->incarnation <= m.incarnation && !s->over) {
      end_session(*s);
      s->link.refuse("this process was given up as lost; it can only start anew");
    }
  open_door();  // whoever waited there for news of this life has it now
  count_connections();
  released_.clear();
  for (worker_id const w : workers_of_[m.process]) shard_->abandon(w, released_);
  release();
  report_when_over();
}

void server_process::on(wire::end_stage const& m) {
  ending_ = m.stage == stage_;
  report_when_over();
}

void server_process::on(wire::shut_down const& m) {
  over_ = true;
  if (!m.failure.empty()) fail(errc::lost, m.failure);
}

/// All of the stage is in once nobody is left whose commits may come.
void server_process::report_when_over() {
  if (!ending_) return;
  bool const empty = shard_->inspect([](auto const& control) { return control.workers().live() == 0; });
  if (!empty) return;
  ending_ = false;
  coordinator_.send(wire::stage_over{stage_, counters(), shard_->versions_peak()});
}

void server_process::coordinator_lost(std::string const& reason, bool expected) {
  over_ = true;
  if (!expected) fail(errc::lost, "the coordinator was lost: " + reason);
}

void server_process::coordinator_absent(std::string const& sentence) {
  over_ = true;
  fail(errc::lost, sentence);
}

void server_process::coordinator_refused(std::string const& reason) {
  over_ = true;
  fail(errc::refused, "the coordinator refused this server: " + reason);
}

}  // namespace rubato::detail
