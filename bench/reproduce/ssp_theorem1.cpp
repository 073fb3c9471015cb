// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.

// Theorem 1 of the SSP paper (NIPS 2013), and theorems 1 and 2 of "Heterogeneity-aware Distributed Parameter Servers"
// (SIGMOD 2017): the regret and the staleness measured on convex problems, beside what they are bounded by.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "bench/reproduce/claims.hpp"
#include "bench/reproduce/registry.hpp"
#include "bench/reproduce/regret.hpp"
#include "bench/result/text.hpp"
#include "rubato/core/error.hpp"
#include "rubato/protocol/asp.hpp"
#include "rubato/protocol/bsp.hpp"
#include "rubato/protocol/con_sgd.hpp"
#include "rubato/protocol/dyn_sgd.hpp"
#include "rubato/protocol/ssp.hpp"

namespace rubato::bench {
namespace {

constexpr std::array<std::uint32_t, 3> worker_counts = {4, 8, 16};
constexpr std::array<std::int64_t, 4> stalenesses = {0, 1, 3, 10};
constexpr std::uint32_t workers_usual = 8;
constexpr std::int64_t staleness_usual = 3;
constexpr std::int64_t updates_usual = 122'880;
constexpr std::int64_t clocks_most = 200'000;  // 256 MB of rows
constexpr std::int64_t updates_least = 1'000;
constexpr std::size_t halvings = 6;
constexpr double heterogeneity_usual = 2;

struct trial {
  std::string label;
  regret_bound bound;
  std::vector<double> updates;  ///< T of each regret
  bool has_bound;    ///< of SSP; ASP has none
  bool lemma_holds;  ///< whether what may be read is what Eq. 2 says, with s >= 1
  regret_run run;

  [[nodiscard]] double regret() const { return run.regrets.back(); }
  [[nodiscard]] double bounded_by(double factor = regret_bound::of_ssp) const {
    return bound.at(updates.back(), factor);
  }
  [[nodiscard]] double most_differing() const {
    return 2.0 * static_cast<double>(bound.staleness) * (bound.workers - 1);
  }
  /// Over the last doublings of T, at most four: the b of R ~ T^b. Nothing where there is but one T.
  [[nodiscard]] std::optional<double> exponent() const {
    std::size_t const last = updates.size() - 1;
    if (last == 0) return std::nullopt;
    std::size_t const first = last - std::min<std::size_t>(last, 4);
    return std::log(run.regrets[last] / run.regrets[first]) / std::log(updates[last] / updates[first]);
  }
};

/// A problem with the constants that the theorems want.
class experiment {
 public:
  /// @param shape without the rows, which are as many as the longest run has updates
  experiment(std::string const& name, convex_problem::shape shape, reproduce_options const& options)
      : options_(options), problem_(with_rows(shape, updates(worker_counts.back())), options.seed) {
    for (std::uint32_t const workers : worker_counts)
      for (std::int64_t const count : prefixes(workers))
        if (!minima_.contains(count)) minima_[count] = problem_.minimize(static_cast<std::size_t>(count));
    minimum const& best = minima_.rbegin()->second;
    double squared = 0;
    for (double const x : best.at) squared += x * x;
    // x_0 = 0 is on the ball around x* across which D is ½(2|x*|)².
    diameter_ = std::sqrt(2 * squared);
    double gradient = 0;
    for (auto const& [count, m] : minima_) gradient = std::max(gradient, m.gradient);
    fmt::print("\n{}: |x_0 - x*| = {:.4g}, so F = {:.4g}; L = 1; f(x*) = {:.6g}; the gradient at each x* is at most "
               "{:.1g} long.\n\n",
               name, std::sqrt(squared), diameter_, best.value, gradient);
  }

