// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/application/application.hpp"
#include "bench/application/measure_application.hpp"
#include "bench/train/workload.hpp"
#include "rubato/algorithm/k_means.hpp"

namespace rubato::bench {
namespace {

/// Centres, which have `from` numbers each, with zeros for the features that they lack.
std::vector<double> widened(std::vector<double> const& centres, std::size_t from, std::size_t to) {
  std::vector<double> wide(centres.size() / from * to);
  for (std::size_t i = 0; i < centres.size(); ++i) wide[i / from * to + i % from] = centres[i];
  return wide;
}

std::vector<double> mean_row(data::dataset const& rows) {
  std::vector<double> mean(rows.features());
  for (data::example const row : rows.rows())
    for (std::size_t k = 0; k < row.indices.size(); ++k)
      mean[row.indices[k]] += static_cast<double>(row.values[k]) / static_cast<double>(rows.size());
  return mean;
}

class clusters final : public application {
 public:
  clusters(application_options const& o, loaded_data data)
      : data_(std::move(data)),
        evaluated_(sample(data_.train, o.evaluated_rows, o.seed)),
        first_(algorithm::k_means_plus_plus(data_.train.rows(), o.clusters, o.seed)),
        count_(o.clusters) {}

  [[nodiscard]] application_kind kind() const noexcept override { return application_kind::k_means; }
  [[nodiscard]] std::string description() const override {
    return fmt::format("kmeans of {} clusters on {}: {} rows, {} features", count_, data_.name, data_.train.size(),
                       data_.train.features());
  }
  [[nodiscard]] double first_objective() const override {
    return algorithm::k_means_objective(evaluated_.rows(), first_);
  }

  [[nodiscard]] double step_work(training const& job) const override {
    return static_cast<double>(data_.train.nonzeros() * count_) * job.batch / job.workers;
  }

  [[nodiscard]] run_result run(rules const& p, training const& job, run_result r) const override {
    one_run run{*this, {data_.train, first_, job.batch}, job.local_steps()};
    return measure_application(run, p, job, std::move(r));
  }

 private:
  struct one_run {
    clusters const& all;
    algorithm::k_means_clocks<double> clocks;
    std::int64_t steps;

    [[nodiscard]] curve_start start() const {
      return {.loss = all.first_objective(), .look_bytes = all.first_.size() * sizeof(double)};
    }
    [[nodiscard]] auto tables() const {
      return std::tuple(dense<double, sum>{.rows = all.count_, .width = all.data_.train.features()},
                        dense<std::int64_t, sum>{.rows = all.count_},
                        dense<std::int64_t, sum, range>{.rows = all.data_.train.size()});
    }
    template <class Worker>
    void body(Worker& worker) const {
      clocks(worker, iteration_range{0, steps});
    }
    void committed(std::uint32_t, std::uint32_t) const noexcept {}
    template <class Cluster>
    [[nodiscard]] std::vector<double> centres(Cluster const& cluster) const {
      std::vector<double> const sums = cluster.template observe<0>();
      std::vector<std::int64_t> const counts = cluster.template observe<1>();
      return algorithm::k_means_centres(std::span<double const>(sums), std::span<std::int64_t const>(counts),
                                        all.first_);
    }
    template <class Cluster>
    [[nodiscard]] evaluation observe(Cluster const& cluster) const {
      return [this, c = centres(cluster)] { return algorithm::k_means_objective(all.evaluated_.rows(), c); };
    }
    template <class Cluster>
    [[nodiscard]] double accuracy(Cluster const& cluster) const {
      return all.explained(centres(cluster));
    }
  };

  /// Of the held-out rows' variance.
  [[nodiscard]] double explained(std::vector<double> const& centres) const {
    if (data_.test.empty()) return std::numeric_limits<double>::quiet_NaN();
    std::size_t const here = data_.train.features(), all = std::max(here, data_.test.features());
    algorithm::nearest_centre const nearest(widened(centres, here, all), all);
    algorithm::nearest_centre const mean(mean_row(data_.test), data_.test.features());
    double left = 0, variance = 0;
    for (data::example const row : data_.test.rows()) {
      left += nearest.to(row).squared_distance;
      variance += mean.to(row).squared_distance;
    }
    return variance == 0 ? std::numeric_limits<double>::quiet_NaN() : 1 - left / variance;
  }

  loaded_data data_;
  data::dataset evaluated_;
  std::vector<double> first_;
  std::size_t count_;
};

}  // namespace

std::unique_ptr<application const> make_clusters(application_options const& options, data_source const& from) {
  data_source rows = from;
  rows.labels = label_use::numbers;
  if (rows.file.empty() && rows.synthetic.empty()) rows.synthetic = "digits";
  return std::make_unique<clusters>(options, load_data(rows, options.seed));
}

}  // namespace rubato::bench
