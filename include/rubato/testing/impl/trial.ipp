// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include "rubato/testing/liar.hpp"
#include "rubato/testing/trial.hpp"

namespace rubato::testing {

std::string_view to_string(fault f) noexcept {
  constexpr std::array<std::string_view, fault_kinds> names{
      "slow paths", "paced paths",  "pieces",       "small rooms", "clocks",  "cuts",      "half cuts",
      "cuts inside", "short blocks", "short pauses", "refusals",    "joiners", "impostors", "kills",
      "vanishings", "restarts",     "long blocks",  "long pauses", "twins",  "liars"};
  return names[static_cast<std::size_t>(f)];
}

namespace detail {

/// One trial: draws what goes wrong, and judges how all end.
class trial {
 public:
  trial(std::uint64_t seed, trial_options const& options, trial_program const& program)
      : seed_(seed), options_(options), program_(program), random_(seed, 0x7121), world_(seed, usual_path()) {
    result_.seed = seed;
    for (std::size_t f = 0; f < fault_kinds; ++f) {
      if (static_cast<fault>(f) == fault::twins || static_cast<fault>(f) == fault::liars) continue;
      // Who is to be restarted must have been killed.
      bool const drawn = random_.chance(static_cast<fault>(f) == fault::restarts ? 0.7 : 0.35);
      wanted_[f] = drawn && std::ranges::find(options.without, static_cast<fault>(f)) == options.without.end();
    }
    if (!options.harm || random_.chance(0.5))
      for (std::size_t f = 0; f < fault_kinds; ++f) wanted_[f] = wanted_[f] && !is_harmful(static_cast<fault>(f));
    for (fault const f : options.with) wanted_[static_cast<std::size_t>(f)] = true;
  }

