// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/protocol/extending_admission.hpp"
#include "rubato/protocol/heeding_admission.hpp"
#include "rubato/protocol/limiting_admission.hpp"
#include "rubato/protocol/round_admission.hpp"
#include "rubato/testing/findings.hpp"

/// Admissions that go by more than clocks; `check_policies.hpp` asks.
namespace rubato::testing::detail {

/// Servers agree who takes part, and each worker does so sooner or later.
template <sampling_admission P>
void check_sampling(P const& p, findings& found) {
  P const copy(p);
  for (std::uint32_t w = 0; w < 100; ++w) {
    bool takes_part = false;
    for (std::int64_t round = 0; round < 10'000; ++round) {
      bool const in = p.takes_part(worker_id{w}, version_index{round});
      found.expect(in == copy.takes_part(worker_id{w}, version_index{round}),
                   "takes_part answers differently for worker ", w, " in round ", round,
                   " when asked twice: servers would not agree");
      takes_part = takes_part || in;
    }
    found.expect(takes_part, "worker ", w, " takes part in none of 10000 rounds: it would wait for ever");
  }
}

/// Servers agree whom a reader heeds.
template <heeding_admission P>
void check_heeding(P const& p, findings& found) {
  P const copy(p);
  for (std::uint32_t reader = 0; reader < 30; ++reader)
    for (std::uint32_t other = 0; other < 30; ++other)
      for (clock_index const c : sample_clocks()) {
        bool const heeds = p.heeds(worker_id{reader}, worker_id{other}, c);
        found.expect(heeds == copy.heeds(worker_id{reader}, worker_id{other}, c) &&
                         heeds == p.heeds(worker_id{reader}, worker_id{other}, c),
                     "heeds answers differently for workers ", reader, " and ", other, " at clock ", c.value(),
                     " when asked twice: servers would not agree");
      }
}

/// Servers agree what they grant by the same times, and do not go beyond the bound.
template <extending_admission P>
void check_extending(P const& p, findings& found) {
  P const copy(p);
  found.expect(p.bound() != staleness::infinite(),
               "bound is infinite, expected a finite one for an admission that extends");
  time_point const now(seconds(100));
  for (double const own : {0.0, 0.1, 1.0, 3.0})
    for (double const slowest : {0.0, 0.5, 1.0, 7.0})
      for (double const since : {0.0, 0.3, 5.0})
        for (std::int64_t const most : {1, 2, 12, 100}) {
          time_point const other = now - seconds(since);
          commit_times const mine{now - seconds(own), now}, others{other - seconds(slowest), other};
          std::int64_t const extra = p.extra(mine, others, most);
          auto const at = text(" for intervals of ", own, " s and ", slowest,
                               " s of the slowest worker, which has committed ", since, " s ago");
          found.expect(extra == copy.extra(mine, others, most) && extra == p.extra(mine, others, most),
                       "extra answers differently", at, " when asked twice");
          found.expect(extra >= 0 && extra <= most, "extra is ", extra, at, ", expected 0 to ", most);
        }
}

/// Servers agree what is too much; and it is a number.
template <limiting_admission P>
void check_limiting(P const& p, findings& found) {
  P const copy(p);
  found.expect(p.bound() == staleness::infinite(),
               "bound is finite, but clocks are not looked at, expected an infinite one");
  for (clock_index const c : sample_clocks()) {
    double const limit = p.limit(c);
    found.expect(limit >= 0, "limit is ", limit, " at clock ", c.value(), ", expected 0 or more");
    found.expect(!(limit >= 0) || (limit == copy.limit(c) && limit == p.limit(c)),
                 "limit answers differently at clock ", c.value(), " when asked twice");
  }
}

}  // namespace rubato::testing::detail
