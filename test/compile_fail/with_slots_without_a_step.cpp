// expect within 15: a merge with slots needs a template step(fold_step, T w, T d, T&... slots) const noexcept, with the
// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include <rubato/protocol/bsp.hpp>
#include <rubato/protocol/protocol.hpp>

namespace rb = rubato;

struct adds : rb::average {
  static constexpr std::size_t slots = 1;
  template <class T>
  T step(rb::fold_step, T, T d, T& sum) const {  // may throw: nothing would move by it
    return sum += d;
  }
};

auto const p = with(rb::bsp{}, adds{});
