// expect: visibility_policy
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/rubato.hpp>

namespace rb = rubato;

struct no_policy {};

auto const p = with(rb::bsp{}, no_policy{});
