// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <utility>

#include "rubato/storage/dense.hpp"
#include "rubato/storage/sparse.hpp"
#include "rubato/storage/table_spec.hpp"

namespace rubato {

/// A table whose updates are kept apart by version until it is known what they are worth:
/// `multi_version{dense<float>{.rows = 1'000'000, .init = w0}}`. Goes with a `versioned_merge`, of
/// the protocol (`dyn_sgd`) or of the table itself. Source: 000 §6.
///
/// Memory: the base, and for each live version the rows that its updates touched, each with its
/// number (10 to 20 bytes over a dense base). Once they are half of a dense base's rows, all values
/// without numbers: so where updates touch most rows, live versions + 1 sets of parameters. It is
/// returned when the version expires.
///
/// Time: a push costs about as much as without versions, and an expiry O(rows of the version). A
/// pull adds up the live versions: O(rows pulled × live versions) by key; of the whole table over a
/// dense base O(rows of the live versions), and only the chunks in which they lie are copied.
///
/// What versions are is up to the merge. Counts over a sliding window, the last k clocks of the
/// fastest worker:
///
///     struct window_sum {
///       std::int64_t k;
///       version_index map(commit_info const& c) const noexcept {
///         return version_index{c.stamp.value()};
///       }
///       double weight(commit_info const&) const noexcept { return 1.0; }
///       double share(version_state const&) const noexcept { return 1.0; }
///       std::optional<double> expire(version_state const& v,
///                                    version_window const& w) const noexcept {
///         if (v.version.value() >= w.c_max.value() - k) return std::nullopt;
///         return 0.0;  // dropped
///       }
///       version_index version_after(version_read const& r) const noexcept { return r.own; }
///       static constexpr bool exact = true;  // for integers, too
///     };
///
///     multi_version{dense<std::int32_t, window_sum>{.rows = n, .merge = {.k = 10}}}
///
/// And updates that are held back until their clock is complete: the same `map`, a `share` of 0,
/// and an `expire` that answers 1 for versions below `w.c_min`. (When a run ends, live versions are
/// folded with their share: here, clocks that some worker has not finished are lost.)
template <table_spec Base>
  requires(!requires { Base::versioned; })
struct multi_version : Base {
  /// It keeps updates apart by version.
  static constexpr bool versioned = true;
  /// Of the update filter, unless the base says otherwise: small entries only fill up the versions.
  static constexpr double default_threshold = 1e-6;
  using store = multi_version_store<typename Base::store>;

  /// The table that keeps them, with its options.
  constexpr explicit multi_version(Base base) : Base(std::move(base)) {
    if (std::floating_point<typename Base::value_type> && !this->filter.threshold)
      this->filter.threshold = default_threshold;
  }
};
/// So that one writes `multi_version{dense<float>{…}}`.
template <table_spec Base>
multi_version(Base) -> multi_version<Base>;

static_assert(table_spec<multi_version<dense<float>>> && table_spec<multi_version<sparse<float>>>);

}  // namespace rubato
