// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/advise/race.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include <fmt/format.h>

#include "bench/advise/runs.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

/// A runner-up is looked for up to so many times the best time.
constexpr double runner_up_slack = 4;

enum class state { running, behind, diverged, ended, late, arrived };

struct racer {
  arm what;
  state now = state::running;
  double loss = std::numeric_limits<double>::infinity();  ///< at the last deadline
  run_result run{};                                       ///< once it has arrived
};

class race_track {
 public:
  race_track(std::span<candidate const> candidates, search_options const& options)
      : candidates_(candidates), options_(options) {
    for (std::size_t c = 0; c < candidates.size(); ++c)
      for (double const rate : options.rates) racers_.push_back({.what = {c, rate}});
  }

  race_result finish() {
    if (options_.rates.size() > 1) {
      until_someone_arrives();
    } else {
      until_one_arrives();
    }
    if (std::isfinite(best_)) {
      double const in_time = std::max(options_.first_deadline, options_.slack * best_);
      if (deadline_ < in_time) run_on(in_time);
      find_a_runner_up();
      drop_the_late();
    }
    for (racer& r : racers_)
      if (r.now == state::arrived) result_.arrived.push_back({r.what, {std::move(r.run)}});
    return std::move(result_);
  }

 private:
  void until_someone_arrives() {
    bool halving = true;
    for (double deadline = options_.first_deadline;; deadline *= 2) {
      run_on(deadline);
      if (std::isfinite(best_)) return;
      if (halving) halve();
      if (std::ranges::find(racers_, state::running, &racer::now) != racers_.end()) continue;
      halving = false;
      if (!readmit()) return;
    }
  }

  /// Where each candidate has one rate, halving would drop nobody, and all runs would only be made again and again.
  /// Instead the first in the list that gets there sets the others' deadline.
  void until_one_arrives() {
    for (racer& r : racers_) {
      run_those({&r}, std::numeric_limits<double>::infinity());
      if (std::isfinite(best_)) break;
    }
    deadline_ = 0;  // of the others
  }

  /// Lets all that are running, but for one candidate's, run up to the deadline.
  void run_on(double deadline, std::size_t but = std::numeric_limits<std::size_t>::max()) {
    std::vector<racer*> running;
    for (racer& r : racers_)
      if (r.now == state::running && r.what.candidate != but) running.push_back(&r);
    deadline_ = deadline;
    if (!running.empty()) run_those(running, deadline);
  }

  void run_those(std::vector<racer*> const& running, double deadline) {
    if (options_.progress)
      options_.progress(fmt::format("{} runs {}", running.size(),
                                    std::isfinite(deadline) ? "of " + show_seconds(deadline) : "to the target"));
    std::vector<run_order> orders;
    for (racer const* r : running) orders.push_back({r->what, 0, deadline});
    std::vector<run_result> results = run_all(candidates_, orders, options_.lanes);
    deadline_ = deadline;
    result_.rounds.push_back({.deadline = deadline, .runs = results.size(), .cost = cost_of(results)});
    for (std::size_t i = 0; i < results.size(); ++i) judge(*running[i], std::move(results[i]));
    for (racer const* r : running)
      if (r->now == state::diverged || r->now == state::ended) note_if_gone(r->what.candidate);
  }

  void judge(racer& r, run_result&& run) {
    search_round& round = result_.rounds.back();
    r.loss = loss_at(run, deadline_);
    if (run.seconds_to_target) {
      r.now = state::arrived;
      ++round.arrived;
      best_ = std::min(best_, *run.seconds_to_target);
      r.run = std::move(run);
    } else if (ended_above_target(run, deadline_)) {
      bool const diverged = !std::isfinite(run.final_loss);
      r.now = diverged ? state::diverged : state::ended;
      ++(diverged ? round.diverged : round.ended);
      if (!result_.lowest || loss_at(run, deadline_) < loss_at(*result_.lowest, deadline_))
        result_.lowest = std::move(run);
    }
    if (r.now == state::arrived) r.run.curve = {};
  }

  /// Keeps those that came lowest, and the best of each candidate.
  void halve() {
    std::vector<racer*> order;
    for (racer& r : racers_)
      if (r.now == state::running) order.push_back(&r);
    std::ranges::stable_sort(order, {}, &racer::loss);
    auto const keep = static_cast<std::size_t>(
        std::ceil(options_.keep * static_cast<double>(order.size())));
    std::vector<bool> seen(candidates_.size(), false);
    for (std::size_t i = 0; i < order.size(); ++i) {
      bool const first = !seen[order[i]->what.candidate];
      seen[order[i]->what.candidate] = true;
      if (i < keep || first) continue;
      order[i]->now = state::behind;
      ++result_.rounds.back().behind;
    }
  }

