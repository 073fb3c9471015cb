// expect within 15: a merge_policy's weight() must be noexcept
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>

namespace rb = rubato;

struct half {
  double weight(rb::commit_info const&) const { return 0.5; }
};

auto const p = with(rb::ssp{.staleness = 3}, half{});