  trial_result run() {
    add_processes();
    draw_paths();
    if (has(fault::clocks)) draw_clocks();
    if (options_.after_event) world_.on_event(options_.after_event);
    world_.on_log([this](std::string const& who, std::string const& line) {
      constexpr std::string_view let_in = " is here";
      if (who == names_[coordinator_] && line.ends_with(let_in))
        note_let_in(line.substr(0, line.size() - let_in.size()));
    });
    if (has(fault::liars) && !are_peers()) draw_liar();
    for (fault const f : {fault::cuts, fault::half_cuts, fault::cuts_inside, fault::short_blocks, fault::short_pauses,
                          fault::refusals, fault::kills, fault::vanishings, fault::long_blocks, fault::long_pauses,
                          fault::twins})
      if (has(f)) draw(f);
    duration const end = options_.faults_for + options_.bound + 4 * longest();
    bool const all = world_.run(end);
    result_.ends = world_.ends();
    judge(all);
    result_.events = world_.events();
    result_.hash = world_.hash();
    result_.time = world_.now().since_start();
    result_.story = world_.story();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool has(fault f) const { return wanted_[static_cast<std::size_t>(f)]; }
  void note(fault f) {
    ++result_.faults[static_cast<std::size_t>(f)];
    result_.harmful = result_.harmful || is_harmful(f);
  }
  [[nodiscard]] duration some(duration most) { return stretch(most, random_.uniform()); }
  [[nodiscard]] duration longest() const {
    return std::max({options_.place.silence, options_.place.reconnect, std::chrono::milliseconds(100)});
  }
  /// What all must bear.
  [[nodiscard]] duration moment() const { return std::min(options_.place.silence, options_.place.reconnect) / 8; }

  path_options usual_path() {
    path_options p;
    p.latency = std::chrono::microseconds(20 + random_.below(100));
    return p;
  }

  // ---- who takes part

  /// Without servers workers are peers.
  [[nodiscard]] bool are_peers() const { return options_.servers == 0; }
  [[nodiscard]] std::string name_of(net::role as) const {
    return are_peers() && as == net::role::worker ? "peer" : net::to_string(as);
  }
  [[nodiscard]] net::deployment place_of(net::role as, std::optional<std::uint32_t> rank) const {
    net::deployment d = options_.place;
    d.as = as;
    d.rank = rank;
    d.workers = options_.workers;
    d.servers = options_.servers;
    d.coordinator = {.host = "127.0.0.1", .port = 29500};
    if (has_keys_ && rank) d.place_key = std::string(net::to_string(as)) + std::to_string(*rank);
    return d;
  }

  process_number add(std::string name, net::role as, std::optional<std::uint32_t> rank, duration starts) {
    names_.push_back(name);
    return world_.add(
        std::move(name),
        [this, as, rank](simulated_process& me) {
          net::deployment d = place_of(as, rank);
          if (impostor_ == me.number() && !d.place_key.empty()) d.place_key = "none that anybody knows";
          net::network_maker network = me.network();
          if (has(fault::liars) && as == net::role::worker)
            network = lying_network(std::move(network), lies_of(me.number()));
          program_({.place = d, .seed = seed_, .network = std::move(network)}, me);
        },
        starts);
  }

  void add_processes() {
    has_keys_ = random_.chance(0.5);
    duration const spread = random_.chance(0.5) ? duration::zero() : duration(std::chrono::milliseconds(5));
    for (std::uint32_t s = 0; s < options_.servers; ++s) places_.emplace_back(net::role::server, s);
    for (std::uint32_t w = 0; w < options_.workers; ++w) places_.emplace_back(net::role::worker, w);
    for (auto const& [as, rank] : places_)
      add(rank ? fmt::format("{} {}", name_of(as), *rank) : name_of(as), as, rank, some(spread));
    members_ = static_cast<process_number>(places_.size());
    if (has(fault::joiners))
      for (std::uint64_t n = 1 + random_.below(2); n != 0; --n) {
        late_.insert(add("late " + name_of(net::role::worker), net::role::worker, {}, some(options_.faults_for)));
        note(fault::joiners);
      }
    if (has(fault::impostors)) {
      auto const whose = static_cast<std::size_t>(random_.below(members_));
      impostor_ = add(names_[whose], places_[whose].first, places_[whose].second, some(options_.faults_for));
      note(fault::impostors);
    }
  }

  // ---- what goes wrong

  void draw_paths() {
    auto const n = static_cast<process_number>(names_.size());
    std::array const kinds{fault::slow_paths, fault::paced_paths, fault::pieces, fault::small_rooms};
    for (fault const f : kinds)
      if (has(f)) note(f);
    if (std::ranges::none_of(kinds, [&](fault f) { return has(f); })) return;
    for (process_number a = 0; a < n; ++a)
      for (process_number b = 0; b < n; ++b) {
        path_options p = usual_path();
        if (has(fault::slow_paths) && random_.chance(0.7)) {
          p.latency = some(moment() / 8);
          if (random_.chance(0.7)) p.jitter = some(moment() / 8);
        }
        if (has(fault::paced_paths)) p.bandwidth = 100'000 + random_.below(10'000'000);
        if (has(fault::pieces)) p.piece_max = 1 + random_.below(300);
        if (has(fault::small_rooms)) p.room = 64 + random_.below(3000);
        world_.set_path(a, b, p);
      }
  }

  void draw_clocks() {
    note(fault::clocks);
    for (process_number p = 0; p < names_.size(); ++p) {
      speeds_[p] = 0.8 + 0.45 * random_.uniform();
      world_.set_clock(p, speeds_[p], some(std::chrono::hours(1)));
    }
  }

  [[nodiscard]] process_number somebody() { return static_cast<process_number>(random_.below(names_.size())); }
  [[nodiscard]] process_number some_worker() {
    return static_cast<process_number>(1 + options_.servers + random_.below(names_.size() - 1 - options_.servers));
  }
  /// Two that talk to each other: a worker and a server, or two peers, or the coordinator and anybody else.
  [[nodiscard]] std::pair<process_number, process_number> two() {
    process_number const w = some_worker();
    if (random_.chance(0.5)) {
      if (!are_peers()) return {w, static_cast<process_number>(1 + random_.below(options_.servers))};
      if (process_number const other = some_worker(); other != w) return {w, other};
    }
    auto const other = static_cast<process_number>(1 + random_.below(names_.size() - 1));
    return {random_.chance(0.5) ? w : other, coordinator_};
  }

  void draw(fault f) {
    std::uint64_t const times = is_harmful(f) ? 1 + random_.below(2) : 1 + random_.below(5);
    for (std::uint64_t n = times; n != 0; --n)
      world_.at(some(options_.faults_for), [this, f] { happen(f); });
  }

  void happen(fault f) {
    if (f == fault::cuts || f == fault::half_cuts || f == fault::cuts_inside) return cut(f);
    if (f == fault::short_blocks || f == fault::long_blocks) return block(f);
    process_number const p = somebody();
    // Mostly workers: without them the others go on.
    if (f == fault::kills || f == fault::vanishings) return kill(f, random_.chance(0.5) ? some_worker() : p);
    if (f == fault::twins) return start_twin();
    note(f);
    if (f == fault::refusals) return world_.refuse(p, some(moment()));
    if (f == fault::short_pauses) return world_.pause(p, some(moment()));
    endanger(p);
    duration const time = longest() + some(3 * longest());
    world_.pause(p, time);
    until_[p] = std::max(until_[p], world_.now() + time);
  }

  /// Breaks may follow one another for as long as there are faults. Who has tried to come back meanwhile waits up to as
  /// long again before it tries once more, since its delays double, and then needs some trips.
  [[nodiscard]] bool breaks_may_cost() const {
    return options_.place.reconnect <= 2 * (options_.faults_for + moment()) + 2 * moment();
  }

  void cut(fault f) {
    auto [a, b] = two();
    if (random_.chance(0.5)) std::swap(a, b);
    note(f);
    if (breaks_may_cost()) {
      result_.harmful = true;
      endanger(a);
      endanger(b);
    }
    if (f == fault::cuts) (void)world_.cut(a, b);
    if (f == fault::half_cuts) (void)world_.cut_unnoticed(a, b);
    if (f != fault::cuts_inside) return;
    world_.cut_after(a, b, random_.below(random_.chance(0.4) ? 100 : 1 + options_.frame));
  }

  void block(fault f) {
    auto const [a, b] = two();
    bool const both = random_.chance(0.4);
    bool const forth = both || random_.chance(0.5);
    duration const time = f == fault::short_blocks ? some(moment()) : longest() + some(3 * longest());
    note(f);
    if (is_harmful(f)) {
      endanger(a);
      endanger(b);
    }
    if (forth) world_.block(a, b, time);
    if (both || !forth) world_.block(b, a, time);
  }

  /// As by a launcher that takes a worker for dead. The last life goes on: at once; when it has stood still; or without
  /// the coordinator, so that it does not hear that it has been given up. What it sends may be late.
  void start_twin() {
    auto const of = static_cast<process_number>(1 + options_.servers + random_.below(options_.workers));
    if (!world_.is_alive(of)) return;
    note(fault::twins);
    endanger(of);
    duration const time = random_.chance(0.5) ? some(moment()) : some(2 * longest());
    if (random_.chance(0.3)) world_.pause(of, time);
    else if (random_.chance(0.7)) world_.block(coordinator_, of, time);
    if (random_.chance(0.5))  // what it has sent comes when the next life is there
      for (process_number s = 1; s <= options_.servers; ++s) world_.block(of, s, time);
    until_[of] = std::max(until_[of], world_.now() + time);
    duration const after = some(random_.chance(0.3) ? time : duration(std::chrono::milliseconds(5)));
    process_number const twin = add(names_[of], places_[of].first, places_[of].second, after);
    twins_.insert(twin);
    world_.at(world_.now().since_start() + after, [this, twin] {  // it takes the place of another one that came
      for (process_number const other : twins_)
        if (other != twin && names_[other] == names_[twin] && world_.is_alive(other)) endanger(other);
    });
  }

  void draw_liar() {
    process_number const p = some_worker();
    world_.at(some(options_.faults_for), [this, p] {
      endanger(p);
      liar_ = p;
      lies_left_ = 1 + random_.below(3);
    });
  }

  /// Lies that this process is to tell, once its time has come.
  [[nodiscard]] lies lies_of(process_number p) {
    auto const next = [this, p]() -> std::optional<lie> {
      if (liar_ != p || lies_left_ == 0) return {};
      return static_cast<lie>(random_.below(lie_kinds));
    };
    auto const told = [this, p](lie what) {
      --lies_left_;
      note(fault::liars);
      world_.tell(fmt::format("{} lies: {}", names_[p], to_string(what)));
    };
    return {.next = next, .told = told};
  }

  void kill(fault f, process_number p) {
    if (!world_.is_alive(p)) return;
    note(f);
    endanger(p);
    world_.kill(p, f == fault::kills ? death::closes : death::vanishes);
    killed_.insert(p);
    if (p == coordinator_) coordinator_gone_ = world_.now();
    if (!has(fault::restarts) || random_.chance(0.2)) return;
    note(fault::restarts);
    if (p == coordinator_) coordinator_gone_.reset();
    if (random_.chance(0.4)) return world_.restart(p, some(2 * longest()));
    world_.restart(p, some(std::chrono::milliseconds(5)));
    if (are_peers() || random_.chance(0.5)) return;
    note(fault::short_blocks);  // and servers are late to say that they have heard of it
    duration const time = some(moment());
    world_.block(static_cast<process_number>(1 + random_.below(options_.servers)), coordinator_, time);
  }

  /// Of a server or the coordinator, everybody.
  void endanger(process_number p) {
    in_danger_.insert(p);
    if (!options_.endangered) return;
    bool const is_of_all = whose(p) <= options_.servers;
    for (process_number n = is_of_all ? 0 : p; n < (is_of_all ? names_.size() : p + 1); ++n) options_.endangered(n);
  }

  /// The process whose place this one has, or wants.
  [[nodiscard]] process_number whose(process_number p) const {
    return impostor_ == p ? static_cast<process_number>(std::ranges::find(names_, names_[p]) - names_.begin()) : p;
  }

  // ---- how it ends

  void judge(bool all) {
    findings found;
    places_taken_ = std::ranges::count_if(result_.ends, [this](process_end const& e) {
      return e.ended && e.failure.empty() && late_.contains(e.number);
    });
    for (process_end const& e : result_.ends) {
      if (!e.ended && (e.started || !all))
        found.add(e.name, e.killed ? " (which was killed)" : "", " has not ended ",
                  to_seconds(options_.bound), " s after the last fault");
      if (e.killed || !e.ended) continue;
      judge_time(e, found);
      if (!e.failure.empty()) judge_failure(e, found);
    }
    judge_places(found);
    result_.found = found.take();
  }

  /// Of two processes with one place that end well the second one has had it after the first: it took part in what was
  /// left of the run, or in another one.
  void judge_places(findings& found) const {
    std::map<std::string, std::vector<process_end const*>> well;
    for (process_end const& e : result_.ends)
      if (e.ended && !e.killed && e.failure.empty()) well[e.name].push_back(&e);
    for (auto& [name, ends] : well) {
      if (ends.size() < 2 || name.starts_with("late ") || has_restarted(name) || has_twin(name)) continue;
      std::ranges::sort(ends, {}, &process_end::at);
      for (std::size_t i = 1; i < ends.size(); ++i)
        if (!came_after(name, *ends[i - 1], *ends[i])) {
          found.add("2 processes that are ", name, " end well");
          break;
        }
    }
  }

  /// The coordinator calls peers workers, too.
  void note_let_in(std::string name) {
    std::string const worker = net::to_string(net::role::worker);
    if (name.starts_with(worker)) name = name_of(net::role::worker) + name.substr(worker.size());
    let_in_[name].push_back(world_.now());
    lets_in_.push_back(world_.now());
  }

  /// A process may go on for a moment after it has left its place.
  [[nodiscard]] bool came_after(std::string const& name, process_end const& first, process_end const& second) const {
    if (second.began >= first.at) return true;
    if (name == names_[coordinator_])  // it may have stood still until then
      return std::ranges::any_of(lets_in_, [&](time_point t) { return t >= first.at && t < second.at; });
    auto const at = let_in_.find(name);
    if (at == let_in_.end()) return false;
    return std::ranges::any_of(at->second, [&](time_point t) {
      return t + 6 * moment() >= first.at && t > second.began && t < second.at && t > at->second.front();
    });
  }

  /// Who has been with a coordinator that is gone for good notices within the times that the place says, and a
  /// connection that is being made does not lengthen them.
  void judge_time(process_end const& e, findings& found) {
    if (!coordinator_gone_ || e.at < *coordinator_gone_ || e.number >= members_) return;
    if (until_.contains(e.number) && until_.at(e.number) > *coordinator_gone_) return;
    if (impostor_ && names_[*impostor_] == names_[coordinator_]) return;
    for (char const* never_there : {"waited", "could not be reached", "did not have all",
                                    "gave this peer no number"})
      if (e.failure.find(never_there) != std::string::npos) return;
    double const speed = speeds_.contains(e.number) ? speeds_.at(e.number) : 1.0;
    duration const own = options_.place.silence * 11 / 8 + options_.place.reconnect;
    duration const most = stretch(own, 1 / speed) + 6 * moment();
    if (e.at - *coordinator_gone_ > most)
      found.add(e.name, " ends ", to_seconds(e.at - *coordinator_gone_), " s after the coordinator, expected within ",
                to_seconds(most));
  }

  [[nodiscard]] bool has_twin(std::string const& name) const {
    return std::ranges::any_of(twins_, [&](process_number p) { return names_[p] == name; });
  }
  /// Of peers also the whole run: a coordinator that begins anew begins another one.
  [[nodiscard]] bool has_restarted(std::string const& name) const {
    return std::ranges::any_of(killed_, [&](process_number p) {
      return names_[p] == name || (are_peers() && whose(p) == coordinator_);
    });
  }

  void judge_failure(process_end const& e, findings& found) {
    constexpr std::array expected{errc::lost, errc::refused, errc::stopped, errc::io};
    if (!e.code || std::ranges::find(expected, *e.code) == expected.end())
      return found.add(e.name, " fails: ", e.failure);
    bool const may_fail = result_.harmful || is_doubtful(e);
    if ((may_fail && names_somebody(e)) || has_lost_its_place(e)) return;
    found.add(e.name,
              may_fail ? " ends with an error that names nobody who was lost: "
                       : " fails, although nothing has happened that may cost a process: ",
              e.failure);
  }

  /// Who comes when all is over, or for a place that somebody has.
  [[nodiscard]] bool is_doubtful(process_end const& e) const {
    if (late_.contains(e.number) || twins_.contains(e.number)) return true;
    return impostor_ && e.name == names_[*impostor_];
  }

  /// Who comes without a number gets the first that is free: also that of one who is not there yet, once for each.
  [[nodiscard]] bool has_lost_its_place(process_end const& e) {
    if (e.number <= options_.servers || e.number >= members_ || places_taken_ == 0) return false;
    --places_taken_;
    return true;
  }

  [[nodiscard]] bool names_somebody(process_end const& e) const {
    auto const says = [&](std::string const& name) { return e.failure.find(name) != std::string::npos; };
    bool const any = says(name_of(net::role::worker)) || says("server") || says("coordinator");
    if (is_doubtful(e)) return any || says("run is over") || says("in use");
    // Of several it gives the numbers only; who was given up itself is told that it was, and who comes anew later that
    // it is too late.
    for (char const* said : {"the run waits for", "did not have all servers", "this process", "the run is over"})
      if (says(said)) return true;
    if (in_danger_.contains(e.number) && any) return true;
    for (process_number const p : in_danger_)
      if (says(whose(p) < members_ ? names_[p] : name_of(net::role::worker) + ' ')) return true;
    return std::ranges::any_of(result_.ends, [&](process_end const& other) {
      return other.ended && other.number != e.number && other.at <= e.at && says(other.name);
    });
  }

  std::uint64_t seed_;
  trial_options const& options_;
  trial_program const& program_;
  random_stream random_;
  std::array<bool, fault_kinds> wanted_{};
  trial_result result_;
  std::vector<std::string> names_;
  static constexpr process_number coordinator_ = 0;  ///< then servers, workers, and who comes late
  process_number members_ = 0;  ///< who is there from the beginning
  /// Of members, by number.
  std::vector<std::pair<net::role, std::optional<std::uint32_t>>> places_{{net::role::coordinator, std::nullopt}};
  std::set<process_number> late_;
  std::set<process_number> twins_;
  std::optional<process_number> impostor_;
  std::optional<process_number> liar_;
  std::uint64_t lies_left_ = 0;
  std::map<std::string, std::vector<time_point>> let_in_;  ///< by place, as its coordinator says
  std::vector<time_point> lets_in_;  ///< the same of whomever
  std::ptrdiff_t places_taken_ = 0;  ///< by those who came late, at most
  std::set<process_number> in_danger_;
  std::set<process_number> killed_;
  std::map<process_number, double> speeds_;      ///< of clocks
  std::map<process_number, time_point> until_;   ///< those that stand still for long
  std::optional<time_point> coordinator_gone_;   ///< for good
  bool has_keys_ = false;
  world world_;
};

}  // namespace detail

trial_result run_trial(std::uint64_t seed, trial_options const& options, trial_program const& program) {
  return detail::trial(seed, options, program).run();
}

std::string trial_result::text() const {
  std::string all = fmt::format("seed {}:", seed);
  for (auto const& sentence : found) all += "\n  " + sentence;
  all += fmt::format("\n  the last of {} events:", events);
  for (auto const& line : story) all += "\n    " + line;
  return all;
}

sentences check_under_faults(trial_options const& options, trial_program const& program, std::uint64_t seeds,
                             std::uint64_t first) {
  for (std::uint64_t seed = first; seed < first + seeds; ++seed)
    if (trial_result const r = run_trial(seed, options, program); !r.found.empty()) {
      sentences all = r.found;
      all.front() = fmt::format("seed {}: {}", seed, all.front());
      all.push_back(fmt::format("repeat by run_trial({}, options, program), with the same two", seed));
      all.insert(all.end(), r.story.begin(), r.story.end());
      return all;
    }
  return {};
}

}  // namespace rubato::testing
