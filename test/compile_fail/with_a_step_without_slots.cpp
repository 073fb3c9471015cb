// expect within 15: a merge that moves elements needs a static constexpr std::size_t slots, which may be 0
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>

namespace rb = rubato;

struct halves : rb::average {
  template <class T>
  T step(rb::fold_step, T, T d) const noexcept {  // would never be asked
    return d / 2;
  }
};

auto const p = with(rb::bsp{}, halves{});
