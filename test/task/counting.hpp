// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <vector>

#include <rubato/protocol/merge.hpp>
#include <rubato/storage/dense.hpp>
#include <rubato/task/stage.hpp>

namespace rubato::test {

using counts = dense<std::int64_t, sum>;

/// A stage's body that adds 1 in each iteration; from its beginning on a worker sees all that earlier stages
/// wrote, and no less from one iteration to the next, its own update included.
struct counting {
  std::int64_t before = 0;  ///< what earlier stages have written
  template <class Worker>
  void operator()(Worker& w, iteration_range todo) const {
    std::vector<std::int64_t> seen(1);
    std::vector<std::int64_t> const one{1};
    std::int64_t least = before;
    for (std::int64_t i : todo) {
      (void)i;
      w.pull(seen);
      if (seen[0] < least) throw std::runtime_error("an update that has been seen is missing, or one's own");
      least = seen[0] + 1;
      w.push(one);
      w.step();
    }
  }
};

}  // namespace rubato::test
