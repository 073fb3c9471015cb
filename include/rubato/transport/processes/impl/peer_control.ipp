// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <variant>

#include "rubato/core/printable.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/net/proof.hpp"
#include "rubato/transport/processes/agreement.hpp"
#include "rubato/transport/processes/number_list.hpp"
#include "rubato/transport/processes/peer_control.hpp"
#include "rubato/wire/archive.hpp"

namespace rubato {

namespace {

constexpr std::size_t turned_away_max = 3;  // sentences that are quoted

std::string peer_text(std::uint32_t rank, std::uint32_t pid) {
  return "peer " + std::to_string(rank) + " (process " + std::to_string(pid) + ")";
}

/// What the lower rank's life and the other one share: the same, whichever of them is told.
wire::secret secret_between(wire::secret const& of_lower, std::uint32_t higher, std::uint32_t incarnation) {
  wire::output_archive text;
  text << std::string("rubato peers") << higher << incarnation;
  return net::make_proof(net::bytes_of(of_lower), text.take());
}

}  // namespace

peer_control::peer_control(options o) : options_(std::move(o)), peers_(options_.peers), average_(options_.shape) {}

// ---- who is there

peer_control::enrolment peer_control::enroll(wire::registration const& r, wire::secret const& secret) {
  auto const refuse_it = [](std::string const& sentence) { throw error(errc::refused, sentence); };
  if (over_) refuse_it("the run is over" + (failure_.empty() ? "" : ": " + failure_));
  if (r.as == net::role::server)
    refuse_it("peers have no servers: start none, and set RUBATO_SERVERS to 0 (rubato-launch -s 0)");
  if (r.as != net::role::worker) refuse_it("there is one coordinator already");
  check_agreement(r);
  if (stage_ != stage_id{})
    refuse_it(phase_ == phase::idle ? "the first run has been, and peers do not join later"
                                    : "a run is under way, and peers do not join one: a group begins with all of them");
  std::uint32_t const rank = number_for(r);
  peer& p = peers_[rank];
  if (p.known) RUBATO_RARE("peers: a place was taken anew before the first run");
  p = {.incarnation = p.known ? p.incarnation + 1 : 0,
       .known = true,
       .here = true,
       .pid = r.pid,
       .life = r.life,
       .listens = r.listens,
       .secret = secret};
  turned_away_.erase(r.rank);
  turned_away_.erase(rank);
  wire::welcome w{};
  w.process = rank;
  w.incarnation = p.incarnation;
  w.workers = options_.peers;
  tell(rank, w);
  return {{net::role::worker, rank}, p.incarnation};
}

void peer_control::check_agreement(wire::registration const& r) {
  std::string const who =
      (r.rank ? "peer " + std::to_string(*r.rank) : "a peer") + " (process " + std::to_string(r.pid) + ")";
  auto const turn_away = [&](std::string const& sentence) {
    if (stage_ == stage_id{}) {
      if (turned_away_.size() == turned_away_max && !turned_away_.contains(r.rank))
        turned_away_.erase(turned_away_.begin());
      turned_away_[r.rank] = sentence;
    }
    throw error(errc::refused, sentence);
  };
  if (auto const other = detail::difference_of_silence(who, r.silence, options_.silence)) turn_away(*other);
  if (r.agreed == options_.agreed) return;
  detail::disagreement const d = detail::difference(r.agreed, options_.agreed);
  turn_away(who + " is of another group than the coordinator's: it says " + d.here + "; expected " + d.there);
}

std::uint32_t peer_control::number_for(wire::registration const& r) const {
  auto const free = std::ranges::find(peers_, false, &peer::here);
  std::uint32_t const rank = r.rank.value_or(static_cast<std::uint32_t>(free - peers_.begin()));
  if (rank >= peers_.size())
    throw error(errc::refused, "the graph has " + std::to_string(peers_.size()) +
                                   " nodes, numbered from 0, and no room for peer " + std::to_string(rank));
  if (peers_[rank].here)
    throw error(errc::refused, "peer " + std::to_string(rank) + " is here already, as process " +
                                   std::to_string(peers_[rank].pid));
  return rank;
}

/// By its number and its process: it is there for the next group of its program.
bool peer_control::was_here(wire::registration const& r) const noexcept {
  if (r.as != net::role::worker || !someone_is_done_) return false;
  auto const is_it = [&r](peer const& p) { return p.pid == r.pid && p.life == r.life && p.is_done && p.has_finished; };
  if (r.rank) return *r.rank < peers_.size() && is_it(peers_[*r.rank]);
  return std::ranges::any_of(peers_, is_it);
}

std::uint32_t peer_control::count_here() const noexcept {
  return static_cast<std::uint32_t>(std::ranges::count(peers_, true, &peer::here));
}

bool peer_control::is_complete() const noexcept { return stage_ != stage_id{} || count_here() == peers_.size(); }

bool peer_control::is_starting() const noexcept {
  if (stage_ != stage_id{} || over_) return false;
  return !is_complete() || std::ranges::any_of(peers_, &peer::ready);
}

std::string peer_control::attendance() const {
  return std::to_string(count_here()) + " of " + std::to_string(peers_.size()) + " peers are here";
}

std::string peer_control::awaited() const {
  auto const list = [this](auto counts, char const* behind) {
    detail::number_list all(static_cast<std::size_t>(std::ranges::count_if(peers_, counts)));
    if (all.has_all()) return std::string();
    for (std::uint32_t i = 0; i < peers_.size(); ++i)
      if (counts(peers_[i])) all.add(i);
    return all.text("peer") + behind;
  };
  std::string text = list([](peer const& p) { return !p.here; }, "");
  bool const one_is_ready = std::ranges::any_of(peers_, &peer::ready);
  std::string const late =
      list([&](peer const& p) { return one_is_ready && p.here && p.connected && !p.ready; },
           " (here, but not ready)");
  if (!late.empty()) text += (text.empty() ? "" : ", and ") + late;
  std::string const cut_off =
      list([](peer const& p) { return p.here && !p.connected; }, " (here, but its connection is broken)");
  if (!cut_off.empty()) text += (text.empty() ? "" : ", and ") + cut_off;
  std::size_t quoted = 0;
  for (peer const& p : peers_)
    if (!p.here && !p.gone.empty() && quoted++ < turned_away_max) text += "; " + p.gone;
  for (auto const& entry : turned_away_) text += "; " + entry.second;
  return text;
}

// ---- what peers say

void peer_control::receive(place from, wire::control_message const& message, time_point now) {
  if (over_ || !peers_[from.number].here) return;
  std::visit([&](auto const& m) { on(from.number, m, now); }, message);
}

template <class Message>
void peer_control::on(std::uint32_t from, Message const&, time_point) {
  throw wire::frame_error("peer " + std::to_string(from) + " said something that is not for the coordinator of peers");
}

bool peer_control::takes_part(std::uint32_t rank, stage_id stage) const noexcept {
  return stage == stage_ && phase_ != phase::idle && peers_[rank].takes_part;
}

void peer_control::on(std::uint32_t from, wire::ready const&, time_point now) {
  peer& p = peers_[from];
  if (p.ready || p.takes_part)
    throw wire::frame_error("peer " + std::to_string(from) + " must not say \"ready\" now");
  p.ready = true;
  begin_when_ready(now);
}

void peer_control::begin_when_ready(time_point now) {
  if (phase_ != phase::idle || over_ || !is_complete()) return;
  bool const all_ready = std::ranges::all_of(peers_, [](peer const& p) { return p.ready || !p.here; });
  bool const is_somebody_cut_off =
      std::ranges::any_of(peers_, [](peer const& p) { return p.here && !p.connected; });
  if (stage_ == stage_id{} && is_somebody_cut_off) return;
  if (!all_ready || count_here() == 0) return;
  bool const is_first = stage_ == stage_id{};
  stage_ = stage_id{stage_.value() + 1};
  phase_ = phase::running;
  began_ = ended_ = now;
  stopping_ = failed_ = false;
  crashes_ = 0;
  spread_ = 0;
  ended_by_.clear();
  for (peer& p : peers_) {
    p.takes_part = p.here;
    p.ready = p.answered = false;
    p.metrics = {};
  }
  wire::peers_begin usual{.stage = stage_, .others = {}, .absent = {}};
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (!peers_[i].here) usual.absent.push_back({i, peers_[i].gone});
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].here) tell(i, is_first ? beginning_for(i) : usual);
}

