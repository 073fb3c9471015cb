// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/proof.hpp"
#include "rubato/transport/processes/arriving_control.hpp"
#include "rubato/transport/processes/coordinator_link.hpp"
#include "rubato/transport/processes/coordinator_process.hpp"
#include "rubato/transport/processes/process_control.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// Another process, from its first hello on.
struct coordinator_process::guest final : net::link_user {
  guest(coordinator_process& of, net::hello const& said)
      : all(of),
        as(said.as),
        link(*of.network_, *this, link_limits(of.place_),
             std::string("a ") + to_string(said.as) + " process"),
        since(of.network_->now()) {}
  void begin(net::link&, wire::frame_header const& header, std::span<std::byte const> meta,
             std::vector<std::span<std::byte>>& body) override {
    all.begin(*this, header, meta, body);
  }
  void more(net::link&, wire::frame_header const&, std::vector<std::span<std::byte>>& body) override {
    arriving.more(body);
  }
  void end(net::link&, wire::frame_header const& header) override { all.end(*this, header); }
  void resumed(net::link&) override { all.note_connection(*this, true); }
  void broken(net::link&, std::string const&) override { all.note_connection(*this, false); }
  void warn(net::link&, std::string const& sentence) override {
    if (place) net::log(net::log_level::warning, sentence);
    else all.refusals_.tell(sentence, all.network_->now());
  }
  void lost(net::link&, std::string const& reason, bool expected) override { all.miss(*this, reason, expected); }
  /// Why one that says this, and has shown itself to be that, cannot go on as this guest.
  [[nodiscard]] std::optional<std::string> objection(net::hello const& said, net::peer_identity const& to) const {
    if (said.as != as)
      return fmt::format("this session is a {} process's, and not a {}'s", to_string(as), to_string(said.as));
    return place ? to.objection(place->as, place->number) : to.objection(as);
  }
  coordinator_process& all;
  net::role as;
  net::peer_identity shown;  ///< by its last connection
  net::link link;
  net::network::clock::time_point since;  ///< when its connection last began
  net::network::clock::time_point came = since;
  std::optional<coordination::place> place;
  std::optional<wire::registration> waits;  ///< with this, for a place whose process may come back
  std::optional<std::string> refused;       ///< why
  bool is_early = false;                    ///< it is there for the next run
  bool is_late = false;                     ///< it did not say in time who it is
  wire::secret key{};                       ///< of its place
  arriving_control arriving;
};

coordinator_process::coordinator_process(std::unique_ptr<net::network> network,
                                         net::deployment const& place, std::span<rules const> protocols,
                                         std::string agreed, std::vector<bool> moves_tables)
    : coordinator_process(std::move(network), place,
                          std::make_unique<process_control>(
                              protocols, process_control::options{.workers = place.workers,
                                                                  .servers = place.servers,
                                                                  .when_lost = place.when_lost,
                                                                  .moves_tables = std::move(moves_tables),
                                                                  .agreed = std::move(agreed),
                                                                  .silence = place.silence})) {}

coordinator_process::coordinator_process(std::unique_ptr<net::network> network, net::deployment const& place,
                                         std::unique_ptr<coordination> control)
    : place_(place),
      owned_(std::move(control)),
      network_(std::move(network)),
      door_(*network_, connection_limits(place),
            [this](auto fresh, auto const& said) { welcome(std::move(fresh), said); },
            guests_limit(place)),
      listener_(network_->listen(listening_as_coordinator(place), place.keys,
                                 between(net::role::coordinator, {}, listener_limits(place)),
                                 [this](auto fresh) { door_.receive(std::move(fresh)); })),
      watch_(*network_, place.long_wait, [this] { return waits_since(); }, [this] { return control_.who_waits(); }) {
  door_.open();
}

coordinator_process::~coordinator_process() = default;

