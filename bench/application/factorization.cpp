// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <filesystem>
#include <limits>
#include <mutex>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/application/application.hpp"
#include "bench/application/measure_application.hpp"
#include "rubato/algorithm/matrix_factorization.hpp"
#include "rubato/data/movielens.hpp"

namespace rubato::bench {
namespace {

using model_type = algorithm::mf_model<float>;

/// The squared errors of a model that says the same of all.
double squares_around(data::ratings const& all, double constant) {
  double total = 0;
  for (std::size_t u = 0; u < all.users(); ++u)
    for (auto const& e : all.of_user(u)) {
      double const off = static_cast<double>(e.value) - constant;
      total += off * off;
    }
  return total;
}

struct loaded_ratings {
  data::held_out_ratings parts;
  std::string name;
};

class mf_run {
 public:
  mf_run(loaded_ratings const& data, algorithm::mf_options const& o)
      : data_(data), options_(o), model_(data.parts.train, o), users_(model_.users) {}

  [[nodiscard]] curve_start start() const {
    return {.loss = mean_objective(model_.users, model_.items),
            .look_bytes = (model_.users.size() + model_.items.size()) * sizeof(float)};
  }
  [[nodiscard]] auto tables() const { return std::tuple(model_.item_table()); }

  template <class Worker>
  void body(Worker& worker) {
    algorithm::factorize(worker, data_.parts.train, model_, options_);
  }

  void committed(std::uint32_t rank, std::uint32_t count) {
    auto const [first, last] = algorithm::line_range::of(data_.parts.train.users(), rank, count);
    std::size_t const width = options_.rank;
    std::lock_guard const guard(lock_);
    std::copy_n(model_.users.data() + first * width, (last - first) * width, users_.data() + first * width);
  }

  template <class Cluster>
  [[nodiscard]] evaluation observe(Cluster const& cluster) {
    std::lock_guard const guard(lock_);
    return [this, users = users_, items = cluster.observe()] { return mean_objective(users, items); };
  }

  template <class Cluster>
  [[nodiscard]] double accuracy(Cluster const& cluster) {
    model_.users = users_;
    model_.items = cluster.observe();
    double const all = squares_around(data_.parts.test, model_.mean);
    if (all == 0) return std::numeric_limits<double>::quiet_NaN();
    return 1 - algorithm::mf_objective(data_.parts.test, model_, 0) / all;
  }

 private:
  [[nodiscard]] double mean_objective(std::span<float const> users, std::span<float const> items) const {
    double const all =
        algorithm::factor_objective<float>(data_.parts.train, users, items, options_.l2, model_.mean);
    return all / static_cast<double>(data_.parts.train.size());
  }

  loaded_ratings const& data_;
  algorithm::mf_options options_;
  model_type model_;
  std::mutex lock_;
  std::vector<float> users_;  ///< as they were at each worker's last commit
};

class factorization final : public application {
 public:
  factorization(application_options const& o, loaded_ratings data) : options_(o), data_(std::move(data)) {
    options_of({}).check();
    if (data_.parts.train.size() == 0)
      throw option_error("--data: " + data_.name + ": expected ratings, of which a fifth is held out");
  }

  [[nodiscard]] application_kind kind() const noexcept override { return application_kind::mf; }
  [[nodiscard]] std::string description() const override {
    auto const& train = data_.parts.train;
    return fmt::format("mf of rank {} on {}: {} ratings of {} items by {} users", options_.rank, data_.name,
                       train.size(), train.items(), train.users());
  }
  [[nodiscard]] double first_objective() const override { return mf_run(data_, options_of({})).start().loss; }

  [[nodiscard]] std::int64_t steps(training const& job) const override {
    algorithm::mf_options const o = options_of(job);
    return o.sweeps * o.clocks_per_sweep();
  }
  [[nodiscard]] double step_work(training const& job) const override {
    return 5 * static_cast<double>(data_.parts.train.size() * options_.rank) * job.batch / job.workers;
  }

  [[nodiscard]] run_result run(rules const& p, training const& job, run_result r) const override {
    mf_run run(data_, options_of(job));
    return measure_application(run, p, job, std::move(r));
  }

 private:
  [[nodiscard]] algorithm::mf_options options_of(training const& job) const {
    algorithm::mf_options o{.rank = options_.rank,
                            .learning_rate = job.learning_rate,
                            .decay = job.decay,
                            .l2 = options_.l2,
                            .batch = job.batch,
                            .seed = options_.seed};
    o.sweeps = sweeps_of(job, o.clocks_per_sweep());
    return o;
  }

  application_options options_;
  loaded_ratings data_;
};

loaded_ratings load(data_source const& from, std::uint64_t seed) {
  constexpr double held_out = 0.2;
  if (!from.file.empty())
    return {data::read_ratings(from.file).all.split(held_out, seed),
            std::filesystem::path(from.file).filename().string()};
  data::ratings const made = data::make_synthetic_ratings(
      {.users = from.rows.value_or(1000), .items = from.features.value_or(500), .factors = 8,
       .per_user = from.nonzeros.value_or(40), .noise = 0.5, .seed = seed});
  return {made.split(held_out, seed), "synthetic ratings"};
}

}  // namespace

std::unique_ptr<application const> make_factorization(application_options const& options, data_source const& from) {
  return std::make_unique<factorization>(options, load(from, options.seed));
}

}  // namespace rubato::bench