/// Each pair of peers has a secret of its own: so none of them can pass for another one to a third.
wire::peers_begin peer_control::beginning_for(std::uint32_t rank) const {
  wire::peers_begin m{.stage = stage_, .others = {}, .absent = {}};
  for (std::uint32_t i = 0; i < peers_.size(); ++i) {
    if (i == rank) continue;
    std::uint32_t const lower = std::min(i, rank), higher = std::max(i, rank);
    m.others.push_back({i, peers_[i].incarnation, peers_[i].listens,
                        secret_between(peers_[lower].secret, higher, peers_[higher].incarnation)});
  }
  return m;
}

void peer_control::on(std::uint32_t from, wire::peer_ended const& m, time_point now) {
  if (!takes_part(from, m.stage) || phase_ != phase::running) return;
  ended_ = now;
  answer(from, phase::running, now);
}

void peer_control::on(std::uint32_t from, wire::peer_settled const& m, time_point now) {
  if (!takes_part(from, m.stage)) return;
  peers_[from].metrics = m.metrics;
  answer(from, phase::settling, now);
}

void peer_control::on(std::uint32_t from, wire::peer_measured const& m, time_point now) {
  if (!takes_part(from, m.stage)) return;
  spread_ = detail::farther(spread_, m.distance);
  answer(from, phase::measuring, now);
}

