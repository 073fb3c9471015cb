// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A filter of one's own: an entry is sent when it has grown to something, or has waited for 20 clocks. Prints what
// the conformance test says, and beside the library's filters how much is sent and how far from the end training ends.
#include <cmath>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <utility>
#include <vector>

namespace rb = rubato;

struct patient {
  double least = 0.1;

  static constexpr std::size_t slots = 1;  // for how many clocks an entry has waited

  template <class T>
  T send(rb::filter_point, T, T& u, T& waited) const noexcept {
    if (u == 0) return 0;
    waited += 1;
    if (std::abs(u) < least && waited < 20) return 0;
    waited = 0;
    return std::exchange(u, T(0));  // what is left in u is carried
  }
};
static_assert(rb::commit_filter<patient>);

void train(char const* name, rb::rules const& protocol) {
  constexpr std::size_t rows = 200, width = 4;
  rb::cluster cluster{rb::simulated{.workers = 4, .servers = 2}, protocol,
                      rb::dense<float>{.rows = rows, .width = width}};
  auto const report = cluster.run([](auto& worker) {
    std::vector<float> w(rows * width), delta(rows * width);
    for (int clock = 0; clock < 200; ++clock) {
      worker.pull(w);
      for (std::size_t i = 0; i < w.size(); ++i)  // parameter i goes to 1 + i % 7, some rows sooner, some later
        delta[i] = 0.2F / static_cast<float>(1 + i / width % 20) * (static_cast<float>(1 + i % 7) - w[i]);
      worker.push(delta);
      worker.step();
    }
  });
  double left = 0;
  std::vector<float> const w = cluster.parameters();
  for (std::size_t i = 0; i < w.size(); ++i) left += std::abs(static_cast<double>(1 + i % 7) - double{w[i]});
  std::printf("%-10s %6llu kB sent, %.3f from the end on average\n", name,
              static_cast<unsigned long long>(report.total().bytes_sent / 1000), left / static_cast<double>(w.size()));
}

int main() {
  auto const violations = rb::testing::check_filter(patient{});
  std::printf("%zu violations\n", violations.size());
  for (auto const& sentence : violations) std::printf("  %s\n", sentence.c_str());
  train("bsp", rb::bsp{});
  train("patient", rb::with(rb::bsp{}, patient{}));
  train("10% of w", rb::with(rb::bsp{}, rb::significance{.threshold = 0.1}));
  train("in turns", rb::with(rb::bsp{}, rb::one_fragment{.fragments = 4}));
}
