// expect: a protocol needs merge() const that gives a merge_policy: weight, noexcept
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct averages {
  rb::unbounded admission() const { return {}; }
  rb::eager visibility() const { return {}; }
  rb::average merge() { return {}; }
  rb::every_step pace() const { return {}; }
};
static_assert(rb::is_protocol<averages>());
