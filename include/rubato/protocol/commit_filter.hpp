// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// Where a worker stands when its filter is asked.
struct filter_point {
  clock_index clock;    ///< the clock that the commit ends
  worker_id worker{};   ///< who commits
  bool last = false;    ///< the commit ends the worker's body: what is left in u goes, too
};

/// Says of a protocol that its commits are sent as they are: what it has where it has no `filter()`.
struct send_all {};

namespace detail {

template <class P>
concept filters_rows = requires(P const p, filter_point at, key row) {
  { p.takes(at, row) } noexcept -> std::same_as<bool>;
};

template <class P>
concept declares_filter_slots = requires { std::integral_constant<std::size_t, P::slots>{}; };

/// Whether `p.send(at, w, u, slots...)` gives a T.
template <class P, class T, std::size_t... Slot>
consteval bool has_send(std::index_sequence<Slot...>) {
  return requires(P const p, filter_point at, T const w, T& u, std::array<T, sizeof...(Slot) + 1>& kept) {
    { p.send(at, w, u, kept[Slot]...) } noexcept -> std::same_as<T>;
  };
}
template <class P>
consteval bool has_send_of_all() {
  if constexpr (declares_filter_slots<P>)
    return has_send<P, float>(std::make_index_sequence<P::slots>()) &&
           has_send<P, double>(std::make_index_sequence<P::slots>());
  return false;
}
template <class P>
concept filters_elements = has_send_of_all<P>();

/// Whether it sends by how much updates have changed.
template <class P>
consteval bool sends_differences() {
  if constexpr (requires { std::bool_constant<P::differences>{}; }) return P::differences;
  return false;
}
/// How many sums an element filter wants of a whole commit.
template <class P>
consteval std::size_t declared_sums() {
  if constexpr (requires { std::integral_constant<std::size_t, P::sums>{}; }) return P::sums;
  return 0;
}
/// Whether `p.measure(at, w, u, slots...)` gives as many doubles, of which `decide` is told the sums.
template <class P, class T, std::size_t... Slot>
consteval bool has_measure(std::index_sequence<Slot...>) {
  using sums = std::array<double, declared_sums<P>()>;
  using slots = std::array<T, sizeof...(Slot) + 1>;
  return requires(P const p, P& own, filter_point at, T const x, sums const& all, slots const& kept) {
    { p.measure(at, x, x, kept[Slot]...) } noexcept -> std::same_as<sums>;
    { own.decide(at, all) } noexcept;
  };
}
template <class P>
consteval bool measures_as_declared() {
  if constexpr (declared_sums<P>() == 0) return true;
  else if constexpr (declares_filter_slots<P>)
    return has_measure<P, float>(std::make_index_sequence<P::slots>()) &&
           has_measure<P, double>(std::make_index_sequence<P::slots>());
  return false;
}

}  // namespace detail

/// What is sent? Lives on the worker, which holds its own copy for each table. Optional: a protocol says `filter()`.
///
/// | expression                    | result | meaning |
/// |-------------------------------|--------|---------|
/// | `p.takes(at, row)`            | `bool` | by row, of its `key`: whether it goes, or is carried whole |
/// | `P::slots`                    | `std::size_t` | constant, by element: how many values are kept beside each |
/// | `p.send(at, w, u, slots…)`    | `T`    | by element: what is sent of the accumulated update, a `T& u` |
/// | `P::sums`                     | `std::size_t` | constant, optional: so many sums over the table are made first |
/// | `p.measure(at, w, u, slots…)` | `std::array<double, sums>` | what an element adds to each |
/// | `p.decide(at, sums)`          |        | not const: is told them, so that `send` may go by them |
/// | `P::differences`              | `bool` | constant, optional: it sends by how much updates have changed |
///
/// What `send` leaves in u is carried. One of `takes` and `send`, or both: then `send` is asked for the rows that go.
/// `at` is a `filter_point`; w is the parameter in this worker's last read of it, not a number (NaN) before the first;
/// `slots…` are as many `T&`, at first 0. `send` and `measure` are templates, asked for float and double once per
/// element. All are noexcept, and depend on nothing but their arguments and on what `decide` was told.
///
/// What is carried is part of the next commit, and shown by the worker's own reads; the commit that ends a body takes
/// all of it. There is one where something has been pushed since the last `step` or `commit` that committed; where
/// nothing has, what that one has carried is lost, as with an `update_filter`. With slots a body always ends with one,
/// after that of what was pushed last. A row is sent where an entry
/// is not 0, and by `takes` alone if it was pushed; an empty commit moves the clock as any other. Without slots only
/// rows that were pushed are asked about, with slots every row in each commit. Values and slots are the worker's
/// memory, a table's each: they live as long as its body and are no part of checkpoints. So elements are filtered in
/// dense tables of floating point, others are refused; rows of any table. A table's own `update_filter` must be off,
/// and versions do not go with slots.
/// Differences mean something where servers keep all that they were sent: to a merge by element that `keeps_sum`, or
/// one with a `decay()` of 1, whose weight must not change then as 1/M does; under a visibility that leaves no commit
/// out. With others such a filter is refused.
/// Models: `significance`, `one_fragment`, `lazy_upload`, and the user's own of
/// [examples/044](examples/044_what_is_sent.cpp).
template <class P>
concept commit_filter = std::copyable<P> && (detail::filters_rows<P> || detail::filters_elements<P>) &&
                        detail::measures_as_declared<P>();

/// The filter of a protocol, `send_all` where it has none.
template <class P>
[[nodiscard]] constexpr auto filter_of([[maybe_unused]] P const& p) {
  static_assert(requires { p.filter(); } || !requires(P& own) { own.filter(); },
                "a protocol's filter() must be const, or nothing is filtered");
  if constexpr (requires { p.filter(); }) return p.filter();
  else return send_all{};
}

}  // namespace rubato
