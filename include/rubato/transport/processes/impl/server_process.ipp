// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <exception>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/net/log.hpp"
#include "rubato/transport/processes/impl/answering_for_itself.ipp"
#include "rubato/transport/processes/listening.hpp"
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
                    .place_key = {}}),
      watch_(*network_, place.long_wait, [this] { return waits_since(); }, [this] { return who_waits(); }) {}

server_process::~server_process() {
  if (builder_) builder_->join();
}

void server_process::run() {
  while (!over_ && !stop_asked_) {
    network_->run_one();
    begin_serving();
    forget_sessions();
  }
  for (auto& [id, s] : sessions_)
    if (failure_) s->link.refuse(failure_->sentence());
    else s->link.close();
  if (failed_itself_) coordinator_.refuse(failure_->sentence());
  else coordinator_.close();
  if (failure_) failure_->raise();
}

void server_process::stop() noexcept {
  stop_asked_ = true;
  network_->interrupt();
}

void server_process::poll() {
  network_->poll();
  begin_serving();
  forget_sessions();
}

// ---- worker processes

server_session::server_session(server_process& server, net::hello const& said, std::string const& who)
    : server_(server),
      id(said.session),
      process(said.number),
      incarnation(said.incarnation),
      link(*server.network_, *this, link_limits(server.place_), who),
      arriving(server.plan_, *server.self_, server.sparse_max_, server.place_.limits.check_finite),
      answers(server.plan_.tables().size()),
      longest_answers(answers.size()) {}

void server_session::begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
                           std::vector<std::span<std::byte>>& body) {
  server_.answering_for_itself([&] { server_.begin(*this, header, meta, body); });
}
void server_session::more(net::link&, wire::frame_header const&,
                          std::vector<std::span<std::byte>>& body) {
  server_.answering_for_itself([&] { arriving.more(*server_.shard_, body); });
}
void server_session::end(net::link&, wire::frame_header const& header) {
  server_.answering_for_itself([&] { server_.end(*this, header); });
}
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
    refusals_.tell(guest->peer() + ": " + name + " was refused: " + why, network_->now());
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
    case wire::kind::memory:
      expect_length(header, 0);
      s.offered = wire::from_bytes<wire::memory_meta>(meta);
      return;
    case wire::kind::count:
    case wire::kind::mapped:
    case wire::kind::released: return expect_length(header, 0);
    default:
      throw wire::frame_error("a frame of kind " + std::to_string(header.kind) +
                              ", which is not for a server");
  }
}

void server_process::end(session& s, wire::frame_header const& header) {
  if (header.kind == +wire::kind::memory) return see_memory(s);
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
      if (stage_ == stage_id{} && s.process != 0)
        throw wire::frame_error("initial values came from it, expected them from process 0");
      if (stage_ != stage_id{} && !has_tables(s))
        throw wire::frame_error("values of rows came from a process that does not have the tables");
      return s.arriving.take_values(header.table, *shard_, stage_ == stage_id{});
    default: return count(s, header.sequence);
  }
}

/// The worker process has told where its updates are to be found. Where they are not, they come as they do over a
/// network.
void server_process::see_memory(session& s) {
  if (!place_.share_memory || !s.link.is_local()) return;
  std::string why;
  if (!s.arriving.see(s.offered, s.id, over_there_, why))
    return net::log(net::log_level::info,
                    s.link.who() + ": its memory cannot be shared (" + why + "), so updates come through the socket");
  net::log(net::log_level::info, s.link.who() + ": its updates are read in memory that is shared");
  wire::frame_header h;
  h.kind = +wire::kind::mapped;
  h.sequence = s.offered.number;
  s.link.send(h, {});
}

