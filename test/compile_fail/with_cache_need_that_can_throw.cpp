// expect within 15: an admission_policy's cache_need() must be noexcept
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/rules.hpp>
#include <rubato/protocol/ssp.hpp>

namespace rb = rubato;

struct may_throw {
  rb::staleness bound() const noexcept { return 3; }
  rb::clock_index need(rb::clock_index c, rb::staleness s) const noexcept { return c - s; }
  rb::clock_index cache_need(rb::clock_index c, rb::staleness s) const { return c - s; }
};

rb::rules const p = with(rb::rules(rb::ssp{.staleness = 3}), may_throw{});
