// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>
#include <variant>

#include "rubato/core/error.hpp"
#include "rubato/core/printable.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/transport/processes/agreement.hpp"
#include "rubato/transport/processes/number_list.hpp"
#include "rubato/transport/processes/process_control.hpp"

namespace rubato {

namespace {

constexpr std::uint32_t threads_max = 4096;  // workers of one process
constexpr std::size_t quoted_max = 3;        // sentences on those who have gone, and on those who were turned away
constexpr char const* elsewhere = "it is at another stage than the others";

constexpr process_control::place worker_place(std::uint32_t number) { return {net::role::worker, number}; }
constexpr process_control::place server_place(std::uint32_t number) { return {net::role::server, number}; }

std::string name_of(process_control::place p) { return std::string(to_string(p.as)) + " " + std::to_string(p.number); }

std::string process_text(std::uint32_t pid) { return " (process " + std::to_string(pid) + ")"; }

[[noreturn]] void refuse(std::string const& sentence) { throw error(errc::refused, sentence); }

bool asks_for_report(membership_order const& o) {
  return o.what == membership_order::kind::enlist || o.what == membership_order::kind::freeze;
}

void expect(bool allowed, process_control::place from, char const* what) {
  if (!allowed) throw wire::frame_error(name_of(from) + " must not say \"" + what + "\" now");
}

}  // namespace

process_control::process_control(std::span<rules const> protocols, options const& o)
    : options_(o),
      control_(protocols, o.servers, *this),
      servers_(o.servers) {}

// ---- who is there

process_control::enrolment process_control::enroll(wire::registration const& r, wire::secret const& secret) {
  if (over_) refuse("the run is over" + (failure_.empty() ? "" : ": " + failure_));
  agree(r);
  enrolment const e = r.as == net::role::server ? enroll_server(r) : enroll_worker(r, secret);
  gone_.erase(e.at);
  turned_away_.erase({r.as, r.rank});
  turned_away_.erase({e.at.as, e.at.number});
  welcome_all();
  return e;
}

/// By its number and its process. One that is started again is another process, and too late for this run.
bool process_control::was_here(wire::registration const& r) const noexcept {
  if (r.as == net::role::server) {
    auto const is_it = [&r](server const& s) { return s.pid == r.pid; };
    if (!over_ || !failure_.empty()) return false;
    return r.rank ? *r.rank < servers_.size() && is_it(servers_[*r.rank]) : std::ranges::any_of(servers_, is_it);
  }
  return r.as == net::role::worker && someone_is_done_ && std::ranges::any_of(processes_, [&r](auto const& entry) {
    auto const& [number, p] = entry;
    return r.rank.value_or(number) == number && p.pid == r.pid && p.is_done && p.has_finished;
  });
}

/// What is agreed on is what those say who are here: who came first may have been the one that is wrong.
void process_control::agree(wire::registration const& r) {
  if (is_empty() && stage_ == stage_id{}) agreed_ = options_.agreed.empty() ? r.agreed : options_.agreed;
  if (r.agreed == agreed_) return;
  detail::disagreement const d = detail::difference(r.agreed, agreed_);
  std::string const who = r.rank ? name_of({r.as, *r.rank}) : "a " + std::string(to_string(r.as));
  std::string const sentence = who + process_text(r.pid) + " runs another protocol or other tables than " +
                               those_here() + ": it says " + d.here + "; expected " + d.there;
  if (stage_ == stage_id{}) note_turned_away({r.as, r.rank}, sentence);
  refuse(sentence);
}

/// Of as many places as are quoted; another takes the place of the first of them.
void process_control::note_turned_away(wanted_place const& at, std::string const& sentence) {
  if (turned_away_.size() == quoted_max && !turned_away_.contains(at)) turned_away_.erase(turned_away_.begin());
  turned_away_[at] = sentence;
}

bool process_control::is_empty() const noexcept {
  return workers_here() == 0 && std::ranges::none_of(servers_, &server::here);
}

/// "server 0 (process 12) and 2 others".
std::string process_control::those_here() const {
  if (!options_.agreed.empty()) return "the coordinator";
  auto const servers = static_cast<std::size_t>(std::ranges::count(servers_, true, &server::here));
  std::size_t const others = workers_here() + servers - 1;
  std::string more;
  if (others != 0) more = others == 1 ? " and another one" : " and " + std::to_string(others) + " others";
  if (auto const s = std::ranges::find(servers_, true, &server::here); s != servers_.end())
    return name_of(server_place(static_cast<std::uint32_t>(s - servers_.begin()))) + process_text(s->pid) + more;
  auto const w = std::ranges::find_if(processes_, [](auto const& entry) { return entry.second.here; });
  return name_of(worker_place(w->first)) + process_text(w->second.pid) + more;
}

process_control::enrolment process_control::enroll_server(wire::registration const& r) {
  auto const free = std::ranges::find(servers_, false, &server::here);
  std::uint32_t const number =
      r.rank.value_or(static_cast<std::uint32_t>(free - servers_.begin()));
  if (number >= servers_.size())
    refuse("there are " + std::to_string(servers_.size()) + " servers, and no room for number " +
           std::to_string(number));
  if (servers_[number].here) refuse("server " + std::to_string(number) + " is here already");
  servers_[number] = {.listens = r.listens, .here = true, .pid = r.pid};
  tell(server_place(number), wire::welcome{.process = number,
                                           .incarnation = 0,
                                           .workers = options_.workers,
                                           .sends_initial_values = false,
                                           .servers = {}});
  for (auto const& [worker, p] : processes_)
    if (p.here) tell(server_place(number), wire::admission{worker, p.incarnation, p.secret});
  return {server_place(number), 0};
}

process_control::enrolment process_control::enroll_worker(wire::registration const& r, wire::secret const& secret) {
  if (r.as != net::role::worker) refuse("there is one coordinator already");
  std::uint32_t number = 0;
  if (r.rank) number = *r.rank;
  else number = free_number();
  if (r.rank && number >= options_.workers && !processes_.contains(number))  // others have been given by `free_number`
    refuse("this run has " + std::to_string(options_.workers) + " workers, numbered from 0, and no room for number " +
           std::to_string(number) + "; who comes without a number gets the next one");
  auto const [at, fresh] = processes_.try_emplace(number);
  process& p = at->second;
  if (p.here)
    refuse("worker " + std::to_string(number) + " is here already, as process " +
           std::to_string(p.pid));
  std::uint32_t const life = fresh ? 0 : p.incarnation + 1;
  auto workers = std::move(p.workers);
  p = {.incarnation = life, .here = true, .pid = r.pid, .workers = std::move(workers), .secret = secret};
  tell_servers(wire::admission{number, life, secret});
  return {worker_place(number), life};
}

/// Who was lost before the first run is replaced. Later a number below `options::workers` is kept for who comes with it
/// as its rank; one beyond is given again, so that there are no more of them, nor of their workers, than have been here
/// at one time. Its next life is as of a process that was started anew: it has a higher incarnation and takes up the
/// workers, of whom the report then says what the last life has done.
std::uint32_t process_control::free_number() const {
  auto const is_taken = [this](std::uint32_t number) {
    auto const at = processes_.find(number);
    if (at == processes_.end()) return false;
    bool const is_kept = stage_ != stage_id{} && number < options_.workers;
    return is_kept || at->second.here || at->second.is_given_up;
  };
  std::uint32_t number = 0;
  while (is_taken(number)) ++number;
  return number;
}

bool process_control::is_here(std::uint32_t number) const noexcept {
  auto const at = processes_.find(number);
  return at != processes_.end() && at->second.here;
}

std::uint32_t process_control::workers_here() const noexcept {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(processes_, [](auto const& entry) { return entry.second.here; }));
}

