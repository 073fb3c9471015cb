// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Headline claims of papers whose workers send a part of what there is to send, tried on logistic regression over
// synthetic data, in virtual time.

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/ground.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/result/text.hpp"
#include "bench/train/timing.hpp"
#include "rubato/cluster/cluster.hpp"
#include "rubato/core/random.hpp"
#include "rubato/protocol/diloco.hpp"
#include "rubato/protocol/gaia.hpp"
#include "rubato/protocol/lag.hpp"
#include "rubato/protocol/protocol.hpp"
#include "rubato/protocol/ssp.hpp"
#include "rubato/protocol/streaming_diloco.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::bench {
namespace {

using namespace std::chrono_literals;

std::string show_time(finish const& f) { return f.arrived() ? show_seconds(f.seconds()) : "-"; }

/// A filter that counts how often it lets a commit through.
struct counted_upload : lazy_upload {
  std::shared_ptr<std::uint64_t> uploads;

  void decide(filter_point at, std::array<double, sums> const& all) noexcept {
    lazy_upload::decide(at, all);
    if (sends && !at.last) ++*uploads;
  }
};
static_assert(commit_filter<counted_upload>);

/// What fragments come to.
struct streamed {
  double loss = std::numeric_limits<double>::infinity();
  double rate = 0;
  std::uint64_t peak = 0;   ///< bytes that a worker sends and gets between two local steps, the first read aside
  std::uint64_t bytes = 0;  ///< of all workers
};

/// Trains with rows of 25 parameters for so many local steps; after a commit workers read the rows that it has brought.
template <class Protocol>
streamed stream(training const& job, Protocol const& protocol, double rate, std::int64_t steps) {
  constexpr std::size_t width = 25;
  std::size_t const rows = job.work->parameters() / width;
  cluster c{simulated{.workers = job.workers, .servers = job.servers, .scenario = job.scenario}, protocol,
            dense<float>{.rows = rows, .width = width, .init = job.work->initial()}};
  streamed s{.rate = rate};
  auto const report = c.run([&](auto& worker) {
    mini_batches const batches(job, worker.rank());
    std::vector<float> w(rows * width), delta(w.size()), values;
    std::vector<key> fresh;
    worker.pull(w);
    auto const moved = [&] { return worker.metrics().bytes_sent + worker.metrics().bytes_received; };
    std::uint64_t before = moved();
    for (std::int64_t i = 0; i < steps; ++i) {
      auto const batch = batches.at_step(static_cast<std::size_t>(i));
      job.work->local_step(batch, rate, w, delta);
      std::ranges::transform(w, delta, w.begin(), std::plus{});
      worker.push(delta);
      if (!worker.step(static_cast<double>(batch.nonzeros()))) continue;
      filter_point const at{clock_index{worker.clock().value() - 1}, worker.id()};
      fresh.clear();
      for (std::uint64_t k = 0; k < rows; ++k)
        if constexpr (requires { protocol.filter(); }) {
          if (protocol.filter().takes(at, key{k})) fresh.push_back(key{k});
        } else {
          fresh.push_back(key{k});
        }
      values.resize(fresh.size() * width);
      worker.pull(fresh, values);
      for (std::size_t r = 0; r < fresh.size(); ++r)
        std::copy_n(values.data() + r * width, width, w.data() + fresh[r].index() * width);
      s.peak = std::max(s.peak, moved() - std::exchange(before, moved()));
    }
  });
  s.loss = job.work->objective(c.parameters());
  s.bytes = report.total().bytes_sent + report.total().bytes_received;
  return s;
}

/// At the best rate of a few.
template <class Protocol>
streamed best_of_rates(training const& job, Protocol const& protocol, std::int64_t steps) {
  streamed best;
  for (double const rate : {0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0})
    if (streamed const s = stream(job, protocol, rate, steps); s.loss < best.loss) best = s;
  return best;
}

/// Σ ½|X_m w − y_m|², in which worker m's part has the smoothness L_m = (1.3^(m−1) + 1)², m from 1.
class least_squares {
 public:
  using vector = std::vector<double>;
  static constexpr std::size_t parameters = 50, rows = 50;
  static constexpr std::uint32_t workers = 9;

  explicit least_squares(std::uint64_t seed) {
    random_stream random(seed, 0x1a6);
    vector truth(parameters);
    for (double& t : truth) t = random.normal();
    for (std::uint32_t m = 0; m < workers; ++m) {
      x_.emplace_back(rows * parameters);
      for (std::size_t i = 0; i < x_[m].size(); ++i)
        x_[m][i] = random.normal() * std::pow(0.97, static_cast<double>(i % parameters));  // as features differ in scale
      double const wanted = std::pow(std::pow(1.3, m) + 1, 2);
      double const scale = std::sqrt(wanted / smoothness([&](vector const& w) { return gradient(m, w); }));
      for (double& v : x_[m]) v *= scale;
    }
    y_.resize(workers, vector(rows));
    for (std::uint32_t m = 0; m < workers; ++m) y_[m] = residual(m, truth);
  }

