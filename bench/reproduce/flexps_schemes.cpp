// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/flexps_schemes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "rubato/core/random.hpp"

namespace rubato::bench::pvldb18 {

namespace {

/// So many of an automatic stage are made; its search ends before.
constexpr std::int64_t at_most = 150;
/// So many small steps of an epoch.
constexpr std::int64_t small = 60;

}  // namespace

constant_batch measure_constant_batch(experiment const& e, double batch, search_options const& search,
                                      std::uint64_t seed, std::int64_t measured) {
  constant_batch c;
  c.iterations = std::round(1 / batch);
  std::size_t const rows = e.of().rows_for(batch * e.of().samples);
  by_degree const fixed([&](std::uint32_t k) {
    auto const r = e.sgd(learner::svm, {{.batch = rows, .iterations = measured, .stage = with_workers(k)}});
    return cost_of(r, 0, c.iterations);
  });
  c.best = fixed.best_of_all(machines);
  c.optimal = fixed.at(c.best);
  auto const searched = [&](search_options const& how, std::uint32_t& degree) {
    std::int64_t const made = std::min(static_cast<std::int64_t>(c.iterations), at_most);
    auto const r = e.sgd(learner::svm, {{.batch = rows, .iterations = made, .stage = with_search(how)}});
    degree = degree_of(r, 0);
    return cost_of(r, 0, c.iterations);
  };
  c.automatic = searched(search, c.found);
  c.from_one = searched({.probe = search.probe, .growth = search.growth}, c.found_from_one);
  constexpr int draws = 20;
  random_stream random(seed, draws);
  for (int i = 0; i < draws; ++i)
    c.random += (1.0 / draws) *
                fixed.at(machines + static_cast<std::uint32_t>(random.below(most_workers - machines + 1)));
  return c;
}

dynamic_workload try_degrees(std::vector<stage_cost> const& stages) {
  constexpr std::uint32_t step = 10;
  dynamic_workload w;
  std::vector<by_degree> each;
  for (stage_cost const& s : stages) {
    by_degree const& spread = each.emplace_back(s.spread);
    choice best{spread.best(step)};
    cost least = spread.at(best.workers);
    w.spread += least;
    if (s.local) {
      by_degree const local(s.local);
      choice const here{local.best_of_all(2, cores), true};
      if (local.at(here.workers).seconds < least.seconds) best = here, least = local.at(here.workers);
    }
    w.best.push_back(best);
    w.optimal += least;
  }
  by_degree const together([&](std::uint32_t k) {
    cost sum;
    for (by_degree const& s : each) sum += s.at(k);
    return sum;
  });
  w.constant = together.best(step);
  w.constant_cost = together.at(w.constant);
  return w;
}

// ---- SGD in phases

namespace {

/// Ten iterations tell a degree's pace, where there are as many; where there are fewer, a search that spends
/// few on each degree. It begins with a worker on each machine, and with 1.75 times as many for batches ten
/// times as large: so the optimum grows in Figure 1, from 15 to 45 with batches a hundred times as large.
search_options search_of(double iterations, std::size_t phase) {
  return {.probe = std::clamp(static_cast<std::int64_t>(iterations / 20), std::int64_t{1}, std::int64_t{10}),
          .first = static_cast<std::uint32_t>(machines * std::pow(1.75, static_cast<double>(phase)))};
}

}  // namespace

dynamic_workload measure_phases(experiment const& e, std::array<double, 3> const& batches) {
  std::vector<stage_cost> stages;
  std::vector<double> iterations;
  std::vector<algorithm::sgd_phase> automatic;
  cost const around = e.transfer(1);
  for (double const batch : batches) {
    double const all = iterations.emplace_back(std::round(1 / batch));
    algorithm::sgd_phase const one{.batch = e.of().rows_for(batch * e.of().samples), .iterations = 4};
    auto const at = [&e, one, all](std::uint32_t k, place where) {
      algorithm::sgd_phase p = one;
      p.stage = with_workers(k);
      return cost_of(e.sgd(learner::svm, {p}, where), 0, all);
    };
    stages.push_back({[at](std::uint32_t k) { return at(k, place::cluster); },
                      [at, around](std::uint32_t k) { return at(k, place::machine) += around; }});
    automatic.push_back(one);
    automatic.back().iterations = std::min(static_cast<std::int64_t>(all), at_most);
  }
  dynamic_workload w = try_degrees(stages);
  for (std::size_t phase = 0; phase < batches.size(); ++phase) {
    bool const local = w.best[phase].local;
    search_options search = search_of(iterations[phase], phase);
    if (local) search.first = 1;
    automatic[phase].stage = with_search(search);
    task_report const r = e.sgd(learner::svm, {automatic[phase]}, local ? place::machine : place::cluster);
    w.found.push_back({degree_of(r, 0), local});
    w.automatic += cost_of(r, 0, iterations[phase]);
    if (local) w.automatic += around;
  }
  return w;
}

// ---- SVRG

dynamic_workload measure_svrg(experiment const& e, double batch) {
  constexpr std::int64_t epochs = 10;
  double const steps = epochs * std::round(2 / batch);
  algorithm::svrg_options const one{.epochs = 1,
                                    .batch = e.of().rows_for(batch * e.of().samples),
                                    .steps = small,
                                    .rate = 0.5,
                                    .how = algorithm::exchange::by_key};
  auto const full = [&](std::uint32_t k) {
    algorithm::svrg_options o = one;
    o.steps = 1;
    o.full_gradient = with_workers(k);
    return cost_of(e.svrg(o), 0, epochs);
  };
  auto const steps_at = [&](std::uint32_t k, place where) {
    algorithm::svrg_options o = one;
    o.small_steps = with_workers(k);
    return cost_of(e.small_steps(o, where), 0, steps);
  };
  cost const around = static_cast<double>(epochs) * e.transfer(3);
  dynamic_workload w =
      try_degrees({{full},
                   {[&](std::uint32_t k) { return steps_at(k, place::cluster); },
                    [&](std::uint32_t k) { return steps_at(k, place::machine) += around; }}});
  algorithm::svrg_options o = one;
  // A gradient is one iteration: a degree is tried in each epoch, and the rest goes on with what has been
  // found.
  o.epochs = 6;
  o.full_gradient = with_search({.probe = 1, .first = machines, .growth = 2});
  o.small_steps = with_search({});
  bool const local = w.best[1].local;
  if (local) o.steps = 1;
  task_report const r = e.svrg(o);
  w.found.push_back({degree_of(r, 0), false});
  w.automatic += cost_of(r, 0, epochs);
  o.steps = small;
  task_report const steps_apart = local ? e.small_steps(o, place::machine) : r;
  std::size_t const stage = local ? 0 : 1;
  w.found.push_back({degree_of(steps_apart, stage), local});
  w.automatic += cost_of(steps_apart, stage, steps);
  if (local) w.automatic += around;
  return w;
}

}  // namespace rubato::bench::pvldb18