bool process_control::is_complete() const noexcept {
  if (stage_ != stage_id{}) return true;
  bool const goes_on_without = gathered_ && options_.when_lost == net::on_loss::go_on;
  return std::ranges::all_of(servers_, &server::here) &&
         (workers_here() >= options_.workers || goes_on_without) && (initialized_ || is_here(0));
}

bool process_control::is_awaited() const noexcept {
  return phase_ == phase::idle &&
         std::ranges::any_of(processes_, [](auto const& entry) { return entry.second.ready; });
}

std::string process_control::attendance() const {
  return std::to_string(std::ranges::count(servers_, true, &server::here)) + " of " +
         std::to_string(servers_.size()) + " servers and " + std::to_string(workers_here()) +
         " of " + std::to_string(options_.workers) + " workers are here" +
         (initialized_ || is_here(0) ? "" : ", without worker 0");
}

bool process_control::is_starting() const noexcept {
  return stage_ == stage_id{} && !over_ && (!is_complete() || is_awaited() || workers_here() == 0);
}

std::string process_control::awaited() const {
  std::vector<std::string> all;
  for (std::string part :
       {absent_servers(), absent_workers(), unready_workers(), cut_off_servers(), cut_off_workers()})
    if (!part.empty()) all.push_back(std::move(part));
  std::string text;
  for (std::size_t i = 0; i < all.size(); ++i) text += (i == 0 ? "" : i + 1 == all.size() ? ", and " : ", ") + all[i];
  std::size_t quoted = 0;
  for (auto at = gone_.begin(); at != gone_.end() && quoted < quoted_max; ++at, ++quoted) text += "; " + at->second;
  for (auto const& entry : turned_away_) text += "; " + entry.second;
  return text;
}

