// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/printable.hpp"
#include "rubato/transport/processes/process_control.hpp"

// Losses: what they are to those who stay.

namespace rubato {

void process_control::set_connected(place who, bool is_connected, time_point now) {
  if (who.as == net::role::server) servers_.at(who.number).connected = is_connected;
  else processes_.at(who.number).connected = is_connected;
  if (is_connected) begin_when_ready(now);
}

void process_control::lose(place who, std::string const& reason, bool expected, time_point now) {
  if (over_) return;
  if (who.as == net::role::server) lose_server(who.number, reason);
  else lose_process(who.number, reason, expected ? parting::done : parting::gone, now);
}

bool process_control::is_replaceable(place who) const noexcept {
  return who.as == net::role::worker ||
         (stage_ == stage_id{} && std::ranges::none_of(processes_, [](auto const& entry) {
            return entry.second.here && entry.second.welcomed;
          }));
}

void process_control::lose_server(std::uint32_t number, std::string const& reason) {
  server& s = servers_.at(number);
  std::string const sentence =
      server_place(number).name() + " (" + printable(s.listens, 200) + ") was lost: " + reason;
  if (!is_replaceable(server_place(number))) return fail(sentence);
  gone_[server_place(number)] = sentence;
  s.here = false;
  initialized_ = false;  // whoever had sent it values
}

void process_control::fail(std::string const& sentence) {
  failure_ = sentence;
  over_ = true;
  tell_workers(wire::stop_run{stage_, true, true, errc::lost, sentence});
  tell_servers(wire::shut_down{sentence});
}

/// What the loss of a process means for the stage that it took part in.
void process_control::leave_stage(std::uint32_t number, std::string const& sentence, time_point now) {
  process& p = processes_.at(number);
  bool const is_cut_off = is_at_work(p);
  p.takes_part = false;
  report_.crashes += 1;
  last_loss_ = sentence;
  if (can_run_again()) note_lost(number);
  if (options_.when_lost == net::on_loss::end) {
    // Another one may wait for tables that it had, or was to have.
    if (!stopping_ || (!failed_ && moves_tables())) {
      ended_by_ = sentence;
      stop(true, errc::lost, sentence);
    }
  } else if (can_run_again() && is_cut_off) {
    stop(false, errc::lost, sentence);  // the others are to begin it again
  }
  if (is_cut_off) report_.completed = completion::cut_off;
  for (worker_id const w : p.workers)
    if (members_[w.index()].now != standing::over) lose_worker(w, now);
  ended_ = now;
}

void process_control::lose_process(std::uint32_t number, std::string const& reason, parting how, time_point now) {
  process& p = processes_.at(number);
  if (!p.here) {
    p.is_given_up = false;  // it has gone, too, and its number may be given again
    return;
  }
  p.here = p.ready = false;
  someone_is_done_ = someone_is_done_ || (how == parting::done && p.has_finished);
  if (sampler_ == number) sampler_.reset();  // another one is asked
  std::string const sentence =
      "worker " + std::to_string(number) + " (process " + std::to_string(p.pid) + ") was lost: " + reason;
  bool const has_them = keeper_ == number || (has_tables(p) && !can_run_again());
  if (has_them && options_.when_lost == net::on_loss::go_on) return fail(sentence + ", with the tables of its stage");
  bool const took_part = p.takes_part;
  if (took_part) leave_stage(number, sentence, now);
  // After the orders, so that servers drop by those whom they concern.
  bool const another_may_come = stage_ == stage_id{} && how == parting::gone;
  bool const forgets_values = number == 0 && stage_ == stage_id{} && !initialized_;  // it may have given some
  tell_servers(wire::expel{number, p.incarnation, forgets_values});
  bool const is_missed = !took_part && !another_may_come && !is_new(number) && how != parting::done;
  if (is_missed && options_.when_lost == net::on_loss::end) return fail(sentence);
  if (stage_ == stage_id{}) gone_[worker_place(number)] = sentence;
  p.is_done = how == parting::done;
  end_when_over();
  close_when_left();
  begin_when_ready(now);
}

/// Whether the others begin the stage under way again when somebody is lost.
bool process_control::can_run_again() const noexcept {
  return wanted_.recover != recovery::none && options_.when_lost == net::on_loss::go_on;
}

/// For the report, also if another one takes its place in time.
void process_control::note_lost(std::uint32_t number) {
  auto& lost = report_.lost_nodes;
  if (std::ranges::find(lost, number) == lost.end()) lost.push_back(number);
}

/// Whether somebody has been lost of whom the last report has not said so.
bool process_control::has_lost_more() const {
  return std::ranges::any_of(lost_now(), [this](std::uint32_t w) {
    return std::ranges::find(known_lost_, w) == known_lost_.end();
  });
}

std::vector<std::uint32_t> process_control::lost_now() const {
  // A task takes up nobody who comes after its first stage.
  auto const stays_out = [this](std::uint32_t w) {
    return wanted_.step != 0 && is_new(w) && !processes_.at(w).takes_part;
  };
  std::vector<std::uint32_t> lost;
  for (std::uint32_t w = 0; w < options_.workers; ++w)
    if (!is_here(w) || stays_out(w)) lost.push_back(w);
  return lost;
}

/// Whether some of its workers have not ended.
bool process_control::is_at_work(process const& p) const {
  return p.takes_part && std::ranges::any_of(p.workers, [this](worker_id w) {
           return members_[w.index()].now != standing::over;
         });
}

/// Whether a stage in single-machine mode is under way there.
bool process_control::has_tables(process const& p) const {
  return phase_ == phase::running && is_at_work(p) && moves_tables();
}

/// Whether the stage under way is in single-machine mode.
bool process_control::moves_tables() const {
  return wanted_.protocol < options_.moves_tables.size() && options_.moves_tables[wanted_.protocol];
}

/// Nobody is there; or only some who came too late for the last run, and those who were done with it
/// have left: alone they would do it all once more.
bool process_control::is_left() const noexcept {
  return std::ranges::none_of(processes_, [this](auto const& entry) {
    return entry.second.here && (!someone_is_done_ || entry.second.has_finished);
  });
}

void process_control::close_when_left() {
  // Without a run they have come if they have said goodbye; those who were lost may be replaced.
  auto const done = [](auto const& entry) { return entry.second.is_done; };
  bool const all_came = std::ranges::all_of(servers_, &server::here) &&
                        (stage_ != stage_id{} || std::ranges::count_if(processes_, done) >= options_.workers);
  if (phase_ != phase::idle || over_ || !all_came || !is_left()) return;
  over_ = true;
  failure_ = ended_by_;
  if (failure_.empty()) failure_ = last_loss_;
  tell_workers(wire::stop_run{stage_, true, true, errc::refused,
                              "the run is over: those who took part in it have left"});
  tell_servers(wire::shut_down{failure_});
}

}  // namespace rubato