void coordinator_process::run() {
  check_patience();
  while (!control_.is_over() && !stop_asked_) {
    auto deadline = wait_ ? std::min(wait_->ends, wait_->says.next()) : net::network::clock::time_point::max();
    if (time_point const next = control_.next_tick(); next != time_point::max())
      deadline = std::min(deadline, began_ + next.since_start());
    network_->run_one(deadline);
    note_absence();
    control_.tick(now());
    check_patience();
    deliver();
    if (is_time_to_look()) look_after_guests();
    count_stage();
  }
  // What was said last is to arrive before the links close. Who is asked to stop is to be gone soon.
  bool const was_stopped = stop_asked_;
  constexpr std::chrono::milliseconds soon{1000};
  auto const end = network_->now() + (was_stopped ? std::min(place_.reconnect, soon) : place_.reconnect);
  auto const all_told = [&] {
    return std::ranges::all_of(guests_, [](auto const& entry) {
      return entry.second->link.is_over() || entry.second->link.unacknowledged() == 0;
    });
  };
  while (!all_told() && network_->now() < end && stop_asked_ == was_stopped) {
    network_->run_one(end);
    send_away();
    forget_dead();
  }
  for (auto& [session, g] : guests_) {
    // Who has said nothing yet comes after the end, a moment too early.
    bool const is_new = !g->place && !g->waits && !g->link.is_over();
    if (is_new && control_.is_over() && control_.failure().empty()) put_off(*g);
    g->link.close();
  }
  if (!control_.failure().empty()) throw lost_error(control_.failure());
}

void coordinator_process::note_absence() {
  auto const moment = network_->now();
  if (moment - std::exchange(turned_, moment) > connection_limits(place_).handshake / 2) was_away_ = true;
}

/// All are looked at where one of them has come, gone or changed, and else once in a while: most of what comes here says
/// something to the others, and would cost more with each guest.
bool coordinator_process::is_time_to_look() const {
  constexpr std::chrono::milliseconds a_while{50};
  return guests_changed_ || someone_waits_ || turned_ - looked_ >= a_while;
}

void coordinator_process::look_after_guests() {
  guests_changed_ = false;
  looked_ = turned_;
  enroll_waiting();
  send_away();
  forget_strangers();
  forget_dead();
  count_guests();
}

void coordinator_process::stop() noexcept {
  stop_asked_ = true;
  network_->interrupt();
}

std::optional<net::network::clock::time_point> coordinator_process::waits_since() const {
  auto const since = control_.waits_since();
  if (!since) return std::nullopt;
  return began_ + since->since_start();
}

time_point coordinator_process::now() const {
  return time_point(network_->now() - began_);
}

void coordinator_process::count_guests() {
  coordinator_stats& s = *stats_;
  std::uint64_t servers = 0, up = 0;
  for (auto const& [place, g] : at_) {
    servers += place.as == net::role::server ? 1 : 0;
    up += g->link.is_up() ? 1 : 0;
  }
  server_stats::set(s.servers_here, servers);
  server_stats::set(s.workers_here, at_.size() - servers);
  server_stats::set(s.connected, up);
}

void coordinator_process::count_stage() {
  coordinator_stats& s = *stats_;
  server_stats::set(s.stage, control_.stage().value());
  server_stats::set(s.running, control_.is_running() ? 1 : 0);
  server_stats::set(s.ready, control_.is_complete() && !control_.is_over() ? 1 : 0);
}

/// One time for all waits of a start: who comes and goes again does not lengthen it, also where nobody waits in
/// between. Once there is as much again, from the first wait on of those who are all there.
void coordinator_process::check_patience() {
  auto const moment = network_->now();
  if (!control_.is_starting()) {
    if (wait_) patience_left_ = wait_->ends - moment;
    return wait_.reset();
  }
  if (control_.is_complete() && !std::exchange(was_complete_, true)) {
    patience_left_ = place_.patience;
    wait_.reset();
  }
  if (!wait_) wait_ = {.ends = moment + patience_left_, .says = reminder(moment)};
  if (moment >= wait_->ends) {
    std::string const few = control_.is_complete() ? "" : "only " + control_.attendance() + "; ";
    control_.give_up(fmt::format("after {:g} s {}the run waits for {}",
                                 static_cast<double>(place_.patience.count()) / 1000, few, control_.awaited()));
  } else if (wait_->says.is_due(moment)) {
    net::log(net::log_level::warning, "waiting for " + control_.awaited());
  }
}

