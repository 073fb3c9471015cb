// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <tuple>
#include <utility>

#include "rubato/core/clock.hpp"
#include "rubato/core/flat.hpp"
#include "rubato/core/table.hpp"
#include "rubato/worker/worker_core.hpp"
#include "rubato/worker/worker_table.hpp"

namespace rubato {

/// What the training body holds: one worker of the protocol, with tables whose elements it knows. The same
/// in every transport and under every protocol, so that a body is compiled once for all of them.
///
/// `Tables` are `table_handle`s. See `worker_core` for the rest of what it offers.
/// Thread safety: belongs to the thread (or fiber) that the body runs in.
template <class... Tables>
class worker : public worker_core {
  template <std::size_t I>
  using table_at = std::tuple_element_t<I, std::tuple<Tables...>>;
  using first = table_at<0>;

 public:
  /// The type of the elements of table I.
  template <std::size_t I>
  using value_type = typename table_at<I>::value_type;

  using worker_core::worker_core;

  /// `worker[table<1>]`: that table's handle, a `worker_table`. Costs nothing; need not be kept. What reads into a
  /// `sparse_snapshot`, and `into`, are on the handle only.
  template <std::size_t I>
    requires(I < sizeof...(Tables))
  [[nodiscard]] auto operator[](table_tag<I>) noexcept {
    return worker_table<worker, value_type<I>, table_at<I>::bounded>(*this, I);
  }

  /// `worker.pull(…)` and `worker.push(…)` mean the first table; see `worker_table`.
  void pull(flat<value_type<0>> out)
    requires(first::bounded)
  {
    (*this)[table<0>].pull(out);
  }
  /// With a staleness of its own, at most the protocol's. @throws usage_error for more, and for less where the protocol
  /// lets in by value or folds by rounds
  void pull(flat<value_type<0>> out, staleness s)
    requires(first::bounded)
  {
    (*this)[table<0>].pull(out, s);
  }
  /// The rows named by `keys`, width elements each.
  template <key_range Keys>
  void pull(Keys const& keys, flat<value_type<0>> out) {
    (*this)[table<0>].pull(keys, out);
  }
  /// The same with a staleness of its own.
  template <key_range Keys>
  void pull(Keys const& keys, flat<value_type<0>> out, staleness s) {
    (*this)[table<0>].pull(keys, out, s);
  }
  /// Every table as a whole, in their order: see `pull_together`.
  template <class... Outs>
    requires(sizeof...(Outs) == sizeof...(Tables) && (Tables::bounded && ...))
  void pull_all(Outs&&... outs) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      pull_together({(*this)[table<I>].into(std::forward<Outs>(outs))...});
    }(std::index_sequence_for<Tables...>{});
  }
  /// Asks for what the next pull of the whole table will need, and does not wait.
  void prefetch() { (*this)[table<0>].prefetch(); }
  /// The same for rows.
  template <key_range Keys>
  void prefetch(Keys const& keys) {
    (*this)[table<0>].prefetch(keys);
  }
  /// Adds `delta` to the whole table: seen at once by this worker, by others after its next commit.
  void push(flat<value_type<0> const> delta)
    requires(first::bounded)
  {
    (*this)[table<0>].push(delta);
  }
  /// Adds to the whole table what `write` writes, all of it, without a copy where that can be; see `worker_table`.
  template <std::invocable<std::span<value_type<0>>> F>
  void push_in_place(F&& write)
    requires(first::bounded)
  {
    (*this)[table<0>].push_in_place(std::forward<F>(write));
  }
  /// Adds to the rows named by `keys`; one that is named twice gets both.
  template <key_range Keys>
  void push(Keys const& keys, flat<value_type<0> const> delta) {
    (*this)[table<0>].push(keys, delta);
  }

 private:
  template <class, parameter T, bool>
  friend class worker_table;
};

}  // namespace rubato
