// expect within 15: a policy must be copyable, by assignment too: it must not be const, nor have const members,
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>

namespace rb = rubato;

struct constant {
  double const worth = 0.5;
  double weight(rb::commit_info const&) const noexcept { return worth; }
};

auto const p = with(rb::ssp{.staleness = 3}, constant{});