/// What it has been told is kept for it until it takes it.
bool coordinator_process::takes_too_little(guest const& g) const {
  constexpr std::size_t untaken_max = 64 * 1024 * 1024;
  return g.link.unacknowledged_bytes() > std::max(untaken_max, 2 * largest_message_) + 2 * control_.largest_frame();
}

/// Those who do not say who they are, and those who do not take what they are told.
void coordinator_process::forget_strangers() {
  auto const moment = network_->now();
  auto const in_time = connection_limits(place_).handshake;
  // What was said while this process stood still has not been heard yet.
  bool const was_away = std::exchange(was_away_, false);
  for (auto const& [session, g] : guests_) {
    if (g->link.is_over()) continue;
    if (was_away) g->came = moment;
    // Nor does the time count that a break takes, but not for ever: a link that does not come back ends by itself.
    if (was_away || !g->link.is_up()) g->since = moment;
    bool const took_long = moment - g->since > in_time || moment - g->came > 10 * in_time;
    g->is_late = !g->place && !g->waits && took_long;
    if (g->is_late)
      g->link.refuse("this process did not say in time who it is");
    else if (takes_too_little(*g))
      dismiss(*g, "it does not take what it is told");
  }
}

/// Of those who are gone only the last sessions are kept, so that a process that is started again and again costs no
/// more each time. Not from inside of a link.
void coordinator_process::forget_dead() {
  std::erase_if(guests_, [this](auto const& entry) {
    guest const& g = *entry.second;
    if (!g.link.is_over()) return false;
    // Others said nothing that they could say twice. Who was late may not have heard so, as its connection was
    // breaking, and would have as long again.
    if (g.place || g.is_late) past_.remember(entry.first);
    return true;
  });
}

void coordinator_process::welcome(std::unique_ptr<net::connection> fresh, net::hello const& said) {
  guests_changed_ = true;
  server_stats::add(stats_->handshakes, 1);
  auto const at = guests_.find(said.session);
  if (past_.contains(said.session) || (at != guests_.end() && at->second->link.is_over())) {
    server_stats::add(stats_->refused, 1);
    RUBATO_RARE("a process came back to the coordinator after it had been given up");
    return net::refuse(*fresh, "this process was given up as lost; it can only start anew");
  }
  if (at == guests_.end()) {
    auto g = std::make_unique<guest>(*this, said);
    guest& made = *g;
    guests_.emplace(said.session, std::move(g));
    made.shown = fresh->shown();
    return made.link.adopt(std::move(fresh), said);
  }
  if (auto const why = at->second->objection(said, fresh->shown())) {
    server_stats::add(stats_->refused, 1);
    refusals_.tell(fresh->peer() + ": refused: " + *why, network_->now());
    return net::refuse(*fresh, *why);
  }
  server_stats::add(stats_->reconnects, 1);
  at->second->shown = fresh->shown();
  at->second->since = network_->now();
  at->second->link.adopt(std::move(fresh), said);
}

void coordinator_process::begin(guest& g, wire::frame_header const& header, std::span<std::byte const> meta,
                                std::vector<std::span<std::byte>>& body) {
  bool const is_in = is_enrolled(g);
  if (header.kind == +wire::kind::control)
    return g.arriving.begin(header, meta, is_in ? arriving_control::of_member_max : arriving_control::of_guest_max,
                            body);
  if (!is_in)
    throw wire::frame_error("a frame of kind " + std::to_string(header.kind) +
                            " came from a process that is not in the run");
  body.push_back(control_.room_for(*g.place, header, meta));
}

