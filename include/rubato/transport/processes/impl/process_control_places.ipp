// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/printable.hpp"
#include "rubato/transport/processes/agreement.hpp"
#include "rubato/transport/processes/number_list.hpp"
#include "rubato/transport/processes/process_control.hpp"

// Who is there, and for whom the first run waits.

namespace rubato {

namespace {

constexpr std::size_t quoted_max = 3;  // sentences on those who have gone, and on those who were turned away

std::string process_text(std::uint32_t pid) { return " (process " + std::to_string(pid) + ")"; }

/// "workers 3 and 5 (here, but not ready)": the numbers from 0 on that `counts` says, `found` of them in all, and what
/// of them; nothing if there are none. A run may wait for thousands of millions: those that are told are looked for
/// only.
template <class Counts>
std::string listed(char const* role, std::size_t found, Counts counts, char const* what = "") {
  detail::number_list list(found);
  if (list.has_all()) return "";
  for (std::uint32_t n = 0; !list.has_all(); ++n)
    if (counts(n)) list.add(n);
  return list.text(role) + what;
}

/// The same of a map's keys, of whose values `counts` says it.
template <class Map, class Counts>
std::string listed_keys(char const* role, Map const& all, Counts counts, char const* what) {
  detail::number_list list(static_cast<std::size_t>(std::ranges::count_if(all, counts, &Map::value_type::second)));
  if (list.has_all()) return "";
  for (auto const& [number, one] : all)
    if (counts(one)) list.add(number);
  return list.text(role) + what;
}

}  // namespace

void process_control::refuse(std::string const& sentence) { throw error(errc::refused, sentence); }

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
    auto const is_it = [&r](server const& s) { return s.pid == r.pid && s.life == r.life; };
    if (!over_ || !failure_.empty()) return false;
    return r.rank ? *r.rank < servers_.size() && is_it(servers_[*r.rank]) : std::ranges::any_of(servers_, is_it);
  }
  return r.as == net::role::worker && someone_is_done_ && std::ranges::any_of(processes_, [&r](auto const& entry) {
    auto const& [number, p] = entry;
    bool const is_it = p.pid == r.pid && p.life == r.life && r.rank.value_or(number) == number;
    return is_it && p.is_done && p.has_finished;
  });
}

/// What is agreed on is what those say who are here: who came first may have been the one that is wrong.
void process_control::agree(wire::registration const& r) {
  std::string const who =
      (r.rank ? place{r.as, *r.rank}.name() : "a " + std::string(to_string(r.as))) + process_text(r.pid);
  auto const turn_away = [&](std::string const& sentence) {
    if (stage_ == stage_id{}) note_turned_away({r.as, r.rank}, sentence);
    refuse(sentence);
  };
  if (auto const other = detail::difference_of_silence(who, r.silence, options_.silence)) turn_away(*other);
  if (is_empty() && stage_ == stage_id{}) agreed_ = options_.agreed.empty() ? r.agreed : options_.agreed;
  if (r.agreed == agreed_) return;
  detail::disagreement const d = detail::difference(r.agreed, agreed_);
  turn_away(who + " runs another protocol or other tables than " + those_here() + ": it says " + d.here +
            "; expected " + d.there);
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
    return server_place(static_cast<std::uint32_t>(s - servers_.begin())).name() + process_text(s->pid) + more;
  auto const w = std::ranges::find_if(processes_, [](auto const& entry) { return entry.second.here; });
  return worker_place(w->first).name() + process_text(w->second.pid) + more;
}

process_control::enrolment process_control::enroll_server(wire::registration const& r) {
  auto const free = std::ranges::find(servers_, false, &server::here);
  std::uint32_t const number =
      r.rank.value_or(static_cast<std::uint32_t>(free - servers_.begin()));
  if (number >= servers_.size())
    refuse("there are " + std::to_string(servers_.size()) + " servers, and no room for number " +
           std::to_string(number));
  if (servers_[number].here) refuse("server " + std::to_string(number) + " is here already");
  servers_[number] = {.listens = r.listens, .here = true, .pid = r.pid, .life = r.life};
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
  std::uint32_t const incarnation = fresh ? 0 : p.incarnation + 1;
  auto workers = std::move(p.workers);
  p = {.incarnation = incarnation,
       .here = true,
       .pid = r.pid,
       .life = r.life,
       .workers = std::move(workers),
       .secret = secret};
  tell_servers(wire::admission{number, incarnation, secret});
  return {worker_place(number), incarnation};
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
  return stage_ == stage_id{} && !was_put_off_ && !over_ && (!is_complete() || is_awaited() || workers_here() == 0);
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
  auto const found = static_cast<std::size_t>(std::ranges::count(servers_, false, &server::here));
  return listed("server", found, [this](std::uint32_t s) { return !servers_[s].here; });
}

std::string process_control::absent_workers() const {
  bool const lacks = workers_here() < options_.workers;
  std::uint32_t const below = lacks ? options_.workers : initialized_ ? 0 : 1;
  auto const are_here = std::ranges::count_if(
      processes_, [below](auto const& entry) { return entry.first < below && entry.second.here; });
  return listed("worker", below - static_cast<std::size_t>(are_here), [this](std::uint32_t w) { return !is_here(w); });
}

std::string process_control::unready_workers() const {
  if (!is_awaited()) return "";
  return listed_keys(
      "worker", processes_, [](process const& p) { return p.here && p.connected && !p.ready; },
      " (here, but not ready)");
}

namespace {
constexpr char const* cut_off_text = " (here, but its connection is broken)";
}

std::string process_control::cut_off_servers() const {
  auto const is_cut_off = [](server const& s) { return s.here && !s.connected; };
  return listed(
      "server", static_cast<std::size_t>(std::ranges::count_if(servers_, is_cut_off)),
      [&](std::uint32_t s) { return is_cut_off(servers_[s]); }, cut_off_text);
}

std::string process_control::cut_off_workers() const {
  return listed_keys(
      "worker", processes_, [](process const& p) { return p.here && !p.connected; }, cut_off_text);
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

}  // namespace rubato
