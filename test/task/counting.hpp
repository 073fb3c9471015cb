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
/// wrote.
struct counting {
  std::int64_t before = 0;  ///< what earlier stages have written
  template <class Worker>
  void operator()(Worker& w, iteration_range todo) const {
    std::vector<std::int64_t> seen(1);
    std::vector<std::int64_t> const one{1};
    bool first = true;
    for (std::int64_t i : todo) {
      (void)i;
      w.pull(seen);
      if (first && seen[0] < before) throw std::runtime_error("an update of an earlier stage is missing");
      first = false;
      w.push(one);
      w.step();
    }
  }
};

}  // namespace rubato::test
