// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/proof.hpp"
#include "rubato/transport/processes/coordinator_link.hpp"
#include "rubato/transport/processes/network_turn.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

namespace {

using namespace std::chrono_literals;

constexpr char const* how_to_find_it =
    "start this program with rubato-launch, or set RUBATO_COORDINATOR (or MASTER_ADDR and MASTER_PORT) to where it "
    "listens";

/// With the limits that a deployment sets.
template <class Options>
Options limited(net::deployment const& place) {
  Options o;
  o.silence = place.silence;
  // Who is silent is so while a connection is made, too: a stopped process's system accepts it.
  o.handshake = std::min(o.handshake, place.silence);
  return o;
}
}  // namespace

net::connection_options connection_limits(net::deployment const& place) {
  return limited<net::connection_options>(place);
}

net::link::options link_limits(net::deployment const& place) {
  net::link::options o = limited<net::link::options>(place);
  o.reconnect = place.reconnect;
  o.breaks_max = place.breaks_max;
  return o;
}

net::listener_options listener_limits(net::deployment const& place) {
  net::listener_options o = limited<net::listener_options>(place);
  // After a break all may come back at once, perhaps from one machine.
  std::size_t const all = std::size_t{place.workers} + place.servers;
  o.handshakes_max = std::max(o.handshakes_max, 2 * all);
  o.connections_max = std::max(o.connections_max, 2 * all);
  return o;
}

std::size_t guests_limit(net::deployment const& place) {
  return listener_limits(place).handshakes_max;
}

net::address listening_as_coordinator(net::deployment const& place) {
  net::address const& known = place.coordinator;
  if (!known.is_name() || known.is_loopback() || !place.keys.beyond_loopback) return known;
  return {.host = "0.0.0.0", .port = known.port};
}

net::address announced(net::deployment const& place, net::network const& network,
                       net::address const& bound) {
  if (place.announce) return *place.announce;
  if (auto const reached = network.reached(bound, place.coordinator)) return *reached;
  throw error(errc::io, "this machine has no name that others could reach it by; say where with "
                        "RUBATO_ANNOUNCE");
}

std::uint64_t fresh_session(net::network& by) {
  std::uint64_t session = 0;
  by.random(std::as_writable_bytes(std::span(&session, 1)));
  return session;
}

coordinator_link::coordinator_link(net::network& where, coordinator_user& user,
                                   net::deployment const& place, wire::registration self)
    : network_(where), user_(user), place_(place), self_(std::move(self)), says_(where.now()) {
  auto const [number, life] = network_.process();
  self_.pid = number;
  self_.life = life;
  self_.silence = place.silence.count();
  if (!place.place_key.empty())
    self_.place_key =
        net::make_proof(std::as_bytes(std::span(place.place_key)), std::as_bytes(std::span("rubato place")));
  dial();
  remind();
}

void coordinator_link::dial() {
  was_there_ = false;
  link_.emplace(network_, static_cast<net::link_user&>(*this),
                between(self_.as, net::role::coordinator, link_limits(place_)), "the coordinator");
  net::hello h;
  h.as = self_.as;
  h.session = fresh_session(network_);
  auto const waited = std::chrono::floor<std::chrono::milliseconds>(network_.now() - began_);
  auto const registration = encode_at_most(self_, arriving_control::of_guest_max);
  link_->dial(place_.coordinator, place_.keys, h, std::max(place_.patience - waited, 0ms));
  link_->send_reliable(+wire::kind::control, registration);
  link_->flush();
}

/// What is there is the last run's coordinator, which still has to do with others: the next one will be there.
void coordinator_link::come_again() {
  if (network_.now() - began_ >= place_.patience)
    return user_.coordinator_absent(absence("has not ended its last run"));
  anew_ = network_.at(network_.now() + 20ms, [this] {
    anew_.reset();
    try {
      dial();
    } catch (std::exception const& e) {  // files of TLS that were fine before
      user_.coordinator_absent(absence(std::string("cannot be reached: ") + e.what()));
    }
  });
}

