// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <concepts>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <type_traits>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/protocol/round_visibility.hpp"

namespace rubato {

/// A policy that says in a number what it is, for the processes of a run, which must agree on theirs.
///
/// | expression        | result          | meaning |
/// |-------------------|-----------------|---------|
/// | `p.fingerprint()` | `std::uint64_t` | differs where a parameter does; the same in every process |
///
/// It may be left out, by policies of all kinds: then processes compare what copies of it answer to some
/// thousands of questions, at clocks up to 2^20, lags up to the admission's bound (and 2^20 at most), up
/// to 1000 workers and 1024 workers' numbers. A policy with a fingerprint is asked nothing before the run:
/// so one that counts its calls, is defined only for the run's own workers or clocks, or differs beyond
/// what is asked needs one. Doubles are compared by their bits, so a weight by way of `std::pow` differs
/// where the C library does: there, too, a fingerprint of the parameters helps.
///
/// A policy of any kind may also have `p.check()`, const and without a result, which throws `option_error` for options
/// that cannot be meant: it is called when its protocol is given to a cluster or becomes `rules`. An admission that
/// draws among the workers may have `p.run_workers()`, how many there are: a run that begins with others is refused.
template <class P>
concept fingerprinted_policy = requires(P const p) {
  { p.fingerprint() } noexcept -> std::same_as<std::uint64_t>;
};

namespace detail {
/// What the policy says it is, if it does.
template <class P>
[[nodiscard]] constexpr std::optional<std::uint64_t> fingerprint_of([[maybe_unused]] P const& p) noexcept {
  static_assert(fingerprinted_policy<P> || !requires(P q) { q.fingerprint(); },
                "a policy's fingerprint() must be a const noexcept member function that gives std::uint64_t");
  if constexpr (fingerprinted_policy<P>) return p.fingerprint();
  else return std::nullopt;
}

template <class P>
concept admits_all_alike = requires(P const p, clock_index c, staleness s) {
  { p.need(c, s) } noexcept -> std::same_as<clock_index>;
  { p.cache_need(c, s) } noexcept -> std::same_as<clock_index>;
};
template <class P>
concept admits_by_worker = requires(P const p, clock_index c, staleness s, worker_id w) {
  { p.need(c, s, w) } noexcept -> std::same_as<clock_index>;
  { p.cache_need(c, s, w) } noexcept -> std::same_as<clock_index>;
};
}  // namespace detail

/// Who waits? Lives on the server.
///
/// | expression             | result        | meaning |
/// |------------------------|---------------|---------|
/// | `p.bound()`            | `staleness`   | the protocol's own s, the greatest of all workers'; a read may ask for less, not for more |
/// | `p.need(c, s)`         | `clock_index` | the least `c_min` that lets a read or push at clock c go on |
/// | `p.cache_need(c, s)`   | `clock_index` | the least server clock of a cached copy that the first read at clock c may use |
///
/// Where it matters who asks, both take a third argument, the asking worker's `worker_id`: so a group
/// may wait beside one that does not ([examples/045](examples/045_groups_that_wait.cpp)).
///
/// The answers are thresholds, so that waiting requests sit in a heap and nothing is ever polled.
/// They depend on nothing but the arguments, and do not fall as c grows or s shrinks; `need(c, s)`
/// is at most c, since nobody may wait for itself. Called concurrently.
/// Models: `barrier`, `bounded_staleness`, `unbounded`. Source: 001 §2–3.
template <class P>
concept admission_policy = std::copyable<P> && requires(P const p) {
  { p.bound() } noexcept -> std::same_as<staleness>;
} && (detail::admits_all_alike<P> || detail::admits_by_worker<P>);

/// What a shard knows when it decides which held-back commits to fold.
struct fold_window {
  clock_index c_min;   ///< every live worker's commits with stamps below it have been received
  staleness bound;     ///< the protocol's s
};

/// What is seen? Lives on the server.
///
/// | expression           | result        | meaning |
/// |----------------------|---------------|---------|
/// | `P::holds_back`      | `bool`        | constant; false: commits are folded as they arrive, `horizon` is not asked |
/// | `p.horizon(window)`  | `clock_index` | commits with stamps below it are folded, in the order (stamp, worker) |
///
/// The horizon does not fall as `window.c_min` grows. To keep a reader from missing what admission
/// promises (SSP-1) it is at least `window.c_min`. Called under the shard's control lock.
/// Models: `eager`, `strict`, `stable_cut`. Source: 001 Eq. 2. In place of a horizon it may count, see `round_visibility`.
template <class P>
concept windowed_visibility = std::copyable<P> && requires(P const p, fold_window w) {
  { std::bool_constant<P::holds_back>{} };
  { p.horizon(w) } noexcept -> std::same_as<clock_index>;
};

/// What is seen: by a window of clocks, or by rounds.
template <class P>
concept visibility_policy = windowed_visibility<P> || round_visibility<P>;

namespace detail {
template <class P>
consteval bool declared_synchronized() {
  if constexpr (requires { { P::synchronized } -> std::convertible_to<bool>; }) return P::synchronized;
  return false;
}
}  // namespace detail

/// Visibility by cuts that the coordinator grants: `static constexpr bool synchronized = true`.
/// `horizon` then is what every cut includes, and servers fold as the coordinator tells them.
template <class P>
concept synchronized_visibility = visibility_policy<P> && detail::declared_synchronized<P>();

/// What a merge is told about a commit that is being folded. The commit itself is not counted yet: of equal workers
/// the first one to commit at a clock sees c_max == stamp, and all others c_max == stamp + 1, though none of them is
/// late.
struct commit_info {
  worker_id from;  ///< who has made it
  clock_index stamp;        ///< the worker's clock before the commit
  clock_index c_min;        ///< the slowest worker's clock at the fold
  clock_index c_max;        ///< the fastest worker's clock at the fold
  /// M: under a barrier the commits of this stamp, by rounds those that are folded together, else the live workers and
  /// those whose body has returned.
  std::uint32_t workers;
  version_index version{};  ///< V(m): the version or round that the update belongs to; 0 where there are none
  /// How many fold steps this server has made since the worker read here what it computed at: with rounds, those since
  /// the round that it computed at; under a synchronized visibility, as it was when the commit came. Where threads of a
  /// process share reads, age counts from the worker's own last request, and so may grow without end: with a merge that
  /// is `by_age` each reads for itself. Servers may differ.
  std::uint64_t age = 0;
};

/// What is an update worth? Lives on the server, one per table.
///
/// | expression          | result   | meaning |
/// |---------------------|----------|---------|
/// | `p.weight(info)`    | `double` | the update is folded as `w ← w + weight·u` |
///
/// The weight is finite, and the same on every shard for the same `info`, of which only the age may differ.
/// Called under the shard's control lock, so it must not block. A merge that only sums may say
/// `static constexpr bool exact = true`, which also admits it on tables of integers. One that goes by `info.age` says
/// `static constexpr bool by_age = true`: then each worker reads for itself.
/// Models: `sum`, `average`, `scale`, `momentum`. Source: 000 §4, 001 §2. Refinements are `velocity_merge`,
/// `versioned_merge` and, where a weight does not say it, `element_merge` (`element_merge.hpp`), of which a merge is at
/// most one.
template <class P>
concept merge_policy = std::copyable<P> && requires(P const p, commit_info info) {
  { p.weight(info) } noexcept -> std::same_as<double>;
};

/// A merge with velocity: each fold step is `v ← decay·v + Σ weight·u`, `w ← w + v`; one step per
/// clock under a barrier, one per commit otherwise, on every shard (003 Eq. 1).
template <class P>
concept velocity_merge = merge_policy<P> && requires(P const p) {
  { p.decay() } noexcept -> std::same_as<double>;
};

/// A version of the parameters that still takes updates.
struct version_state {
  version_index version;  ///< its number
  std::uint32_t updates;  ///< n(v): how many updates belong to it, empty ones included
};

/// What a shard knows when it asks which versions are over.
struct version_window {
  version_index least;  ///< min V: no worker's next commit has an older version
  clock_index c_min;    ///< the slowest worker's clock
  clock_index c_max;    ///< the fastest worker's clock
};

/// A worker that is reading.
struct version_read {
  version_index own;  ///< V(m): the version that its next commit would have had
  version_index top;  ///< one above the newest version that the answer includes
  clock_index c_max;  ///< one above the greatest stamp that the answer includes
};

/// A merge that keeps updates apart by version until their worth is known: needs `multi_version`
/// storage, where the parameters are `base + Σ share(v)·G(v)` over the live versions v.
///
/// | expression             | result                  | meaning |
/// |------------------------|-------------------------|---------|
/// | `p.map(info)`          | `version_index`         | the version that an update belongs to |
/// | `p.weight(info)`       | `double`                | the paper's update function: `G(v) ← G(v) + weight·u` |
/// | `p.share(state)`       | `double`                | what a live version counts |
/// | `p.expire(state, window)` | `std::optional<double>` | nothing while the version lives on; else it is dropped, and `base ← base + result·G(v)` |
/// | `p.version_after(read)` | `version_index`        | V(m) once worker m has read; not below `read.own` |
///
/// An update that is mapped to a version that has expired makes it anew, and `expire` is asked about
/// it at once. Under `stable_cut` servers agree on what a cut holds only if a result of `expire` other
/// than the share depends on `c_min` and `c_max` alone. All are called by one thread at a time, so
/// none may block.
/// Models: `revise`. Source: 000 §6, "Parameter Versioning": the map, update and expire functions.
template <class P>
concept versioned_merge =
    merge_policy<P> && requires(P const p, commit_info info, version_state v, version_window w,
                                version_read r) {
      { p.map(info) } noexcept -> std::same_as<version_index>;
      { p.share(v) } noexcept -> std::same_as<double>;
      { p.expire(v, w) } noexcept -> std::same_as<std::optional<double>>;
      { p.version_after(r) } noexcept -> std::same_as<version_index>;
    };

namespace detail {
template <class P>
consteval bool declared_exact() {
  if constexpr (requires { { P::exact } -> std::convertible_to<bool>; }) return P::exact;
  return false;
}
}  // namespace detail

/// A merge whose weight is always 1, so that it is exact on integers too.
template <class P>
concept exact_merge = merge_policy<P> && detail::declared_exact<P>();

/// Where a worker stands when its pace is asked.
struct pace_point {
  clock_index clock;        ///< the clock that the next commit would end
  time_point committed_at;  ///< when the last commit was made; the worker's start before the first
  worker_id worker{};  ///< the worker that asks
};

/// The threshold that a pace answers: the commit is due at the first step boundary where at least
/// `steps` local steps have been made since the last one, and the time is not before `at`.
struct commit_due {
  std::int64_t steps = 1;  ///< local steps since the last commit; at least 1
  time_point at = time_point::min();  ///< not before this time
  /// A worker that has made so many local steps pauses until `at`, unless that is never; at least
  /// `steps`.
  std::int64_t steps_max = std::numeric_limits<std::int64_t>::max();
};

/// When to send? Lives on the worker, which holds its own copy.
///
/// | expression       | result       | meaning |
/// |------------------|--------------|---------|
/// | `p.due(point)`   | `commit_due` | when the commit that ends `point.clock` is due |
///
/// Asked once after each commit and at the start; the answer stands until the next commit. `steps`
/// is at least 1. Called by the worker's own thread only. A pace may have a half in the coordinator,
/// see `conducted_pace`.
/// Models: `every_step`, `every`, `adaptive_period`, `commit_rate`. Source: 003 §2–3.
template <class P>
concept pace_policy = std::copyable<P> && requires(P const p, pace_point at) {
  { p.due(at) } noexcept -> std::same_as<commit_due>;
};

/// A protocol: one policy of each kind.
///
/// A model is any copyable struct with these member functions; derive nothing, register nothing.
/// `name()` is what reports print; it may be left out, as may `filter()`, which says what commits send: a
/// `commit_filter`, see `commit_filter.hpp`; and `reads()`, which says when copies are renewed: a `read_policy`, see
/// `read_ahead.hpp`. What else a policy may say has a header of its own: an admission whom a worker waits for
/// (`heeding_admission`), how far beyond its bound (`extending_admission`), by what value (`limiting_admission`), by rounds
/// (`round_admission`, with a `round_visibility`); a merge how each element moves (`element_merge`).
/// Models: `bsp`, `ssp`, `asp`, `con_sgd`, and whatever `with` composes.
template <class P>
concept protocol = std::copyable<P> && requires(P const p) {
  { p.admission() } -> admission_policy;
  { p.visibility() } -> visibility_policy;
  { p.merge() } -> merge_policy;
  { p.pace() } -> pace_policy;
};

/// The type of a protocol's admission policy.
template <protocol P>
using admission_of = std::remove_cvref_t<decltype(std::declval<P const&>().admission())>;
/// The type of its visibility policy.
template <protocol P>
using visibility_of = std::remove_cvref_t<decltype(std::declval<P const&>().visibility())>;
/// The type of its merge.
template <protocol P>
using merge_of = std::remove_cvref_t<decltype(std::declval<P const&>().merge())>;
/// The type of its pace.
template <protocol P>
using pace_of = std::remove_cvref_t<decltype(std::declval<P const&>().pace())>;

/// The name that reports print for a protocol: `p.name()`, or "custom" where it has none.
template <protocol P>
[[nodiscard]] constexpr std::string_view name_of(P const& p) {
  if constexpr (requires { p.name(); }) {
    using name_type = decltype(p.name());
    static_assert(std::same_as<name_type, std::string_view> || std::same_as<name_type, char const*>,
                  "a protocol's name() must give a std::string_view or a literal");
    return p.name();
  } else {
    return "custom";
  }
}

}  // namespace rubato
