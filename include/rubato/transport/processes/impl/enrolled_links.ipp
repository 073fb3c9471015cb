// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <utility>
#include <variant>

#include "rubato/transport/processes/enrolled_links.hpp"
#include "rubato/transport/processes/enrolments.hpp"

namespace rubato::detail {

enrolled_links::enrolled_links(user& of, std::unique_ptr<net::network> network, net::deployment const& place,
                               bool background)
    : user_(of), place_(place), network_(std::move(network)), in_background_(background) {
  keeper_wakes_ = network_->threads().make_condition();
}

enrolled_links::~enrolled_links() = default;

void enrolled_links::enroll(wire::registration self, char const* missing) {
  coordinator_.emplace(*network_, static_cast<coordinator_user&>(*this), place_, std::move(self));
  // Who is missing the coordinator says when its patience ends, which may be a little later.
  auto const end = network_->now() + place_.patience + place_.reconnect;
  turn_.wait([&] { return welcome_ || is_broken(); }, end);
  if (broken_) why_->raise();
  if (!welcome_)
    throw lost_error("the coordinator at " + place_.coordinator.text() + " " + missing + " within " +
                     std::to_string(place_.patience.count() / 1000) + " s");
}

void enrolled_links::start_threads() {
  keeper_ = network_->threads().start([this] { keep_up(); });
  if (!in_background_) return;
  try {
    background_ = network_->threads().start([this] { turn_.attend([this] { return background_stops_.load(); }); });
  } catch (...) {  // no thread to be had
    end_threads();
    throw;
  }
}

void enrolled_links::end_threads() {
  if (background_) {
    background_stops_ = true;
    turn_.wake();
    background_->join();
  }
  {
    std::lock_guard const guard(keeping_);
    keeper_stops_ = true;
  }
  keeper_wakes_->notify_all();
  turn_.wake();
  keeper_->join();
}

void enrolled_links::take_leave() {
  leaving_ = true;
  if (!broken_) coordinator_->take_leave(turn_, failure_);
}

net::link::options enrolled_links::limits_to(net::role other, std::uint32_t number) const {
  net::link::options o = between(net::role::worker, other, link_limits(place_));
  o.expected_number = number;
  o.reconnect += place_.silence / 2 + std::chrono::milliseconds(500);
  return o;
}

net::hello enrolled_links::hello_to(std::uint32_t number, wire::secret const& secret) {
  net::hello h;
  h.number = welcome_->process;
  h.incarnation = welcome_->incarnation;
  h.session = fresh_session(*network_);
  h.credential = session_credential(secret, h, number);
  return h;
}

void enrolled_links::tell(wire::control_message const& message) {
  std::lock_guard const mine(turn_);
  tell_in_turn(message);
}

void enrolled_links::tell_in_turn(wire::control_message const& message) {
  if (!broken_) coordinator_->send(message);  // who is lost has said so
}

void enrolled_links::hear_what_is_there() {
  std::lock_guard const mine(turn_);
  network_->poll();
}

void enrolled_links::send_to_coordinator_in_turn(std::shared_ptr<net::reliable_frame const> frame) {
  if (!broken_) coordinator_->send(std::move(frame));
}

// ---- what the coordinator says

void enrolled_links::told(wire::control_message const& message) {
  if (auto const* stop = std::get_if<wire::stop_run>(&message); stop != nullptr && stop->fatal)
    return give_up(stop->code, stop->sentence);
  user_.told(message);
  turn_.stir();
}

void enrolled_links::coordinator_lost(std::string const& reason, bool) {
  give_up(errc::lost, "the coordinator was lost: " + reason);
}

void enrolled_links::coordinator_absent(std::string const& sentence) { give_up(errc::lost, sentence); }

void enrolled_links::coordinator_refused(std::string const& reason) {
  give_up(errc::refused, "the coordinator refused this process: " + reason);
}

void enrolled_links::give_up(errc code, std::string const& sentence) {
  if (broken_ || leaving_) return;
  why_.emplace(code, sentence);
  broken_.store(true, std::memory_order_release);
  user_.broken(sentence);
  turn_.stir();
}

}  // namespace rubato::detail