void coordinator_link::refuse(std::string const& reason) noexcept {
  anew_.reset();
  link_->refuse(reason);
}

void coordinator_link::close() noexcept {
  anew_.reset();
  link_->close();
}

/// Whoever starts one program alone is to know what it is waiting for.
void coordinator_link::remind() {
  if (is_in_ || (link_->is_over() && !anew_)) return timer_.reset();
  if (says_.is_due(network_.now())) {
    std::string const at = "the coordinator at " + place_.coordinator.text();
    net::log(net::log_level::warning,
             link_->is_up() ? "waiting for other processes of the run: " + at + " says for which"
                           : "waiting for " + at + "; " + how_to_find_it);
  }
  timer_ = network_.at(says_.next(), [this] { remind(); });
}

void coordinator_link::send(wire::control_message const& message) {
  link_->send_reliable(+wire::kind::control, encode_at_most(message, arriving_control::of_member_max));
  link_->flush();
}

void coordinator_link::send(std::shared_ptr<net::reliable_frame const> frame) {
  link_->send(std::move(frame));
  link_->flush();
}

void coordinator_link::take_leave(network_turn& turns, std::string const& failure) {
  send(wire::farewell{failure});
  // Over a slow line much may be before it. Of a coordinator that is gone nothing is waited for any more.
  auto const end = network_.now() + std::max(place_.patience, place_.silence + place_.reconnect);
  turns.wait([&] { return unacknowledged() == 0; }, end);
}

void coordinator_link::begin(net::link&, wire::frame_header const& header,
                             std::span<std::byte const> meta,
                             std::vector<std::span<std::byte>>& body) {
  if (header.kind == +wire::kind::control)
    return arriving_.begin(header, meta, arriving_control::of_coordinator_max, body);
  body.push_back(user_.room_for(header, meta));
}

void coordinator_link::more(net::link&, wire::frame_header const&, std::vector<std::span<std::byte>>& body) {
  arriving_.more(body);
}

breakdown breakdown::by(std::exception_ptr const& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (error const& known) {
    return {known.code(), known.what()};
  } catch (std::exception const& other) {
    return {errc::stopped, other.what()};
  } catch (...) {
    return {errc::stopped, "a body threw something that is no std::exception"};
  }
}

void raise(wire::stop_run const& by) {
  if (by.code == errc::lost) throw lost_error(by.sentence);
  throw error(by.code, "the run was ended by another process: " + by.sentence);
}

std::span<std::byte> coordinator_user::room_for(wire::frame_header const& header, std::span<std::byte const>) {
  throw wire::frame_error("a frame of kind " + std::to_string(header.kind) + " came from the coordinator");
}

void coordinator_link::end(net::link&, wire::frame_header const& header) {
  if (header.kind != +wire::kind::control) return user_.frame_arrived();
  wire::control_message const message = wire::decode_control(arriving_.bytes());
  if (auto const* w = std::get_if<wire::welcome>(&message)) {
    is_in_ = true;
    timer_.reset();
    user_.welcomed(*w);
  } else if (std::holds_alternative<wire::come_again>(message)) {
    is_early_ = !is_in_;
  } else {
    user_.told(message);
  }
}

void coordinator_link::lost(net::link&, std::string const& reason, bool expected) {
  // Its connection may break before the goodbye: then who answers next is the next run's, which knows no such session.
  if (std::exchange(is_early_, false)) come_again();
  else if (link_->was_refused() && !is_in_) user_.coordinator_refused(reason);
  else if (!was_there_ && !expected) user_.coordinator_absent(absence(reason));
  else user_.coordinator_lost(reason, expected);
}

/// What was waited for, and how to wait less or longer: it may be started late, or elsewhere.
std::string coordinator_link::absence(std::string const& reason) const {
  std::chrono::duration<double> const waited = network_.now() - began_;
  return fmt::format("waited {:.3g} s for the coordinator at {}, which {}; {}, or RUBATO_PATIENCE to how many seconds "
                     "it may take to start",
                     waited.count(), place_.coordinator.text(), reason, how_to_find_it);
}

}  // namespace rubato::detail
