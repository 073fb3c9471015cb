// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// What an update is worth when workers have ended: four workers move a parameter by 0.2 in ten updates each;
// nobody waits, and one takes ten times as long, so that its last updates arrive when the others are gone.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

void train(char const* name, rb::rules protocol) {
  rb::simulated const plan{.workers = 4, .scenario = {.speed = {.work_cost = 1ms, .slowness = {1, 1, 1, 10}}}};
  rb::cluster cluster{plan, protocol, rb::dense<float>{.rows = 1}};
  cluster.run([](auto& worker) {
    std::vector<float> w(1);
    std::vector<float> const delta{0.02F};
    for (int i = 0; i < 10; ++i) worker.pull(w), worker.push(delta), worker.step();
  });
  std::printf("%-8s %.3f\n", name, static_cast<double>(cluster.parameters()[0]));
}

int main() {
  train("average", rb::with(rb::asp{}, rb::average{}));
  train("scale", rb::with(rb::asp{}, rb::scale{.lambda = 1.0 / 4}));
  train("sum", rb::asp{});
}
