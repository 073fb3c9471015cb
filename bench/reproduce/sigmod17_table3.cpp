// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Table 3 of "Heterogeneity-aware Distributed Parameter Servers" (SIGMOD 2017): 30 workers, 10
// servers, HL 1 and 2, staleness 3 and 10, LR and SVM, rates tuned. The paper has URL and CTR on a
// cluster; here it is a9a in virtual time, so only ratios to BSP can be compared. A clock of the paper is
// one pass over the data by §2.1 and one mini-batch of a tenth by [23], which §7.1 follows: both are run.

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/compare/compare.hpp"
#include "bench/compare/reference.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/sigmod17.hpp"
#include "bench/result/text.hpp"

namespace rubato::bench {
namespace {

// ---- the paper

/// The systems of the table that have a counterpart here, in the order of `protocols`: Petuum's
/// BSP, ASP and SSP, and the paper's ConSGD and DynSGD.
constexpr std::array<char const*, 8> protocols = {
    "bsp", "asp", "ssp:3", "ssp:10", "con_sgd:3", "con_sgd:10", "dyn_sgd:3", "dyn_sgd:10"};

struct paper_row {
  double seconds[8];
  double updates[8];
};

/// Of Table 3's eleven columns (Spark, Petuum and TensorFlow BSP; Petuum and TensorFlow ASP; Petuum
/// SSP, ConSGD and DynSGD at s = 3; the same at s = 10) the 2nd, 4th, 6th, 9th, 7th, 10th,
/// 8th and 11th.
/// Run times in seconds, updates until the target.
struct paper_block {
  model_kind model;
  char const* data;
  paper_row level[2];  ///< HL 1, HL 2
};
constexpr std::array paper = {
    paper_block{
        model_kind::lr,
        "URL",
        {{{134, 117, 87, 78, 85, 78, 82, 73}, {810, 955, 847, 949, 862, 948, 833, 887}},
         {{267, 625, 250, 549, 196, 116, 147, 93}, {810, 3858, 1243, 3756, 1062, 1144, 851, 891}}}},
    paper_block{
        model_kind::lr,
        "CTR",
        {{{462, 748, 570, 646, 456, 532, 342, 456}, {180, 317, 278, 492, 229, 406, 164, 353}},
         {{966, 4964, 2233, 4501, 1414, 798, 546, 714},
          {180, 1964, 606, 2035, 404, 517, 204, 453}}}},
    paper_block{
        model_kind::svm,
        "URL",
        {{{84, 88, 60, 62, 55, 52, 51, 44}, {570, 826, 752, 969, 687, 824, 628, 692}},
         {{178, 476, 188, 454, 133, 84, 102, 60}, {570, 3318, 1128, 3518, 822, 986, 639, 758}}}},
    paper_block{
        model_kind::svm,
        "CTR",
        {{{544, 480, 528, 544, 539, 479, 360, 416}, {240, 366, 322, 467, 318, 447, 229, 387}},
         {{1104, 6120, 3690, 6534, 1907, 1036, 873, 555},
          {240, 2757, 890, 2912, 511, 773, 253, 434}}}},
};

// ---- ours

constexpr std::array readings = {sigmod17::clock_is::batch, sigmod17::clock_is::pass};

using results_at_level = std::vector<run_result>;  // in the order of `protocols`

results_at_level run_level(workload const& work, double level, sigmod17::clock_is clock, double target,
                           reproduce_options const& options) {
  compare_settings s;
  s.job = sigmod17::job(work, target, options.clocks.value_or(100), options, clock);
  s.job.scenario.speed.heterogeneity.level = level;
  s.job.decay = 0.2;
  s.job.stop.at_target = true;
  s.protocols = parse_protocols(std::vector<std::string>(protocols.begin(), protocols.end()), {});
  return compare(s);
}

double run_time(run_result const& r) { return r.counted_seconds(); }
double updates(run_result const& r) { return static_cast<double>(r.counted_updates()); }
double per_update(run_result const& r) { return r.counted_seconds_per_update(); }

double paper_time(paper_row const& row, std::size_t i) { return row.seconds[i]; }
double paper_updates(paper_row const& row, std::size_t i) { return row.updates[i]; }
double paper_per_update(paper_row const& row, std::size_t i) {
  return row.seconds[i] / row.updates[i];
}

/// What a run and the paper's are judged by, in units of BSP's.
struct figure {
  char const* name;
  double (*ours)(run_result const&);
  double (*theirs)(paper_row const&, std::size_t);
};
constexpr std::array figures = {figure{"run time", run_time, paper_time},
                                figure{"updates", updates, paper_updates},
                                figure{"time/update", per_update, paper_per_update}};

// ---- beside the paper

/// Of what differs between the paper's data sets.
struct span_of_ratios {
  double least = std::numeric_limits<double>::infinity();
  double greatest = 0;

