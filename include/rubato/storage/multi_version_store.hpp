// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <list>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/storage/dense_store.hpp"
#include "rubato/storage/sparse_store.hpp"
#include "rubato/storage/update.hpp"
#include "rubato/storage/version_delta.hpp"

namespace rubato {

/// The rows of a `multi_version` table on one server: a base store, and a sum per live version.
///
/// The parameters are `base + Σ share(v)·G(v)`, oldest version first; whoever reads says what the
/// shares are. Only the base is synchronized: one thread at a time may add, expire or read.
template <class Base>
class multi_version_store {
 public:
  using value_type = typename Base::value_type;
  using snapshot_type = typename Base::snapshot_type;
  static constexpr bool bounded = std::same_as<snapshot_type, dense_snapshot<value_type>>;
  static constexpr std::uint64_t rows_max = std::numeric_limits<std::uint32_t>::max();

  struct live_version : version_state {
    live_version(version_index v, std::uint64_t rows, std::size_t width)
        : version_state{v, 1}, delta(rows, width) {}
    version_delta<value_type, std::conditional_t<bounded, std::uint32_t, std::uint64_t>> delta;
  };

  /// @throws option_error when there are more than `rows_max` rows
  template <class Init>
    requires(bounded)
  multi_version_store(std::uint64_t rows, std::size_t width, Init init)
      : rows_(checked(rows)), base_(rows, width, std::move(init)) {}
  explicit multi_version_store(std::size_t width)
    requires(!bounded)
      : base_(width) {}

  /// Sets a row before the run.
  void set(std::uint64_t row, std::span<value_type const> values)
    requires(!bounded)
  {
    base_.set(row, values);
  }

  void set_all(std::span<value_type const> values)
    requires(bounded)
  {
    base_.set_all(values);
  }

  /// Folds into the base at once, for merges without versions.
  void fold(std::span<weighted_update<value_type> const> step, std::optional<double> decay) {
    base_.fold(step, decay);
  }

  /// G(v) ← G(v) + weight·u, n(v) ← n(v) + 1; also when u is empty.
  void add(version_index v, update<value_type> const& u, double weight) {
    auto next = versions_.end();  // mostly it is the last one, or one after it
    while (next != versions_.begin() && std::prev(next)->version > v) --next;
    if (next != versions_.begin() && std::prev(next)->version == v) {
      std::prev(next)->delta.add(u, weight);
      ++std::prev(next)->updates;
      return;
    }
    std::list<live_version> fresh;
    fresh.emplace_back(v, rows_, width());
    fresh.front().delta.add(u, weight);
    versions_.splice(next, fresh);
  }

  /// Asks the merge about every live version, oldest first, and drops those that are over.
  template <versioned_merge Merge>
  void expire(Merge const& merge, version_window const& window) {
    for (auto v = versions_.begin(); v != versions_.end();) {
      if (std::optional<double> const worth = merge.expire(*v, window)) {
        add_to_base(v->delta, *worth);
        v = versions_.erase(v);
      } else {
        ++v;
      }
    }
  }

  /// Drops every version, and folds each with what it counts now: a stage is over.
  template <versioned_merge Merge>
  void settle(Merge const& merge) {
    while (!versions_.empty()) {
      add_to_base(versions_.front().delta, merge.share(versions_.front()));
      versions_.pop_front();
    }
  }

  /// `share(version_state)` is what a version counts; one of 0 costs nothing.
  template <std::invocable<version_state const&> Share>
  void read(std::span<std::uint64_t const> rows, value_type* out, Share share) const {
    base_.read(rows, out);
    for_each_share(share, [&](auto const& delta, double s) {
      for (std::size_t i = 0; i < rows.size(); ++i) delta.add_to_row(rows[i], out + i * width(), s);
    });
  }

  /// All rows, frozen. Over a dense base only chunks that live versions have rows in are copied.
  template <std::invocable<version_state const&> Share>
  void snapshot(snapshot_type& out, Share share) const {
    base_.snapshot(out);
    if constexpr (bounded) add_to_dense(out, share);
    else add_to_sparse(out, share);
  }

  /// @pre no version is live
  void read(std::span<std::uint64_t const> rows, value_type* out) const {
    RUBATO_ASSERT(versions_.empty());
    base_.read(rows, out);
  }
  /// @pre no version is live
  void snapshot(snapshot_type& out) const {
    RUBATO_ASSERT(versions_.empty());
    base_.snapshot(out);
  }

  /// The live versions, oldest first.
  [[nodiscard]] std::list<live_version> const& versions() const noexcept { return versions_; }
  [[nodiscard]] std::size_t live() const noexcept { return versions_.size(); }
  [[nodiscard]] Base const& base() const noexcept { return base_; }
  [[nodiscard]] std::size_t width() const noexcept { return base_.width(); }
  [[nodiscard]] std::size_t version_bytes() const noexcept {
    std::size_t total = 0;
    for (auto const& v : versions_) total += v.delta.bytes();
    return total;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return base_.bytes() + version_bytes(); }

 private:
  using delta_type = decltype(live_version::delta);

  static std::uint64_t checked(std::uint64_t rows) {
    if (rows > rows_max)
      throw option_error("multi_version: " + std::to_string(rows) +
                         " rows on one server, expected at most " + std::to_string(rows_max));
    return rows;
  }

  /// base ← base + weight·G; the delta is not used any more.
  void add_to_base(delta_type& delta, double weight) {
    if (weight == 0) return;
    if constexpr (bounded)
      if (delta.is_dense()) return base_.add_scaled(delta.dense(), weight);
    update<value_type> const rows = delta.take_keyed();
    weighted_update<value_type> const step{&rows, weight};
    base_.fold({&step, 1}, std::nullopt);
  }

  template <class Share, class F>
  void for_each_share(Share& share, F f) const {
    for (auto const& v : versions_)
      if (double const s = share(static_cast<version_state const&>(v)); s != 0) f(v.delta, s);
  }

  template <class Share>
  void add_to_dense(dense_snapshot<value_type>& out, Share& share) const {
    std::vector<weighted_snapshot<value_type>> whole;  // neighbors, to be added together
    for_each_share(share, [&](delta_type const& delta, double s) {
      if (delta.is_dense()) {
        whole.push_back({&delta.dense(), s});
        return;
      }
      out.add(whole);
      whole.clear();
      delta.for_each_row([&](std::uint64_t row, value_type const* from) {
        out.add_row(row, from, width(), s);
      });
    });
    out.add(whole);
  }

  template <class Share>
  void add_to_sparse(sparse_snapshot<value_type>& out, Share& share) const {
    std::vector<detail::weighted_row<value_type>> rows;
    for_each_share(share, [&](delta_type const& delta, double s) {
      delta.for_each_row([&](std::uint64_t row, value_type const* from) {
        rows.push_back({row, from, s});
      });
    });
    out.add_rows(std::move(rows), width());
  }

  std::uint64_t rows_ = 0;  ///< of this server; 0 where there is no bound
  Base base_;
  std::list<live_version> versions_;  ///< by version
};

}  // namespace rubato
