// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Figures 18 and 19 of the Hop paper (ASPLOS 2019): one worker 4 times slower, which leaves
// iterations out: the duration of an iteration, and the loss over time (§7.3.5).

#include <array>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/hop.hpp"

namespace rubato::bench {
namespace {

using namespace asplos19;

constexpr std::array compared = {"hop", "hop_backup:1", "hop_skip:2", "hop_skip:10"};
/// What an independent model of the same rules found, in units of work: the least and the most of several runs.
constexpr std::array least_elsewhere = {3.92, 3.48, 1.75, 1.00};
constexpr std::array greatest_elsewhere = {4.00, 4.00, 2.00, 1.02};

/// The standard protocol without a straggler, then all with one.
std::vector<outcome> run_all(task& t) {
  std::vector<outcome> all = {t.measure({}, "hop, no straggler")};
  for (char const* const name : compared)
    all.push_back(t.measure({.protocol = name, .slow = slowdown::straggler}));
  return all;
}

std::vector<column> ratios(std::vector<outcome> const& all) {
  return {{"faster", [&](std::size_t row) { return show_speedup(all[row], all[1]); }},
          {"iteration slowed", [&](std::size_t row) {
             return show_ratio(all[row].iteration_seconds() / all[0].iteration_seconds());
           }}};
}

void judge_durations(std::vector<outcome> const& all) {
  auto const slowed = [&](std::size_t i) {
    return all[i].iteration_seconds() / all[0].iteration_seconds();
  };
  claims said;
  said.add(slowed(1) > 3.5 && slowed(1) < 4.3,
           "The straggler makes iterations of the standard protocol 3.9 times as long.",
           show_ratio(slowed(1)) + '.');
  said.add(slowed(4) < 1.25, "With jumps over at most 10 iterations it is 1.1 times.",
           fmt::format("{}; over at most 2 {}, with a backup worker alone {}.",
                       show_ratio(slowed(4)), show_ratio(slowed(3)), show_ratio(slowed(2))));
  said.print();
}

void judge_convergence(std::string const& name, std::vector<outcome> const& all) {
  outcome const &standard = all[1], &backup = all[2], &two = all[3], &ten = all[4];
  claims said;
  said.add(is_faster(two, backup) && is_faster(ten, backup),
           name + ": leaving iterations out is faster than a backup worker alone.",
           fmt::format("{} with at most 2, {} with at most 10, {} with the backup worker.",
                       show_time(two), show_time(ten), show_time(backup)));
  said.add(is_faster(ten, two) && 2 * ten.seconds() < standard.seconds(),
           name + ": at most 10 is the fastest, more than twice as fast as the standard protocol.",
           show_speedup(ten, standard) + '.');
  said.print();
}

std::vector<modelled> model_rows() {
  std::vector<modelled> rows;
  for (std::size_t i = 0; i < compared.size(); ++i)
    rows.push_back(
        {compared[i],
         {.protocol = compared[i], .slow = slowdown::straggler},
         least_elsewhere[i],
         greatest_elsewhere[i]});
  return rows;
}

void introduce_both(char const* figure) {
  introduce(figure);
  fmt::print(
      "The ring-based graph; worker 0 takes 4 times as long to compute; max_ig 8. Jumps are made "
      "with one backup worker, by those that lag 2 iterations or more.\n");
}

void run_convergence(task t) {
  fmt::print("\n{}", t.description());
  auto const all = run_all(t);
  auto more = ratios(all);
  for (column& c : curves_by_time(all, all[1])) more.push_back(std::move(c));
  fmt::print("{}", table_of(all, more).to_string());
  judge_convergence(t.name(), all);
}

}  // namespace

void reproduce_hop_figure18(reproduce_options const& options) {
  introduce_both("Figure 18 (duration of an iteration)");
  task t = task::network(options);
  fmt::print("\n{}", t.description());
  auto const all = run_all(t);
  fmt::print("{}", table_of(all, ratios(all)).to_string());
  judge_durations(all);
  print_timing_model(model_rows(), options.seed);
}

void reproduce_hop_figure19(reproduce_options const& options) {
  introduce_both("Figure 19 (loss over time)");
  run_convergence(task::network(options));
  for (task& t : task::classifiers(options)) run_convergence(std::move(t));
}

}  // namespace rubato::bench