std::string process_control::absent_servers() const {
  detail::number_list absent(static_cast<std::size_t>(std::ranges::count(servers_, false, &server::here)));
  if (absent.has_all()) return "";
  for (std::uint32_t s = 0; s < servers_.size(); ++s)
    if (!servers_[s].here) absent.add(s);
  return absent.text("server");
}

std::string process_control::absent_workers() const {
  bool const lacks = workers_here() < options_.workers;
  std::uint32_t const below = lacks ? options_.workers : initialized_ ? 0 : 1;
  auto const counts = [below](auto const& entry) { return entry.second.here && entry.first < below; };
  detail::number_list absent(below - static_cast<std::size_t>(std::ranges::count_if(processes_, counts)));
  if (absent.has_all()) return "";
  for (std::uint32_t w = 0; !absent.has_all(); ++w)
    if (!is_here(w)) absent.add(w);
  return absent.text("worker");
}

std::string process_control::unready_workers() const {
  auto const is_late = [](auto const& entry) {
    return entry.second.here && entry.second.connected && !entry.second.ready;
  };
  detail::number_list late(is_awaited() ? static_cast<std::size_t>(std::ranges::count_if(processes_, is_late)) : 0);
  if (late.has_all()) return "";
  for (auto const& entry : processes_)
    if (is_late(entry)) late.add(entry.first);
  return late.text("worker") + " (here, but not ready)";
}

namespace {
constexpr char const* cut_off = " (here, but its connection is broken)";
}

std::string process_control::cut_off_servers() const {
  auto const is_cut_off = [](server const& s) { return s.here && !s.connected; };
  detail::number_list gone(static_cast<std::size_t>(std::ranges::count_if(servers_, is_cut_off)));
  if (gone.has_all()) return "";
  for (std::uint32_t s = 0; s < servers_.size(); ++s)
    if (is_cut_off(servers_[s])) gone.add(s);
  return gone.text("server") + cut_off;
}

std::string process_control::cut_off_workers() const {
  auto const is_cut_off = [](auto const& entry) { return entry.second.here && !entry.second.connected; };
  detail::number_list gone(static_cast<std::size_t>(std::ranges::count_if(processes_, is_cut_off)));
  if (gone.has_all()) return "";
  for (auto const& entry : processes_)
    if (is_cut_off(entry)) gone.add(entry.first);
  return gone.text("worker") + cut_off;
}

bool process_control::is_anybody_cut_off() const noexcept {
  return std::ranges::any_of(servers_, [](server const& s) { return s.here && !s.connected; }) ||
         std::ranges::any_of(processes_,
                             [](auto const& entry) { return entry.second.here && !entry.second.connected; });
}

