// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/workloads.hpp"
#include "bench/result/run_result.hpp"
#include "bench/result/text.hpp"
#include "bench/train/training.hpp"

/// What the experiments of "Hop: Heterogeneity-Aware Decentralized Training" (ASPLOS 2019) share.
namespace rubato::bench::asplos19 {

/// What slows workers down in an experiment.
enum class slowdown {
  none,
  random,     ///< each iteration takes 6 times as long with probability 1/n (§7.3.1)
  straggler,  ///< worker 0 takes 4 times as long for each (§7.3.5)
};

/// A cluster, a protocol, and who talks to whom.
struct setting {
  std::string protocol = "hop";  ///< as in `parse_protocols`
  std::string graph = "ring-based";
  slowdown slow = slowdown::none;
  bool plainly = false;  ///< `peer_parameters::plainly`
  std::optional<std::int64_t> gap_max{};
  std::vector<std::uint32_t> machines = {4, 4, 4, 4};  ///< how many workers are on each

  /// A mini-batch takes as long as a machine needs to send the parameters so many times. The paper
  /// gives no figures, but that a straggler which computes 4 times as long makes iterations 3.9
  /// times as long (§7.3.5): so what the others do in one, computing and sending side by side,
  /// takes hardly longer than to compute. On the ring-based graph 6 updates leave each of the four
  /// machines in an iteration; computing takes as long as these. It is also what one would guess:
  /// VGG11 needs some 120 GFLOP for 128 small images, 1 to 2 s on a quarter of a machine, and its
  /// 37 MB take 0.3 s.
  double sends_in_a_step = 6;

  [[nodiscard]] std::uint32_t workers() const;
};

/// Several runs in one setting, which differ in all that is drawn.
struct outcome {
  std::string label;
  std::vector<run_result> runs;  ///< by the time to the target

  [[nodiscard]] run_result const& median() const { return runs[runs.size() / 2]; }
  /// Of the median run; infinite where it did not get there.
  [[nodiscard]] double seconds() const;
  /// Iterations of each worker on average, up to the target.
  [[nodiscard]] double iterations() const;
  /// What an iteration takes a worker, one that it jumps over included; the median of all runs.
  [[nodiscard]] double iteration_seconds() const;
};

/// A model, its data, and how it is trained: batches of 128, momentum 0.9, a fixed rate (§7.2).
class task {
 public:
  /// In place of VGG11 on CIFAR-10: 32 hidden units on images of digits.
  [[nodiscard]] static task network(reproduce_options const& options);
  /// The SVM with logarithmic loss, in place of web spam on a9a: of 2035 rows each shard is like all of them.
  [[nodiscard]] static task classifier(reproduce_options const& options);
  /// The same on farm ads: 207 texts in a shard, and more features than rows. On synthetic text where they are not
  /// there.
  [[nodiscard]] static task text_classifier(reproduce_options const& options);
  /// Both, and farm ads once more with every worker going over all texts, which is all that differs.
  [[nodiscard]] static std::vector<task> classifiers(reproduce_options const& options);

  [[nodiscard]] std::string const& name() const noexcept { return name_; }
  [[nodiscard]] double rate() const noexcept { return rate_; }
  /// What is trained on what, at which rate, and to which objective.
  [[nodiscard]] std::string description() const;
  /// Of a mini-batch on a worker that is not slow.
  [[nodiscard]] double step_seconds(setting const& s);

  /// The job of one run to the target; all that is drawn comes from the seed.
  [[nodiscard]] training job_of(setting const& s, std::uint64_t seed);
  [[nodiscard]] run_result run(setting const& s, std::uint64_t seed);
  /// Three runs. The label is the protocol's unless one is given.
  [[nodiscard]] outcome measure(setting const& s, std::string label = "");

 private:
  task(std::string name, workloads_by_seed data, reproduce_options const& options);
  /// The target: so much of the objective at the start.
  void to_share(double of_start);
  /// The target: so much of the way to what serial SGD finds.
  void to_part_of_the_way(double part);
  void tune_rate();

  std::string name_;
  workloads_by_seed data_;
  std::uint64_t seed_;
  std::int64_t iterations_max_;
  row_order shards_;
  double least_step_seconds_ = 0;
  double rate_ = 0.1;
  bool tuned_ = false;
  double target_ = 0;
};

/// "12.3 s", or that it is not reached.
[[nodiscard]] std::string show_time(outcome const& o);
/// How many times as fast `o` gets to the target: "1.81x".
[[nodiscard]] std::string show_speedup(outcome const& o, outcome const& than);
[[nodiscard]] std::string show_slowdown(slowdown s);

/// A column of a table: its head, and its cell in the row of an outcome.
struct column {
  std::string head;
  std::function<std::string(std::size_t row)> cell;
};
/// Time, iterations, time per iteration and share of waiting of each, and further columns.
[[nodiscard]] text_table table_of(std::vector<outcome> const& all,
                                  std::vector<column> const& more = {});
/// The objective of each after a quarter, half and all of the time that `reference` takes, or of
/// the iterations: a figure's curves in three columns.
[[nodiscard]] std::vector<column> curves_by_time(std::vector<outcome> const& all,
                                                 outcome const& reference);
[[nodiscard]] std::vector<column> curves_by_steps(std::vector<outcome> const& all,
                                                  outcome const& reference);

/// What comes out where messages take no time: a unit of work in each of 200 iterations.
struct model_result {
  double iteration = 0;   ///< the mean of a worker's own time for one
  double upper_half = 0;  ///< the part of the consensus that half of the workers have made
};
/// Means of five seeds. Every worker's gradient is an axis of its own, so that the consensus shows
/// what each has contributed. Half of the workers make half of it where all count the same.
[[nodiscard]] model_result timing_model(setting const& s, std::uint64_t seed);

/// A row of a table of the model.
struct modelled {
  char const* name;
  setting where;
  /// What an independent model of the same rules found with the same settings, in several runs.
  double least_elsewhere, greatest_elsewhere;
};
void print_timing_model(std::vector<modelled> const& rows, std::uint64_t seed);
/// From here on a time differs enough for a word: "faster" is by a twentieth or more.
[[nodiscard]] inline bool is_faster(outcome const& o, outcome const& than) {
  return 1.05 * o.seconds() < than.seconds();
}

/// What was run, in a few sentences.
void introduce(char const* figure);

}  // namespace rubato::bench::asplos19