  [[nodiscard]] vector gradient(std::uint32_t m, vector const& w) const {
    vector const r = residual(m, w);
    vector g(parameters);
    for (std::size_t i = 0; i < rows; ++i)
      for (std::size_t j = 0; j < parameters; ++j) g[j] += x_[m][i * parameters + j] * r[i];
    return g;
  }
  [[nodiscard]] double loss(vector const& w) const {
    double sum = 0;
    for (std::uint32_t m = 0; m < workers; ++m)
      for (double const r : residual(m, w)) sum += r * r / 2;
    return sum;
  }
  /// L of the whole.
  [[nodiscard]] double smoothness() const {
    return smoothness([this](vector const& w) {
      vector sum(parameters), zero(parameters);
      for (std::uint32_t m = 0; m < workers; ++m) {
        vector const g = gradient(m, w), at_zero = gradient(m, zero);
        for (std::size_t j = 0; j < parameters; ++j) sum[j] += g[j] - at_zero[j];
      }
      return sum;
    });
  }

 private:
  [[nodiscard]] vector residual(std::uint32_t m, vector const& w) const {
    vector r(rows);
    for (std::size_t i = 0; i < rows; ++i) {
      for (std::size_t j = 0; j < parameters; ++j) r[i] += x_[m][i * parameters + j] * w[j];
      if (!y_.empty()) r[i] -= y_[m][i];
    }
    return r;
  }
  /// The greatest eigenvalue of a linear map, by its powers.
  template <class Map>
  [[nodiscard]] static double smoothness(Map map) {
    vector v(parameters, 1.0);
    double norm = 1;
    for (int n = 0; n < 300; ++n) {
      v = map(v);
      norm = std::sqrt(std::inner_product(v.begin(), v.end(), v.begin(), 0.0));
      for (double& x : v) x /= norm;
    }
    return norm;
  }

  std::vector<vector> x_, y_;
};

/// What it takes until the loss is 1e-8 of the first one.
struct descent {
  bool arrived = false;
  std::int64_t iterations = 0;
  std::uint64_t uploads = 0;
  std::uint64_t bytes = 0;  ///< sent
};

descent descend(least_squares const& problem, lag const& how) {
  using vector = least_squares::vector;
  auto const uploads = std::make_shared<std::uint64_t>(0);
  auto const protocol = with(how, counted_upload{how.filter(), uploads});
  cluster c{simulated{.workers = problem.workers, .servers = 1}, protocol,
            dense<double>{.rows = problem.parameters}};
  double const rate = problem.workers / problem.smoothness();  // servers step with the mean
  double const end = 1e-8 * problem.loss(vector(problem.parameters));
  descent d;
  auto const report = c.run([&](auto& worker) {
    vector w(problem.parameters);
    for (std::int64_t k = 0; k < 50'000; ++k) {
      worker.pull(w);
      if (problem.loss(w) <= end) {  // all read the same
        d.arrived = true;
        d.iterations = k;
        return;
      }
      vector u = problem.gradient(worker.rank(), w);
      for (double& x : u) x *= -rate;
      worker.push(u);
      worker.step();
    }
  });
  d.uploads = *uploads;
  d.bytes = report.total().bytes_sent;
  return d;
}

}  // namespace

void reproduce_gaia(reproduce_options const& options) {
  ground const g(options, {.link = {.latency = 20ms, .bandwidth = 12'500'000}});
  text_table table{.head = {"", "rate", "time", "updates", "sent", "received", "loss in the end"}, .rows = {}};
  auto const add = [&](std::string name, finish const& f) {
    table.rows.push_back({std::move(name), fmt::format("{:.3g}", f.run.learning_rate), show_time(f),
                          fmt::format("{}", f.run.counted_updates()), fmt::format("{:.3g} MB", f.bytes_sent() / 1e6),
                          fmt::format("{:.3g} MB", (f.bytes() - f.bytes_sent()) / 1e6),
                          fmt::format("{:.5f}", f.run.final_loss)});
  };
  finish const plain = g.run([](double) { return ssp{}; }, 1);
  add("SSP(3)", plain);
  finish best = plain;
  double best_threshold = 0;
  for (double const v : {0.01, 0.1, 1.0, 10.0}) {
    finish f = g.run([v](double) { return gaia{.significant = {.threshold = v}}; }, 1);
    add(fmt::format("Gaia, v = {}", v), f);
    if (f.seconds() > 1.1 * plain.seconds() || f.bytes_sent() >= best.bytes_sent()) continue;
    best = std::move(f);
    best_threshold = v;
  }
  fmt::print("Links of 20 ms and 100 Mbit/s. Here servers answer with all parameters: what is received is as much as "
             "without a filter.\n\n{}",
             table.to_string());
  claims said;
  said.add(best.bytes_sent() < 0.5 * plain.bytes_sent(),
           "More than 95% of updates change their parameter by less than 1%, and Gaia, which need not send them, is 1.8 to "
           "53.5 times as fast over wide areas (abstract; matrix factorization, topics, images).",
           fmt::format("with v = {} workers send {:.2f} of what SSP's send to the target, in {:.2f} of its time.",
                       best_threshold, best.bytes_sent() / plain.bytes_sent(), best.seconds() / plain.seconds()));
  said.print();
}

