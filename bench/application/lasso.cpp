// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "rubato/algorithm/lasso.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/application/application.hpp"
#include "bench/application/measure_application.hpp"
#include "rubato/data/columns.hpp"

namespace rubato::bench {
namespace {

/// The least λ with which all weights are 0: max |x_j · y| / n.
double greatest_lambda(data::columns const& x, std::span<double const> labels) {
  double greatest = 0;
  for (std::size_t j = 0; j < x.size(); ++j) {
    double product = 0;
    for (auto const [row, value] : x[j]) product += static_cast<double>(value) * labels[row];
    greatest = std::max(greatest, std::abs(product));
  }
  return greatest / static_cast<double>(labels.size());
}

double mean_of(std::span<double const> x) {
  return std::accumulate(x.begin(), x.end(), 0.0) / static_cast<double>(x.size());
}

std::vector<double> labels_of(data::dataset const& rows) { return {rows.labels().begin(), rows.labels().end()}; }

/// 1 − squared errors / those of the training labels' mean, on held-out rows.
double r_squared(data::dataset const& rows, std::span<double const> residual, double mean) {
  double errors = 0, around = 0;
  for (double const r : residual) errors += r * r;
  for (float const y : rows.labels()) around += (static_cast<double>(y) - mean) * (static_cast<double>(y) - mean);
  return around == 0 ? std::numeric_limits<double>::quiet_NaN() : 1 - errors / around;
}

class lasso final : public application {
 public:
  lasso(application_options const& o, loaded_data data)
      : data_(std::move(data)),
        x_(data_.train),
        labels_(labels_of(data_.train)),
        damping_(o.damping),
        filter_{.passes = o.kkt_passes} {
    if (labels_.empty() || x_.size() == 0)
      throw option_error("--data: " + data_.name + ": expected rows with values, of which a fifth is held out");
    lambda_ = o.lambda ? *o.lambda : greatest_lambda(x_, labels_) / 10;
    algorithm::lasso_options{.lambda = lambda_, .damping = damping_, .filter = filter_}.check();
  }

  [[nodiscard]] application_kind kind() const noexcept override { return application_kind::lasso; }
  [[nodiscard]] std::string description() const override {
    return fmt::format("lasso with lambda {:.3g} on {}: {} rows, {} features", lambda_, data_.name, labels_.size(),
                       x_.size());
  }
  [[nodiscard]] double first_objective() const override { return objective(std::vector<double>(x_.size())); }

  [[nodiscard]] double step_work(training const& job) const override {
    return static_cast<double>(data_.train.nonzeros()) * job.batch / job.workers;
  }

  [[nodiscard]] run_result run(rules const& p, training const& job, run_result r) const override {
    algorithm::lasso_options o{.lambda = lambda_,
                               .clocks = job.local_steps(),
                               .batch = job.batch,
                               .damping = damping_,
                               .filter = filter_};
    o.descent.protocol = p;
    o.check();
    one_run run{*this, {x_, o}, job.local_steps()};
    return measure_application(run, p, job, std::move(r));
  }

 private:
  struct one_run {
    lasso const& all;
    algorithm::lasso_descent<double> descent;
    std::int64_t steps;

    [[nodiscard]] curve_start start() const {
      return {.loss = all.first_objective(), .look_bytes = all.x_.size() * sizeof(double)};
    }
    [[nodiscard]] auto tables() const {
      return std::tuple(dense<double, sum, range>{.rows = all.x_.size()},
                        dense<double, sum, range>{.rows = all.labels_.size(), .init = all.labels_});
    }
    template <class Worker>
    void body(Worker& worker) const {
      descent(worker, iteration_range{0, steps});
    }
    void committed(std::uint32_t, std::uint32_t) const noexcept {}
    template <class Cluster>
    [[nodiscard]] evaluation observe(Cluster const& cluster) const {
      return [this, w = cluster.observe()] { return all.objective(w); };
    }
    template <class Cluster>
    [[nodiscard]] double accuracy(Cluster const& cluster) const {
      return all.accuracy(cluster.observe());
    }
  };

  [[nodiscard]] double objective(std::vector<double> const& w) const {
    return algorithm::lasso_objective(data_.train.rows(), std::span<double const>(w), lambda_);
  }
  [[nodiscard]] double accuracy(std::vector<double> w) const {
    w.resize(std::max(w.size(), data_.test.features()));  // what was not there in training weighs nothing
    auto const residual = algorithm::lasso_residual(data_.test.rows(), std::span<double const>(w));
    return r_squared(data_.test, residual, mean_of(labels_));
  }

  loaded_data data_;
  data::columns x_;
  std::vector<double> labels_;
  std::optional<double> damping_;
  kkt_filter filter_;
  double lambda_ = 0;
};

}  // namespace

std::unique_ptr<application const> make_lasso(application_options const& options, data_source const& from) {
  data_source rows = from;
  rows.labels = label_use::numbers;
  if (rows.file.empty() && rows.synthetic.empty()) rows.synthetic = "url";
  return std::make_unique<lasso>(options, load_data(rows, options.seed));
}

}  // namespace rubato::bench
