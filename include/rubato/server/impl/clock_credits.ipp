// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>

#include "rubato/server/clock_credits.hpp"

namespace rubato {

void clock_credits::note(worker_id w, time_point at) {
  record& r = of(w);
  r.before = r.last;
  r.last = at;
}

void clock_credits::forget(worker_id w) { of(w) = {}; }

bool clock_credits::allows(admission_rule const& admission, progress const& clocks, clock_index c_min, worker_id reader,
                           clock_index clock, staleness bound) {
  if (c_min < clock - bound) return false;
  if (clock < of(reader).granted) return true;
  if (clocks.c_max() > clock) return false;  // Algorithm 1 asks for the fastest worker only
  std::int64_t const most = distance(clock - bound, c_min) + 1;
  std::int64_t const more = std::clamp(extra(admission, clocks, reader, most), std::int64_t{0}, most);
  of(reader).granted = clock_index{clock.value() + more};
  return more > 0;
}

std::int64_t clock_credits::extra(admission_rule const& admission, progress const& clocks, worker_id reader,
                                  std::int64_t most) {
  record const own = of(reader), slowest = of(clocks.slowest());
  if (!own.before || !slowest.before) return 0;
  return admission.extra({*own.before, *own.last}, {*slowest.before, *slowest.last}, most);
}

}  // namespace rubato
