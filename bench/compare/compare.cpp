// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/compare.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/application/application.hpp"
#include "bench/compare/reference.hpp"

namespace rubato::bench {
namespace {

/// How many runs may go side by side. In virtual time the machine does not count, elsewhere they would take it from
/// each other.
std::size_t lanes(training const& job, std::size_t runs) {
  if (job.transport != transport_kind::simulated || runs == 0) return 1;
  return std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), runs);
}

/// Does `work(0)` to `work(n - 1)`, begun in this order.
template <class Work>
void in_lanes(training const& job, std::size_t n, Work work) {
  std::atomic<std::size_t> next = 0;
  auto const do_some = [&] {
    for (std::size_t i; (i = next++) < n;) work(i);
  };
  std::vector<std::future<void>> others(std::max<std::size_t>(1, lanes(job, n)) - 1);
  for (std::future<void>& lane : others) lane = std::async(std::launch::async, do_some);
  do_some();
  for (std::future<void>& lane : others) lane.get();
}

/// That of the settings; 0 for what has none.
std::optional<double> given_rate(compare_settings const& settings) {
  if (settings.job.app != nullptr && !settings.job.app->has_rate()) return 0;
  return settings.learning_rate;
}

/// The middle one of so many runs.
template <class Run>
run_result middle_of(int tries, Run run) {
  repeated all;
  for (int i = 0; i < tries; ++i) all.rounds.push_back(run());
  return all.middle();
}

tuning_result tuned(protocol_choice const& protocol, training const& job, tune_options const& tuning, int tries,
                    progress_bar& progress) {
  return tune(tuning, [&, trial = job](double rate, stop_rule const& stop) mutable {
    progress.show(fmt::format("{}: trying rate {:.3g}", protocol.label(), rate));
    trial.learning_rate = rate;
    trial.stop = stop;
    return middle_of(tries, [&] { return protocol.run(trial); });
  });
}

/// The job as a round of the comparison has it, which the workload must outlive.
training job_of_round(training job, std::size_t round, workload const* work) {
  if (job.transport != transport_kind::simulated) return job;
  if (work != nullptr) job.work = work;
  job.seed += round;
  job.scenario.seed += round;
  return job;
}

/// A comparison of several rounds.
class contest {
 public:
  contest(compare_settings const& settings, subject const& what)
      : settings_(settings),
        what_(what),
        measured_(settings.job.transport != transport_kind::simulated),
        rates_(settings.protocols.size()),
        results_(settings.protocols.size(), repeated{std::vector<run_result>(settings.repeat)}),
        progress_(settings.protocols.size() * (settings.repeat + 1 + (measured_ ? 1 : 0))) {}

  std::vector<repeated> hold() {
    training const& job = settings_.job;
    std::size_t const protocols = settings_.protocols.size();
    in_lanes(job, protocols, [this](std::size_t i) { find_rate(i); });
    if (measured_)
      for (std::size_t i = 0; i < protocols; ++i) (void)run(i, 0, "warming up");
    in_lanes(job, protocols * settings_.repeat, [&](std::size_t k) {
      std::size_t const round = k / protocols, i = (k + (measured_ ? round : 0)) % protocols;
      results_[i].rounds[round] = run(i, round, "round " + std::to_string(round + 1));
    });
    return std::move(results_);
  }

 private:
  void find_rate(std::size_t i) {
    constexpr int tries_in_wall_time = 3;
    if (auto const rate = given_rate(settings_)) rates_[i] = {*rate, {}};
    else
      rates_[i] = tuned(settings_.protocols[i], settings_.job, settings_.tuning, measured_ ? tries_in_wall_time : 1,
                        progress_);
    progress_.advance();
  }

  run_result run(std::size_t i, std::size_t round, std::string const& doing) {
    protocol_choice const& protocol = settings_.protocols[i];
    progress_.show(fmt::format("{}: {}", protocol.label(), doing));
    std::shared_ptr<workload const> const work = measured_ ? nullptr : what_.at(round);
    training job = job_of_round(settings_.job, round, work.get());
    job.learning_rate = rates_[i].learning_rate;
    run_result r = protocol.run(job);
    r.parameters = {};
    r.trials = rates_[i].trials;
    r.round = static_cast<std::uint32_t>(round + 1);
    progress_.advance();
    return r;
  }

  compare_settings const& settings_;
  subject const& what_;
  bool measured_;  ///< in wall time
  std::vector<tuning_result> rates_;
  std::vector<repeated> results_;
  progress_bar progress_;
};

}  // namespace

run_result run_tuned(protocol_choice const& protocol, training job,
                     std::optional<double> learning_rate, tune_options const& tuning,
                     progress_bar& progress) {
  std::vector<tuning_trial> trials;
  if (!learning_rate) {
    tuning_result found = tuned(protocol, job, tuning, 1, progress);
    learning_rate = found.learning_rate;
    trials = std::move(found.trials);
  }
  progress.show(fmt::format("{}: running at rate {:.3g}", protocol.label(), *learning_rate));
  job.learning_rate = *learning_rate;
  run_result r = protocol.run(job);
  r.trials = std::move(trials);
  return r;
}

std::vector<run_result> compare(compare_settings const& settings) {
  progress_bar progress(settings.protocols.size());
  std::vector<run_result> results(settings.protocols.size());
  in_lanes(settings.job, results.size(), [&](std::size_t i) {
    results[i] = run_tuned(settings.protocols[i], settings.job, given_rate(settings), settings.tuning, progress);
    progress.advance();
  });
  return results;
}

std::vector<repeated> compare_rounds(compare_settings const& settings, subject const& what) {
  if (settings.repeat > 1) return contest(settings, what).hold();
  std::vector<repeated> once;
  for (run_result& r : compare(settings)) once.push_back({{std::move(r)}});
  return once;
}

std::int64_t commits_of(training const& job) { return job.app != nullptr ? job.app->commits(job) : job.clocks; }

void set_target(compare_settings& settings) {
  constexpr double share_of_the_way = 0.98;
  if (settings.target == compare_settings::target_kind::automatic)
    settings.job.target = find_reach(settings.job).at(share_of_the_way);
}

}  // namespace rubato::bench
