// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "rubato/algorithm/line_range.hpp"
#include "rubato/algorithm/mf_model.hpp"
#include "rubato/algorithm/mf_options.hpp"
#include "rubato/algorithm/stage_setting.hpp"
#include "rubato/core/clock.hpp"
#include "rubato/core/random.hpp"
#include "rubato/data/ratings.hpp"
#include "rubato/model/learning_rate.hpp"

namespace rubato::algorithm {

namespace detail {

/// a · b, in eight sums side by side: compilers may use vectors, and the result is the same on all of them.
template <std::floating_point Real>
Real dot(Real const* a, Real const* b, std::size_t n) noexcept {
  constexpr std::size_t sums = 8;
  Real part[sums] = {};
  std::size_t i = 0;
  for (; i + sums <= n; i += sums)
    for (std::size_t j = 0; j < sums; ++j) part[j] += a[i + j] * b[i + j];
  for (std::size_t half = sums / 2; half != 0; half /= 2)
    for (std::size_t j = 0; j < half; ++j) part[j] += part[j + half];
  for (; i < n; ++i) part[0] += a[i] * b[i];
  return part[0];
}

}  // namespace detail

/// One worker's part of matrix factorization: its users' ratings, in an order of its own that is drawn anew for each
/// sweep. Users belong to workers by rank, a stretch each; so a run must not be joined by more workers.
///
/// In each clock it pulls the factors of the items that its batch needs, in one call, takes an SGD step for one
/// rating after the other on these copies and on its users' factors, pushes by how much the copies have changed,
/// and ends the step, which is priced at the multiplications. One worker alone does what a plain loop does.
/// Thread safety: belongs to the worker's thread. Source: 001 §2.1.
template <std::floating_point Real = float>
class mf_part {
 public:
  /// @param all its users and items are the model's; not kept @param model kept
  /// @throws option_error as `mf_options::check`, and when the model is not of these ratings and this rank
  mf_part(data::ratings const& all, mf_model<Real>& model, mf_options const& o, std::uint32_t rank,
          std::uint32_t count)
      : users_(model.users), mean_(static_cast<Real>(model.mean)), o_(o), random_(o.seed, rank, 3) {
    o.check();
    detail::expect(model.rank == o.rank && model.users.size() == all.users() * o.rank &&
                       model.items.size() == all.items() * o.rank,
                   "mf: the model has other users, items or another rank, expected those of the ratings and options");
    auto const own = line_range::of(all.users(), rank, count);
    for (std::size_t u = own.first; u < own.last; ++u)
      for (auto const& e : all.of_user(u)) ratings_.push_back({static_cast<std::uint32_t>(u), e.other, e.value});
    place_.assign(all.items(), none);
  }

  /// Goes over its ratings once more, in `clocks_per_sweep` clocks, whether it has any or not.
  template <class Worker>
  void sweep(Worker& worker) {
    random_.shuffle(std::span(ratings_));
    double const rate = model::decayed_rate{o_.learning_rate, o_.decay}(clock_index(sweeps_++));
    for (std::uint32_t c = 0, clocks = o_.clocks_per_sweep(); c < clocks; ++c) {
      auto const [first, last] = line_range::of(ratings_.size(), c, clocks);
      run_clock(worker, std::span(ratings_).subspan(first, last - first), rate);
    }
  }

 private:
  static constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

  template <class Worker>
  void run_clock(Worker& worker, std::span<data::rating const> batch, double rate) {
    list_items(batch);
    rows_.resize(items_.size() * o_.rank);
    worker.pull(items_, rows_);
    change_ = rows_;
    for (data::rating const& r : batch) learn(r, rate);
    std::ranges::transform(rows_, change_, change_.begin(), [](Real now, Real before) { return now - before; });
    worker.push(items_, change_);
    for (std::uint64_t const item : items_) place_[item] = none;
    worker.step(static_cast<double>(batch.size()) * 5 * static_cast<double>(o_.rank));
  }

  /// Lists the batch's items, each once, and notes where each is in that list.
  void list_items(std::span<data::rating const> batch) {
    items_.clear();
    for (data::rating const& r : batch) {
      if (place_[r.item] != none) continue;
      place_[r.item] = static_cast<std::uint32_t>(items_.size());
      items_.push_back(r.item);
    }
  }

  /// One step down half the gradient of (r − mean − u·v)² + λ (|u|² + |v|²).
  void learn(data::rating const& r, double rate) {
    Real* const __restrict u = users_.data() + r.user * o_.rank;
    Real* const __restrict v = rows_.data() + place_[r.item] * o_.rank;
    Real const off = r.value - mean_ - detail::dot(u, v, o_.rank);
    auto const toward = static_cast<Real>(rate) * off, shrink = static_cast<Real>(rate * o_.l2);
    for (std::size_t f = 0; f < o_.rank; ++f) {
      Real const before = u[f];
      u[f] += toward * v[f] - shrink * before;
      v[f] += toward * before - shrink * v[f];
    }
  }

  std::span<Real> users_;
  Real mean_;
  mf_options o_;
  random_stream random_;
  std::vector<data::rating> ratings_;
  std::int64_t sweeps_ = 0;             // so far
  std::vector<std::uint32_t> place_;    // by item: in items_, or none
  std::vector<std::uint64_t> items_;    // that this clock needs
  std::vector<Real> rows_, change_;     // theirs, a row for each
};

/// What a worker does in a run, with the items' factors in the cluster's first table:
///
///     algorithm::mf_model model(train, options);
///     cluster cluster{in_process{.workers = 4}, ssp{.staleness = 3}, model.item_table()};
///     cluster.run([&](auto& worker) { algorithm::factorize(worker, train, model, options); });
///     model.items = cluster.parameters();
///     use(model, algorithm::rmse(test, model));
///
/// `after(sweep)` is called after each sweep, from 0. @throws as `mf_part`; usage_error in a worker that has joined
/// the run
template <class Worker, std::floating_point Real, class After = void (*)(std::int64_t)>
void factorize(Worker& worker, data::ratings const& train, mf_model<Real>& model, mf_options const& o,
               After after = [](std::int64_t) {}) {
  detail::expect_not_joined(worker, "factorize");
  mf_part<Real> part(train, model, o, worker.rank(), worker.count());
  for (std::int64_t s = 0; s < o.sweeps; ++s) {
    part.sweep(worker);
    after(s);
  }
}

}  // namespace rubato::algorithm
