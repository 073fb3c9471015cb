// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <cmath>
#include <filesystem>
#include <limits>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/application/application.hpp"
#include "bench/application/measure_application.hpp"
#include "rubato/algorithm/lda.hpp"

namespace rubato::bench {
namespace {

struct loaded_documents {
  data::bag_of_words all;
  std::string name;
};

class lda_run {
 public:
  lda_run(loaded_documents const& data, algorithm::lda_options const& o, double first_loss)
      : first_loss_(first_loss), state_(data.all, o), noted_(state_) {}

  [[nodiscard]] curve_start start() const {
    auto const& all = state_.documents();
    return {.loss = first_loss_,
            .look_bytes = all.tokens() * 4 + all.documents() * 12 + all.words() * state_.options().topics * 4};
  }
  [[nodiscard]] auto tables() const {
    return std::tuple(algorithm::lda_word_table(state_), algorithm::lda_total_table(state_));
  }
  template <class Worker>
  void body(Worker& worker) {
    algorithm::lda(worker, state_);
  }
  void committed(std::uint32_t rank, std::uint32_t count) {
    std::lock_guard const guard(lock_);
    noted_.take_over(state_, algorithm::line_range::of(state_.documents().documents(), rank, count));
  }
  template <class Cluster>
  [[nodiscard]] evaluation observe(Cluster const& cluster) {
    std::lock_guard const guard(lock_);
    return [this, state = noted_, words = cluster.template observe<0>(), totals = cluster.template observe<1>()] {
      return objective(state, words, totals);
    };
  }
  template <class Cluster>
  [[nodiscard]] double accuracy(Cluster const&) const {
    return std::numeric_limits<double>::quiet_NaN();
  }

 private:
  /// That of the documents whose tokens have topics: all, but for those of a worker that was lost before its first
  /// commit. As long as servers have not heard of them it is that of the topics that they begin with.
  [[nodiscard]] double objective(algorithm::lda_state const& state, std::vector<std::int32_t> const& words,
                                 std::vector<std::int64_t> const& totals) const {
    std::int64_t tokens = 0;
    for (std::size_t d = 0; d < state.documents().documents(); ++d)
      if (state.has_topics(d)) tokens += std::ssize(state.topics_of(d));
    if (tokens == 0 || std::accumulate(words.begin(), words.end(), std::int64_t{0}) < tokens ||
        std::accumulate(totals.begin(), totals.end(), std::int64_t{0}) < tokens)
      return first_loss_;
    return -(algorithm::lda_log_likelihood_of_words(state, words, totals) +
             algorithm::lda_log_likelihood_of_topics(state)) /
           static_cast<double>(tokens);
  }

  double first_loss_;
  algorithm::lda_state state_;
  std::mutex lock_;
  algorithm::lda_state noted_;  ///< as it was at each worker's last commit
};

class topics final : public application {
 public:
  topics(application_options const& o, loaded_documents data) : options_(o), data_(std::move(data)) {
    if (data_.all.tokens() == 0) throw option_error("--data: " + data_.name + ": expected words in its documents");
    first_loss_ = -log_likelihood_of_first_topics();
  }

  [[nodiscard]] application_kind kind() const noexcept override { return application_kind::lda; }
  [[nodiscard]] std::string description() const override {
    return fmt::format("lda of {} topics on {}: {} documents, {} words, {} tokens", options_.topics, data_.name,
                       data_.all.documents(), data_.all.words(), data_.all.tokens());
  }
  [[nodiscard]] double first_objective() const override { return first_loss_; }

  [[nodiscard]] std::int64_t steps(training const& job) const override {
    std::uint32_t const in_a_sweep = options_of(job.batch).clocks_per_sweep();
    return 1 + sweeps_of(job, in_a_sweep) * in_a_sweep;
  }
  [[nodiscard]] double step_work(training const& job) const override {
    return static_cast<double>(data_.all.tokens()) * static_cast<double>(options_.topics) * job.batch / job.workers;
  }

  [[nodiscard]] run_result run(rules const& p, training const& job, run_result r) const override {
    algorithm::lda_options o = options_of(job.batch);
    o.sweeps = sweeps_of(job, o.clocks_per_sweep());
    lda_run run(data_, o, first_loss_);
    return measure_application(run, p, job, std::move(r));
  }

 private:
  [[nodiscard]] algorithm::lda_options options_of(double batch) const {
    return {.topics = options_.topics, .batch = batch, .seed = options_.seed};
  }

  /// The first topics go by the seed and the document alone, whoever draws them.
  [[nodiscard]] double log_likelihood_of_first_topics() const {
    algorithm::lda_state state(data_.all, options_of(1));
    algorithm::lda_batch const all(data_.all, {0, data_.all.documents()});
    algorithm::lda_sampler sampler(state);
    sampler.begin(all);
    sampler.start(all);
    return algorithm::lda_log_likelihood(state, sampler.word_changes(), sampler.total_changes());
  }

  application_options options_;
  loaded_documents data_;
  double first_loss_ = 0;
};

loaded_documents load_documents(data_source const& from, std::uint64_t seed) {
  if (!from.file.empty())
    return {data::read_bag_of_words(from.file), std::filesystem::path(from.file).filename().string()};
  return {data::make_synthetic_documents({.documents = from.rows.value_or(400), .words = from.features.value_or(1000),
                                          .topics = 10, .length = from.nonzeros.value_or(100), .seed = seed})
              .documents,
          "synthetic documents"};
}

}  // namespace

std::unique_ptr<application const> make_topics(application_options const& options, data_source const& from) {
  return std::make_unique<topics>(options, load_documents(from, options.seed));
}

}  // namespace rubato::bench
