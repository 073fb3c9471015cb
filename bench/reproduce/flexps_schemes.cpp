// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/reproduce/flexps_schemes.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "rubato/core/random.hpp"

namespace rubato::bench::pvldb18 {

namespace {

/// Of a stage of SGD. By the shorter one searches have ended and, in single-machine mode, all chunks have
/// come.
constexpr lengths of_phases{.shorter = 75, .longer = 150};
/// So many small steps of an epoch tell the pace of a degree over all machines.
constexpr std::int64_t small = 60;

/// What a stage takes in all of its iterations, of which no more are made than the longer length.
/// @param run of a task with so many @param found gets the degree at which it went on
cost cost_of_all(std::int64_t iterations, lengths const& made,
                 std::function<task_report(std::int64_t)> const& run, std::uint32_t* found = nullptr) {
  task_report const r = run(std::min(iterations, made.longer));
  if (found != nullptr) *found = degree_of(r, 0);
  if (iterations <= made.longer) return cost_of(r, 0);
  return cost_of(run(made.shorter), r, 0, static_cast<double>(iterations));
}

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
    std::int64_t const made = std::min(static_cast<std::int64_t>(c.iterations), of_phases.longer);
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
  auto const phase_at = [&](std::size_t phase, stage_options const& stage) {
    return [&e, stage, batch = e.of().rows_for(batches[phase] * e.of().samples)](std::int64_t iterations) {
      return e.sgd(learner::svm, {{.batch = batch, .iterations = iterations, .stage = stage}});
    };
  };
  std::array<double, 3> iterations{};
  std::ranges::transform(batches, iterations.begin(), [](double batch) { return std::round(1 / batch); });
  std::vector<stage_cost> stages;
  for (std::size_t i = 0; i < batches.size(); ++i) {
    double const all = iterations[i];
    stages.push_back(
        {[=](std::uint32_t k) { return cost_of(phase_at(i, with_workers(k))(4), 0, all); },
         [=](std::uint32_t k) {
           stage_options const stage = on_one_machine(k, preparation::on_demand);
           return cost_of_all(static_cast<std::int64_t>(all), of_phases, phase_at(i, stage));
         }});
  }
  dynamic_workload w = try_degrees(stages);
  for (std::size_t i = 0; i < batches.size(); ++i) {
    choice& found = w.found.emplace_back(choice{.local = w.best[i].local});
    search_options search = search_of(iterations[i], i);
    if (found.local) search.first = 1;
    stage_options const stage =
        found.local ? on_one_machine(automatic, preparation::on_demand, search) : with_search(search);
    w.automatic += cost_of_all(static_cast<std::int64_t>(iterations[i]), of_phases, phase_at(i, stage),
                               &found.workers);
  }
  return w;
}

// ---- SVRG

namespace {

constexpr std::int64_t epochs = 10;

/// The whole task with searches for both degrees. A gradient is one iteration: a degree is tried in each
/// epoch, and the rest goes on with what has been found.
void measure_automatic(experiment const& e, algorithm::svrg_options o, double steps, lengths const& made,
                       dynamic_workload& w) {
  bool const local = w.best[1].local;
  o.epochs = epochs;
  o.full_gradient = with_search({.probe = 1, .first = machines, .growth = 2});
  o.small_steps = local ? on_one_machine(automatic, preparation::on_demand) : with_search({});
  o.steps = made.shorter;
  task_report const shorter = e.svrg(o);
  o.steps = made.longer;
  task_report const longer = e.svrg(o);
  w.found = {{degree_of(longer, 0), false}, {degree_of(longer, 1), local}};
  w.automatic = cost_of(longer, 0);
  w.automatic += cost_of(shorter, longer, 1, epochs * steps);
}

}  // namespace

dynamic_workload measure_svrg(experiment const& e, double batch, lengths const& made) {
  double const steps = std::round(2 / batch);
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
  auto const small_steps = [&](stage_options const& stage, std::int64_t n) {
    algorithm::svrg_options o = one;
    o.small_steps = stage;
    o.steps = n;
    return e.small_steps(o);
  };
  auto const spread = [&](std::uint32_t k) {
    return cost_of(small_steps(with_workers(k), small), 0, epochs * steps);
  };
  auto const local = [&](std::uint32_t k) {
    stage_options const stage = on_one_machine(k, preparation::on_demand);
    return epochs * cost_of_all(static_cast<std::int64_t>(steps), made,
                                [&](std::int64_t n) { return small_steps(stage, n); });
  };
  dynamic_workload w = try_degrees({{full}, {spread, local}});
  measure_automatic(e, one, steps, made, w);
  return w;
}

}  // namespace rubato::bench::pvldb18
