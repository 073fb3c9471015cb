// expect within 15: a read_policy needs renews(read_point) const noexcept, which gives a bool
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/essp.hpp>
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/read_ahead.hpp>

namespace rb = rubato;

struct always {
  bool renews(rb::read_point) const { return true; }
};

auto const p = with(rb::essp{.staleness = 3}, always{});
