// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Another protocol at the same rate may diverge: one that adds updates up moves M times as far in a clock as
// one that averages, and a worker does not see what the others add meanwhile. Eight workers pull a parameter
// towards 1; how far is it off after 60 clocks?
#include <chrono>
#include <cmath>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

constexpr std::uint32_t M = 8;
constexpr std::int64_t bound = 3;

void train(char const* name, rb::rules protocol, double rate) {
  rb::simulated const plan{.workers = M, .scenario = {.speed = {.work_cost = 1ms, .slowness = {1, 1, 1, 2}}}};
  rb::cluster cluster{plan, protocol, rb::dense<double>{.rows = 1}};
  cluster.run([rate](auto& worker) {
    std::vector<double> w(1);
    for (int i = 0; i < 60; ++i) {
      worker.pull(w);
      worker.push(std::vector<double>{rate * (1 - w[0])});
      worker.step();
    }
  });
  std::printf("%-24s rate %-8g off by %.0e\n", name, rate, std::abs(1 - cluster.parameters()[0]));
}

int main() {
  constexpr double rate = 0.5;
  train("bsp", rb::bsp{}, rate);
  train("ssp", rb::ssp{.staleness = bound}, rate);                                         // diverges
  train("ssp that averages", rb::with(rb::ssp{.staleness = bound}, rb::average{}), rate);  // con_sgd
  train("ssp at rate/M", rb::ssp{.staleness = bound}, rate / M);
  train("ssp at rate/(M(s + 1))", rb::ssp{.staleness = bound}, rate / (M * (bound + 1)));
  train("asp at rate/M", rb::asp{}, rate / M);
}
