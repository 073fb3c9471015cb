// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "rubato/protocol/commit_filter.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/element_merge.hpp"
#include "rubato/protocol/extending_admission.hpp"
#include "rubato/protocol/heeding_admission.hpp"
#include "rubato/protocol/limiting_admission.hpp"
#include "rubato/protocol/read_ahead.hpp"
#include "rubato/protocol/round_admission.hpp"

/// One sentence for what a type lacks to be a policy, in place of a list of constraints that are not satisfied.
/// Each function is called while a program is compiled, and does nothing for a type that lacks nothing.
namespace rubato::detail {

template <class P>
consteval void diagnose_copies() {
  static_assert(std::copyable<P>,
                "a policy must be copyable, by assignment too: it must not be const, nor have const members, "
                "references or lambdas that capture");
}

template <class P>
consteval void diagnose_need() {
  constexpr bool named = requires(P const p, clock_index c, staleness s, worker_id w) {
    requires requires { { p.need(c, s) } -> std::same_as<clock_index>; } ||
                 requires { { p.need(c, s, w) } -> std::same_as<clock_index>; };
  };
  static_assert(named, "an admission_policy needs need(clock_index, staleness) const, which gives a clock_index");
  static_assert(!named || requires(P const p, clock_index c, staleness s, worker_id w) {
    requires requires { { p.need(c, s) } noexcept; } || requires { { p.need(c, s, w) } noexcept; };
  }, "an admission_policy's need() must be noexcept");
}

template <class P>
consteval void diagnose_cache_need() {
  constexpr bool named = requires(P const p, clock_index c, staleness s, worker_id w) {
    requires requires { { p.cache_need(c, s) } -> std::same_as<clock_index>; } ||
                 requires { { p.cache_need(c, s, w) } -> std::same_as<clock_index>; };
  };
  static_assert(named,
                "an admission_policy needs cache_need(clock_index, staleness) const, which gives a clock_index");
  static_assert(!named || requires(P const p, clock_index c, staleness s, worker_id w) {
    requires requires { { p.cache_need(c, s) } noexcept; } || requires { { p.cache_need(c, s, w) } noexcept; };
  }, "an admission_policy's cache_need() must be noexcept");
}

template <class P>
consteval bool diagnose_admission() {
  if constexpr (!admission_policy<P>) {
    diagnose_copies<P>();
    constexpr bool named = requires(P const p) { { p.bound() } -> std::same_as<staleness>; };
    static_assert(named, "an admission_policy needs bound() const, which gives a staleness");
    static_assert(!named || requires(P const p) { { p.bound() } noexcept; },
                  "an admission_policy's bound() must be noexcept");
    diagnose_need<P>();
    diagnose_cache_need<P>();
  } else {
    static_assert(sampling_admission<P> || !requires(P p) { &P::takes_part; },
                  "an admission that samples needs a static constexpr bool by_round that is true, and "
                  "takes_part(worker_id, version_index) const noexcept, which gives a bool");
    static_assert(heeding_admission<P> || !requires(P p) { &P::heeds; },
                  "an admission that waits for some workers needs heeds(worker_id, worker_id, clock_index) const "
                  "noexcept, which gives a bool");
    static_assert(extending_admission<P> || !requires(P p) { &P::extra; },
                  "an admission that extends needs extra(commit_times const&, commit_times const&, std::int64_t) const "
                  "noexcept, which gives a std::int64_t");
    static_assert(limiting_admission<P> || !requires(P p) { &P::limit; },
                  "an admission that limits needs limit(clock_index) const noexcept, which gives a double");
  }
  return true;
}

template <class P>
consteval void diagnose_horizon() {
  constexpr bool named = requires(P const p, fold_window w) { { p.horizon(w) } -> std::same_as<clock_index>; };
  static_assert(named, "a visibility_policy needs horizon(fold_window) const, which gives a clock_index");
  static_assert(!named || requires(P const p, fold_window w) { { p.horizon(w) } noexcept; },
                "a visibility_policy's horizon() must be noexcept");
}

template <class P>
consteval void diagnose_rounds() {
  static_assert(requires { requires std::bool_constant<P::holds_back>::value; },
                "a visibility by rounds holds commits back: its holds_back must be true");
  static_assert(requires { { P::late } -> std::convertible_to<late_commit>; },
                "a visibility by rounds needs a static constexpr late_commit late");
  static_assert(requires(P const p) { { p.round_size() } noexcept -> std::same_as<std::uint32_t>; },
                "a visibility by rounds needs round_size() const noexcept, which gives a std::uint32_t");
}

template <class P>
consteval bool diagnose_visibility() {
  if constexpr (!visibility_policy<P>) {
    diagnose_copies<P>();
    static_assert(requires { std::bool_constant<P::holds_back>{}; },
                  "a visibility_policy needs a static constexpr bool holds_back");
    if constexpr (requires { &P::round_size; } || requires { P::late; }) diagnose_rounds<P>();
    else diagnose_horizon<P>();
  }
  return true;
}

/// A merge that has slots is to move elements, one that has a step is to have slots.
template <class P>
consteval void diagnose_elements() {
  static_assert(declares_slots<P> || !requires { &P::template step<float>; },
                "a merge that moves elements needs a static constexpr std::size_t slots, which may be 0: see "
                "element_merge");
  static_assert(element_merge<P> || !requires { P::slots; },
                "a merge with slots needs a template step(fold_step, T w, T d, T&... slots) const noexcept, with the "
                "worker's T& before the slots if it keeps copies, which gives a T: see element_merge");
  if constexpr (element_merge<P>) {
    static_assert(!requires(P const p) { p.initial(0U); } || requires(P const p) {
      { p.initial(0U) } noexcept -> std::same_as<double>;
    }, "a merge's initial(std::size_t) must be const and noexcept, and give a double: see element_merge");
    static_assert(velocity_merge<P> + versioned_merge<P> + exact_merge<P> == 0,
                  "a merge that moves elements has no decay, keeps no versions and is not exact: see element_merge");
  }
}

/// Also for a merge that is one, but not the one that was meant: without velocity, versions or elements.
template <class P>
consteval bool diagnose_merge() {
  if constexpr (!merge_policy<P>) {
    diagnose_copies<P>();
    constexpr bool named = requires(P const p, commit_info c) { { p.weight(c) } -> std::same_as<double>; };
    static_assert(named, "a merge_policy needs weight(commit_info) const, which gives a double");
    static_assert(!named || requires(P const p, commit_info c) { { p.weight(c) } noexcept; },
                  "a merge_policy's weight() must be noexcept");
  } else {
    static_assert(velocity_merge<P> || !requires(P p) { p.decay(); },
                  "a merge's decay() must be const and noexcept, and give a double: see velocity_merge");
    static_assert(versioned_merge<P> || !requires(P p, version_state v) { p.share(v); },
                  "a merge that keeps versions needs map, share, expire and version_after, all const and "
                  "noexcept: see versioned_merge");
    diagnose_elements<P>();
  }
  return true;
}

template <class P>
consteval bool diagnose_pace() {
  if constexpr (!pace_policy<P>) {
    diagnose_copies<P>();
    constexpr bool named = requires(P const p, pace_point at) { { p.due(at) } -> std::same_as<commit_due>; };
    static_assert(named, "a pace_policy needs due(pace_point) const, which gives a commit_due");
    static_assert(!named || requires(P const p, pace_point at) { { p.due(at) } noexcept; },
                  "a pace_policy's due() must be noexcept");
  }
  return true;
}

template <class P>
consteval bool diagnose_filter() {
  if constexpr (!commit_filter<P> && !std::same_as<P, send_all>) {
    diagnose_copies<P>();
    static_assert(filters_rows<P> || filters_elements<P>,
                  "a commit_filter needs takes(filter_point, key) const noexcept, which gives a bool, or a static "
                  "constexpr std::size_t slots and a template send(filter_point, T w, T& u, T&... slots) const "
                  "noexcept, which gives a T");
    static_assert(measures_as_declared<P>(),
                  "a commit_filter with sums needs a template measure(filter_point, T w, T u, T... slots) const "
                  "noexcept, which gives a std::array<double, sums>, and decide(filter_point, that) noexcept");
  } else {
    static_assert(declared_sums<P>() != 0 || !requires { &P::decide; },
                  "a commit_filter that decides needs a static constexpr std::size_t sums: see commit_filter");
  }
  return true;
}

template <class P>
consteval bool diagnose_reads() {
  if constexpr (!reads_part<P>) {
    diagnose_copies<P>();
    static_assert(read_policy<P>, "a read_policy needs renews(read_point) const noexcept, which gives a bool");
  }
  return true;
}

/// The four of a protocol, its filter and how it reads.
template <class P>
consteval bool diagnose_protocol() {
  if constexpr (requires(P const p) { p.admission(); })
    diagnose_admission<std::remove_cvref_t<decltype(std::declval<P const&>().admission())>>();
  if constexpr (requires(P const p) { p.visibility(); })
    diagnose_visibility<std::remove_cvref_t<decltype(std::declval<P const&>().visibility())>>();
  if constexpr (requires(P const p) { p.merge(); })
    diagnose_merge<std::remove_cvref_t<decltype(std::declval<P const&>().merge())>>();
  if constexpr (requires(P const p) { p.pace(); })
    diagnose_pace<std::remove_cvref_t<decltype(std::declval<P const&>().pace())>>();
  if constexpr (requires(P const p) { p.filter(); })
    diagnose_filter<std::remove_cvref_t<decltype(std::declval<P const&>().filter())>>();
  if constexpr (requires(P const p) { p.reads(); })
    diagnose_reads<std::remove_cvref_t<decltype(std::declval<P const&>().reads())>>();
  return true;
}

/// Whether the four are there. To be asked after what is wrong with them.
template <class P>
consteval bool diagnose_parts() {
  static_assert(requires(P const p) { { p.admission() } -> admission_policy; },
                "a protocol needs admission() const that gives an admission_policy: bound, need and cache_need, all "
                "noexcept");
  static_assert(requires(P const p) { { p.visibility() } -> visibility_policy; },
                "a protocol needs visibility() const that gives a visibility_policy: holds_back, and horizon, "
                "noexcept, or late and round_size");
  static_assert(requires(P const p) { { p.merge() } -> merge_policy; },
                "a protocol needs merge() const that gives a merge_policy: weight, noexcept");
  static_assert(requires(P const p) { { p.pace() } -> pace_policy; },
                "a protocol needs pace() const that gives a pace_policy: due, noexcept");
  return true;
}

/// How many kinds of policy it is.
template <class Part>
inline constexpr int policy_kinds =
    admission_policy<Part> + visibility_policy<Part> + merge_policy<Part> + pace_policy<Part> +
    (commit_filter<Part> || std::same_as<Part, send_all>) + reads_part<Part>;

/// What `with` is given: which kind it was to be shows in a member's name.
template <class Part>
consteval bool diagnose_part() {
  static_assert(policy_kinds<Part> <= 1,
                "with(): the part models more than one kind of policy; name it in `composed`");
  if constexpr (policy_kinds<Part> == 0) {
    if constexpr (requires { &Part::need; } || requires { &Part::cache_need; }) diagnose_admission<Part>();
    else if constexpr (requires { &Part::horizon; }) diagnose_visibility<Part>();
    else if constexpr (requires { &Part::weight; }) diagnose_merge<Part>();
    else if constexpr (requires { &Part::due; }) diagnose_pace<Part>();
    else if constexpr (requires { &Part::takes; } || requires { &Part::template send<float>; }) diagnose_filter<Part>();
    else if constexpr (requires { &Part::renews; }) diagnose_reads<Part>();
    else
      static_assert(policy_kinds<Part> != 0,
                    "with(): the part is no policy: an admission_policy has bound, need and cache_need, a "
                    "visibility_policy holds_back and horizon, a merge_policy weight, a pace_policy due, "
                    "a commit_filter takes or send, a read_policy renews");
  } else {
    if constexpr (merge_policy<Part>) diagnose_merge<Part>();
  }
  return true;
}

}  // namespace rubato::detail

namespace rubato {

/// Whether `P` is a protocol, to be asked beneath it: `static_assert(rubato::is_protocol<mine>())`. Where a policy of
/// its is none, the compiler's first sentence names the member that is missing or wrong; the concept alone does not.
template <class P>
[[nodiscard]] consteval bool is_protocol() {
  return detail::diagnose_protocol<P>() && detail::diagnose_parts<P>() && protocol<P>;
}

}  // namespace rubato
