// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/testing/check_policies.hpp"

namespace rubato::testing::detail {

void check_admission(findings& found, staleness bound, std::string const& whom,
                     std::function<clock_index(clock_index, staleness)> const& need_of,
                     std::function<clock_index(clock_index, staleness)> const& cache_need_of) {
  auto const clocks = sample_clocks();
  auto const allowed = sample_staleness(bound);
  for (staleness const s : allowed)
    for (std::size_t i = 0; i < clocks.size(); ++i) {
      clock_index const c = clocks[i];
      auto const at = text(" at clock ", c.value(), " and staleness ", text(s), whom);
      clock_index const need = need_of(c, s);
      clock_index const cache_need = cache_need_of(c, s);
      found.expect(need == need_of(c, s) && cache_need == cache_need_of(c, s),
                   "need and cache_need answer differently when asked twice", at);
      found.expect(need <= c, "need is ", text(need), at,
                   ": a worker would wait for itself, expected at most the clock");
      found.expect(need >= c - s, "need is ", text(need), at, ", expected at least ", text(c - s),
                   ", or the read is staler than it asked for");
      found.expect(cache_need >= c - s, "cache_need is ", text(cache_need), at, ", expected at least ",
                   text(c - s), ", or a cached copy is staler than the read asked for");
      if (i == 0) continue;
      found.expect(need >= need_of(clocks[i - 1], s), "need falls as the clock grows", at);
      found.expect(cache_need >= cache_need_of(clocks[i - 1], s), "cache_need falls as the clock grows",
                   at);
    }
  for (clock_index const c : clocks)
    for (std::size_t i = 1; i < allowed.size(); ++i) {
      auto const at = text(" at clock ", c.value(), " from staleness ", text(allowed[i - 1]), " to ",
                           text(allowed[i]), whom);
      found.expect(need_of(c, allowed[i]) <= need_of(c, allowed[i - 1]),
                   "need rises as more staleness is allowed,", at);
      found.expect(cache_need_of(c, allowed[i]) <= cache_need_of(c, allowed[i - 1]),
                   "cache_need rises as more staleness is allowed,", at);
    }
}

}  // namespace rubato::testing::detail