/// Workers need the addresses of all servers.
void process_control::welcome_all() {
  if (!std::ranges::all_of(servers_, &server::here)) return;
  gathered_ = gathered_ || is_complete();
  wire::welcome w{.process = 0,
                  .incarnation = 0,
                  .workers = options_.workers,
                  .sends_initial_values = false,
                  .servers = {}};
  for (server const& s : servers_) w.servers.push_back(s.listens);
  for (auto& [number, p] : processes_) {
    if (!p.here || p.welcomed) continue;
    p.welcomed = true;
    w.process = number;
    w.incarnation = p.incarnation;
    w.sends_initial_values = number == 0 && !initialized_;
    w.secret = p.secret;
    tell(worker_place(number), w);
  }
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
    throw wire::frame_error(name_of(from) + " wants " + std::to_string(m.threads) +
                            " workers, expected at most " + std::to_string(threads_max));
  if (m.protocol >= control_.protocols())
    throw wire::frame_error(name_of(from) + " wants protocol " + std::to_string(m.protocol) +
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
  while (auto const stray = find_stray())  // it came too late for its stage
    dismiss(*stray, errc::refused, elsewhere, parting::done, now);
  if (phase_ != phase::running) return;
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
  }
}

void process_control::begin_when_ready(time_point now) {
  if (phase_ != phase::idle || over_ || !is_complete()) return;
  if (stage_ == stage_id{} && is_anybody_cut_off()) return;
  bool any = false;
  for (auto const& [number, p] : processes_) {
    if (p.here && !p.ready) return;
    any = any || p.here;
  }
  if (!any) return;
  // Who has been started anew does not say what the others are to do.
  auto chosen = std::ranges::find_if(processes_, [](auto const& entry) {
    return entry.second.here && entry.second.has_finished;
  });
  if (chosen == processes_.end())
    chosen = std::ranges::find_if(processes_, [](auto const& entry) { return entry.second.here; });
  wanted_ = chosen->second.wants;
  if (auto const stray = find_stray()) return dismiss(*stray, errc::refused, elsewhere, parting::failed, now);
  begun_with_ = 0;
  for (auto const& [number, p] : processes_)
    if (p.here) begun_with_ += p.threads;
  // Those who are not there any more would have had the others.
  if (lacks_workers() && has_lost_more() && options_.when_lost == net::on_loss::go_on) return put_off();
  begin_stage(now);
}

bool process_control::lacks_workers() const noexcept {
  return wanted_.workers != 0 && begun_with_ != wanted_.workers;
}

/// Nobody begins it. Those who are there learn who is not, and ask for what they can do without.
void process_control::put_off() {
  known_lost_ = lost_now();
  wire::run_over said;
  said.stage = stage_;
  said.lost_nodes = known_lost_;
  said.completed = completion::not_begun;
  for (auto& [number, p] : processes_) {
    if (!p.here) continue;
    p.ready = false;
    tell(worker_place(number), said);
  }
}

/// All run the same stages one after the other. Who is at another one would train by other rules than the
/// rest.
std::optional<std::uint32_t> process_control::find_stray() const {
  for (auto const& [number, p] : processes_)
    if (p.here && p.ready &&
        (p.wants.protocol != wanted_.protocol || p.wants.changes_tables != wanted_.changes_tables ||
         p.wants.recover != wanted_.recover || p.wants.step != wanted_.step || p.wants.workers != wanted_.workers ||
         p.wants.keeper != wanted_.keeper))
      return number;
  return std::nullopt;
}

/// It goes, and the others go on without it.
void process_control::dismiss(std::uint32_t number, errc code, std::string const& sentence, parting how,
                              time_point now) {
  processes_.at(number).is_given_up = true;
  tell(worker_place(number), wire::stop_run{stage_, true, true, code, sentence});
  lose_process(number, sentence, how, now);
}