bool coordinator_process::is_enrolled(guest const& g) const {
  if (!g.place) return false;
  auto const at = at_.find(*g.place);
  return at != at_.end() && at->second == &g;
}

void coordinator_process::end(guest& g, wire::frame_header const& header) {
  if (g.refused || g.is_early) return;
  if (header.kind != +wire::kind::control) {
    if (is_enrolled(g)) control_.take_frame(*g.place, now());
    return deliver();
  }
  wire::control_message const message = wire::decode_control(g.arriving.bytes());
  if (!g.place) {
    auto const* r = std::get_if<wire::registration>(&message);
    if (g.waits) throw wire::frame_error("a process said something before it was let in");
    if (r == nullptr)
      throw wire::frame_error("a process said something before it said who it is");
    return enroll_or_refuse(g, *r);
  }
  if (!is_enrolled(g))
    throw wire::frame_error("a process goes on talking after another has taken its place");
  control_.receive(*g.place, message, now());
  deliver();
}

/// What is thrown would be a line of the connection's in the log, for each of a flood.
void coordinator_process::enroll_or_refuse(guest& g, wire::registration const& r) {
  guests_changed_ = true;
  try {
    enroll(g, r);
  } catch (std::exception const& e) {
    server_stats::add(stats_->refused, 1);
    refusals_.tell("process " + std::to_string(r.pid) + " was refused: " + e.what(), network_->now());
    g.refused = e.what();
  }
}

/// Not from inside of a link.
void coordinator_process::send_away() {
  for (auto const& [session, g] : guests_) {
    if (g->link.is_over()) continue;
    if (g->refused) g->link.refuse(*g->refused);
    else if (g->is_early) g->link.close();
  }
}

void coordinator_process::enroll(guest& g, wire::registration const& r) {
  if (r.as != g.as)
    throw error(errc::refused, fmt::format("a process that said hello as a {} registers as a {}", to_string(g.as),
                                           to_string(r.as)));
  if (auto const why = r.rank ? g.shown.objection(r.as, *r.rank) : g.shown.objection_to_any_number(r.as))
    throw error(errc::refused, *why);
  if (control_.was_here(r)) {
    RUBATO_RARE("a process was told to come again");
    return put_off(g);
  }
  forget_unconnected(r);
  if (may_come_back(r)) {
    if (!is_same_place(r)) return wait_for_place(g, r);
    RUBATO_RARE("a new life took the place of the last one at once, by its key");
    replace({r.as, *r.rank}, "it was started anew");
  }
  net::proof secret;
  network_->random(std::as_writable_bytes(std::span(secret)));
  g.place = control_.enroll(r, secret).at;
  g.key = r.place_key;
  at_[*g.place] = &g;
  net::log(net::log_level::info, g.place->name() + " is here");
  deliver();
}

/// Its link is closed later: not from inside of it.
void coordinator_process::put_off(guest& g) {
  g.is_early = true;
  g.link.send_reliable(+wire::kind::control, wire::encode(wire::come_again{}));
  g.link.flush();
}

/// Whether whoever had this place has a broken connection, which it may still make anew. What a killed process leaves
/// behind, an end of its connection or a reset, is no sign that it is gone: a gateway that is restarted leaves the
/// same, and so does a living process that has not heard from here for too long. So all have `reconnect` to come back,
/// but for those in whose place somebody comes who knows its key: who started that one knows that it has ended.
bool coordinator_process::may_come_back(wire::registration const& r) const {
  if (!r.rank || control_.is_over() || !control_.agrees(r)) return false;
  coordination::place const who{r.as, *r.rank};
  auto const at = at_.find(who);
  return at != at_.end() && !at->second->link.is_up() && control_.is_replaceable(who);
}