  void add(double x) {
    least = std::min(least, x);
    greatest = std::max(greatest, x);
  }
  [[nodiscard]] std::string to_string() const {
    return fmt::format("{:.2f} to {:.2f}", least, greatest);
  }
  /// With a word behind it where it lies outside, up to rounding.
  [[nodiscard]] std::string judge(double x) const {
    constexpr double rounding = 0.005;
    return fmt::format("{:.2f}{}", x, x > greatest + rounding ? " high" : x < least - rounding ? " low" : "");
  }
};

template <class Ratio>
span_of_ratios over_data_sets(model_kind model, Ratio ratio) {
  span_of_ratios out;
  for (paper_block const& b : paper)
    if (b.model == model) out.add(ratio(b));
  return out;
}

/// A figure of ours in units of BSP's beside the paper's; a bound where the target was not reached.
std::string beside(span_of_ratios const& theirs, figure const& f, run_result const& r, run_result const& bsp) {
  if (!bsp.seconds_to_target) return "-";
  double const ratio = f.ours(r) / f.ours(bsp);
  // The time for each update is what it is, however many there would have been.
  if (r.seconds_to_target || f.ours == per_update) return theirs.judge(ratio);
  return fmt::format(">{:.2f}{}", ratio, ratio > theirs.greatest ? " high" : "");
}

/// One heterogeneity in both readings.
text_table table(std::array<results_at_level, readings.size()> const& mine, std::size_t level, model_kind model) {
  text_table t{.head = {"in units of BSP's"}, .rows = {}};
  for (figure const& f : figures)
    for (char const* const column : {"paper", "batch", "pass"}) t.head.push_back(fmt::format("{}: {}", f.name, column));
  for (char const* const column : {"batch", "pass"}) t.head.push_back(fmt::format("rate: {}", column));
  for (std::size_t i = 1; i < protocols.size(); ++i) {
    std::vector<std::string> row = {mine[0][i].label};
    for (figure const& f : figures) {
      auto const theirs = over_data_sets(model, [&](paper_block const& b) {
        return f.theirs(b.level[level], i) / f.theirs(b.level[level], 0);
      });
      row.push_back(theirs.to_string());
      for (results_at_level const& r : mine) row.push_back(beside(theirs, f, r[i], r[0]));
    }
    for (results_at_level const& r : mine) row.push_back(show_number(r[i].learning_rate));
    t.rows.push_back(std::move(row));
  }
  return t;
}

std::string of_bsp(run_result const& r) {
  return fmt::format("{}{}, {} updates at rate {}", r.seconds_to_target ? "" : "not in ",
                     show_seconds(r.counted_seconds()), r.counted_updates(), show_number(r.learning_rate));
}

/// How many times as much a protocol takes at HL 2 as at HL 1, here and in the paper.
text_table growth(std::array<std::array<results_at_level, readings.size()>, 2> const& mine, model_kind model) {
  text_table t{.head = {"at HL 2 / at HL 1"}, .rows = {}};
  for (figure const& f : figures)
    for (char const* const column : {"paper", "batch", "pass"}) t.head.push_back(fmt::format("{}: {}", f.name, column));
  for (std::size_t i = 0; i < protocols.size(); ++i) {
    std::vector<std::string> row = {mine[0][0][i].label};
    for (figure const& f : figures) {
      auto const theirs = over_data_sets(
          model, [&](paper_block const& b) { return f.theirs(b.level[1], i) / f.theirs(b.level[0], i); });
      row.push_back(theirs.to_string());
      for (std::size_t k = 0; k < readings.size(); ++k) {
        run_result const &at_1 = mine[0][k][i], &at_2 = mine[1][k][i];
        bool const known = at_1.seconds_to_target && at_2.seconds_to_target;
        row.push_back(known ? theirs.judge(f.ours(at_2) / f.ours(at_1)) : "-");
      }
    }
    t.rows.push_back(std::move(row));
  }
  return t;
}

void run_model(model_kind model, loaded_data const& data, reproduce_options const& options) {
  workload const work = sigmod17::make_workload(model, data);
  double const target = find_reach(work, options.shards).at(0.98);
  fmt::print("== {} on {}, target {:.4g} (98% of the way from w = 0 to what serial SGD finds)\n",
             model == model_kind::lr ? "LR" : "SVM", data.name, target);
  std::array<std::array<results_at_level, readings.size()>, 2> mine;
  for (std::size_t level = 0; level < 2; ++level) {
    for (std::size_t k = 0; k < readings.size(); ++k)
      mine[level][k] = run_level(work, static_cast<double>(level + 1), readings[k], target, options);
    fmt::print("\nHL = {}; BSP takes {} (batch); {} (pass)\n{}", level + 1, of_bsp(mine[level][0][0]),
               of_bsp(mine[level][1][0]), table(mine[level], level, model).to_string());
  }
  fmt::print("\n{}\n", growth(mine, model).to_string());
}

}  // namespace

void reproduce_sigmod17_table3(reproduce_options const& options) {
  loaded_data const data = sigmod17::load(options);
  fmt::print(
      "Table 3 of \"Heterogeneity-aware Distributed Parameter Servers\", SIGMOD 2017: 30 workers, "
      "10 servers, tuned rates, shards {}.\nOurs in virtual time on scenario paper-cluster, a clock being a "
      "mini-batch (batch) or a pass in ten of them (pass); the paper's are the ranges over its data sets, of "
      "Petuum's BSP, ASP and SSP, and its ConSGD and DynSGD. \"high\" and \"low\" are outside of them.\n\n",
      name_of(options.shards));
  for (model_kind const model : {model_kind::lr, model_kind::svm}) run_model(model, data, options);
}

}  // namespace rubato::bench