/// With the answers that may have been waiting for the same: the worker may write there again.
void server_process::return_commits() {
  for (frames_over::frame const& c : over_there_->take()) {
    auto const at = sessions_.find(c.session);
    if (at == sessions_.end() || at->second->over) continue;
    at->second->link.send_reliable(+wire::kind::returned, std::as_bytes(std::span(&c.number, 1)));
    touched_.push_back(at->second.get());
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
  if (s.arriving.lent_bytes() != 0) stats_.add(stats_.commits_in_memory, 1);
  stats_.add(stats_.bytes_received, s.arriving.commit_bytes());
  if (plan_.synchronized(protocol_)) coordinator_.send(wire::progress_note{stage_, from.worker, next});
  release();
  retry_early();
  report_when_over();
  check_held(s, s.arriving.commit_bytes());
  s.since_weighed += s.arriving.commit_bytes();
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

void server_process::refuse(session& s, sender const& whom, std::uint64_t ticket, refusal why) {
  stats_.add(stats_.refused, 1);
  wire::frame_header h;
  h.kind = +wire::kind::refused;
  h.sender = whom.worker.value();
  h.incarnation = whom.incarnation.value();
  h.sequence = ticket;
  s.link.send(h, wire::to_bytes(wire::refused_meta{whom.stage, why}));
}

// ---- the coordinator

void server_process::welcomed(wire::welcome const& w) {
  self_ = server_id{w.process};
  try {
    if (w.process >= plan_.servers())
      throw option_error("the coordinator gave this server number " + std::to_string(w.process) + ", but it is one of " +
                         std::to_string(plan_.servers()) + ": all are to be told of the same number of servers");
    plan_.check_memory(self_);
  } catch (option_error const& e) {
    over_ = true;
    return fail(e.code(), e.what());
  }
  if (may_share_memory()) answering_for_itself([&] { memory_.make(*self_, *network_); });
  // What takes long goes on beside the network: others are to hear that this server is here.
  constexpr std::uint64_t built_at_once_max = 64 * 1024 * 1024;
  if (plan_.bytes_of(*self_) <= built_at_once_max || !build_beside()) answering_for_itself([this] { build(); });
  if (!builder_) answering_for_itself([this] { serve(); });
}

void server_process::build() {
  built_ = std::make_unique<shard>(plan_, *self_, threading::single, memory_.arena());
}

/// Whether there is a thread for it.
bool server_process::build_beside() {
  auto const all = [this] {
    try {
      build();
    } catch (...) {
      not_built_ = std::current_exception();
    }
    is_built_ = true;
    network_->interrupt();
  };
  try {
    builder_ = network_->threads().start(all);
    return true;
  } catch (std::system_error const&) {
    return false;
  }
}

/// Once what is built beside the network is there. What the coordinator has said meanwhile comes first.
void server_process::begin_serving() try {
  if (!is_built_) return;
  is_built_ = false;
  std::exchange(builder_, nullptr)->join();
  if (over_) return;
  answering_for_itself([this] {
    if (not_built_) std::rethrow_exception(not_built_);
    serve();
  });
  for (wire::control_message const& said : std::exchange(early_, {})) told(said);
} catch (std::exception const& e) {  // as a link would
  if (!failure_) fail(errc::bad_frame, e.what());
  coordinator_.refuse(e.what());
  over_ = true;
}

void server_process::serve() {
  shard_ = std::move(built_);
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
  if (auto const* const end = std::get_if<wire::shut_down>(&said)) return on(*end);  // nothing comes after it
  if (builder_) return early_.push_back(said);
  if (!shard_) throw wire::frame_error("the coordinator said something before it gave this server its number");
  answering_for_itself([&] { std::visit([this](auto const& m) { this->on(m); }, said); });
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

/// Once, however often the process has been started anew.
void server_process::note_worker(std::uint32_t process, worker_id w) {
  std::vector<worker_id>& there = workers_of_[process];
  if (std::ranges::find(there, w) == there.end()) there.push_back(w);
}

void server_process::on(wire::server_order const& m) {
  released_.clear();
  if (m.order.what == membership_order::kind::enlist) note_worker(m.process, m.order.worker);
  if (m.order.what == membership_order::kind::drop) waiting_.erase(m.order.worker);  // nobody is there to hear
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
  if (m.forgets_values) shard_->forget_values();
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
  bool const was_to_leave = over_ || (expected && stop_expected_);
  if (!was_to_leave)
    fail(errc::lost, "the coordinator was lost: " + (expected ? "it has left before the run was over" : reason));
  over_ = true;
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
