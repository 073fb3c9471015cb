// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/compare/compare.hpp"

#include <utility>

#include <fmt/format.h>

#include "bench/compare/reference.hpp"

namespace rubato::bench {

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

std::vector<run_result> compare(compare_settings const& settings, workload const& work) {
  progress_bar progress(settings.protocols.size());
  training job = settings.job;
  job.work = &work;
  std::vector<run_result> results;
  for (protocol_choice const& protocol : settings.protocols) {
    results.push_back(run_tuned(protocol, job, settings.learning_rate, settings.tuning, progress));
    progress.advance();
  }
  return results;
}

void set_target(compare_settings& settings, workload const& work) {
  constexpr double share_of_the_way = 0.98;
  if (settings.target == compare_settings::target_kind::automatic)
    settings.job.target = find_reach(work).at(share_of_the_way);
}

}  // namespace rubato::bench