  [[nodiscard]] trial ssp_of(std::int64_t s, std::uint32_t workers) const {
    if (s == 0) return measure("bsp", with(bsp{}, sum{}), bound(s, workers));
    return strict_ssp(fmt::format("ssp({})", s), s, workers, heterogeneity_usual);
  }
  [[nodiscard]] trial even_ssp(std::int64_t s, std::uint32_t workers) const {
    return strict_ssp(fmt::format("ssp({}), even", s), s, workers, 1);
  }
  [[nodiscard]] trial eager_ssp(std::int64_t s, std::uint32_t workers) const {
    return measure(fmt::format("ssp({}), eager", s), ssp{.staleness = staleness{s}}, bound(s, workers));
  }
  [[nodiscard]] trial asp_at(std::int64_t s, std::uint32_t workers) const {
    trial t = measure("asp", asp{}, bound(s, workers));
    t.has_bound = false;
    return t;
  }
  [[nodiscard]] trial con_sgd_of(std::int64_t s, std::uint32_t workers) const {
    con_sgd const p{.staleness = staleness{s}, .fold = {.lambda = 1.0 / workers}};
    return measure("con_sgd", p, bound(s, workers), update_weight::by_workers);
  }
  [[nodiscard]] trial dyn_sgd_of(std::int64_t s, std::uint32_t workers) const {
    return measure("dyn_sgd", dyn_sgd{.staleness = staleness{s}}, bound(s, workers), update_weight::by_version);
  }

 private:
  [[nodiscard]] regret_bound bound(std::int64_t s, std::uint32_t workers) const {
    return {.diameter = diameter_, .lipschitz = convex_problem::lipschitz, .staleness = s, .workers = workers};
  }
  [[nodiscard]] trial strict_ssp(std::string label, std::int64_t s, std::uint32_t workers, double heterogeneity) const {
    basic_ssp<strict> const p{.staleness = staleness{s}};
    trial t = measure(std::move(label), p, bound(s, workers), update_weight::one, heterogeneity);
    t.lemma_holds = true;
    return t;
  }
  [[nodiscard]] trial measure(std::string label, rules protocol, regret_bound const& b,
                              update_weight weight = update_weight::one,
                              double heterogeneity = heterogeneity_usual) const {
    std::vector<optimum> optima;
    std::vector<double> at;
    for (std::int64_t const count : prefixes(b.workers)) {
      optima.push_back({count, minima_.at(count)});
      at.push_back(static_cast<double>(count));
    }
    regret_setting const s{.problem = problem_,
                           .optima = optima,
                           .bound = b,
                           .heterogeneity = heterogeneity,
                           .seed = options_.seed};
    return {std::move(label), b, std::move(at), true, false, measure_regret(s, std::move(protocol), weight)};
  }

  static convex_problem::shape with_rows(convex_problem::shape shape, std::int64_t rows) {
    shape.rows = static_cast<std::size_t>(rows);
    return shape;
  }
  [[nodiscard]] std::int64_t updates(std::uint32_t workers) const {
    if (!options_.clocks) return updates_usual;
    if (*options_.clocks > clocks_most)
      throw option_error(fmt::format("clocks: {}, expected at most {}", *options_.clocks, clocks_most));
    return *options_.clocks * workers;
  }
  /// The T at which the regret is looked at: all updates, half of them and so on.
  [[nodiscard]] std::vector<std::int64_t> prefixes(std::uint32_t workers) const {
    std::vector<std::int64_t> all = {updates(workers)};
    while (all.size() <= halvings && all.back() >= 2 * updates_least) all.push_back(all.back() / 2);
    std::ranges::reverse(all);
    return all;
  }

