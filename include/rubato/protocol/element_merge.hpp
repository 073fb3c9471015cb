// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "rubato/protocol/concepts.hpp"

namespace rubato {

/// What a merge by element has of each worker beside the parameters: a copy of the table.
enum class worker_copy : std::uint8_t {
  none,
  as_read,  ///< what the worker was told last; of rows that it has not read, what they were at its first read
  elastic,  ///< what the worker is told, in the parameters' place; begins as they are at its first read
};

/// The step that a merge by element is asked for.
struct fold_step {
  std::int64_t number = 0;    ///< how many steps this server has made with the merge before, in this table
  std::uint32_t workers = 1;  ///< M, as the weight of the step's last commit was told
};

namespace detail {
template <class P>
consteval bool declared_lazy() {
  if constexpr (requires { { P::lazy } -> std::convertible_to<bool>; }) return P::lazy;
  return false;
}
template <class P>
consteval worker_copy declared_copy() {
  if constexpr (requires { { P::copy } -> std::convertible_to<worker_copy>; }) return P::copy;
  return worker_copy::none;
}
template <class P>
concept declares_slots = requires { std::integral_constant<std::size_t, P::slots>{}; };

/// Whether `p.step(at, w, d, [copy,] slots...)` gives a T.
template <class P, class T, std::size_t... Slot>
consteval bool has_step(std::index_sequence<Slot...>) {
  return requires(P const p, fold_step at, T const x, std::array<T, sizeof...(Slot) + 1>& kept) {
    { p.step(at, x, x, kept[Slot]...) } noexcept -> std::same_as<T>;
  };
}
template <class P, class T>
consteval bool has_step_of() {
  if constexpr (declares_slots<P>)
    return has_step<P, T>(std::make_index_sequence<P::slots + (declared_copy<P>() != worker_copy::none)>());
  return false;
}
}  // namespace detail

/// A merge that says element by element how the parameters move: a server-side optimizer, and whatever reads the
/// parameters or keeps state beside them. A step's updates are first summed by their weights, d = Σ weight·u; there
/// is one step per commit, or under a barrier one per clock, on every server.
///
/// | expression                  | result  | meaning |
/// |-----------------------------|---------|---------|
/// | `p.weight(info)`            | `double` | as of any merge |
/// | `P::slots`                  | `std::size_t` | constant: how many values it keeps beside each element |
/// | `p.step(at, w, d, slots…)`  | `T`     | `w ← w + result`, of the parameter w and the update d, both T; `slots…` are as many `T&`, at is a `fold_step` |
/// | `p.initial(i)`              | `double` | optional: what slot i begins with; 0 unless said |
/// | `P::lazy`                   | `bool`  | constant, optional: rows without an update in a step are left alone, unless a whole table is pushed, else every row moves in each |
/// | `P::keeps_sum`              | `bool`  | constant, optional: its slots keep all it was sent, so that a filter may send `differences` |
/// | `P::copy`                   | `worker_copy` | constant, optional: keeps a copy of the table for each worker; `step` gets the committing worker's element of it as a `T&` before the slots, and there is one step per commit under a barrier, too |
///
/// `step` is a template, asked for float and double, and once for each element: it depends on nothing but its
/// arguments, and is noexcept. Tables of integers are refused, and so are those in versions, reads of stable cuts and
/// the single-machine mode of tasks. Slots are as precise as the table, take a value for each row that updates have
/// touched, in a bounded table for each row, and live as long as the table: they are kept from run to run, are no part
/// of checkpoints, and begin anew where the table is cleared or restored, or another type of merge takes over. Copies
/// need a bounded table, take another one for each worker, and begin anew with each life of their worker.
///
/// Steps of a table are made one at a time; each costs a pass over the table, or over the updates' rows if lazy, and
/// updates are not folded while they arrive.
/// Models: `adam`, `nesterov`, `compensate`, `elastic`, and the user's own of
/// [examples/049](examples/049_an_optimizer_of_your_own.cpp).
template <class P>
concept element_merge = merge_policy<P> && detail::declares_slots<P> && detail::has_step_of<P, float>() &&
                        detail::has_step_of<P, double>();

namespace detail {
/// What slot i begins with.
template <element_merge P>
[[nodiscard]] constexpr double initial_of([[maybe_unused]] P const& p, [[maybe_unused]] std::size_t i) noexcept {
  static_assert(requires { p.initial(i); } || !requires(P& own) { own.initial(i); },
                "a merge's initial(std::size_t) must be const, or slots begin with 0: see element_merge");
  if constexpr (requires { p.initial(i); }) return p.initial(i);
  else return 0;
}
}  // namespace detail

}  // namespace rubato
