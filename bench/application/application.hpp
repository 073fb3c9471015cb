// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bench/result/run_result.hpp"
#include "bench/train/load_data.hpp"
#include "bench/train/training.hpp"
#include "rubato/protocol/rules.hpp"

namespace rubato::bench {

/// What parameter servers are for beyond a model of one dense vector (001 §2.1).
enum class application_kind {
  mf,       ///< matrix factorization by SGD
  lda,      ///< topics by collapsed Gibbs sampling
  lasso,    ///< parallel coordinate descent
  k_means,  ///< clusters
};
[[nodiscard]] std::string_view name_of(application_kind kind) noexcept;
/// Whether it has a learning rate that could be tuned.
[[nodiscard]] constexpr bool has_rate(application_kind kind) noexcept { return kind == application_kind::mf; }

/// What is trained, apart from the data.
struct application_options {
  application_kind kind = application_kind::mf;
  std::size_t rank = 8;             ///< mf: factors of each user and item
  double l2 = 0.05;                 ///< mf: weight of the regulariser
  std::size_t topics = 20;          ///< lda
  std::optional<double> lambda{};   ///< lasso; unless set a tenth of the least with which all weights are 0
  std::optional<double> damping{};  ///< lasso, of a worker's moves; unless set what is safe for the protocol
  std::int64_t kkt_passes = 0;      ///< lasso: see `kkt_filter`; 0 leaves nothing out
  std::size_t clusters = 10;        ///< k_means
  /// k_means: the objective is that of so many rows, drawn once, where there are more.
  std::size_t evaluated_rows = 5'000;
  std::uint64_t seed = 1;  ///< of what training begins with, and of the topics that are drawn
};

/// An application: data, tables of its own that workers share, what they do with them, and an objective. Commits are
/// added up as they are; a local step is a mini-batch.
/// Thread safety: const access from any number of threads.
class application {
 public:
  virtual ~application() = default;

  [[nodiscard]] virtual application_kind kind() const noexcept = 0;
  [[nodiscard]] std::string_view name() const noexcept { return name_of(kind()); }
  /// "mf of rank 8 on u.data: 80000 ratings of 1682 items by 943 users"
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] bool has_rate() const noexcept { return bench::has_rate(kind()); }
  /// The objective of what training begins with.
  [[nodiscard]] virtual double first_objective() const = 0;

  /// The local steps that each worker makes in a run: the job's, rounded up to whole sweeps over the data where a run
  /// makes no less, and one more that begins lda.
  [[nodiscard]] virtual std::int64_t steps(training const& job) const { return job.local_steps(); }
  /// The commits of each worker in a run.
  [[nodiscard]] std::int64_t commits(training const& job) const {
    return (steps(job) + job.steps_per_commit - 1) / job.steps_per_commit;
  }
  /// A worker's work in a step, in the simulator's units, on average.
  [[nodiscard]] virtual double step_work(training const& job) const = 0;

  /// A run of `steps(job)` steps of each worker. Fills in what is measured. Its `accuracy` is on held-out data: R² for
  /// mf and lasso, the share of the variance that clusters explain; not a number where there is nothing to hold out,
  /// as for topics.
  /// @pre in process or simulated, and nobody joins @throws option_error for what the algorithm's options refuse
  [[nodiscard]] virtual run_result run(rules const& p, training const& job, run_result r) const = 0;
};

/// Reads or makes the data, of which a fifth is held out, and what is trained on it: ratings as `data::read_ratings`
/// does for mf, documents as `data::read_bag_of_words` for lda, rows as `load_data` for lasso and k_means.
/// @throws data_error, option_error
[[nodiscard]] std::unique_ptr<application const> make_application(application_options const& options,
                                                                  data_source const& from);

// One source file each.
[[nodiscard]] std::unique_ptr<application const> make_factorization(application_options const& options,
                                                                    data_source const& from);
[[nodiscard]] std::unique_ptr<application const> make_topics(application_options const& options,
                                                             data_source const& from);
[[nodiscard]] std::unique_ptr<application const> make_lasso(application_options const& options,
                                                            data_source const& from);
[[nodiscard]] std::unique_ptr<application const> make_clusters(application_options const& options,
                                                               data_source const& from);

}  // namespace rubato::bench