void reproduce_streaming_diloco(reproduce_options const& options) {
  ground const g(options, {});
  training const& job = g.job();
  std::int64_t const steps = std::min<std::int64_t>(job.clocks, 2'000);
  constexpr std::int64_t interval = 100;
  text_table table{.head = {"", "rate", "bytes at once", "bytes in all", "loss"}, .rows = {}};
  auto const add = [&](std::string name, streamed const& s) {
    table.rows.push_back({std::move(name), fmt::format("{:.3g}", s.rate), fmt::format("{}", s.peak),
                          fmt::format("{:.3g} MB", static_cast<double>(s.bytes) / 1e6), fmt::format("{:.5f}", s.loss)});
  };
  streamed const whole = best_of_rates(job, diloco{.steps = interval}, steps);
  add("DiLoCo", whole);
  streamed parts;
  std::int64_t const fragments_most = 4;
  for (std::int64_t const fragments : {std::int64_t{2}, fragments_most}) {
    parts = best_of_rates(job, streaming_diloco{.steps = interval, .fragments = fragments}, steps);
    add(fmt::format("Streaming DiLoCo, P = {}", fragments), parts);
  }
  fmt::print("{} local steps with H = {}, rows of 25 parameters; a worker reads the rows that were synchronized. The "
             "loss of the start is {:.5f}.\n\n{}",
             steps, interval, job.work->objective(job.work->initial()), table.to_string());
  double const start = job.work->objective(job.work->initial());
  double const share = static_cast<double>(parts.peak) / static_cast<double>(whole.peak);
  double const reached = (start - parts.loss) / (start - whole.loss);
  claims said;
  said.add(share < 1.3 / static_cast<double>(fragments_most) && reached > 0.98,
           "Where one of P fragments is synchronized at a time, peak bandwidth is a P-th, and training ends as well (§2.2 "
           "and §4, language models).",
           fmt::format("with P = {} a worker moves {:.2f} of DiLoCo's bytes at once, and goes {:.3f} of its way.",
                       fragments_most, share, reached));
  said.print();
}

void reproduce_lag(reproduce_options const& options) {
  text_table table{.head = {"", "iterations", "uploads", "sent"}, .rows = {}};
  least_squares const problem(options.seed);
  auto const add = [&](std::string name, descent const& d) {
    table.rows.push_back({std::move(name), d.arrived ? fmt::format("{}", d.iterations) : "-",
                          fmt::format("{}", d.uploads), fmt::format("{:.3g} MB", static_cast<double>(d.bytes) / 1e6)});
  };
  descent const plain = descend(problem, lag{.trigger = 0});
  add("GD", plain);
  descent lazy;
  for (double const trigger : {0.01, 0.1, 1.0}) {
    descent const d = descend(problem, lag{.trigger = trigger});
    add(fmt::format("LAG-WK, D = 10, ξ = {}", trigger), d);
    if (trigger == 0.1) lazy = d;  // the paper's
  }
  fmt::print("Linear regression of {} parameters on {} workers, of 50 rows each, whose gradients differ in how fast they "
             "change: L_m = (1.3^(m-1) + 1)^2; the j-th feature is of the scale 0.97^j. Steps of 1/L, until the loss has "
             "fallen to 1e-8 of what it was.\n\n{}",
             problem.parameters, problem.workers, table.to_string());
  double const fewer = static_cast<double>(plain.uploads) / static_cast<double>(lazy.uploads);
  claims said;
  said.add(plain.arrived && lazy.arrived && fewer > 5 && 10 * lazy.iterations < 12 * plain.iterations,
           "LAG converges at the rate of batch gradient descent (abstract), with a small part of its uploads where the "
           "L_m differ (§4, with such L_m, D = 10 and ξ = 0.1).",
           fmt::format("with {} uploads in {} iterations, gradient descent with {} in {}: {:.1f} times fewer.",
                       lazy.uploads, lazy.iterations, plain.uploads, plain.iterations, fewer));
  said.print();
}

}  // namespace rubato::bench
