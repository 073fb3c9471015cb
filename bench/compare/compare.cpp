// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/compare.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/application/application.hpp"
#include "bench/compare/reference.hpp"

namespace rubato::bench {
namespace {

/// How many protocols may run side by side. In virtual time the machine does not count, elsewhere they
/// would take it from each other.
std::size_t lanes(training const& job, std::size_t protocols) {
  if (job.transport != transport_kind::simulated || protocols == 0) return 1;
  return std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()), protocols);
}

}  // namespace

run_result run_tuned(protocol_choice const& protocol, training job,
                     std::optional<double> learning_rate, tune_options const& tuning,
                     progress_bar& progress) {
  std::vector<tuning_trial> trials;
  if (!learning_rate) {
    auto const try_rate = [&, trial = job](double rate, stop_rule const& stop) mutable {
      progress.show(fmt::format("{}: trying rate {:.3g}", protocol.label(), rate));
      trial.learning_rate = rate;
      trial.stop = stop;
      return protocol.run(trial);
    };
    tuning_result found = tune(tuning, try_rate);
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
  training const& job = settings.job;
  std::optional<double> rate = settings.learning_rate;
  if (job.app != nullptr && !job.app->has_rate()) rate = 0;
  std::vector<run_result> results(settings.protocols.size());
  std::atomic<std::size_t> next = 0;
  auto const run_some = [&] {
    for (std::size_t i; (i = next++) < results.size(); progress.advance())
      results[i] = run_tuned(settings.protocols[i], job, rate, settings.tuning, progress);
  };
  std::vector<std::future<void>> others(lanes(job, results.size()) - 1);
  for (std::future<void>& lane : others) lane = std::async(std::launch::async, run_some);
  run_some();
  for (std::future<void>& lane : others) lane.get();
  return results;
}

std::int64_t commits_of(training const& job) { return job.app != nullptr ? job.app->commits(job) : job.clocks; }

void set_target(compare_settings& settings) {
  constexpr double share_of_the_way = 0.98;
  if (settings.target == compare_settings::target_kind::automatic)
    settings.job.target = find_reach(settings.job).at(share_of_the_way);
}

}  // namespace rubato::bench
