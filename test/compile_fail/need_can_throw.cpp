// expect within 15: an admission_policy's need() must be noexcept
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct may_throw {
  rb::staleness bound() const noexcept { return 3; }
  rb::clock_index need(rb::clock_index c, rb::staleness s) const { return c - s; }
  rb::clock_index cache_need(rb::clock_index c, rb::staleness s) const noexcept { return c - s; }
};

struct mine : rb::ssp {
  may_throw admission() const { return {}; }
};

rb::cluster cluster{rb::in_process{.workers = 3}, mine{}, rb::dense<float>{.rows = 10}};
