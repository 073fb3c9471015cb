// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/algorithm/batch_part.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/row_map.hpp"
#include "rubato/core/table.hpp"

namespace rubato::algorithm {

/// What a worker knows of the anchor x̃, the point at which the full gradient was taken, and of that gradient
/// μ: tables 1 and 2, which do not change while steps are made. So each coordinate is fetched once in a
/// stage: all at the first step, or by key those that have not occurred before.
///
/// Belongs to one worker in one stage. Memory: as many coordinates as it has fetched.
template <std::floating_point Real>
class svrg_anchor {
 public:
  /// Makes `point` and `gradient` those of the part's coordinates; valid until the next call. May wait, as
  /// a pull does. Amortised O(part.size()).
  template <class Worker>
  void look_up(Worker& worker, batch_part<Real> const& part) {
    if (part.is_whole()) {
      if (!point_.empty()) return;
      part.pull(worker[table<1>], point_);
      part.pull(worker[table<2>], gradient_);
      return;
    }
    point_.resize(part.size());
    gradient_.resize(part.size());
    std::vector<key> missing;
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < part.size(); ++i) {
      key const k = part.keys()[i];
      auto const at = known_.find(k.value());
      if (at == known_.end())
        missing.push_back(k), places.push_back(i);
      else
        std::tie(point_[i], gradient_[i]) = at->second;
    }
    if (!missing.empty()) fetch(worker, missing, places);
  }

  /// x̃ at the coordinates of the part that it was fetched for last.
  [[nodiscard]] std::vector<Real> const& point() const noexcept { return point_; }
  /// μ at the same coordinates.
  [[nodiscard]] std::vector<Real> const& gradient() const noexcept { return gradient_; }

 private:
  template <class Worker>
  void fetch(Worker& worker, std::vector<key> const& missing, std::vector<std::size_t> const& places) {
    std::vector<Real> point(missing.size()), gradient(missing.size());
    worker[table<1>].pull(missing, point);
    worker[table<2>].pull(missing, gradient);
    for (std::size_t i = 0; i < missing.size(); ++i) {
      point_[places[i]] = point[i];
      gradient_[places[i]] = gradient[i];
      known_.emplace(missing[i].value(), std::pair(point[i], gradient[i]));
    }
  }

  std::vector<Real> point_, gradient_;
  rubato::detail::row_map<std::pair<Real, Real>> known_;  ///< where keys are exchanged
};

}  // namespace rubato::algorithm
