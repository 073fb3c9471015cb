// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/compare/tune.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/workloads.hpp"
#include "bench/result/text.hpp"
#include "bench/train/protocols.hpp"
#include "bench/train/training.hpp"

/// What the experiments of "Distributed Machine Learning through Heterogeneous Edge Systems" (ADSP,
/// AAAI 2020) share.
namespace rubato::bench::aaai20 {

/// Times are a hundredth of the paper's: a minute is 0.6 seconds of virtual time. It is as many
/// mini-batches of a mean worker, some 50, as one might expect of the paper's minute (which says
/// nothing of the time that a mini-batch takes).
constexpr double minute = 0.6;

/// Data, and what is trained on it.
class material : public workloads_by_seed {
 public:
  /// Image classification with a network of 32 hidden units, in place of the paper's CNN on
  /// Cifar-10: 6000 images of MNIST in 14 x 14, or synthetic digits where MNIST is not there.
  [[nodiscard]] static material images(reproduce_options const& options);
  /// The linear support vector machine for regression of App. D.1 on synthetic chillers.
  [[nodiscard]] static material chillers(reproduce_options const& options);

  using workloads_by_seed::workloads_by_seed;
};

/// A cluster and how it trains, with the settings of 003 §5.1.
struct setting {
  training job;
  protocol_parameters with;
  double step_seconds;  ///< of a mini-batch on a worker of slowness 1
};

/// The paper's testbed of EC2 instances.
[[nodiscard]] setting ec2(std::uint32_t workers);
/// Three workers that take 1, 1 and 3 times as long for a mini-batch, and as long as a fast one's
/// mini-batch for an exchange with the server.
[[nodiscard]] setting one_one_three();

/// Several runs of a protocol at one rate, which differ in all that is drawn.
struct outcome {
  std::string label;
  double rate = 0;
  std::vector<run_result> runs;  ///< by the time to the target

  [[nodiscard]] run_result const& median() const { return runs[runs.size() / 2]; }
  /// Of the median run; infinite where it did not get there.
  [[nodiscard]] double seconds() const;
  [[nodiscard]] double steps() const { return static_cast<double>(median().counted_steps()); }
  [[nodiscard]] double share_of_sending() const;
  [[nodiscard]] double share_of_waiting() const;
};

/// Runs protocols in one setting until the objective is a fortieth of the initial one.
class experiment {
 public:
  experiment(material& data, setting s, reproduce_options const& options);

  setting here;
  std::uint64_t seeds = 3;         ///< how many runs are measured
  std::uint64_t tuning_seeds = 1;  ///< how many try a rate out, of which the median counts

  /// A protocol by its name, with the setting's parameters: "adsp", "fixed_ada_comm:16".
  [[nodiscard]] protocol_choice choice(std::string const& name) const;
  /// One run; all that is drawn comes from the seed.
  [[nodiscard]] run_result run(protocol_choice const& p, double rate, std::uint64_t seed,
                               stop_rule const& stop = {.at_target = true});
  /// The job of such a run.
  [[nodiscard]] training job_of(double rate, std::uint64_t seed, stop_rule const& stop);
  /// The best rate of 1/8 to 2, in steps of 2, and beyond where the best is at an end. Tried out
  /// with other seeds than those that are measured.
  [[nodiscard]] double tuned_rate(protocol_choice const& p);
  /// Runs with the seeds that follow.
  [[nodiscard]] outcome measure(protocol_choice const& p, double rate);
  [[nodiscard]] outcome tuned(protocol_choice const& p) { return measure(p, tuned_rate(p)); }
  /// With that number of local steps (τ, τ_0), of those given, with which it is the fastest.
  [[nodiscard]] outcome best_steps(std::string const& name, std::vector<std::int64_t> const& steps);

 private:
  material& data_;
  std::uint64_t seed_;
};

/// Collects runs of the same kind. @pre not empty
[[nodiscard]] outcome outcome_of(std::string label, double rate, std::vector<run_result> runs);

/// "12.3 s", or that it is not reached.
[[nodiscard]] std::string show_time(outcome const& o);
/// How much less time `fast` takes than `slow`: "-53%".
[[nodiscard]] std::string show_gain(double fast, double slow);
/// Rate, time, steps, commits, and where time went, of each; with further columns, whose cells
/// stand in `more` row by row.
[[nodiscard]] text_table table_of(std::vector<outcome> const& all,
                                  std::vector<std::string> const& more_heads = {},
                                  std::vector<std::vector<std::string>> const& more = {});
/// What was run, in a few sentences.
void introduce(char const* figure, material const& data, setting const& s);

}  // namespace rubato::bench::aaai20
