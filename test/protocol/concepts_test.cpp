// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/concepts.hpp>

#include <catch2/catch.hpp>

#include <cstdint>
#include <string_view>

#include <rubato/protocol/admission.hpp>
#include <rubato/protocol/asp.hpp>
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/con_sgd.hpp>
#include <rubato/protocol/element_merge.hpp>
#include <rubato/protocol/merge.hpp>
#include <rubato/protocol/pace.hpp>
#include <rubato/protocol/ssp.hpp>
#include <rubato/protocol/visibility.hpp>

using namespace rubato;

namespace {

// ---- admission: a minimal archetype, and what just misses it

struct admits {
  staleness bound() const noexcept;
  clock_index need(clock_index, staleness) const noexcept;
  clock_index cache_need(clock_index, staleness) const noexcept;
};
static_assert(admission_policy<admits>);

struct need_can_throw : admits {
  clock_index need(clock_index, staleness) const;
};
struct need_is_no_clock : admits {
  bool need(clock_index, staleness) const noexcept;
};
struct need_changes_state : admits {
  clock_index need(clock_index, staleness) noexcept;
};
struct cache_need_can_throw : admits {
  clock_index cache_need(clock_index, staleness) const;
};
struct bound_is_a_number : admits {
  std::int64_t bound() const noexcept;
};
struct no_cache_need {
  staleness bound() const noexcept;
  clock_index need(clock_index, staleness) const noexcept;
};
struct no_bound {
  clock_index need(clock_index, staleness) const noexcept;
  clock_index cache_need(clock_index, staleness) const noexcept;
};
struct admits_uncopied : admits {
  admits_uncopied(admits_uncopied const&) = delete;
};
static_assert(!admission_policy<need_can_throw>);
static_assert(!admission_policy<need_is_no_clock>);
static_assert(!admission_policy<need_changes_state>);
static_assert(!admission_policy<cache_need_can_throw>);
static_assert(!admission_policy<bound_is_a_number>);
static_assert(!admission_policy<no_cache_need>);
static_assert(!admission_policy<no_bound>);
static_assert(!admission_policy<admits_uncopied>);

// ---- visibility

struct shows {
  static constexpr bool holds_back = true;
  clock_index horizon(fold_window const&) const noexcept;
};
static_assert(visibility_policy<shows>);

struct no_holds_back {
  clock_index horizon(fold_window const&) const noexcept;
};
struct holds_back_at_run_time {
  bool holds_back = true;
  clock_index horizon(fold_window const&) const noexcept;
};
struct no_horizon {
  static constexpr bool holds_back = false;
};
struct horizon_can_throw : shows {
  clock_index horizon(fold_window const&) const;
};
struct horizon_is_a_number : shows {
  std::int64_t horizon(fold_window const&) const noexcept;
};
struct shows_uncopied : shows {
  shows_uncopied(shows_uncopied const&) = delete;
};
static_assert(!visibility_policy<no_holds_back>);
static_assert(!visibility_policy<holds_back_at_run_time>);
static_assert(!visibility_policy<no_horizon>);
static_assert(!visibility_policy<horizon_can_throw>);
static_assert(!visibility_policy<horizon_is_a_number>);
static_assert(!visibility_policy<shows_uncopied>);

// ---- merge

struct weighs {
  double weight(commit_info const&) const noexcept;
};
static_assert(merge_policy<weighs> && !exact_merge<weighs> && !velocity_merge<weighs>);

struct weight_is_float : weighs {
  float weight(commit_info const&) const noexcept;
};
struct weight_can_throw : weighs {
  double weight(commit_info const&) const;
};
struct weight_of_nothing : weighs {
  double weight() const noexcept;
};
struct weighs_uncopied : weighs {
  weighs_uncopied(weighs_uncopied const&) = delete;
};
static_assert(!merge_policy<weight_is_float>);
static_assert(!merge_policy<weight_can_throw>);
static_assert(!merge_policy<weight_of_nothing>);
static_assert(!merge_policy<weighs_uncopied>);

struct says_exact : weighs {
  static constexpr bool exact = true;
};
struct says_inexact : weighs {
  static constexpr bool exact = false;
};
struct exact_but_no_merge {
  static constexpr bool exact = true;
};
static_assert(exact_merge<says_exact>);
static_assert(!exact_merge<says_inexact>);
static_assert(exact_but_no_merge::exact && !exact_merge<exact_but_no_merge>);

struct decays : weighs {
  double decay() const noexcept;
};
struct decay_can_throw : weighs {
  double decay() const;
};
struct decay_is_float : weighs {
  float decay() const noexcept;
};
struct decay_alone {
  double decay() const noexcept;
};
static_assert(velocity_merge<decays>);
static_assert(!velocity_merge<decay_can_throw> && merge_policy<decay_can_throw>);
static_assert(!velocity_merge<decay_is_float>);
static_assert(!velocity_merge<decay_alone>);

struct moves : weighs {
  static constexpr std::size_t slots = 1;
  template <class T>
  T step(fold_step, T w, T d, T& slot) const noexcept;
};
struct moves_copies : weighs {
  static constexpr std::size_t slots = 0;
  static constexpr worker_copy copy = worker_copy::as_read;
  template <class T>
  T step(fold_step, T w, T d, T const& copy_of_worker) const noexcept;
};
struct step_can_throw : weighs {
  static constexpr std::size_t slots = 0;
  template <class T>
  T step(fold_step, T w, T d) const;
};
struct step_of_doubles : weighs {
  static constexpr std::size_t slots = 0;
  double step(fold_step, double w, double d) const noexcept;
};
struct step_without_its_slot : weighs {
  static constexpr std::size_t slots = 1;
  template <class T>
  T step(fold_step, T w, T d) const noexcept;
};
static_assert(element_merge<moves> && element_merge<moves_copies>);
static_assert(!element_merge<step_can_throw> && merge_policy<step_can_throw>);
static_assert(!element_merge<step_of_doubles> && !element_merge<step_without_its_slot> && !element_merge<decays>);

// ---- pace

struct paces {
  commit_due due(pace_point const&) const noexcept;
};
static_assert(pace_policy<paces>);

struct due_is_a_count : paces {
  std::int64_t due(pace_point const&) const noexcept;
};
struct due_can_throw : paces {
  commit_due due(pace_point const&) const;
};
struct due_of_a_clock : paces {
  commit_due due(clock_index) const noexcept;
};
struct paces_uncopied : paces {
  paces_uncopied(paces_uncopied const&) = delete;
};
static_assert(!pace_policy<due_is_a_count>);
static_assert(!pace_policy<due_can_throw>);
static_assert(!pace_policy<due_of_a_clock>);
static_assert(!pace_policy<paces_uncopied>);

// ---- protocol

struct composes {
  admits admission() const;
  shows visibility() const;
  weighs merge() const;
  paces pace() const;
};
static_assert(protocol<composes>);
static_assert(std::same_as<admission_of<composes>, admits>);
static_assert(std::same_as<visibility_of<composes>, shows>);
static_assert(std::same_as<merge_of<composes>, weighs>);
static_assert(std::same_as<pace_of<composes>, paces>);

struct no_pace {
  admits admission() const;
  shows visibility() const;
  weighs merge() const;
};
struct merge_is_none : composes {
  paces merge() const;
};
struct admission_near_miss : composes {
  need_can_throw admission() const;
};
struct visibility_near_miss : composes {
  no_holds_back visibility() const;
};
struct changes_to_answer : composes {
  paces pace();
};
struct composes_uncopied : composes {
  composes_uncopied(composes_uncopied const&) = delete;
};
static_assert(!protocol<no_pace>);
static_assert(!protocol<merge_is_none>);
static_assert(!protocol<admission_near_miss>);
static_assert(!protocol<visibility_near_miss>);
static_assert(!protocol<changes_to_answer>);
static_assert(!protocol<composes_uncopied>);

// Policies are values: workers and shards hold copies of their own.
struct answers_by_reference : composes {
  weighs const& merge() const;
};
static_assert(!protocol<answers_by_reference>);

// ---- the models, each of its own kind only

template <class P>
constexpr int kinds = admission_policy<P> + visibility_policy<P> + merge_policy<P> + pace_policy<P>;
static_assert(admission_policy<barrier> && kinds<barrier> == 1);
static_assert(admission_policy<bounded_staleness> && kinds<bounded_staleness> == 1);
static_assert(admission_policy<unbounded> && kinds<unbounded> == 1);
static_assert(visibility_policy<eager> && kinds<eager> == 1);
static_assert(visibility_policy<strict> && kinds<strict> == 1);
static_assert(merge_policy<sum> && kinds<sum> == 1);
static_assert(merge_policy<average> && kinds<average> == 1);
static_assert(merge_policy<scale> && kinds<scale> == 1);
static_assert(merge_policy<momentum> && kinds<momentum> == 1);
static_assert(pace_policy<every_step> && kinds<every_step> == 1);
static_assert(pace_policy<every> && kinds<every> == 1);
static_assert(kinds<int> == 0 && kinds<bsp> == 0);
static_assert(protocol<bsp> && protocol<ssp> && protocol<asp> && protocol<con_sgd>);
static_assert(!protocol<barrier> && !protocol<int>);

struct unnamed {
  [[nodiscard]] barrier admission() const { return {}; }
  [[nodiscard]] strict visibility() const { return {}; }
  [[nodiscard]] average merge() const { return {}; }
  [[nodiscard]] every_step pace() const { return {}; }
};
struct named : unnamed {
  std::string_view text;
  [[nodiscard]] std::string_view name() const { return text; }
};
struct named_by_a_literal : unnamed {
  [[nodiscard]] char const* name() const { return "daily"; }
};

}  // namespace

TEST_CASE("protocol: reports print its name, and 'custom' where it has none") {
  CHECK(name_of(bsp{}) == "bsp");
  CHECK(name_of(ssp{}) == "ssp");
  CHECK(name_of(asp{}) == "asp");
  CHECK(name_of(con_sgd{}) == "con_sgd");
  named p;
  p.text = "nightly";
  CHECK(name_of(p) == "nightly");
  CHECK(name_of(unnamed{}) == "custom");
  CHECK(name_of(named_by_a_literal{}) == "daily");
}
