// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <vector>

#include <rubato/core/time.hpp>
#include <rubato/sim/scenario.hpp>

namespace rubato::test {

using doubles = std::vector<double>;

/// Workers that are alike, steps of 10 ms, messages that take no time.
[[nodiscard]] inline sim::scenario quiet(std::uint32_t workers = 1) {
  return {.speed = {.work_cost = std::chrono::milliseconds(10), .slowness = std::vector<double>(workers, 1.0)},
          .network = {.worker_link = {.latency = duration::zero()}}};
}

/// A body that pulls, pushes ones and steps until then; on a table of two rows.
[[nodiscard]] inline auto until(duration end) {
  return [end](auto& w) {
    doubles all(2);
    doubles const one(2, 1.0);
    while (w.now() < time_point(end)) {
      w.pull(all);
      w.push(one);
      w.step();
    }
  };
}

}  // namespace rubato::test
