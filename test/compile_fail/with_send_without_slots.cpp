// expect within 15: a commit_filter needs takes(filter_point, key) const noexcept, which gives a bool, or a static
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/protocol.hpp>
#include <rubato/protocol/ssp.hpp>

#include <utility>

namespace rb = rubato;

// Sends every other clock, but does not say how many slots it has.
struct at_times {
  template <class T>
  T send(rb::filter_point at, T, T& u) const noexcept {
    return at.clock.value() % 2 == 0 ? std::exchange(u, T(0)) : T(0);
  }
};

auto const protocol = rb::with(rb::ssp{}, at_times{});
