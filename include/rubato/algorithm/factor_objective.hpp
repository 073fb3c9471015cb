// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>

#include "rubato/algorithm/line_range.hpp"
#include "rubato/data/ratings.hpp"

namespace rubato::algorithm {

/// Σ (r − mean − u·v)² + λ (Σ n_u |u|² + Σ n_v |v|²) over the ratings by users `of`: how far factors are
/// from what they are to explain (001 Eq. 1), and their regulariser, in which a line with n ratings counts n times.
/// Summed in double, by user, then by item. Cost: O(ratings × factors)
/// @pre a row of as many factors for each user and item
template <std::floating_point Real>
[[nodiscard]] double factor_objective(data::ratings const& all, std::span<Real const> users,
                                      std::span<Real const> items, double l2, double mean, line_range of) {
  std::size_t const k = all.users() == 0 ? 0 : users.size() / all.users();
  auto const product = [k](Real const* a, Real const* b) {
    double total = 0;
    for (std::size_t f = 0; f < k; ++f) total += static_cast<double>(a[f]) * static_cast<double>(b[f]);
    return total;
  };
  double total = 0;
  for (std::size_t u = of.first; u < of.last; ++u) {
    Real const* const x = users.data() + u * k;
    for (auto const& e : all.of_user(u)) {
      Real const* const y = items.data() + e.other * k;
      double const off = static_cast<double>(e.value) - mean - product(x, y);
      total += off * off;
      if (l2 != 0) total += l2 * (product(x, x) + product(y, y));
    }
  }
  return total;
}

/// The same over all ratings.
template <std::floating_point Real>
[[nodiscard]] double factor_objective(data::ratings const& all, std::span<Real const> users,
                                      std::span<Real const> items, double l2, double mean = 0) {
  return factor_objective(all, users, items, l2, mean, {0, all.users()});
}

}  // namespace rubato::algorithm