void peer_control::answer(std::uint32_t from, phase in, time_point now) {
  if (phase_ != in || peers_[from].answered)
    throw wire::frame_error("peer " + std::to_string(from) + " answers what it has not been asked");
  peers_[from].answered = true;
  go_on(now);
}

/// Enters the next phase where all have answered who are still there.
void peer_control::go_on(time_point now) {
  while (phase_ != phase::idle && phase_ != phase::averaging &&
         std::ranges::all_of(peers_, [](peer const& p) { return p.answered || !p.takes_part; })) {
    for (peer& p : peers_) p.answered = false;
    bool const anybody = std::ranges::any_of(peers_, &peer::takes_part);
    if (phase_ == phase::running && anybody) {
      phase_ = phase::settling;
      tell_run(wire::settle{stage_});
    } else if (phase_ == phase::settling && anybody && !failed_) {
      phase_ = phase::averaging;
      average_.restart();
      ask_next_share();
    } else {
      finish();
      begin_when_ready(now);
    }
  }
}

// ---- the average

void peer_control::ask_next_share() {
  for (std::uint32_t i = awaited_share_ ? *awaited_share_ + 1 : 0; i < peers_.size(); ++i)
    if (peers_[i].takes_part) {
      awaited_share_ = i;
      return tell(i, wire::send_share{stage_});
    }
  awaited_share_.reset();
  arriving_ = {};
  phase_ = phase::measuring;
  if (average_.count() != 0) send_average();
}

void peer_control::send_average() {
  auto const frame =
      std::make_shared<detail::parameters_frame const>(wire::kind::average, stage_, average_.result());
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].takes_part) frames_.push_back({{net::role::worker, i}, frame});
}

std::span<std::byte> peer_control::room_for(place from, wire::frame_header const& header,
                                            std::span<std::byte const> meta) {
  if (header.kind != +wire::kind::share) return coordination::room_for(from, header, meta);
  auto const of = wire::from_bytes<wire::parameters_meta>(meta);
  if (of.stage != stage_ || phase_ != phase::averaging || awaited_share_ != from.number ||
      header.length != options_.shape.bytes())
    throw wire::frame_error("peer " + std::to_string(from.number) + " sends " + std::to_string(header.length) +
                            " bytes of parameters that it was not asked for");
  arriving_.resize_bytes(options_.shape.bytes());
  return arriving_.bytes();
}