void process_control::begin_stage(time_point now) {
  phase_ = phase::running;
  stage_ = stage_id{stage_.value() + 1};
  gone_.clear();
  turned_away_.clear();
  began_ = ended_ = now;
  stopping_ = false;
  ended_by_.clear();
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
    if (!p.here) continue;
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
    throw wire::frame_error(name_of(from) + " speaks for worker " + std::to_string(w.value()) +
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
  if (!in_stage(m.stage) || stopping_) return;
  if (!m.failed || options_.when_lost == net::on_loss::end)
    return stop(m.failed, m.code, m.sentence);
  dismiss(from.number, m.code, m.sentence, parting::failed, now);
}

void process_control::stop(bool failed, errc code, std::string const& sentence) {
  if (std::exchange(stopping_, true)) return;
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
    }
  close_when_left();
  begin_when_ready(now);  // who came too late for this run is ready for the next
}

// ---- losses

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
      name_of(server_place(number)) + " (" + printable(s.listens, 200) + ") was lost: " + reason;
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
  bool const is_cut_off = is_at_work(p);
  bool const takes_part = std::exchange(p.takes_part, false);
  if (takes_part) {
    report_.crashes += 1;
    if (can_run_again()) note_lost(number);
    if (options_.when_lost == net::on_loss::end) {
      if (!stopping_) ended_by_ = sentence;
      stop(true, errc::lost, sentence);
    } else if (can_run_again() && is_cut_off) {
      stop(false, errc::lost, sentence);  // the others are to begin it again
    }
    if (is_cut_off) report_.completed = completion::cut_off;
    for (worker_id const w : p.workers)
      if (members_[w.index()].now != standing::over) lose_worker(w, now);
    ended_ = now;
  }
  // After the orders, so that servers drop by those whom they concern.
  tell_servers(wire::expel{number, p.incarnation});
  bool const another_may_come = stage_ == stage_id{} && how == parting::gone;
  if (!takes_part && !another_may_come && how != parting::done && options_.when_lost == net::on_loss::end)
    return fail(sentence);
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
  std::vector<std::uint32_t> lost;
  for (std::uint32_t w = 0; w < options_.workers; ++w)
    if (!is_here(w)) lost.push_back(w);
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
  return phase_ == phase::running && is_at_work(p) && wanted_.protocol < options_.moves_tables.size() &&
         options_.moves_tables[wanted_.protocol];
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
  tell_workers(wire::stop_run{stage_, true, true, errc::refused,
                              "the run is over: those who took part in it have left"});
  tell_servers(wire::shut_down{failure_});
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
  control_.observe(m.loss, m.at);
}

void process_control::on(place from, wire::tables_wanted const& m, time_point) {
  expect(from.as == net::role::worker, from, "send me the tables");
  if (!in_stage(m.stage)) return;
  expect(has_tables(processes_.at(from.number)), from, "send me the tables");
  tell_run(wire::send_tables{m.stage, m.address, m.session});
}

time_point process_control::next_tick() const {
  if (!control_.has_conductor() || phase_ != phase::running) return time_point::max();
  time_point next = control_.next_tick();
  bool const samples = std::ranges::any_of(processes_, [](auto const& entry) {
    return entry.second.takes_part && entry.second.has_loss;
  });
  if (samples && !sampler_) next = std::min(next, control_.next_sample());
  return next + began_.since_start();
}

void process_control::tick(time_point now) {
  if (!control_.has_conductor() || phase_ != phase::running) return;
  control_.tick(since_begin(now));
  if (sampler_ || control_.next_sample() > since_begin(now)) return;
  for (auto const& [number, p] : processes_)
    if (p.takes_part && p.has_loss) {
      sampler_ = number;
      return tell(worker_place(number), wire::sample_loss{stage_});
    }
}

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
                    .below = {}};
  for (std::uint32_t i = 0; i < cut->size(); ++i) g.below.push_back(cut->of(worker_id{i}));
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
  wire::cut_mark m{.stage = stage_, .c_min = below->c_min(), .below = {}};
  for (std::uint32_t i = 0; i < below->size(); ++i) m.below.push_back(below->of(worker_id{i}));
  tell_servers(m);
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
