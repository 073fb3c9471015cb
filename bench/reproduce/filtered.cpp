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
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/diloco.hpp"
#include "rubato/protocol/gaia.hpp"
#include "rubato/protocol/lag.hpp"
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
    if (!f.arrived() || f.bytes_sent() >= best.bytes_sent()) continue;
    best = std::move(f);
    best_threshold = v;
  }
  fmt::print("Links of 20 ms and 100 Mbit/s. Here servers answer with all parameters: what is received is as much as "
             "without a filter.\n\n{}",
             table.to_string());
  claims said;
  said.add(best.bytes_sent() < 0.5 * plain.bytes_sent(),
           "\"the vast majority of updates [...] are insignificant\" (§3.1): 95.6% of those of matrix factorization "
           "are below 1% of their parameter, and Gaia is 1.8 to 53.5 times as fast over wide areas.",
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
           "Synchronizing one fragment at a time reduces peak bandwidth by their number, \"without loss of learning "
           "efficiency\" (§2.2 and abstract, language models).",
           fmt::format("with P = {} a worker moves {:.2f} of DiLoCo's bytes at once, and goes {:.3f} of its way.",
                       fragments_most, share, reached));
  said.print();
}

void reproduce_lag(reproduce_options const& options) {
  ground const g(options, {.batch = 1, .shards = {.how = row_order::kind::by_label, .labelled = 0.5}, .steps = 2'000});
  text_table table{.head = {"", "rate", "iterations", "uploads", "sent", "loss in the end"}, .rows = {}};
  auto const add = [&](std::string name, finish const& f, double uploads) {
    table.rows.push_back({std::move(name), fmt::format("{:.3g}", f.run.learning_rate),
                          fmt::format("{}", f.run.clocks_to_target.value_or(0)), fmt::format("{:.0f}", uploads),
                          fmt::format("{:.3g} MB", f.bytes_sent() / 1e6), fmt::format("{:.5f}", f.run.final_loss)});
  };
  finish const plain = g.run([](double) { return bsp{}; }, 1);
  auto const all = static_cast<double>(plain.run.counted_updates());
  add("GD (BSP)", plain, all);
  std::shared_ptr<std::uint64_t> counted;
  double fewest = std::numeric_limits<double>::infinity();
  for (double const trigger : {0.01, 0.1, 0.5}) {
    finish const f = g.run(
        [&](double) {
          counted = std::make_shared<std::uint64_t>(0);
          return with(lag{}, counted_upload{{.trigger = trigger}, counted});
        },
        1);
    // As the bytes: a run goes on for a clock.
    double const uploads = static_cast<double>(*counted) * static_cast<double>(f.run.counted_updates()) /
                           static_cast<double>(f.run.updates);
    add(fmt::format("LAG-WK, D = 10, ξ = {}", trigger), f, uploads);
    if (f.arrived()) fewest = std::min(fewest, uploads);
  }
  fmt::print("Half of each worker's rows go by their labels.\n\n{}", table.to_string());
  claims said;
  said.add(plain.arrived() && fewest < all / 2,
           "LAG converges at the rate of batch gradient descent (abstract), and needs fewer uploads to the same accuracy, "
           "by an order of magnitude in §4's experiments.",
           fmt::format("LAG-WK reaches the target with {:.0f} uploads, gradient descent with {:.0f}: {:.1f} times as many.",
                       fewest, all, all / fewest));
  said.print();
}

}  // namespace rubato::bench
