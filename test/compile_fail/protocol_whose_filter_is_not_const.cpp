// expect: a protocol's filter() must be const, or nothing is filtered
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct sends_some : rb::asp {
  rb::significance filter() { return {}; }
};
rb::rules all = sends_some{};
