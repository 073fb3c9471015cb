// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

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
#include "rubato/storage/concepts.hpp"
#include "rubato/storage/overlay.hpp"
#include "rubato/storage/table_state.hpp"
#include "rubato/storage/version_delta.hpp"

namespace rubato {

/// The rows of a `multi_version` table on one server: a base store, and a sum per live version.
///
/// The parameters are `base + Σ share(v)·G(v)`, oldest version first; whoever reads says what the
/// shares are. One thread at a time.
template <class Base>
class multi_version_store {
  static_assert(table_store<Base>, "a table's store must model table_store, see storage/concepts.hpp");

 public:
  using value_type = typename Base::value_type;
  static constexpr bool bounded = Base::bounded;
  static constexpr std::uint64_t rows_max = std::numeric_limits<std::uint32_t>::max();

  struct live_version : version_state {
    live_version(version_index v, std::uint64_t rows, std::size_t width)
        : version_state{v, 1}, delta(rows, width) {}
    version_delta<value_type, std::conditional_t<bounded, std::uint32_t, std::uint64_t>> delta;
  };

  /// @throws option_error when there are more than `rows_max` rows
  explicit multi_version_store(store_shape const& s)
      : shape_(checked(s)), base_(store_shape{s.rows, s.width, threading::single}) {}

  /// Sets rows of the base. @pre no version is live
  void assign(row_values<value_type> const& u) { base_.assign(u); }
  /// Folds into the base at once, for merges without versions.
  void fold(std::span<weighted_update<value_type> const> step) { base_.fold(step); }

  /// G(v) ← G(v) + weight·u, n(v) ← n(v) + 1; also when u is empty.
  void add(version_index v, row_values<value_type> const& u, double weight) {
    auto next = versions_.end();  // mostly it is the last one, or one after it
    while (next != versions_.begin() && std::prev(next)->version > v) --next;
    if (next != versions_.begin() && std::prev(next)->version == v) {
      std::prev(next)->delta.add(u, weight);
      ++std::prev(next)->updates;
      return;
    }
    std::list<live_version> fresh;
    fresh.emplace_back(v, bounded ? shape_.rows : 0, shape_.width);
    fresh.front().delta.add(u, weight);
    versions_.splice(next, fresh);
  }

  /// Asks about every live version, oldest first, and drops those for which `worth(state)`, a
  /// `std::optional<double>`, answers: that much of them goes into the base.
  template <class Worth>
  void expire(Worth worth) {
    for (auto v = versions_.begin(); v != versions_.end();) {
      if (std::optional<double> const w = worth(static_cast<version_state const&>(*v))) {
        add_to_base(v->delta, *w);
        v = versions_.erase(v);
      } else {
        ++v;
      }
    }
  }

  /// Adds the live versions to rows that have been read of the base; `share(state)` is what one
  /// counts; a share of 0 costs nothing.
  template <class Share>
  void add_shares(std::span<std::uint64_t const> rows, value_type* out, Share share) const {
    for_each_share(share, [&](auto const& delta, double s) {
      for (std::size_t i = 0; i < rows.size(); ++i)
        delta.add_to_row(rows[i], out + i * shape_.width, s);
    });
  }
  /// The same for a state of the base. Over a dense one only chunks that live versions have rows in
  /// are copied.
  template <class Share>
  void add_shares(table_state& to, Share share) const {
    if constexpr (bounded) add_to_chunks(to, share);
    else add_to_touched(to, share);
  }

  // The base's own, where no version is live.
  void read(std::span<std::uint64_t const> rows, value_type* out) const { base_.read(rows, out); }
  void copy(std::uint64_t first, std::uint64_t count, value_type* out) const
    requires bounded
  {
    base_.copy(first, count, out);
  }
  void collect(std::vector<std::uint64_t>& keys, std::vector<value_type>& values) const
    requires(!bounded)
  {
    base_.collect(keys, values);
  }
  [[nodiscard]] std::size_t chunks() const
    requires sharing_store<Base>
  {
    return base_.chunks();
  }
  [[nodiscard]] block_ref chunk(std::size_t i) const
    requires sharing_store<Base>
  {
    return base_.chunk(i);
  }

  /// The live versions, oldest first.
  [[nodiscard]] std::list<live_version> const& versions() const noexcept { return versions_; }
  [[nodiscard]] std::size_t live() const noexcept { return versions_.size(); }
  [[nodiscard]] Base const& base() const noexcept { return base_; }
  [[nodiscard]] std::size_t version_bytes() const noexcept {
    std::size_t total = 0;
    for (auto const& v : versions_) total += v.delta.bytes();
    return total;
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return base_.bytes() + version_bytes(); }

 private:
  using delta_type = decltype(live_version::delta);

  static store_shape const& checked(store_shape const& s) {
    if (bounded && s.rows > rows_max)
      throw option_error("multi_version: " + std::to_string(s.rows) +
                         " rows on one server, expected at most " + std::to_string(rows_max));
    return s;
  }

  /// base ← base + weight·G; the delta is not used any more.
  void add_to_base(delta_type& delta, double weight) {
    if (weight == 0) return;
    if (delta.is_dense()) return add_run_to_base(delta.dense(), weight);
    auto const taken = delta.take_keyed();
    fold_one({{.keyed = true, .rows = taken.rows, .values = taken.values}, weight});
  }
  void add_run_to_base(table_state const& all, double weight) {
    std::uint64_t first = 0;
    for (std::size_t i = 0; i < all.chunks(); ++i) {
      block_ref const& c = all.chunk(i);
      std::span const values(c.as<value_type>(), c.size<value_type>());
      fold_one({{.keyed = false, .first = first, .rows = {}, .values = values}, weight});
      first += values.size() / shape_.width;
    }
  }
  void fold_one(weighted_update<value_type> const& u) {
    base_.fold(std::span<weighted_update<value_type> const>(&u, 1));
  }

  template <class Share, class F>
  void for_each_share(Share& share, F f) const {
    for (auto const& v : versions_)
      if (double const s = share(static_cast<version_state const&>(v)); s != 0) f(v.delta, s);
  }

  template <class Share>
  void add_to_chunks(table_state& to, Share& share) const {
    std::vector<detail::weighted_state> whole;  // neighbors, to be added together
    for_each_share(share, [&](delta_type const& delta, double s) {
      if (delta.is_dense()) {
        whole.push_back({&delta.dense(), s});
        return;
      }
      detail::add_states<value_type>(to, whole);
      whole.clear();
      delta.for_each_row([&](std::uint64_t row, value_type const* from) {
        detail::add_row_to(to, row, from, shape_.width, s);
      });
    });
    detail::add_states<value_type>(to, whole);
  }

  template <class Share>
  void add_to_touched(table_state& to, Share& share) const {
    std::vector<detail::weighted_row<value_type>> rows;
    for_each_share(share, [&](delta_type const& delta, double s) {
      delta.for_each_row([&](std::uint64_t row, value_type const* from) {
        rows.push_back({row, from, s});
      });
    });
    detail::add_touched_rows(to, std::move(rows), shape_.width);
  }

  store_shape shape_;
  Base base_;
  std::list<live_version> versions_;  ///< by version
};

}  // namespace rubato