  reproduce_options options_;
  convex_problem problem_;
  std::map<std::int64_t, minimum> minima_;  ///< by T
  double diameter_ = 0;
};

// ---- SSP

std::vector<trial> run_protocols(experiment const& e) {
  std::vector<trial> all;
  for (std::uint32_t const workers : worker_counts) {
    for (std::int64_t const s : stalenesses) all.push_back(e.ssp_of(s, workers));
    for (std::int64_t const s : stalenesses)
      if (s != 0) all.push_back(e.even_ssp(s, workers));
    if (workers == workers_usual) all.push_back(e.eager_ssp(staleness_usual, workers));
    all.push_back(e.asp_at(staleness_usual, workers));
  }
  return all;
}

void print_regrets(std::vector<trial> const& all) {
  text_table t{.head = {"", "P", "T", "regret", "bound", "of the bound", "as T^", "D / F^2", "staleness", "lacking",
                        "|A| + |B|", "most", "2s(P - 1)"},
               .rows = {}};
  for (trial const& x : all) {
    auto const bound_cell = [&](double value, char const* form) {
      return x.has_bound ? fmt::format(fmt::runtime(form), value) : std::string("none");
    };
    t.rows.push_back({x.label, std::to_string(x.bound.workers), fmt::format("{:.0f}", x.updates.back()),
                      fmt::format("{:.3g}", x.regret()), bound_cell(x.bounded_by(), "{:.3g}"),
                      bound_cell(x.regret() / x.bounded_by(), "{:.4f}"),
                      x.exponent() ? fmt::format("{:.2f}", *x.exponent()) : "",
                      fmt::format("{:.2f}", x.run.region / (x.bound.diameter * x.bound.diameter)),
                      fmt::format("{:.2f} ({})", x.run.mean_staleness, x.run.most_staleness),
                      fmt::format("{:.2f} ({})", x.run.views.mean_lag, x.run.views.most_lag),
                      fmt::format("{:.1f}", x.run.views.mean), std::to_string(x.run.views.most),
                      x.lemma_holds ? fmt::format("{:.0f}", x.most_differing()) : ""});
  }
  fmt::print("{}", t.to_string());
}

trial const& find(std::vector<trial> const& all, std::string const& label, std::uint32_t workers) {
  return *std::ranges::find_if(
      all, [&](trial const& x) { return x.label == label && x.bound.workers == workers; });
}

/// Of BSP and SSP, as T grows.
void print_growth(std::vector<trial> const& all, std::uint32_t workers) {
  text_table t{.head = {"T"}, .rows = {}};
  std::vector<trial const*> shown;
  for (std::int64_t const s : stalenesses)
    shown.push_back(&find(all, s == 0 ? "bsp" : fmt::format("ssp({})", s), workers));
  for (trial const* x : shown) t.head.push_back(x->label);
  for (std::size_t i = 0; i < shown.front()->updates.size(); ++i) {
    std::vector<std::string> row = {fmt::format("{:.0f}", shown.front()->updates[i])};
    for (trial const* x : shown)
      row.push_back(fmt::format("{:.3g} ({:.4f}){}", x->run.regrets[i], x->run.regrets[i] / x->bound.at(x->updates[i]),
                                x->updates[i] < x->bound.proven_from() ? " *" : "  "));
    t.rows.push_back(std::move(row));
  }
  fmt::print("\nRegret after T updates and, in brackets, of the bound; {} workers; * where T is too small for the "
             "proof\n{}",
             workers, t.to_string());
}

struct extent {
  double least = std::numeric_limits<double>::infinity();
  double most = -least;

