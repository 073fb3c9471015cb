// expect within 15: a protocol needs pace() const that gives a pace_policy: due, noexcept
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct no_pace {
  rb::barrier admission() const { return {}; }
  rb::strict visibility() const { return {}; }
  rb::average merge() const { return {}; }
};

rb::cluster cluster{rb::in_process{.workers = 3}, no_pace{}, rb::dense<float>{.rows = 10}};
