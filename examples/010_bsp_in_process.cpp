// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Four threads fit a line y = 3x + 1 under BSP. Prints the line that they agree on.
#include <cstdio>
#include <rubato/rubato.hpp>
#include <vector>

namespace rb = rubato;

int main() {
  rb::cluster cluster{rb::in_process{.workers = 4}, rb::bsp{}, rb::dense<double>{.rows = 2}};

  cluster.run([](auto& worker) {
    std::vector<double> line(2), step(2);
    for (int clock = 0; clock < 400; ++clock) {
      worker.pull(line);  // waits until everybody has ended the last clock
      step = {0, 0};
      for (unsigned i = 0; i < 10; ++i) {  // this worker's ten points
        double const x = (10 * worker.rank() + i) / 40.0;
        double const error = line[0] * x + line[1] - (3 * x + 1);
        step[0] -= 0.05 * error * x;
        step[1] -= 0.05 * error;
      }
      worker.push(step);
      worker.step();  // BSP commits after every local step, and averages
    }
  });

  auto const& line = cluster.parameters();
  std::printf("y = %.2f x + %.2f\n", line[0], line[1]);
}
