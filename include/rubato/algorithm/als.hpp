// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "rubato/algorithm/factor_objective.hpp"
#include "rubato/algorithm/impl/normal_equations.hpp"
#include "rubato/algorithm/line_range.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/random.hpp"
#include "rubato/core/table.hpp"
#include "rubato/data/ratings.hpp"
#include "rubato/partition/range.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"
#include "rubato/task/task.hpp"

namespace rubato::algorithm {

/// Matrix factorization by alternating least squares: what it does, and how.
struct als_options {
  std::size_t factors = 8;   ///< k: numbers for each user and each item; at least 1
  std::int64_t sweeps = 10;  ///< the users' factors from the items', then the other way round
  double l2 = 0.1;           ///< λ; a line with n ratings has λ n times its square as a regulariser. Above 0
  std::size_t block = 64;    ///< lines of which a worker holds what they need at a time; at least 1
  std::uint64_t seed = 1;    ///< of the items' first factors
  /// Degree, placement and so on of the stages; their iterations and cleared tables are the algorithm's, and
  /// their protocol, which sends and folds all, is of no influence: nobody reads what a stage writes before it has
  /// ended.
  stage_options users{};
  stage_options items{};  ///< the same for the stage that solves for the items' factors

  /// @throws option_error naming the option and what was expected
  void check() const {
    detail::expect(factors >= 1, "als: factors must be at least 1");
    detail::expect(sweeps >= 1, "als: sweeps must be at least 1");
    detail::expect(l2 > 0 && std::isfinite(l2), "als: l2 must be finite and above 0");
    detail::expect(block >= 1, "als: block must be at least 1 line");
    detail::expect_unset(users, "als: users");
    detail::expect_unset(items, "als: items");
    detail::expect_all_folded(users, "als: users");
    detail::expect_all_folded(items, "als: items");
    detail::expect(!users.workers.is_automatic() && !items.workers.is_automatic(),
                   "als: a stage is one iteration, expected a number of workers");
  }
};

/// A task for ALS: table 0 has a row of factors for each user, table 1 for each item. Servers hold them as
/// workers compute them: each a stretch of lines.
template <std::floating_point Real = float>
using als_task = task<dense<Real, sum, range>, dense<Real, sum, range>>;

/// @param factors as in `als_options`
template <std::floating_point Real = float>
[[nodiscard]] als_task<Real> make_als_task(data::ratings const& all, std::size_t factors) {
  return als_task<Real>({.rows = all.users(), .width = factors}, {.rows = all.items(), .width = factors});
}

/// What the workers of a stage do that computes the factors of one side from those of the other: for line i
/// with ratings r_j by n lines j, x = (Σ y_j y_jᵀ + λ n I)⁻¹ Σ r_j y_j. The table has been cleared, and each
/// line is computed by one worker from the same numbers, so the result is the same, bit for bit, whatever
/// the number of workers, their placement and the blocks. Lines without ratings stay zero.
///
/// A worker reads the lines of the other side that its block needs, once in a stage, and pushes its own.
/// `step` is priced at the multiplications: k²/2 a rating, k³/6 a line.
/// Immutable: workers share it, in whatever threads.
/// Source: 004 §7.3 (ALS); Y. Zhou et al., Large-scale Parallel Collaborative Filtering, AAIM 2008, for λ n.
template <std::floating_point Real>
class als_half {
 public:
  /// Whose factors are solved for, from the other's.
  enum class side : std::uint8_t { users, items };

  /// @param solved whose lines this stage writes @param o as checked by `als_options::check`
  als_half(data::ratings all, side solved, als_options const& o)
      : all_(std::move(all)), solved_(solved), l2_(o.l2), block_(o.block), k_(o.factors) {}

  template <class Worker>
  void operator()(Worker& worker, iteration_range) const {
    detail::expect_not_joined(worker, "als");
    if (solved_ == side::users) solve(worker, worker[table<0>], worker[table<1>]);
    else solve(worker, worker[table<1>], worker[table<0>]);
  }

 private:
  [[nodiscard]] std::size_t size() const noexcept {
    return solved_ == side::users ? all_.users() : all_.items();
  }
  [[nodiscard]] std::span<data::ratings::entry const> of(std::size_t line) const noexcept {
    return solved_ == side::users ? all_.of_user(line) : all_.of_item(line);
  }

  template <class Worker, class Own, class Other>
  void solve(Worker& worker, Own const& own, Other const& other) const {
    auto const [first, last] = line_range::of(size(), worker.rank(), worker.count());
    double work = 0;
    for (std::size_t at = first; at < last; at += std::min(block_, last - at))
      work += solve_block(at, at + std::min(block_, last - at), own, other);
    worker.step(work);
  }