  void add(double x) {
    if (std::isnan(x)) x = std::numeric_limits<double>::infinity();  // which no bound holds for
    least = std::min(least, x);
    most = std::max(most, x);
  }
};

/// Theorem 1, for all T that are looked at.
void check_theorem(claims& said, std::vector<trial> const& all) {
  extent ratios, exponents, regions;
  bool rate_known = true;
  for (trial const& x : all) {
    if (!x.has_bound) continue;
    for (std::size_t i = 0; i < x.updates.size(); ++i) ratios.add(x.run.regrets[i] / x.bound.at(x.updates[i]));
    if (auto const b = x.exponent()) exponents.add(*b);
    else rate_known = false;
    regions.add(x.run.region / (x.bound.diameter * x.bound.diameter));
  }
  said.add(regions.most <= 1, "All points lie within D(x|x') <= F^2 (assumed).",
           fmt::format("D is at most {:.2f} F^2.", regions.most));
  said.add(ratios.most <= 1, "R[X] <= 4FL sqrt(2(s+1)P/T).",
           fmt::format("{:.4f} to {:.4f} of it, over all T.", ratios.least, ratios.most));
  constexpr double tolerance = 0.02;
  if (!rate_known) return;
  said.add(exponents.most <= -0.5 + tolerance, "The views converge at the rate O(T^-1/2).",
           fmt::format("as T^{:.2f} to T^{:.2f} over the last doublings.", exponents.least, exponents.most));
}

/// Lemma 1, and SSP's promise about reads.
void check_views(claims& said, std::vector<trial> const& all) {
  extent fullness, beyond, leads;
  double unexplained = 0;
  for (trial const& x : all) {
    unexplained = std::max(unexplained, x.run.unexplained);
    auto const s = static_cast<double>(x.bound.staleness);
    if (!x.has_bound) continue;
    beyond.add(static_cast<double>(std::max(x.run.most_staleness, x.run.views.oldest_missing)) - s);
    if (!x.lemma_holds) continue;
    fullness.add(static_cast<double>(x.run.views.most) / x.most_differing());
    leads.add(static_cast<double>(x.run.views.newest_extra) - s);
  }
  said.add(beyond.most <= 0, "No read lacks an update that is more than s clocks old.",
           fmt::format("the oldest lacking is s{:+.0f} clocks old.", beyond.most));
  said.add(fullness.most <= 1, "|A_t| + |B_t| <= 2s(P - 1) (Lemma 1).",
           fmt::format("at most {:.2f} of it.", fullness.most));
  said.add(leads.most <= -1, "No view has another's update of clock c + s or later (Eq. 2).",
           fmt::format("none after c + s{:+.0f}.", leads.most));
  said.add(unexplained < 1e-9, "The parameters are the sum of all updates.",
           fmt::format("to {:.1g}.", unexplained));
}

/// Whether the regret grows with staleness and workers as the bound does.
void print_delay(std::vector<trial> const& all) {
  trial const& least = find(all, "bsp", worker_counts.front());
  std::string const label = fmt::format("ssp({})", stalenesses.back());
  trial const& most = find(all, label, worker_counts.back());
  trial const& even = find(all, label + ", even", worker_counts.back());
  fmt::print("\nFrom bsp with {} workers to {} with {}, as (s+1)P grows from {:.0f} to {:.0f}, the bound becomes {} as "
             "large, the regret {}, with workers of even speed {}.\n",
             least.bound.workers, label, most.bound.workers, least.bound.delay(), most.bound.delay(),
             show_ratio(std::sqrt(most.bound.delay() / least.bound.delay())),
             show_ratio(most.regret() / least.regret()), show_ratio(even.regret() / least.regret()));
}

// ---- ConSGD and DynSGD

struct pair_of_trials {
  trial con, dyn;
};

std::vector<pair_of_trials> run_weighted(experiment const& e) {
  std::vector<pair_of_trials> all;
  auto const add = [&](std::int64_t s, std::uint32_t workers) {
    all.push_back({e.con_sgd_of(s, workers), e.dyn_sgd_of(s, workers)});
  };
  for (std::uint32_t const workers : worker_counts) add(staleness_usual, workers);
  for (std::int64_t const s : stalenesses)
    if (s != staleness_usual) add(s, workers_usual);
  return all;
}

double con_sgd_bound(trial const& x) { return x.bounded_by(x.bound.workers + 3.0); }
double dyn_sgd_bound(trial const& x) { return x.bounded_by(x.run.mean_sharing + 3); }

void print_weighted(std::vector<pair_of_trials> const& all) {
  text_table t{.head = {"s", "M", "T", "ConSGD", "(M+3)..", "of it", "DynSGD", "(mu+3)..", "of it", "mu",
                        "E[1/staleness]", "1/mu", "D / F^2"},
               .rows = {}};
  for (auto const& [con, dyn] : all) {
    double const f2 = dyn.bound.diameter * dyn.bound.diameter;
    t.rows.push_back({std::to_string(dyn.bound.staleness), std::to_string(dyn.bound.workers),
                      fmt::format("{:.0f}", dyn.updates.back()), fmt::format("{:.3g}", con.regret()),
                      fmt::format("{:.3g}", con_sgd_bound(con)),
                      fmt::format("{:.4f}", con.regret() / con_sgd_bound(con)), fmt::format("{:.3g}", dyn.regret()),
                      fmt::format("{:.3g}", dyn_sgd_bound(dyn)),
                      fmt::format("{:.4f}", dyn.regret() / dyn_sgd_bound(dyn)),
                      fmt::format("{:.2f}", dyn.run.mean_sharing), fmt::format("{:.3f}", dyn.run.mean_share),
                      fmt::format("{:.3f}", 1 / dyn.run.mean_sharing),
                      fmt::format("{:.2f}", std::max(con.run.region, dyn.run.region) / f2)});
  }
  fmt::print("\nConSGD and DynSGD, with the same step sizes\n{}", t.to_string());
}

void check_weighted(claims& said, std::vector<pair_of_trials> const& all) {
  extent con_ratios, dyn_ratios, sharing, regrets;
  double unexplained = 0;
  bool within = true;
  for (auto const& [con, dyn] : all) {
    con_ratios.add(con.regret() / con_sgd_bound(con));
    dyn_ratios.add(dyn.regret() / dyn_sgd_bound(dyn));
    sharing.add(dyn.run.mean_sharing / dyn.bound.workers);
    within &= dyn.run.mean_sharing >= 1 && dyn.run.mean_sharing <= dyn.bound.workers;
    regrets.add(dyn.regret() / con.regret());
    unexplained = std::max({unexplained, con.run.unexplained, dyn.run.unexplained});
  }
  auto const show = [](extent const& e) { return fmt::format("{:.4f} to {:.4f} of it.", e.least, e.most); };
  said.add(con_ratios.most <= 1, "ConSGD: R[W] <= (M+3)FL sqrt(2(s+1)M/T).", show(con_ratios));
  said.add(dyn_ratios.most <= 1, "DynSGD: E[R[W]] <= (mu+3)FL sqrt(2(s+1)M/T), mu = E[staleness].", show(dyn_ratios));
  said.add(within, "1 <= mu <= M.", fmt::format("{:.2f} to {:.2f} of M.", sharing.least, sharing.most));
  constexpr double rounding = 1e-6;  // where all share a version the two are the same
  said.add(regrets.most <= 1 + rounding, "DynSGD is better by a constant, as mu <= M.",
           fmt::format("{:.2f} to {:.2f} of ConSGD's regret.", regrets.least, regrets.most));
  said.add(unexplained < 1e-9, "The parameters are the sum of the updates, each over its staleness or M.",
           fmt::format("to {:.1g}.", unexplained));
}

void run_problem(std::string const& name, convex_problem::shape const& shape, reproduce_options const& options) {
  experiment const e(name, shape, options);
  claims said;
  auto const all = run_protocols(e);
  print_regrets(all);
  print_growth(all, workers_usual);
  print_delay(all);
  auto const weighted = run_weighted(e);
  print_weighted(weighted);
  check_theorem(said, all);
  check_views(said, all);
  check_weighted(said, weighted);
  said.print();
}

void introduce() {
  fmt::print(
      "Theorem 1 of \"More Effective Distributed ML via a Stale Synchronous Parallel Parameter Server\" (NIPS 2013),\n"
      "and theorems 1 and 2 of SIGMOD 2017 (ConSGD, DynSGD).\n\n"
      "Each worker makes one update a clock, with a row of its own. Update t = cP + p + 1 is worker p's at clock c\n"
      "and has the step size F/(L sqrt(2(s+1)P t)). Regret: the mean over t of f_t at what the worker had read, less\n"
      "f(x*). A fifth of the workers takes twice the time, unless speeds are even. ssp and bsp sum, with the strict\n"
      "window, which is Eq. 2; eager folds updates as they come. asp has the step size of s = {}.\n\n"
      "staleness: clocks by which the copy read was behind, mean (most), as the library reports it, where 64 is all\n"
      "beyond. lacking: clocks that the view lacks of the worker it knows least of, mean (most), and |A| + |B|:\n"
      "updates that it lacks or has beyond the true sequence, both counted in what was read.\n",
      staleness_usual);
}

}  // namespace

void reproduce_ssp_theorem1(reproduce_options const& options) {
  introduce();
  run_problem("Robust regression with 10 features", {.features = 10, .noise = 0.1}, options);
  run_problem("All components alike, f_t(x) = |x - x*| but for its kink", {.features = 1, .noise = 0},
              options);
}

}  // namespace rubato::bench
