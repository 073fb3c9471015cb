// expect within 15: a pace_policy needs due(pace_point) const, which gives a commit_due
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/pace.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>

namespace rb = rubato;

struct counted {
  rb::commit_due due(rb::pace_point const&) noexcept { return {.steps = ++steps}; }
  std::int64_t steps = 0;
};

auto const p = with(rb::ssp{.staleness = 3}, counted{});
