// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/protocol/commit_filter.hpp"
#include "rubato/protocol/concepts.hpp"
#include "rubato/protocol/limiting_admission.hpp"
#include "rubato/protocol/round_admission.hpp"
#include "rubato/testing/check_codec.hpp"
#include "rubato/testing/check_partition.hpp"
#include "rubato/testing/check_policies.hpp"
#include "rubato/testing/check_store.hpp"
#include "rubato/testing/check_transport.hpp"
#include "rubato/testing/findings.hpp"
#include "rubato/testing/observed_run.hpp"

/// Checks policies of your own, without a test framework: each function returns what is wrong, as
/// sentences; an empty list means that the policy conforms.
///
/// @code
/// for (auto const& sentence : rubato::testing::check_protocol(my_protocol{})) fail(sentence);
/// @endcode
namespace rubato::testing {

/// How long `check_protocol` looks.
struct search {
  std::uint64_t first_seed = 1;  ///< of the first schedule; the next has the next seed
  std::uint64_t schedules = 200;  ///< how many are run
};

/// Runs a whole protocol in the simulator on random schedules: workers that differ in speed, slow
/// and jittery links, joins, leaves and losses; and checks the rules after every event: SSP-1 to
/// SSP-3 at the protocol's own bound, that nobody is forgotten, that every commit counts exactly
/// once, and PS-1 where reads are synchronized. Before that, its parts one by one; of a protocol by rounds, which may
/// leave commits out, and of one with a filter, nothing else. Each sentence of a run names the seed of its schedule; of
/// those that differ in numbers only the first is given, and how many more there were in up to ten schedules.
template <protocol P>
[[nodiscard]] sentences check_protocol(P const& p, search const& where = {}) {
  sentences all;
  auto const add = [&all](sentences const& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  add(check_admission(p.admission()));
  add(check_visibility(p.visibility()));
  add(check_merge(p.merge()));
  add(check_pace(p.pace()));
  using visibility = visibility_of<P>;
  using filter = decltype(filter_of(p));
  if constexpr (!std::same_as<filter, send_all>) add(check_filter(filter_of(p)));
  if constexpr (round_visibility<visibility> || !std::same_as<filter, send_all>) return all;
  staleness const bound = p.admission().bound();
  expectations r = synchronized_visibility<visibility> ? synchronized_rules(bound) : eager_rules(bound);
  r.admission.emplace(p.admission());
  r.minimal_waits = false;  // a protocol may wait for more than it must
  r.holds_back = visibility::holds_back;
  if constexpr (visibility::holds_back && windowed_visibility<visibility> && !synchronized_visibility<visibility>)
    r.newest = [v = p.visibility(), bound](clock_index c) {
      return v.horizon({.c_min = c, .bound = bound});
    };
  detail::findings runs;
  for (std::uint64_t i = 0, broken = 0; i < where.schedules && broken < 10; ++i) {
    std::uint64_t const seed = where.first_seed + i;
    schedule s = random_schedule(seed, {.workers = admission_rule(p.admission()).run_workers()});
    if constexpr (limiting_admission<admission_of<P>>) s.servers = 1;
    auto const violations = observed_run(p, s, r).violations;
    broken += violations.empty() ? 0 : 1;
    for (auto const& sentence : violations) runs.add("schedule ", seed, ": ", sentence);
  }
  add(runs.take("in other schedules"));
  return all;
}

}  // namespace rubato::testing
