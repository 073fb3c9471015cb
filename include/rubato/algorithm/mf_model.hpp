// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "rubato/algorithm/factor_objective.hpp"
#include "rubato/algorithm/mf_options.hpp"
#include "rubato/core/random.hpp"
#include "rubato/data/ratings.hpp"
#include "rubato/partition/range_hash.hpp"
#include "rubato/protocol/merge.hpp"
#include "rubato/storage/dense.hpp"

namespace rubato::algorithm {

/// Factors, such that the rating of item i by user u is about mean + L_u · R_i.
///
/// Workers share `items` alone, by way of a table that begins with them (001 §2.1). Each reads and writes rows of
/// `users` that are its own, in place: threads of a process may share one model. Processes make a model each, equal
/// ones for equal ratings and options; after a run it has new rows only for the users of that process's workers.
template <std::floating_point Real = float>
struct mf_model {
  std::size_t rank;  ///< factors of each user and item
  double mean = 0;          ///< of the ratings, which the factors need not explain then
  std::vector<Real> users;  ///< L: a row of `rank` for each user
  std::vector<Real> items;  ///< R: those that training begins with, until you put here what it has made of them

  /// Small random factors, by the seed, whether it is a user or an item, and its number alone.
  /// @throws option_error as `mf_options::check`
  mf_model(data::ratings const& all, mf_options const& o) : rank(o.rank) {
    o.check();
    users = drawn(all.users(), o, 1);
    items = drawn(all.items(), o, 2);
    double total = 0;
    for (std::size_t u = 0; u < all.users(); ++u)
      for (auto const& e : all.of_user(u)) total += static_cast<double>(e.value);
    if (all.size() != 0) mean = total / static_cast<double>(all.size());
  }

  /// A table of the items' factors, with a row for each, for a cluster to be made while `items` is there.
  template <partition_policy Partition = range_hash>
  [[nodiscard]] dense<Real, sum, Partition> item_table(Partition where = {}) const {
    return {.rows = items.size() / rank, .width = rank, .init = items, .partition = where};
  }

 private:
  static std::vector<Real> drawn(std::size_t lines, mf_options const& o, std::uint64_t side) {
    std::vector<Real> all;
    all.reserve(lines * o.rank);
    double const scale = 0.3 / std::sqrt(static_cast<double>(o.rank));  // of |row|: 0.3, whatever the rank
    for (std::size_t line = 0; line < lines; ++line) {
      random_stream random(o.seed, line, side);
      for (std::size_t f = 0; f < o.rank; ++f) all.push_back(static_cast<Real>(scale * random.normal()));
    }
    return all;
  }
};

/// What training makes small: 001 Eq. 1 with a regulariser, see `factor_objective`.
template <std::floating_point Real>
[[nodiscard]] double mf_objective(data::ratings const& all, mf_model<Real> const& m, double l2) {
  return factor_objective<Real>(all, m.users, m.items, l2, m.mean);
}

/// The root of the mean squared error; 0 without ratings.
template <std::floating_point Real>
[[nodiscard]] double rmse(data::ratings const& all, mf_model<Real> const& m) {
  return all.size() == 0 ? 0 : std::sqrt(mf_objective(all, m, 0) / static_cast<double>(all.size()));
}

}  // namespace rubato::algorithm
