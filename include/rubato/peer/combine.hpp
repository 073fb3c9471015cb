// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "rubato/peer/hop_core.hpp"
#include "rubato/peer/local_step.hpp"
#include "rubato/peer/parameter_pool.hpp"

namespace rubato {

/// `to ← Σ weight·parameters`, added up in the order of `parts`, each weight rounded to T first; `own`
/// stands for the part without parameters. After each block of it calls `finish(first, block)`.
///
/// Blocks stay in the first cache, so memory is read and written once whatever the number of parts.
/// @pre all have one size, and there is a part
template <class T, class Finish>
void combine(std::span<contribution<shared_parameters<T>> const> parts, std::span<T const> own,
             std::span<T> to, Finish finish) {
  constexpr std::size_t block = 2048;
  for (std::size_t first = 0; first < to.size(); first += block) {
    std::span<T> const out = to.subspan(first, std::min(block, to.size() - first));
    auto sum = detail::as_array(out);
    bool begun = false;
    for (auto const& part : parts) {
      std::span<T const> const all = part.own ? own : std::span<T const>(*part.parameters);
      auto const x = detail::as_array(all.subspan(first, out.size()));
      if (begun) sum += static_cast<T>(part.weight) * x;
      else sum = static_cast<T>(part.weight) * x;
      begun = true;
    }
    finish(first, out);
  }
}

}  // namespace rubato
