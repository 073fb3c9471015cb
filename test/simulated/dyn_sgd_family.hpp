// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <rubato/protocol/dyn_sgd.hpp>

#include "simulated/commit_table.hpp"
#include "simulated/family.hpp"

namespace rubato::test {

/// DynSGD on random schedules, each read of each row checked by its content. Commits are made by
/// hand.
template <bool bounded, visibility_policy Visibility>
void check_versions(versions kept) {
  std::uint64_t shared = 0;
  std::uint64_t torn = 0;
  for (std::uint64_t i = 0; i < seed_count(usual_seeds); ++i) {
    std::uint64_t const seed = first_seed() + i;
    INFO(test::repeat_by(seed));
    staleness const s = random_staleness(seed);
    auto const run = run_commits<bounded>(
        [&](commit_book& book) {
          return basic_dyn_sgd<Visibility, told, every>{.staleness = s,
                                                        .fold = {.inner = {kept}, .book = &book},
                                                        .tempo = {.steps = std::int64_t{1} << 62}};
        },
        random_commit_plan(seed),
        {.bound = s,
         .exact = kept == versions::exact,
         .eager = !Visibility::holds_back,
         .same_cut = synchronized_visibility<Visibility>});
    INFO("broken rules:" << lines(run.violations));
    REQUIRE(run.violations.empty());
    shared += run.shared;
    torn += run.torn;
  }
  if (seed_count(usual_seeds) < 100) return;
  CHECK(shared > 1000 * seed_count(usual_seeds));
  // That cuts are the same on all servers is not so for want of a chance to differ (000 Fig. 5).
  if constexpr (synchronized_visibility<Visibility>)
    CHECK(torn == 0);
  else
    CHECK(torn > seed_count(usual_seeds));
}

}  // namespace rubato::test
