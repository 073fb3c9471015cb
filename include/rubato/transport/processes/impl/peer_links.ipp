// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include "rubato/core/printable.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/proof.hpp"
#include "rubato/transport/processes/enrolments.hpp"
#include "rubato/transport/processes/listening.hpp"
#include "rubato/transport/processes/peer_links.hpp"
#include "rubato/transport/processes/question.hpp"

namespace rubato::detail {

namespace {
/// How often links are served while the peer computes.
constexpr std::chrono::milliseconds serving_period{10};
/// Beyond this nothing more is sent before some of it has arrived.
constexpr std::size_t messages_under_way_max = 32 * 1024 * 1024;
/// Beyond this a peer waits until the system has taken more, where nobody else would send it.
constexpr std::size_t message_unsent_max = 256 * 1024;
constexpr std::size_t message_large = 64 * 1024;
/// Bytes of answers that wait for one neighbor, beside a few of any size.
constexpr std::size_t answers_max = 64 * 1024 * 1024;
}  // namespace

peer_links::peer_links(user& of, std::unique_ptr<net::network> network, net::deployment const& place,
                       std::uint32_t peers, parameters_shape const& shape, std::string agreed, bool background)
    : enrolled_links(of, std::move(network), place, background),
      user_(of),
      shape_(shape),
      door_(enrolled_links::network(), connection_limits(place),
            [this](auto guest, auto const& said) { welcome(std::move(guest), said); }, guests_limit(place)),
      listener_(listen_as(place, enrolled_links::network(),
                          between(net::role::worker, net::role::worker, listener_limits(place)),
                          [this](auto fresh) { door_.receive(std::move(fresh)); })) {
  for (std::uint32_t i = 0; i < peers; ++i) neighbors_.emplace_back(*this, i);
  enroll({.as = net::role::worker,
          .rank = place.rank,
          .listens = announced(place, enrolled_links::network(), listener_->bound()).text(),
          .agreed = std::move(agreed),
          .pid = 0,
          .place_key = {}},
         "gave this peer no number");
  if (number() >= peers)
    throw error(errc::refused, "the coordinator gave this peer number " + std::to_string(number()) +
                                   ", expected one below " + std::to_string(peers));
  start_threads();
}

peer_links::~peer_links() {
  end_threads();
  if (memory_) memory_->retire();
  take_leave();
  for (neighbor& n : neighbors_) {
    if (n.to) n.to->close();
    if (n.from) n.from->close();
  }
  close();
}

/// Messages, heartbeats and acknowledgements are dealt with also while the peer computes. Who only looked now and then
/// would have of a large message as much each time as the system keeps. But for the moments in which a peer computes
/// within an exchange, after which it looks itself.
void peer_links::keep_up() {
  std::unique_lock guard(keeping_);
  while (true) {
    if (!keeper_stops_) keeper_wakes_->wait_for(guard, serving_period);
    if (keeper_stops_) return;
    guard.unlock();
    if (turns().try_lock()) {
      std::lock_guard const mine(turns(), std::adopt_lock);
      return_borrowed();
      network().poll();
    }
    if (!in_background()) turns().attend([this] { return keeper_stops_ || large_arriving_ == 0; });
    guard.lock();
  }
}

// ---- who there is

void peer_links::meet(std::vector<wire::peer_place> const& others) {
  for (wire::peer_place const& p : others) {
    if (p.rank >= neighbors_.size() || p.rank == number() || neighbors_[p.rank].place)
      throw wire::frame_error("the coordinator says where peer " + std::to_string(p.rank) + " is, which cannot be");
    neighbors_[p.rank].place = p;
  }
  lend();
  door_.open();
}

/// Once it is known who might look.
void peer_links::lend() {
  auto const is_on_this_machine = [](neighbor const& n) {
    return n.place && net::address::parse(n.place->listens).is_unix();
  };
  if (memory_ || !place().share_memory || std::ranges::none_of(neighbors_, is_on_this_machine)) return;
  memory_ = update_memory::make(shape_.bytes(), network());
  if (memory_) copies_.use(memory_);
}

void peer_links::dial(neighbor& other) {
  other.to = std::make_unique<net::link>(network(), other, limits_to(net::role::worker, other.rank),
                                         "peer " + std::to_string(other.rank) + " (" +
                                             printable(other.place->listens, 200) + ")");
  try {
    other.to->dial(net::address::parse(other.place->listens), place().keys,
                   hello_to(other.rank, other.place->secret), place().patience);
  } catch (...) {
    other.to.reset();  // what is sent there next would wait for ever
    throw;
  }
}

/// Why one that says this is not let in.
std::optional<std::string> peer_links::objection(net::hello const& said, net::peer_identity const& to) const {
  if (auto const why = to.objection(said.as, said.number)) return why;
  std::string const name = "peer " + std::to_string(said.number);
  bool const is_known = said.as == net::role::worker && said.number < neighbors_.size() &&
                        neighbors_[said.number].place &&
                        neighbors_[said.number].place->incarnation == said.incarnation;
  if (!is_known) return "this is not the " + name + " that the coordinator has enrolled";
  neighbor const& other = neighbors_[said.number];
  net::proof const expected = session_credential(other.place->secret, said, number());
  if (!net::are_same(net::bytes_of(said.credential), net::bytes_of(expected)))
    return "this is not the " + name + " that the coordinator has enrolled";
  if (other.is_lost || (other.from && other.from->is_over())) {
    RUBATO_RARE("peers: one came back that had been given up");
    return "this process was given up as lost; it can only start anew";
  }
  if (other.from && other.session != said.session) return name + " is here already";
  return std::nullopt;
}

void peer_links::welcome(std::unique_ptr<net::connection> guest, net::hello const& said) {
  if (auto const why = objection(said, guest->shown())) {
    refusals_.tell(guest->peer() + ": peer " + std::to_string(said.number) + " was refused: " + *why, network().now());
    return net::refuse(*guest, *why);
  }
  neighbor& other = neighbors_[said.number];
  if (!other.from) {
    other.session = said.session;
    other.from = std::make_unique<net::link>(network(), other, limits_to(net::role::worker, other.rank),
                                             "peer " + std::to_string(other.rank));
  }
  other.from->adopt(std::move(guest), said);
}

void peer_links::drop(std::uint32_t rank, std::string const& sentence) {
  if (rank < neighbors_.size()) lose(neighbors_[rank], sentence);
}

/// The other end hears why, if it is still there.
void peer_links::lose(neighbor& other, std::string const& sentence) {
  if (std::exchange(other.is_lost, true)) return;
  for (net::link* const l : {other.to.get(), other.from.get()})
    if (l != nullptr && !l->is_over()) l->refuse(sentence);
  other.arriving.drop();
  other.set_large(false);
  other.note();
  user_.neighbor_lost(other.rank, sentence);
  turns().stir();
}

void peer_links::cut(std::uint32_t rank) {
  std::lock_guard const mine(turns());
  for (net::link* const l : {neighbors_[rank].to.get(), neighbors_[rank].from.get()})
    if (l != nullptr && !l->is_over()) l->cut();
}

// ---- messages

void peer_links::send(neighbor& other, stage_id stage, peer_message&& m) {
  if (other.is_lost || is_broken()) return;
  if (!other.to) dial(other);
  // Not while it cannot be reached: what is lent to one that is lost is not used again.
  std::size_t const bytes = m.parameters->values.size_bytes();
  bool const may_lend = other.to->is_up() && other.shared.may_be_lent(bytes, update_memory::lent_max(shape_.bytes()));
  std::uint64_t const place = may_lend ? place_of(m.parameters) : 0;
  if (place != 0) other.shared.lend(other.to->sent() + 1, m.parameters);
  other.to->send(std::make_shared<parameters_frame const>(stage, number(), std::move(m), place));
  other.to->flush();
  other.note();
}

/// Where in the memory that neighbors see these lie, or a copy in their place; 0 for those that are sent.
std::uint64_t peer_links::place_of(shared_update& values) {
  std::span<std::byte const> const all = values->values.bytes();
  if (std::uint64_t const place = memory_->place_of(all); place != 0 || all.size() < update_memory::bytes_min)
    return place;
  update_buffer copy = copies_.take();
  copy->whole = true;
  copy->values.resize_bytes(all.size());
  std::uint64_t const place = memory_->place_of(copy->values.bytes());
  if (place == 0) return 0;
  std::ranges::copy(all, copy->values.data());
  values = std::move(copy);
  return place;
}

/// What neighbors have lent and nobody here needs any more: they may write there again.
void peer_links::return_borrowed() {
  if (!over_->any()) return;
  for (frames_over::frame const& f : over_->take()) {
    neighbor& lender = neighbors_[static_cast<std::size_t>(f.session)];
    net::link* const to = lender.to ? lender.to.get() : lender.from.get();
    if (lender.is_lost || to->is_over()) continue;
    to->send_reliable(+wire::kind::returned, std::as_bytes(std::span(&f.number, 1)));
    to->flush();
  }
}

void peer_links::answer(std::uint32_t to, stage_id stage, peer_message&& m) {
  neighbor& other = neighbors_[to];
  send(other, stage, std::move(m));
  if (other.to && other.to->unacknowledged_bytes() > answers_max + 4 * shape_.bytes())
    throw wire::frame_error("peer " + std::to_string(to) + " does not take the answers to what it asks: " +
                            std::to_string(other.to->unacknowledged_bytes()) + " bytes wait for it");
}

bool peer_links::is_flushed() const noexcept {
  return std::ranges::none_of(neighbors_, [](neighbor const& n) { return n.unsent.load(std::memory_order_acquire); });
}

bool peer_links::all_arrived() const noexcept {
  return std::ranges::all_of(neighbors_, [](neighbor const& n) { return n.idle.load(std::memory_order_acquire); });
}

void peer_links::neighbor::note() noexcept {
  bool const works = to && !to->is_over() && !is_lost;
  bool const many = works && to->unacknowledged_bytes() > messages_under_way_max && to->unacknowledged() > 1;
  full.store(many, std::memory_order_release);
  unsent.store(works && !all.in_background() && to->unsent() > message_unsent_max, std::memory_order_release);
  idle.store(!works || to->unacknowledged() == 0, std::memory_order_release);
  all.turns().stir();
}

void peer_links::neighbor::resumed(net::link& up) {
  if (&up == to.get()) shared.offer(all.memory_.get(), up);
  drained(up);
}

void peer_links::neighbor::drained(net::link& of) {
  if (&of == to.get()) near.store(to->is_near(), std::memory_order_relaxed);
  note();
}

void peer_links::neighbor::begin(net::link& link, wire::frame_header const& header, std::span<std::byte const> meta,
                                 std::vector<std::span<std::byte>>& body) {
  switch (static_cast<wire::kind>(header.kind)) {
    case wire::kind::memory:
      expect_length(header, 0);
      offered = wire::from_bytes<wire::memory_meta>(meta);
      return;
    case wire::kind::mapped: return expect_length(header, 0);
    case wire::kind::returned:
      expect_length(header, sizeof returned[0]);
      return body.push_back(std::as_writable_bytes(std::span(&returned[is_to(link)], 1)));
    default: break;
  }
  if (&link != from.get()) throw wire::frame_error("a peer that was dialed sends something over that link");
  arriving.begin(header, meta, shared.view());
  is_wanted = all.user_.wants(arriving.stage());
  set_large(header.length > message_large);
  if (is_wanted) arriving.receive(body);
  else arriving.discard(body);
}

void peer_links::neighbor::set_large(bool now) noexcept {
  if (std::exchange(is_large, now) != now) all.large_arriving_ += now ? 1U : ~0U;
}

void peer_links::neighbor::end(net::link& link, wire::frame_header const& header) {
  switch (static_cast<wire::kind>(header.kind)) {
    case wire::kind::memory:
      if (all.place().share_memory && link.is_local()) shared.see(offered, link);
      return;
    case wire::kind::mapped: return shared.take_mapped(all.memory_.get(), header.sequence);
    case wire::kind::returned: return shared.take_back(returned[is_to(link)]);
    default: break;
  }
  set_large(false);
  bool const is_for_us = !is_lost && is_wanted && all.user_.wants(arriving.stage());
  if (is_for_us) all.user_.arrived(rank, arriving.stage(), arriving.take(header.sequence, &shared));
  else if (arriving.is_lent()) (void)arriving.take(header.sequence, &shared);
  else arriving.drop();
  all.return_borrowed();  // what took this one's place, or nobody wants
  if (is_for_us) all.turns().stir();
}

void peer_links::neighbor::broken(net::link& link, std::string const&) {
  if (&link == from.get()) {
    arriving.drop();
    set_large(false);
  }
  note();
}

void peer_links::neighbor::lost(net::link& link, std::string const& reason, bool expected) {
  if (&link == from.get()) set_large(false);
  note();
  if (expected || all.is_leaving()) return;  // it has left, as the coordinator will say
  std::string const sentence = "peer " + std::to_string(rank) +
                               (link.was_refused() ? " refused this one: " : " was lost: ") + reason;
  net::log(net::log_level::warning, sentence);
  if (!is_lost && !link.was_refused()) RUBATO_RARE("peers: one lost another before the coordinator said so");
  all.lose(*this, sentence);
}

// ---- what the coordinator says

std::span<std::byte> peer_links::room_for(wire::frame_header const& header, std::span<std::byte const> meta) {
  if (header.kind != +wire::kind::average) return coordinator_user::room_for(header, meta);
  return user_.room_for_average(wire::from_bytes<wire::parameters_meta>(meta).stage, header.length);
}

void peer_links::frame_arrived() {
  user_.average_arrived();
  turns().stir();
}

}  // namespace rubato::detail
