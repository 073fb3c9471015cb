// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>

#include "rubato/core/error.hpp"
#include "rubato/core/printable.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/net/log.hpp"
#include "rubato/transport/processes/worker_links.hpp"
#include "rubato/wire/control.hpp"

namespace rubato::detail {

namespace {
/// How often links are served while no worker waits for them.
constexpr std::chrono::milliseconds keeping_period{10};
/// How long small commits wait for others that may follow at once.
constexpr std::chrono::microseconds gathering_period{200};
/// Commits that follow each other faster than this are gathered.
constexpr std::chrono::microseconds rapid{20};
/// After so many looks without any, the next one wakes the keeper.
constexpr int idle_looks_max = 20;
/// Beyond this nothing more is sent before some of it has arrived. To a server that is near, what a cache holds.
constexpr std::size_t bytes_under_way_max = 32 * 1024 * 1024;
constexpr std::size_t bytes_under_way_near = 1024 * 1024;
constexpr std::size_t commits_under_way_max = 4096;
constexpr std::size_t unsent_max = 256 * 1024;
constexpr int changed_max = 100;  // answers in a row that a server that keeps its pins never gives
}  // namespace

worker_links::worker_links(user& of, std::unique_ptr<net::network> network,
                           net::deployment const& place, std::string agreed, bool background)
    : enrolled_links(of, std::move(network), place, background), user_(of) {
  enroll({.as = net::role::worker,
          .rank = place.rank,
          .listens = {},
          .agreed = std::move(agreed),
          .pid = 0,
          .place_key = {}},
         "did not have all servers");
  if (welcome().servers.size() != place.servers)
    throw option_error("the coordinator at " + place.coordinator.text() + " has " +
                       std::to_string(welcome().servers.size()) + " servers, but this process was told of " +
                       std::to_string(place.servers) + ": all are to be told of the same number");
  connect_to_servers();
  start_threads();
}

worker_links::~worker_links() {
  end_threads();
  if (lent_) lent_->retire();
  take_leave();
  for (auto& s : servers_) s->link.close();
  close();
}

void worker_links::connect_to_servers() {
  for (std::uint32_t s = 0; s < welcome().servers.size(); ++s) {
    std::string const& where = welcome().servers[s];
    servers_.push_back(std::make_unique<server>(
        *this, server_id{s}, "server " + std::to_string(s) + " (" + printable(where, 200) + ")"));
    servers_.back()->link.dial(net::address::parse(where), place().keys, hello_to(s, welcome().secret),
                               place().patience);
  }
  turns().wait([&] {
    return is_broken() || std::ranges::all_of(servers_, [](auto const& s) { return s->link.is_up(); });
  });
  if (is_broken()) why_broken().raise();
}

/// Heartbeats, acknowledgements and orders are dealt with also while all workers compute, and what
/// was gathered goes out.
void worker_links::keep_up() {
  std::unique_lock guard(keeping_);
  int looks = 0;
  while (!keeper_stops_) {
    // To be woken for each commit would cost more than to look now and then while there are any.
    keeper_wakes_->wait_for(guard, gathering_ ? clock::duration(gathering_period) : keeping_period);
    if (keeper_stops_) return;
    looks = unflushed_ ? 0 : std::min(looks + 1, idle_looks_max + 1);
    if (looks > idle_looks_max) {
      gathering_ = false;
      if (unflushed_) gathering_ = true;  // one that came meanwhile has woken nobody
    }
    guard.unlock();
    bool is_mine = true;
    if (unflushed_) turns().lock();  // whoever runs the network may wait for just that
    else is_mine = turns().try_lock();
    if (is_mine) {
      std::lock_guard const mine(turns(), std::adopt_lock);
      unflushed_ = false;
      for (auto& s : servers_) {
        release_read(*s);
        s->link.flush();
      }
      network().poll();
    }
    guard.lock();
  }
}

void worker_links::lend(blueprint const& plan, std::uint32_t workers) {
  std::lock_guard const mine(turns());
  auto const is_on_this_machine = [](std::string const& where) { return net::address::parse(where).is_unix(); };
  if (!place().share_memory || std::ranges::none_of(welcome().servers, is_on_this_machine)) return;
  lent_ = update_memory::make(plan, workers, network());
  if (!lent_) return;
  for (table_blueprint const& t : plan.tables())
    if (update_memory::lends(t, plan.servers())) t.pool().use(lent_);
  for (auto& s : servers_) offer(*s);
}

/// Over a connection that brings it to nobody else.
void worker_links::offer(server& s) {
  if (!lent_ || s.sees || !s.link.is_local()) return;
  wire::frame_header h;
  h.kind = +wire::kind::memory;
  s.link.send(h, wire::to_bytes(lent_->where()));
}

void worker_links::post(server_id s, std::shared_ptr<net::reliable_frame const> frame) {
  server& to = *servers_[s.index()];
  bool gathered = false;
  bool full = false;
  {
    std::lock_guard const mine(turns());
    auto const now = enrolled_links::now();
    gathered = now - to.posted < rapid;
    to.posted = now;
    release_read(to);  // first: what was read need not be copied then for what this changes
    if (frame->lent() != 0) to.lent.push_back({to.link.sent() + 1, frame});
    to.link.send(std::move(frame));
    if (gathered) unflushed_ = true;
    else to.link.flush();
    to.note(!in_background());
    full = to.full;
  }
  if (full) RUBATO_RARE("a worker waits until there is room for its commit");
  if (full)
    turns().wait([&] { return is_broken() || !to.full.load(std::memory_order_acquire); });
  else if (gathered && !gathering_.exchange(true)) {
    std::lock_guard const guard(keeping_);
    keeper_wakes_->notify_one();
  }
}

void worker_links::server::note(bool waits_for_sending) noexcept {
  std::size_t const bytes = link.unacknowledged() > 1 ? link.unacknowledged_bytes() : 0;
  bool const many = link.unacknowledged() > commits_under_way_max || bytes > bytes_under_way_max ||
                    (bytes > bytes_under_way_near && link.is_near());
  full.store(many || (waits_for_sending && link.unsent() > unsent_max), std::memory_order_release);
  arrived.store(link.sent() - link.unacknowledged(), std::memory_order_release);
}

// Also whose commit was refused may wait for it to be counted.
void worker_links::drained(net::link& from) {
  server_of(from).note(!in_background());
  turns().stir();
}

void worker_links::post_and_wait(server_id s, std::shared_ptr<net::reliable_frame const> frame) {
  server& to = *servers_[s.index()];
  std::uint64_t number = 0;
  {
    std::lock_guard const mine(turns());
    release_read(to);
    to.link.send(std::move(frame));
    number = to.link.sent();
    to.link.flush();
    to.note(!in_background());
  }
  turns().wait([&] { return is_broken() || to.arrived.load(std::memory_order_acquire) >= number; });
  if (is_broken()) why_broken().raise();
}

void worker_links::settle() {
  std::vector<std::uint64_t> sent;  // others may go on posting
  {
    std::lock_guard const mine(turns());
    for (auto& s : servers_) {
      s->link.flush();
      sent.push_back(s->link.sent());
    }
  }
  turns().wait([&] {
    bool all = true;
    for (std::size_t s = 0; s < sent.size(); ++s)
      all = all && servers_[s]->arrived.load(std::memory_order_acquire) >= sent[s];
    return all || is_broken();
  });
}

void worker_links::ask(server_id s, question& q) {
  std::lock_guard const mine(turns());
  ask_in_turn(s, q);
}

void worker_links::ask_in_turn(server_id s, question& q) {
  server& to = *servers_[s.index()];
  q.asker->missing.fetch_add(1, std::memory_order_relaxed);
  q.header.sequence = ++tickets_;
  release_read(to);
  to.link.send(q.header, q.meta, q.body);
  to.asked.push_back(&q);
}

void worker_links::withdraw(inquiry& asked) {
  std::lock_guard const mine(turns());
  for (auto& s : servers_) {
    // What is being written cannot be stopped in any other way. Others' questions are asked again.
    if (s->answering != nullptr && s->answering->asker == &asked) {
      s->link.cut();
      s->answering = nullptr;
    }
    std::erase_if(s->asked, [&](question const* q) { return q->asker == &asked; });
  }
  asked.failure = nullptr;
  asked.missing.store(0, std::memory_order_relaxed);
}

void worker_links::raise(refusal why) {
  if (why != refusal::size)
    throw error(errc::refused, std::string("a read was refused, for ") + to_string(why));
  std::lock_guard const mine(turns());
  throw error(errc::bad_option, why_too_large_);
}

void worker_links::start(std::span<addressed const> questions) {
  std::lock_guard const mine(turns());
  start_in_turn(questions);
}

void worker_links::start_in_turn(std::span<addressed const> questions) {
  for (addressed const& q : questions) ask_in_turn(q.to, *q.what);
  for (auto& s : servers_) s->link.flush();
}

void worker_links::cut(server_id s) {
  std::lock_guard const mine(turns());
  servers_[s.index()]->link.cut();
}

// ---- what servers say

worker_links::server& worker_links::server_of(net::link& l) {
  return **std::ranges::find_if(servers_, [&](auto const& s) { return &s->link == &l; });
}

question* worker_links::find(server& s, std::uint64_t ticket) const {
  if (ticket == 0 || ticket > tickets_)
    throw wire::frame_error("an answer to a question that was not asked");
  auto const at =
      std::ranges::find_if(s.asked, [&](auto const* q) { return q->header.sequence == ticket; });
  return at == s.asked.end() ? nullptr : *at;
}

void worker_links::begin(net::link& from, wire::frame_header const& header,
                        std::span<std::byte const> meta,
                        std::vector<std::span<std::byte>>& body) {
  server& s = server_of(from);
  switch (static_cast<wire::kind>(header.kind)) {
    case wire::kind::reply:
    case wire::kind::counted:
      s.answering = find(s, header.sequence);
      if (s.answering == nullptr) {
        if (header.kind == +wire::kind::reply) s.unwanted = wire::from_bytes<wire::reply_meta>(meta).pin;
        return discard(header, body);
      }
      return begin_answer(s, header, meta, body);
    case wire::kind::memory:
      expect_length(header, 0);
      s.offered = wire::from_bytes<wire::memory_meta>(meta);
      return;
    case wire::kind::mapped: return expect_length(header, 0);
    case wire::kind::returned:
      expect_length(header, sizeof s.returned);
      return body.push_back(std::as_writable_bytes(std::span(&s.returned, 1)));
    case wire::kind::refused:
      expect_length(header, 0);
      refused_ = wire::from_bytes<wire::refused_meta>(meta);
      return;
    default:
      throw wire::frame_error("a frame of kind " + std::to_string(header.kind) +
                              ", which is not for a worker");
  }
}

void worker_links::begin_answer(server& s, wire::frame_header const& header,
                               std::span<std::byte const> meta,
                               std::vector<std::span<std::byte>>& body) {
  try {
    s.answering->memory = s.memory.get();
    s.answering->begin(header, meta, body);
  } catch (answer_too_large const& e) {
    why_too_large_ = e.what();
    s.too_large = true;
    s.answering = nullptr;  // nothing is written
    body.clear();
    discard(header, body);
  }
}

/// The answer to a question that has been withdrawn, or one that is too large.
void worker_links::discard(wire::frame_header const& header,
                          std::vector<std::span<std::byte>>& body) {
  constexpr std::uint64_t piece = 256 * 1024;
  constexpr std::uint64_t most = piece * 1024 * 1024;
  if (header.length > most)
    throw wire::frame_error("an answer of " + std::to_string(header.length) + " bytes, expected at most " +
                            std::to_string(most));
  waste_.resize(piece);  // once: other links may be writing into it
  for (std::uint64_t left = header.length; left != 0; left -= body.back().size())
    body.emplace_back(waste_.data(), static_cast<std::size_t>(std::min(left, piece)));
}

void worker_links::end(net::link& from, wire::frame_header const& header) {
  server& s = server_of(from);
  if (header.kind == +wire::kind::memory) return see_memory(s);
  if (header.kind == +wire::kind::mapped) {
    if (lent_ && header.sequence == lent_->where().number) s.sees.store(true, std::memory_order_release);
    return;
  }
  if (header.kind == +wire::kind::returned) return take_back(s);
  if (header.kind != +wire::kind::refused)
    return answered(s, header,
                    std::exchange(s.too_large, false) ? refusal::size : refusal::none);
  if (header.sequence != 0) return answered(s, header, refused_.reason);
  user_.commit_refused(worker_id{header.sender}, refused_.stage, s.id, refused_.reason);
}

void worker_links::answered(server& s, wire::frame_header const& header, refusal why) {
  s.answering = nullptr;
  if (std::uint64_t const pin = std::exchange(s.unwanted, 0); pin != 0) s.read.push_back(pin);
  question* const q = find(s, header.sequence);
  if (q == nullptr) return;
  if (why == refusal::none && !q->take()) {
    if (++s.changed > changed_max)
      throw wire::frame_error("answers whose pins never hold, " + std::to_string(s.changed) + " in a row");
    return s.link.send(q->header, q->meta, q->body);
  }
  s.changed = 0;
  if (std::uint64_t const pin = std::exchange(q->pin, 0); pin != 0) s.read.push_back(pin);
  // Else with what goes out next, since it is no hurry: but the thread in the background has the turn nearly always.
  if (in_background()) release_read(s);
  std::erase(s.asked, q);
  q->done(why);
  turns().stir();
}

/// The server has told where its memory is to be found. Where it is not, answers come as they do over a network.
void worker_links::see_memory(server& s) {
  if (!place().share_memory || !s.link.is_local()) return;
  std::string why;
  if (!s.memory || s.memory->where() != s.offered) s.memory = arena_view::open(s.offered, why);
  if (!s.memory)
    return net::log(net::log_level::info, s.link.who() + ": its memory cannot be shared (" + why +
                                              "), so parameters come through the socket");
  net::log(net::log_level::info, s.link.who() + ": its tables are read in memory that is shared");
  wire::frame_header h;
  h.kind = +wire::kind::mapped;
  h.sequence = s.offered.number;
  s.link.send(h, {});
}

/// The server needs a commit's values no more.
void worker_links::take_back(server& s) {
  auto const at = std::ranges::find(s.lent, s.returned, &server::lent_frame::number);
  if (at == s.lent.end())
    throw wire::frame_error("commit " + std::to_string(s.returned) + " was returned, and it has not been lent");
  s.lent.erase(at);
}

/// That answers have been read.
void worker_links::release_read(server& s) {
  wire::frame_header h;
  h.kind = +wire::kind::released;
  for (std::uint64_t const pin : s.read) {
    h.sequence = pin;
    s.link.send(h, {});
  }
  s.read.clear();
}

void worker_links::broken(net::link& from, std::string const&) {
  server& s = server_of(from);
  s.unwanted = 0;
  s.read.clear();  // they hold no more
  s.answering = nullptr;
  s.too_large = false;
}

void worker_links::resumed(net::link& from) {
  server& s = server_of(from);
  offer(s);
  if (!s.asked.empty()) RUBATO_RARE("a question was asked again after a break");
  for (question const* q : s.asked) from.send(q->header, q->meta, q->body);
  s.note(!in_background());
  turns().stir();
}

void worker_links::lost(net::link& from, std::string const& reason, bool) {
  server_of(from).answering = nullptr;
  // A server that ends says for whom: it is not the one that was lost.
  std::string const sentence = from.who() + (from.was_refused() ? ": " : " was lost: ") + reason;
  if (!is_leaving()) tell_in_turn(wire::farewell{sentence});
  give_up(errc::lost, sentence);
}

}  // namespace rubato::detail
