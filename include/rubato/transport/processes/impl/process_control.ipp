// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <utility>
#include <variant>

#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/server/who_waits.hpp"
#include "rubato/transport/processes/process_control.hpp"

namespace rubato {

namespace {

constexpr std::uint32_t threads_max = 4096;  // workers of one process

/// In what it would take part in another run than the others; nothing where it is the same. Who does would train by
/// other rules than the rest.
std::optional<std::string> objection(wire::ready const& own, wire::ready const& of_others) {
  auto const said = [](wire::ready const& r) {
    constexpr std::array attempts{"one that nothing is kept for", "the first", "a further one"};
    return std::array<std::pair<char const*, std::string>, 8>{
        {{"run", std::to_string(r.run)},
         {"step of its task", std::to_string(r.step)},
         {"stage", std::to_string(r.protocol)},
         {"number of iterations", std::to_string(r.iterations)},
         {"number of workers", std::to_string(r.workers)},
         {"change of tables", r.changes_tables ? "one" : "none"},
         {"attempt", attempts[std::min<std::size_t>(static_cast<std::size_t>(r.recover), attempts.size() - 1)]},
         {"node with the tables", r.keeper ? std::to_string(*r.keeper) : "none"}}};
  };
  auto const its = said(own), theirs = said(of_others);
  auto const [mine, other] = std::ranges::mismatch(its, theirs);
  if (mine == its.end()) return std::nullopt;
  return std::string("it is at another stage than the others: its ") + mine->first + " is " + mine->second +
         ", expected " + other->second;
}

bool asks_for_report(membership_order const& o) {
  return o.what == membership_order::kind::enlist || o.what == membership_order::kind::freeze;
}

}  // namespace

process_control::process_control(std::span<rules const> protocols, options const& o)
    : options_(o),
      control_(protocols, o.servers, *this),
      servers_(o.servers) {}

void process_control::expect(bool allowed, place from, char const* what) {
  if (!allowed) throw wire::frame_error(from.name() + " must not say \"" + what + "\" now");
}

// ---- what processes say

void process_control::receive(place from, wire::control_message const& message, time_point now) {
  if (over_) return;
  if (from.as == net::role::worker) {
    process const& p = processes_.at(from.number);
    if (p.is_given_up) return;  // it may not have heard yet that the others go on without it
    expect(p.here, from, "anything");
  }
  std::visit([&](auto const& m) { on(from, m, now); }, message);
}

template <class Message>
void process_control::on(place from, Message const&, time_point) {
  expect(false, from, "something that is not for the coordinator");
}

void process_control::on(place from, wire::ready const& m, time_point now) {
  expect(from.as == net::role::worker, from, "ready");
  process& p = processes_.at(from.number);
  expect(!p.ready, from, "ready");
  if (m.threads > threads_max)
    throw wire::frame_error(from.name() + " wants " + std::to_string(m.threads) +
                            " workers, expected at most " + std::to_string(threads_max));
  if (m.protocol >= control_.protocols())
    throw wire::frame_error(from.name() + " wants protocol " + std::to_string(m.protocol) +
                            ", expected one below " + std::to_string(control_.protocols()));
  p.ready = true;
  p.wants = m;
  initialized_ = initialized_ || from.number == 0;
  p.threads = m.threads;
  p.has_loss = m.has_loss;
  join_late(now);
  begin_when_ready(now);
}

/// Processes that have become ready join the run under way. One that was lost takes up its workers
/// again, once every server has let its earlier life go.
void process_control::join_late(time_point now) {
  if (phase_ != phase::running || stopping_) return;
  pass_over_those_behind();
  while (auto const found = find_stray())  // it came too late for its stage
    dismiss(found->process, errc::refused, found->why, parting::done, now);
  if (phase_ != phase::running) return;
  bool stops = false;
  for (auto& [number, p] : processes_) {
    if (!p.here || !p.ready || p.takes_part) continue;
    auto const concerns = [&earlier = p.workers](auto const& entry) {
      return std::ranges::find(earlier, entry.second.order.worker) != earlier.end();
    };
    bool const still_there = std::ranges::any_of(unconfirmed_, concerns);
    if (still_there) {
      RUBATO_RARE("a new life waits until servers have let the last one go");
      continue;
    }
    p.workers.resize(std::min<std::size_t>(p.workers.size(), p.threads));
    auto const known = static_cast<std::uint32_t>(p.workers.size());
    for (worker_id const w : new_workers(number, p.threads - known)) p.workers.push_back(w);
    admit(number, p.workers, now);
    stops = stops || p.wants.stops;
  }
  if (stops) stop_as_asked();
}

void process_control::begin_when_ready(time_point now) {
  if (phase_ != phase::idle || over_ || !is_complete()) return;
  if (stage_ == stage_id{} && is_anybody_cut_off()) return;
  // Once there has been a stage nobody waits for who is new, and has yet to get ready: it joins late.
  auto const holds_up = [this](auto const& entry) {
    return entry.second.here && !entry.second.ready && (stage_ == stage_id{} || entry.second.has_finished);
  };
  if (std::ranges::any_of(processes_, holds_up)) return;
  if (std::ranges::none_of(processes_, [](auto const& entry) { return entry.second.ready; })) return;
  // Who has been started anew does not say what the others are to do.
  auto chosen = std::ranges::find_if(processes_, [](auto const& entry) {
    return entry.second.here && entry.second.has_finished;
  });
  if (chosen == processes_.end())  // of those who are new who is further, and in no run before the last one
    chosen = std::ranges::max_element(processes_, {}, [](auto const& entry) {
      return entry.second.ready ? std::int64_t{entry.second.wants.run} : -1;
    });
  if (chosen->second.wants.run < wanted_.run) return pass_over_those_behind();
  wanted_ = chosen->second.wants;
  pass_over_those_behind();
  if (auto const found = find_stray())
    return dismiss(found->process, errc::refused, found->why, is_new(found->process) ? parting::done : parting::failed,
                   now);
  if (std::ranges::any_of(processes_, [](auto const& entry) { return entry.second.ready && entry.second.wants.stops; }))
    return put_off(true);
  begun_with_ = 0;
  for (auto const& [number, p] : processes_)
    if (p.ready) begun_with_ += p.threads;
  // Those who are not there any more would have had the others.
  if (lacks_workers() && has_lost_more() && options_.when_lost == net::on_loss::go_on) return put_off(false);
  begin_stage(now);
}

bool process_control::lacks_workers() const noexcept {
  return wanted_.workers != 0 && begun_with_ != wanted_.workers;
}

/// Nobody begins it. Those who are there learn who is not, and ask for what they can do without; or that it was
/// stopped.
void process_control::put_off(bool stopped) {
  known_lost_ = lost_now();
  was_put_off_ = true;
  wire::run_over said;
  said.lost_nodes = known_lost_;
  said.stopped = stopped;
  pass_over(std::move(said), [](process const&) { return true; });
}

/// Of a cluster who has come later is at a run that the others are done with: it goes on to the next one, without them.
void process_control::pass_over_those_behind() {
  pass_over({}, [this](process const& p) { return !p.takes_part && p.wants.run != 0 && p.wants.run < wanted_.run; });
}

/// For those of who is ready the run that they want is over before it has begun.
template <class Which>
void process_control::pass_over(wire::run_over said, Which which) {
  said.stage = stage_;
  said.completed = completion::not_begun;
  for (auto& [number, p] : processes_) {
    if (!p.ready || !which(p)) continue;
    p.ready = false;
    tell(worker_place(number), said);
  }
}

/// Whether others have been in a stage, and it has not.
bool process_control::is_new(std::uint32_t number) const {
  return stage_ != stage_id{} && !processes_.at(number).has_finished;
}

/// All run the same stages one after the other.
std::optional<process_control::stray> process_control::find_stray() const {
  for (auto const& [number, p] : processes_)
    if (p.here && p.ready)
      if (auto why = objection(p.wants, wanted_)) return stray{number, std::move(*why)};
  return std::nullopt;
}

/// It goes, and the others go on without it.
void process_control::dismiss(std::uint32_t number, errc code, std::string const& sentence, parting how,
                              time_point now) {
  processes_.at(number).is_given_up = true;
  tell(worker_place(number), wire::stop_run{stage_, true, true, code, sentence});
  lose_process(number, sentence, how, now);
}

std::optional<time_point> process_control::waits_since() const {
  auto const longest = control_.longest_wait();
  if (!longest || phase_ != phase::running) return std::nullopt;
  return began_ + longest->second.since_start();
}

std::string process_control::who_waits() const {
  return describe_wait(control_.longest_wait()->first, control_.members().cuts());
}

void process_control::begin_stage(time_point now) {
  phase_ = phase::running;
  stage_ = stage_id{stage_.value() + 1};
  gone_.clear();
  turned_away_.clear();
  began_ = ended_ = now;
  stopping_ = failed_ = false;
  ended_by_.clear();
  last_loss_.clear();
  someone_is_done_ = false;
  sampler_.reset();
  members_.clear();
  unconfirmed_.clear();
  active_ = 0;
  report_ = {};
  control_.begin(stage_, wanted_.protocol);
  for (server& s : servers_) s.stage_over = false;
  tell_servers(wire::begin_stage{stage_, wanted_.protocol, wanted_.changes_tables, wanted_.recover});
  keeper_ = wanted_.keeper;
  for (auto& [number, p] : processes_) {
    p.workers.clear();
    p.takes_part = false;
  }
  for (auto& [number, p] : processes_) {
    if (!p.ready) continue;
    p.workers = new_workers(number, p.threads);
    admit(number, p.workers, now);
  }
  if (lacks_workers())
    stop(true, errc::lost,
         "a stage of " + std::to_string(wanted_.workers) + " workers, but the processes that are there have " +
             std::to_string(begun_with_) + " for it");
  end_when_over();  // where nobody has workers in it
}

std::vector<worker_id> process_control::new_workers(std::uint32_t number, std::uint32_t count) {
  std::vector<worker_id> fresh;
  for (std::uint32_t i = 0; i < count; ++i) {
    fresh.push_back(worker_id{static_cast<std::uint32_t>(members_.size())});
    members_.push_back({.process = number});
  }
  return fresh;
}

/// Tells a process of workers that it has in the run, and the servers of them.
void process_control::admit(std::uint32_t number, std::vector<worker_id> const& workers, time_point now) {
  process& p = processes_.at(number);
  p.takes_part = true;
  bool const evaluates = p.has_loss && control_.has_conductor();
  tell(worker_place(number), wire::run_begins{.stage = stage_,
                                              .count = begun_with_,
                                              .incarnation = p.incarnation,
                                              .workers = workers,
                                              .now = since_begin(now),
                                              .evaluates_loss = evaluates});
  for (worker_id const w : workers) {
    members_[w.index()].now = standing::joining;
    ++active_;
    control_.join(w, incarnation_id{p.incarnation});
  }
}

void process_control::on(place from, wire::add_worker const& m, time_point now) {
  expect(from.as == net::role::worker, from, "add a worker");
  process& p = processes_.at(from.number);
  if (m.stage != stage_ || phase_ != phase::running || stopping_ || !p.takes_part) return;  // too late
  expect(p.workers.size() < threads_max, from, "add a worker");
  std::vector<worker_id> const fresh = new_workers(from.number, 1);
  p.workers.push_back(fresh.front());
  admit(from.number, fresh, now);
}

process_control::member& process_control::member_of(place from, worker_id w) {
  if (from.as != net::role::worker || w.index() >= members_.size() ||
      members_[w.index()].process != from.number)
    throw wire::frame_error(from.name() + " speaks for worker " + std::to_string(w.value()) +
                            ", which is not its own");
  return members_[w.index()];
}

void process_control::on(place from, wire::worker_ended const& m, time_point now) {
  if (!in_stage(m.stage)) return;
  member& who = member_of(from, m.worker);
  if (who.now == standing::over) return;
  who.metrics = m.metrics;
  if (who.now == standing::joining) {
    lose_worker(m.worker, now);  // it never began
  } else {
    end_worker(m.worker);
    control_.leave(m.worker, std::max(m.clock, who.start), since_begin(now));
  }
  ended_ = now;
  end_when_over();
}

void process_control::end_worker(worker_id w) {
  members_[w.index()].now = standing::over;
  --active_;
}

void process_control::lose_worker(worker_id w, time_point now) {
  if (members_[w.index()].now == standing::joining) RUBATO_RARE("a worker was lost while it joined");
  end_worker(w);
  control_.lose(w, since_begin(now));
}

void process_control::on(place from, wire::end_run const& m, time_point now) {
  expect(from.as == net::role::worker, from, "end the run");
  if (!in_stage(m.stage) || (stopping_ && (failed_ || !m.failed))) return;
  if (!m.failed) return stop_as_asked();
  if (options_.when_lost == net::on_loss::end) return stop(true, m.code, m.sentence);
  dismiss(from.number, m.code, m.sentence, parting::failed, now);
}

/// Who has ended by then has done so by itself.
void process_control::stop_as_asked() {
  report_.stopped = active_ != 0;
  stop(false, errc::bad_option, {});
}

/// Of a run that was only to end it is told as well that it has failed.
void process_control::stop(bool failed, errc code, std::string const& sentence) {
  if (stopping_ && (failed_ || !failed)) return;
  stopping_ = true;
  failed_ = failed;
  tell_run(wire::stop_run{stage_, false, failed, code, sentence});
}

void process_control::on(place from, wire::farewell const& m, time_point now) {
  expect(from.as == net::role::worker, from, "farewell");
  bool const is_done = m.failure.empty();
  lose_process(from.number, is_done ? "it has left" : m.failure, is_done ? parting::done : parting::failed, now);
}

// ---- what servers say

void process_control::on(place from, wire::order_done const& m, time_point now) {
  expect(from.as == net::role::server, from, "an order is done");
  if (m.order.stage != stage_) return;
  auto const at = unconfirmed_.find(m.order.epoch);
  expect(at != unconfirmed_.end() && at->second.missing[from.number], from, "an order is done");
  membership_order const given = at->second.order;
  expect(m.report.has_value() == asks_for_report(given), from, "an order is done");
  at->second.missing[from.number] = false;
  if (m.report) control_.reported(given, *m.report, since_begin(now));
  if (std::ranges::none_of(at->second.missing, std::identity{})) {
    unconfirmed_.erase(at);
    if (given.what == membership_order::kind::start) started(given, now);
  }
  join_late(now);
  end_when_over();
}

/// The process may have ended meanwhile, and begun a new life.
void process_control::started(membership_order const& o, time_point now) {
  member& m = members_[o.worker.index()];
  if (m.now != standing::joining || processes_.at(m.process).incarnation != o.incarnation.value()) return;
  m.now = standing::live;
  m.start = o.clock;
  control_.started(o, since_begin(now));
}

void process_control::start(worker_id w, starting_point const& at) {
  tell(worker_place(members_[w.index()].process), wire::worker_starts{stage_, w, at});
}

void process_control::order(membership_order const& o) {
  unconfirmed_[o.epoch] = {o, std::vector<bool>(servers_.size(), true)};
  tell_servers(wire::server_order{o, members_[o.worker.index()].process});
}

void process_control::end_when_over() {
  if (phase_ != phase::running || active_ != 0 || !unconfirmed_.empty()) return;
  phase_ = phase::ending;
  ended_ = std::max(ended_, began_);
  tell_servers(wire::end_stage{stage_});
}

void process_control::on(place from, wire::stage_over const& m, time_point now) {
  expect(from.as == net::role::server, from, "the stage is over");
  if (m.stage != stage_) return;
  server& s = servers_.at(from.number);
  expect(phase_ == phase::ending && !s.stage_over, from, "the stage is over");
  s.stage_over = true;
  report_.updates = std::max(report_.updates, m.counters.commits);
  report_.servers += m.counters;
  report_.versions_peak = std::max(report_.versions_peak, m.versions_peak);
  if (std::ranges::all_of(servers_, &server::stage_over)) finish_stage(now);
}

void process_control::finish_stage(time_point now) {
  report_.stage = stage_;
  report_.elapsed = ended_ - began_;
  for (member const& m : members_) report_.workers.push_back(m.metrics);
  auto& lost = report_.lost_nodes;
  std::ranges::copy(lost_now(), std::back_inserter(lost));
  std::ranges::sort(lost);
  lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
  known_lost_ = lost;
  for (pace_change const& c : control_.changes()) {
    report_.change_times.push_back(c.at);
    report_.change_values.push_back(c.value);
    report_.change_reasons.emplace_back(c.reason);
  }
  tell_run(report_);
  control_.end();
  phase_ = phase::idle;
  for (auto& [number, p] : processes_)
    if (std::exchange(p.takes_part, false)) {
      p.ready = false;
      p.has_finished = true;
      last_loss_.clear();  // somebody has come to the end
    }
  close_when_left();
  begin_when_ready(now);  // who came too late for this run is ready for the next
}

// ---- the conductor

void process_control::on(place from, wire::pace_note const& m, time_point now) {
  expect(from.as == net::role::worker, from, "a note on its pace");
  if (!in_stage(m.stage) || !control_.has_conductor()) return;
  (void)member_of(from, m.report.from);
  if (m.report.loss) control_.observe(*m.report.loss, since_begin(now));
  else control_.committed(m.report.from, m.report.clock, since_begin(now));
}

void process_control::on(place from, wire::loss_sample const& m, time_point) {
  expect(from.as == net::role::worker, from, "a loss");
  if (!in_stage(m.stage) || sampler_ != from.number) return;
  sampler_.reset();
  // By a clock that is behind it could be of before: the conductor would ask for it again.
  control_.observe(m.loss, std::max(m.at, sample_due_));
}

void process_control::on(place from, wire::tables_wanted const& m, time_point) {
  expect(from.as == net::role::worker, from, "send me the tables");
  if (!in_stage(m.stage)) return;
  expect(has_tables(processes_.at(from.number)), from, "send me the tables");
  tell_run(wire::send_tables{m.stage, m.address, m.session});
}

time_point process_control::next_tick() const {
  if (!control_.has_conductor() || phase_ != phase::running || awaits_loss()) return time_point::max();
  time_point next = control_.next_tick();
  if (!sampler_ && find_evaluator()) next = std::min(next, control_.next_sample());
  return next + began_.since_start();
}

void process_control::tick(time_point now) {
  if (!control_.has_conductor() || phase_ != phase::running) return;
  ask_for_loss(since_begin(now));
  if (!awaits_loss()) control_.tick(since_begin(now));
}

void process_control::ask_for_loss(time_point now) {
  if (sampler_ || control_.next_sample() > now) return;
  sampler_ = find_evaluator();
  if (!sampler_) return;
  sample_due_ = control_.next_sample();
  tell(worker_place(*sampler_), wire::sample_loss{stage_});
}

std::optional<std::uint32_t> process_control::find_evaluator() const {
  auto const found = std::ranges::find_if(processes_, [](auto const& entry) {
    return entry.second.takes_part && entry.second.has_loss;
  });
  return found == processes_.end() ? std::nullopt : std::optional(found->first);
}

/// A loss of the moment of a tick is what the conductor decides by then. Once that has passed, it would ask for none.
bool process_control::awaits_loss() const { return sampler_ && control_.next_sample() == control_.next_tick(); }

void process_control::command(worker_id w, conductor::order const& order) {
  if (members_[w.index()].now != standing::over)
    tell(worker_place(members_[w.index()].process), wire::pace_command{stage_, w, order});
}

// ---- cuts

void process_control::on(place from, wire::cut_request const& m, time_point now) {
  expect(from.as == net::role::worker && control_.synchronized(), from, "give me a cut");
  if (m.from.stage != stage_) return;
  (void)member_of(from, m.from.worker);
  (void)control_.ask_cut({m.from, m.clock, m.bound, {}}, m.pull, since_begin(now));
}

void process_control::grant(worker_id w, shared_cut const& cut, duration held) {
  std::uint32_t const number = members_[w.index()].process;
  wire::cut_grant g{.to = {w, incarnation_id{processes_.at(number).incarnation}, stage_},
                    .held = held,
                    .c_min = cut->c_min(),
                    .below = cut->below()};
  tell(worker_place(number), std::move(g));
}

void process_control::on(place from, wire::cut_release const& m, time_point now) {
  expect(from.as == net::role::worker && control_.synchronized(), from, "a cut has been read");
  if (m.from.stage != stage_) return;
  (void)member_of(from, m.from.worker);
  control_.release_cut(m.from.worker, since_begin(now));
}

void process_control::on(place from, wire::progress_note const& m, time_point now) {
  expect(from.as == net::role::server && control_.synchronized(), from, "progress");
  if (m.stage != stage_) return;
  control_.progress(server_id{from.number}, m.worker, m.received, since_begin(now));
}

void process_control::mark(shared_cut const& below) {
  tell_servers(wire::cut_mark{.stage = stage_, .c_min = below->c_min(), .below = below->below()});
}

// ---- telling

void process_control::tell_servers(wire::control_message const& message) {
  for (std::uint32_t s = 0; s < servers_.size(); ++s)
    if (servers_[s].here) tell(server_place(s), message);
}
void process_control::tell_run(wire::control_message const& message) {
  for (auto const& [number, p] : processes_)
    if (p.takes_part) tell(worker_place(number), message);
}
void process_control::tell_workers(wire::control_message const& message) {
  for (auto const& [number, p] : processes_)
    if (p.here) tell(worker_place(number), message);
}

}  // namespace rubato
