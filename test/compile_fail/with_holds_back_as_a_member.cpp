// expect within 15: a visibility_policy needs a static constexpr bool holds_back
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>

namespace rb = rubato;

struct window {
  bool holds_back = true;
  rb::clock_index horizon(rb::fold_window const& w) const noexcept { return w.c_min; }
};

auto const p = with(rb::ssp{.staleness = 3}, window{});