bool coordinator_process::is_same_place(wire::registration const& r) const {
  wire::secret const& known = at_.at({r.as, *r.rank})->key;
  return known != wire::secret{} && net::are_same(net::bytes_of(known), net::bytes_of(r.place_key));
}

/// One for each place: the first that is still there.
void coordinator_process::wait_for_place(guest& g, wire::registration const& r) {
  std::string const who = coordination::place{r.as, *r.rank}.name();
  for (auto const& [session, other] : guests_) {
    bool const is_for_it = other->waits && other->waits->as == r.as && other->waits->rank == r.rank;
    if (!is_for_it || other->link.is_over()) continue;
    if (other->link.is_up())
      throw error(errc::refused, "another process, " + std::to_string(other->waits->pid) +
                                     ", waits to become " + who + ", whose connection is broken");
    other->link.refuse("another process waits in its place");
  }
  RUBATO_RARE("a new life waits until the last one is given up");
  g.waits = r;
  net::log(net::log_level::warning, who + " has come anew (process " + std::to_string(r.pid) +
                                        ") while its connection is broken: it is let in when that is given up");
}

/// Those whose place has become free, or has its process again. Not from inside of a link.
void coordinator_process::enroll_waiting() {
  someone_waits_ = false;
  for (auto const& [session, g] : guests_) {
    if (!g->waits || g->link.is_over()) continue;
    if (may_come_back(*g->waits)) {
      someone_waits_ = true;
      continue;
    }
    wire::registration const r = std::move(*g->waits);
    g->waits.reset();
    enroll_or_refuse(*g, r);
  }
}

/// Before the first run: whose connection is broken may come back, but does not keep out who says otherwise.
void coordinator_process::forget_unconnected(wire::registration const& r) {
  if (control_.stage() != stage_id{} || control_.agrees(r)) return;
  if (std::ranges::any_of(at_, [](auto const& entry) { return entry.second->link.is_up(); })) return;
  static_assert(net::role::worker < net::role::server);  // which knows no worker any more when it goes
  while (!at_.empty()) replace(at_.begin()->first, "its connection broke, and others came");
}

void coordinator_process::replace(coordination::place who, std::string const& reason) {
  guests_changed_ = true;
  guest& dead = *at_.at(who);
  at_.erase(who);
  dead.link.close();
  control_.lose(who, reason, false, now());
  deliver();
}

void coordinator_process::dismiss(guest& g, std::string const& reason) {
  g.link.refuse(reason);
  miss(g, reason, false);
}

void coordinator_process::note_connection(guest const& g, bool is_up) {
  guests_changed_ = true;
  if (!is_enrolled(g)) return;
  control_.set_connected(*g.place, is_up, now());
  if (is_up) deliver();
}

void coordinator_process::miss(guest& g, std::string const& reason, bool expected) {
  guests_changed_ = true;
  if (!g.place) return;
  if (!expected) server_stats::add(stats_->lost, 1);
  if (!expected)
    net::log(net::log_level::warning, g.place->name() + " was lost: " + reason);
  auto const at = at_.find(*g.place);
  if (at == at_.end() || at->second != &g) return;  // another has taken its place
  at_.erase(at);
  if (stop_asked_) return;  // all may go
  control_.lose(*g.place, reason, expected, now());
  deliver();
}

void coordinator_process::deliver() {
  auto const has_been_told = [this](guest& g) {
    g.link.flush();
    guests_changed_ = guests_changed_ || takes_too_little(g);
  };
  for (auto const& [to, message] : control_.take())
    if (auto const at = at_.find(to); at != at_.end()) {
      auto const bytes = wire::encode(message);
      largest_message_ = std::max(largest_message_, bytes.size());
      at->second->link.send_reliable(+wire::kind::control, bytes);
      has_been_told(*at->second);
    }
  for (auto const& [to, frame] : control_.take_frames())
    if (auto const at = at_.find(to); at != at_.end()) {
      at->second->link.send(frame);
      has_been_told(*at->second);
    }
}

}  // namespace rubato::detail