  /// Returns the multiplications.
  template <class Own, class Other>
  double solve_block(std::size_t first, std::size_t last, Own const& own, Other const& other) const {
    std::vector<key> const needed = others_of(first, last);
    std::vector<Real> theirs(needed.size() * k_);
    other.pull(needed, theirs);
    std::vector<key> solved;
    std::vector<Real> values;
    double work = 0;
    for (std::size_t line = first; line < last; ++line) {
      auto const rated = of(line);
      if (rated.empty()) continue;
      solved.emplace_back(line);
      for (double const x : solution(rated, needed, theirs)) values.push_back(static_cast<Real>(x));
      auto const k = static_cast<double>(k_);
      work += k * k * (static_cast<double>(rated.size()) / 2 + k / 6);
    }
    own.push(solved, values);
    return work;
  }

  [[nodiscard]] std::vector<key> others_of(std::size_t first, std::size_t last) const {
    std::vector<key> all;
    for (std::size_t line = first; line < last; ++line)
      for (auto const& e : of(line)) all.emplace_back(e.other);
    std::ranges::sort(all);
    all.erase(std::unique(all.begin(), all.end()), all.end());
    return all;
  }

  [[nodiscard]] std::vector<double> solution(std::span<data::ratings::entry const> rated,
                                             std::vector<key> const& needed, std::span<Real const> theirs) const {
    detail::normal_equations sums(k_, l2_ * static_cast<double>(rated.size()));
    std::vector<double> y(k_);
    for (auto const& e : rated) {
      auto const at = std::ranges::lower_bound(needed, key{e.other}) - needed.begin();
      std::ranges::copy(theirs.subspan(static_cast<std::size_t>(at) * k_, k_), y.begin());
      sums.add(y, e.value);
    }
    return sums.solution();
  }

  data::ratings all_;
  side solved_;
  double l2_;
  std::size_t block_;
  std::size_t k_;
};

/// What the workers of ALS's first stage do: they push each item's first factors, which depend on the seed and
/// the item alone. Source: as als_half.
template <std::floating_point Real>
class als_start {
 public:
  /// @param items how many there are @param o as checked by `als_options::check`
  als_start(std::size_t items, als_options const& o) : items_(items), k_(o.factors), seed_(o.seed) {}

  template <class Worker>
  void operator()(Worker& worker) const {
    detail::expect_not_joined(worker, "als");
    auto const [first, last] = line_range::of(items_, worker.rank(), worker.count());
    std::vector<key> keys;
    std::vector<Real> values;
    for (std::size_t item = first; item < last; ++item) {
      random_stream random(seed_, item);
      keys.emplace_back(item);
      for (std::size_t f = 0; f < k_; ++f) values.push_back(static_cast<Real>(random.normal()));
    }
    worker[table<1>].push(keys, values);
    worker.step(static_cast<double>(values.size()));
  }

 private:
  std::size_t items_;
  std::size_t k_;
  std::uint64_t seed_;
};

/// The stages of ALS in a task, by whose numbers its report can be read.
struct als_stages {
  stage_ref start;  ///< draws the items' first factors
  stage_ref users;  ///< solves for the users' factors
  stage_ref items;  ///< solves for the items' factors
};

/// Appends ALS to what a task does: the items' first factors, then sweeps.
///
///     auto t = algorithm::make_als_task(ratings, 8);
///     algorithm::als(t, ratings, {.factors = 8, .sweeps = 10,
///                                 .users = {.workers = 16}, .items = {.workers = 4}});
///     engine.submit(t).wait();
///     use(t.parameters<0>(), t.parameters<1>());
///
/// Workers own lines by rank, so none may join a stage that is under way: its body throws usage_error.
/// @param t made for the same users, items and factors @param all kept by the task
/// @throws option_error naming the option and what was expected
/// Source: 004 §7.3.
template <std::floating_point Real>
als_stages als(als_task<Real>& t, data::ratings const& all, als_options const& options) {
  options.check();
  stage_options users = options.users, items = options.items;
  users.cleared = {0};
  items.cleared = {1};
  using half = als_half<Real>;
  als_stages const s{t.stage(items, als_start<Real>(all.items(), options)),
                     t.stage(std::move(users), half(all, half::side::users, options)),
                     t.stage(std::move(items), half(all, half::side::items, options))};
  t.run(s.start);
  t.repeat(options.sweeps, s.users, s.items);
  return s;
}

/// Σ (r − u·v)² + λ (Σ n_u |u|² + Σ n_v |v|²): what each stage makes less, up to rounding.
/// @pre a row of as many factors for each user and item
template <std::floating_point Real>
[[nodiscard]] double als_objective(data::ratings const& all, std::span<Real const> users,
                                   std::span<Real const> items, double l2) {
  return factor_objective(all, users, items, l2);
}

}  // namespace rubato::algorithm