  /// Those that were behind get a second chance, without halving, as nobody that was ahead got there.
  bool readmit() {
    std::size_t n = 0;
    for (racer& r : racers_)
      if (r.now == state::behind) {
        r.now = state::running;
        ++n;
      }
    result_.rounds.back().readmitted = n;
    return n > 0;
  }

  /// The same for the one that came lowest of each candidate but one.
  bool readmit_the_lowest(std::size_t but) {
    std::vector<racer*> lowest(candidates_.size(), nullptr);
    for (racer& r : racers_) {
      racer*& own = lowest[r.what.candidate];
      if (r.now == state::behind && r.what.candidate != but && (own == nullptr || r.loss < own->loss)) own = &r;
    }
    for (racer* const r : lowest)
      if (r != nullptr) {
        r->now = state::running;
        ++result_.rounds.back().readmitted;
      }
    return std::ranges::any_of(lowest, [](racer const* r) { return r != nullptr; });
  }

  void find_a_runner_up() {
    auto const first = std::ranges::find(racers_, state::arrived, &racer::now);
    std::size_t const only = first->what.candidate;
    auto const another = [&] {
      return std::ranges::any_of(racers_, [&](racer const& r) {
        return r.now == state::arrived && r.what.candidate != only;
      });
    };
    auto const hopeful = [&] {
      return std::ranges::any_of(racers_, [&](racer const& r) {
        return r.now == state::running && r.what.candidate != only;
      });
    };
    double const limit = runner_up_slack * best_;
    while (!another() && hopeful() && deadline_ < limit) run_on(std::min(2 * deadline_, limit), only);
    // What came low at first need not get there, and a rate that was behind may: none is left untried, the lowest of
    // each candidate first, then two of each, and so on.
    for (std::size_t n = 1; !another(); n *= 2) {
      give_up(only);
      bool any = false;
      for (std::size_t i = 0; i < n && readmit_the_lowest(only); ++i) any = true;
      if (!any) return;
      run_on(std::max(deadline_, limit), only);
    }
  }

  /// Those that have had as long as a runner-up may take.
  void give_up(std::size_t but) {
    for (racer& r : racers_)
      if (r.now == state::running && r.what.candidate != but) drop_as_late(r);
  }

  /// Drops who has not arrived, and who has too late, but for a candidate's arm that only is to be runner-up.
  void drop_the_late() {
    double const limit = options_.slack * best_;
    racer* second = nullptr;
    std::size_t const leader = best_candidate();
    for (racer& r : racers_)
      if (r.now == state::arrived && r.what.candidate != leader &&
          (second == nullptr || *r.run.seconds_to_target < *second->run.seconds_to_target))
        second = &r;
    for (racer& r : racers_)
      if (r.now == state::running ||
          (r.now == state::arrived && *r.run.seconds_to_target > limit && &r != second))
        drop_as_late(r);
    for (racer& r : racers_)  // counted when they fell behind
      if (r.now == state::behind) {
        r.now = state::late;
        note_if_gone(r.what.candidate);
      }
  }

  void drop_as_late(racer& r) {
    r.now = state::late;
    ++result_.rounds.back().late;
    note_if_gone(r.what.candidate);
  }

  [[nodiscard]] std::size_t best_candidate() const {
    for (racer const& r : racers_)
      if (r.now == state::arrived && *r.run.seconds_to_target == best_) return r.what.candidate;
    return 0;
  }
  /// Who is only behind may be let in again.
  void note_if_gone(std::size_t candidate) {
    for (racer const& r : racers_)
      if (r.what.candidate == candidate &&
          (r.now == state::running || r.now == state::arrived || r.now == state::behind))
        return;
    std::vector<std::string>& gone = result_.rounds.back().gone;
    if (std::ranges::find(gone, candidates_[candidate].label) == gone.end())
      gone.push_back(candidates_[candidate].label);
  }

  std::span<candidate const> candidates_;
  search_options const& options_;
  std::vector<racer> racers_;
  race_result result_{};
  double deadline_ = 0;
  double best_ = std::numeric_limits<double>::infinity();
};

}  // namespace

race_result race(std::span<candidate const> candidates, search_options const& options) {
  return race_track(candidates, options).finish();
}

}  // namespace rubato::bench
