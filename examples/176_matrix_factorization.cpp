// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Recommendations by stochastic gradient descent: users' factors stay with the worker that has their ratings, items'
// factors are shared. Each of the four workers is slow now and then, and what the others then do the protocol says.
//   176_matrix_factorization FILE    MovieLens's u.data, ratings.dat or ratings.csv; without one, synthetic ratings
#include <chrono>
#include <cmath>
#include <cstdio>
#include <rubato/algorithm/matrix_factorization.hpp>
#include <rubato/data/movielens.hpp>
#include <rubato/rubato.hpp>
#include <vector>

namespace rb = rubato;
namespace ra = rubato::algorithm;
using namespace std::chrono_literals;

ra::mf_options const options{.rank = 8, .learning_rate = 0.02, .l2 = 0.1, .sweeps = 8};
constexpr std::uint32_t workers = 4;

/// What one worker's users come to after a sweep, and when: workers write no line but their own.
struct progress {
  double squares = 0;
  double seconds = 0;
};

template <class Transport, class Protocol>
void train(char const* name, Transport const& where, Protocol const& protocol, rb::data::held_out_ratings const& all) {
  auto const& [known, held_out] = all;
  ra::mf_model model(known, options);
  rb::cluster cluster{where, protocol, model.item_table()};
  auto const sweeps = static_cast<std::size_t>(options.sweeps);
  std::vector<std::vector<progress>> after(workers, std::vector<progress>(sweeps));
  cluster.run([&, &known = known, &held_out = held_out](auto& worker) {
    auto const own = ra::line_range::of(known.users(), worker.rank(), worker.count());
    ra::factorize(worker, known, model, options, [&](std::int64_t sweep) {
      double const squares = ra::factor_objective<float>(held_out, model.users, cluster.observe(), 0, model.mean, own);
      after[worker.rank()][static_cast<std::size_t>(sweep)] = {squares, rb::to_seconds(worker.now().since_start())};
    });
  });
  model.items = cluster.parameters();
  std::printf("%s\n", name);
  for (std::size_t sweep = 0; sweep < sweeps; ++sweep) {
    double squares = 0;
    std::printf("  sweep %zu, ended after", sweep + 1);
    for (auto const& worker : after) {
      squares += worker[sweep].squares;
      std::printf(" %.3f", worker[sweep].seconds);
    }
    std::printf(" s: off by %.3f\n", std::sqrt(squares / static_cast<double>(held_out.size())));
  }
  std::printf("  in the end off by %.3f\n", ra::rmse(held_out, model));
}

int main(int argc, char** argv) try {
  auto const known = argc > 1 ? rb::data::read_ratings(argv[1]).all
                              : rb::data::make_synthetic_ratings({.users = 1000, .items = 100, .per_user = 50});
  auto const parts = known.split(0.1, 1);
  rb::sim::speed_options const speed{.work_cost = 10ns, .random_slowdown = rb::sim::random_slowdown::hop(workers)};
  rb::simulated const there{.workers = workers, .servers = 2, .scenario = {.speed = speed}};
  rb::in_process const here{.workers = workers, .servers = 2};
  train("BSP, virtual time", there, rb::bsp{}, parts);
  train("SSP, virtual time", there, rb::ssp{.staleness = 3}, parts);
  train("BSP, in process", here, rb::bsp{}, parts);
  train("SSP, in process", here, rb::ssp{.staleness = 3}, parts);
} catch (rb::error const& e) {
  std::fprintf(stderr, "176_matrix_factorization: %s\n", e.what());
  return 1;
}
