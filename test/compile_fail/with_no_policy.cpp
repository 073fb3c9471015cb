// expect within 15: with(): the part is no policy: an admission_policy has bound, need and cache_need, a visibility_policy
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>

namespace rb = rubato;

struct no_policy {};

auto const p = with(rb::bsp{}, no_policy{});