void peer_control::take_frame(place from, time_point now) {
  if (phase_ != phase::averaging || awaited_share_ != from.number) return;
  average_.add(arriving_.bytes());
  ask_next_share();
  go_on(now);
}

// ---- the end of a run

void peer_control::finish() {
  wire::peers_over over{
      .stage = stage_, .elapsed = ended_ - began_, .crashes = crashes_, .peers = {}, .spread = spread_};
  for (peer const& p : peers_) over.peers.push_back(p.metrics);
  tell_run(over);
  phase_ = phase::idle;
  for (peer& p : peers_) p.has_finished = std::exchange(p.takes_part, false) || p.has_finished;
  close_when_left();
}

void peer_control::on(std::uint32_t from, wire::end_run const& m, time_point) {
  if (takes_part(from, m.stage) && phase_ == phase::running) stop(m.failed, m.code, m.sentence);
}

void peer_control::stop(bool failed, errc code, std::string const& sentence) {
  if (stopping_ && (failed_ || !failed)) {
    RUBATO_RARE("peers: a run fails at more than one of them");
    return;
  }
  stopping_ = true;
  failed_ = failed;
  if (failed && code == errc::lost) ended_by_ = sentence;
  tell_run(wire::stop_run{stage_, false, failed, code, sentence});
}

void peer_control::on(std::uint32_t from, wire::farewell const& m, time_point now) {
  bool const is_done = m.failure.empty();
  lose_peer(from, is_done ? "it has left" : m.failure, is_done ? parting::done : parting::failed, now);
}

void peer_control::set_connected(place who, bool is_connected, time_point now) {
  peers_[who.number].connected = is_connected;
  if (is_connected) begin_when_ready(now);
}

void peer_control::lose(place who, std::string const& reason, bool expected, time_point now) {
  if (!over_) lose_peer(who.number, reason, expected ? parting::done : parting::gone, now);
}

void peer_control::lose_peer(std::uint32_t rank, std::string const& reason, parting how, time_point now) {
  peer& p = peers_[rank];
  if (!p.here) return;
  p.here = p.ready = false;
  p.is_done = how == parting::done;
  p.gone = peer_text(rank, p.pid) + (p.is_done ? " has left" : " was lost: " + reason);
  someone_is_done_ = someone_is_done_ || (p.is_done && p.has_finished);
  if (std::exchange(p.takes_part, false)) {
    ++crashes_;
    if (phase_ == phase::settling) RUBATO_RARE("peers: one was lost when all bodies were over");
    if (awaited_share_ == rank) RUBATO_RARE("peers: one was lost whose parameters were awaited");
    if (phase_ == phase::measuring) RUBATO_RARE("peers: one was lost that had been sent the average");
    ended_ = phase_ == phase::running ? now : ended_;
    tell_run(wire::peer_lost{stage_, rank, p.gone});
    if (awaited_share_ == rank) ask_next_share();
    if (ended_by_.empty() && std::ranges::none_of(peers_, &peer::takes_part)) ended_by_ = p.gone;
    go_on(now);
  }
  close_when_left();
  begin_when_ready(now);
}

void peer_control::close_when_left() {
  if (phase_ != phase::idle || over_ || count_here() != 0) return;
  // Without a run they have come if they have said goodbye; those who were lost may be replaced.
  if (stage_ == stage_id{} && !std::ranges::all_of(peers_, &peer::is_done)) return;
  over_ = true;
  failure_ = ended_by_;
}

void peer_control::give_up(std::string const& sentence) {
  failure_ = sentence;
  over_ = true;
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].here) tell(i, wire::stop_run{stage_, true, true, errc::lost, sentence});
}

void peer_control::tell(std::uint32_t rank, wire::control_message message) {
  out_.push_back({{net::role::worker, rank}, std::move(message)});
}

void peer_control::tell_run(wire::control_message const& message) {
  for (std::uint32_t i = 0; i < peers_.size(); ++i)
    if (peers_[i].takes_part) tell(i, message);
}

}  // namespace rubato
