// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Claims of federated learning, in virtual time: FedAvg's rounds, and FedBuff where clients take long at times.

#include "bench/reproduce/federated.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/best_rate.hpp"
#include "bench/reproduce/claims.hpp"
#include "bench/result/text.hpp"
#include "rubato/core/random.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/fed_avg.hpp"
#include "rubato/protocol/fed_buff.hpp"
#include "rubato/protocol/k_sync.hpp"

namespace rubato::bench {

using namespace std::chrono_literals;

data::dataset deal_by_label(data::dataset const& rows, std::size_t pieces, std::uint64_t seed) {
  data::dataset const mixed = rows.shuffled(seed);
  std::vector<std::size_t> sorted(mixed.size());
  std::iota(sorted.begin(), sorted.end(), std::size_t{0});
  std::ranges::stable_sort(sorted, {}, [&](std::size_t i) { return mixed.labels()[i]; });
  std::vector<std::size_t> piece(pieces);
  std::iota(piece.begin(), piece.end(), std::size_t{0});
  random_stream(seed, 0xdea1).shuffle(std::span(piece));
  std::vector<std::size_t> order;
  order.reserve(sorted.size());
  for (std::size_t const p : piece)
    for (std::size_t i = p * sorted.size() / pieces; i < (p + 1) * sorted.size() / pieces; ++i)
      order.push_back(sorted[i]);
  return mixed.gather(order);
}

namespace {

loaded_data dealt(loaded_data all, std::size_t pieces, std::uint64_t seed) {
  all.train = pieces == 0 ? all.train.shuffled(seed) : deal_by_label(all.train, pieces, seed);
  return all;
}

}  // namespace

clients::clients(reproduce_options const& options, std::uint32_t of, std::size_t pieces)
    : of_(of),
      seed_(options.seed),
      data_(dealt(load_digits(options, of * std::size_t{100}), pieces * of, options.seed),
            {.model = model_kind::mlp, .l2 = 1e-4, .evaluated_rows = 1'000}, {.how = row_order::kind::ordered}),
      work_(&data_.with_seed(options.seed)) {}

training clients::job(double batch) const {
  training job;
  job.work = work_;
  job.workers = of_;
  job.servers = 1;
  double const values = batch * static_cast<double>(work_->train().nonzeros()) / of_;
  job.scenario.speed.work_cost = seconds(1e-3 / values);
  job.scenario.network.worker_link.latency = 0us;
  job.scenario.seed = job.seed = seed_;
  job.batch = batch;
  job.steps_per_commit = 1;
  job.points = 1'000;
  job.target = 0.1 * work_->objective(work_->initial());
  return job;
}

namespace {

// ---- FedAvg

/// A row of the paper's Table 2: MNIST, the convolutional network, C = 0.1.
struct local_work {
  std::int64_t passes;  ///< E
  double batch;         ///< B as a share of a client's rows; 1: all
  double paper_iid, paper_dealt;  ///< its rounds, of 600 images in one batch or in batches of 10
};

constexpr std::array table2 = {local_work{1, 1, 626, 483}, local_work{5, 1, 179, 1000}, local_work{1, 0.1, 34, 350},
                               local_work{5, 0.1, 20, 229}};

/// Rounds to the target, at the best rate; infinite where that was not reached.
double rounds_of(clients const& from, local_work const& how, std::int64_t rounds_most) {
  constexpr std::uint32_t drawn = 10, of = 100;
  training job = from.job(how.batch);
  std::int64_t const steps = how.passes * job.steps_of_a_pass();
  job.look_every = 1.5e-3 * static_cast<double>(steps);  // in every other round
  job.clocks = steps * rounds_most * drawn / of;
  fed_avg const p{.clients = drawn, .of = of, .steps = steps, .seed = job.seed};
  run_result const r = run_at_best_rate(job, [&](double) { return p; }, steps,
                                        {.least = 0.1, .greatest = 1.6, .factor = 4, .refinements = 1});
  if (!r.seconds_to_target) return std::numeric_limits<double>::infinity();
  return static_cast<double>(*r.updates_to_target) / drawn;
}

std::string show_rounds(double rounds, double of_first) {
  if (!std::isfinite(rounds)) return "-";
  return fmt::format("{:.0f} ({})", rounds, show_ratio(of_first / rounds));
}

}  // namespace

void reproduce_fed_avg(reproduce_options const& options) {
  fmt::print("McMahan, Moore, Ramage, Hampson, Aguera y Arcas, \"Communication-Efficient Learning of Deep Networks "
             "from Decentralized Data\", AISTATS 2017, Table 2 (MNIST, CNN): rounds to a target with 10 of 100 clients "
             "in each.\n");
  clients const iid(options, 100, 0), by_label(options, 100, 2);
  fmt::print("Here a network of 32 hidden units on {}, 100 images for each client, to a tenth of the initial "
             "objective; each row at its best rate.\n\n", iid.name());
  text_table table{.head = {"E, B", "IID", "paper", "two labels each", "paper"}, .rows = {}};
  std::vector<std::pair<double, double>> all;
  for (local_work const& how : table2) {
    std::int64_t const most = options.clocks.value_or(600);
    all.emplace_back(rounds_of(iid, how, most), rounds_of(by_label, how, most));
    table.rows.push_back({fmt::format("{}, {}", how.passes, how.batch == 1 ? "all" : "a tenth"),
                          show_rounds(all.back().first, all.front().first),
                          show_rounds(how.paper_iid, table2[0].paper_iid),
                          show_rounds(all.back().second, all.front().second),
                          show_rounds(how.paper_dealt, table2[0].paper_dealt)});
  }
  fmt::print("{}", table.to_string());
  if (!std::ranges::all_of(all, [](auto const& r) { return std::isfinite(r.first) && std::isfinite(r.second); }))
    return fmt::print("\nNot all came to the target.\n");
  double const gain = all[0].first / all[3].first, gain_dealt = all[0].second / all[3].second;
  claims said;
  said.add(gain > 0.75 * 31.3, "FedAvg (E = 5, B = 10) takes 31.3 times fewer rounds than FedSGD.",
           fmt::format("{} fewer.", show_ratio(gain)));
  said.add(gain_dealt > 1 && gain_dealt < gain, "With two labels each it still gains, but less: 2.1 times fewer.",
           fmt::format("{} fewer.", show_ratio(gain_dealt)));
  said.add(all[1].second > all[0].second, "Five passes with all rows in a batch lose there (0.5 times).",
           fmt::format("{}.", show_ratio(all[0].second / all[1].second)));
  said.print();
}

// ---- FedBuff

namespace {

struct trip_row {
  std::string name;
  run_result run;
  [[nodiscard]] double seconds() const {
    return run.seconds_to_target.value_or(std::numeric_limits<double>::infinity());
  }
  [[nodiscard]] double trips() const { return static_cast<double>(run.counted_updates()); }
};

/// Runs whose clients take lognormal times.
std::vector<trip_row> race_of_trips(clients const& from, double sigma, std::int64_t clocks) {
  training job = from.job(0.1);
  job.scenario.speed.jitter = sim::lognormal{.sigma = sigma};
  job.clocks = clocks;
  auto const run = [&](std::string name, rules const& p) {
    return trip_row{std::move(name), run_at_best_rate(job, [&](double) { return p; }, 1,
                                                      {.least = 0.1, .greatest = 1.6, .factor = 4})};
  };
  std::vector<trip_row> all;
  all.push_back(run("FedAvg, all of 100", bsp{}));
  all.push_back(run("FedAvg, the first 77 of 100", k_sync{.k = 77}));
  for (std::uint32_t const k : {1U, 10U, 30U}) all.push_back(run(fmt::format("FedBuff, K = {}", k), fed_buff{.k = k}));
  return all;
}

}  // namespace

void reproduce_fed_buff(reproduce_options const& options) {
  fmt::print("Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba, \"Federated Learning with Buffered Asynchronous "
             "Aggregation\", AISTATS 2022: 100 clients at a time, of which FedAvg draws 30% more than it needs.\n");
  clients const from(options, 100, 0);
  fmt::print("Here a network of 32 hidden units on {}, to a tenth of the initial objective; an update is one "
             "mini-batch of 10 images, which takes lognormal times. Each at its best rate.\n", from.name());
  claims said;
  for (double const sigma : {0.25, 1.0}) {
    auto const all = race_of_trips(from, sigma, options.clocks.value_or(400));
    text_table table{.head = {fmt::format("sigma {}", sigma), "rate", "time", "updates", "faster", "fewer"},
                     .rows = {}};
    for (trip_row const& r : all)
      table.rows.push_back({r.name, fmt::format("{:.3g}", r.run.learning_rate),
                            r.run.seconds_to_target ? show_seconds(r.seconds()) : "-", fmt::format("{:.0f}", r.trips()),
                            show_ratio(all[1].seconds() / r.seconds()), show_ratio(all[1].trips() / r.trips())});
    fmt::print("\n{}", table.to_string());
    if (sigma < 1) continue;
    if (!std::ranges::all_of(all, [](trip_row const& r) { return std::isfinite(r.seconds()); }))
      return fmt::print("\nNot all came to the target.\n");
    double const faster = all[1].seconds() / all[3].seconds(), fewer = all[1].trips() / all[3].trips();
    said.add(fewer > 0.75 * 3.3, "FedBuff (K = 10) is 3.3 times as efficient as synchronous FL, in clients' updates.",
             fmt::format("with {} fewer updates, and {} as fast.", show_ratio(fewer), show_ratio(faster)));
    said.add(all[3].trips() < all[2].trips(), "It is up to 2.5 times as efficient as asynchronous FL (K = 1).",
             fmt::format("with {} fewer updates.", show_ratio(all[2].trips() / all[3].trips())));
  }
  said.print();
}

}  // namespace rubato::bench
