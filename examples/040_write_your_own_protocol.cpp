// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A protocol of your own: SSP in which an update counts less the further its worker lags behind.
// Prints what the conformance test says of it, and how it compares with SSP and ConSGD.
#include <chrono>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/testing/conformance.hpp>
#include <vector>

namespace rb = rubato;
using namespace std::chrono_literals;

struct damped_ssp {  // all that it takes
  struct merge_policy {
    double weight(rb::commit_info const& c) const noexcept {
      double const lag = static_cast<double>(rb::distance(c.stamp, c.c_max));
      return 1.0 / (c.workers * (1.0 + lag));
    }
  };
  rb::staleness s = 3;

  auto admission() const { return rb::bounded_staleness{s}; }
  auto visibility() const { return rb::eager{}; }
  auto merge() const { return merge_policy{}; }
  auto pace() const { return rb::every_step{}; }
  static constexpr std::string_view name() { return "damped_ssp"; }
};
static_assert(rb::is_protocol<damped_ssp>());

/// Eight workers pull a parameter towards 1; how far is it off after 30 clocks?
template <rb::protocol Protocol>
void train(Protocol p) {
  rb::simulated const plan{.workers = 8,
                           .scenario = {.speed = {.work_cost = 1ms, .slowness = {1, 1, 1, 1, 1, 1, 1, 4}}}};
  rb::cluster cluster{plan, p, rb::dense<double>{.rows = 1}};
  cluster.run([](auto& worker) {
    std::vector<double> w(1);
    for (int i = 0; i < 30; ++i) {
      worker.pull(w);
      worker.push(std::vector<double>{0.4 * (1.0 - w[0])});
      worker.step();
    }
  });
  std::printf("%-12s off by %.1e\n", std::string(rb::name_of(p)).c_str(),
              std::abs(1.0 - cluster.parameters()[0]));
}

int main() {
  auto const violations = rb::testing::check_protocol(damped_ssp{});
  std::printf("damped_ssp: %zu violations\n", violations.size());
  for (auto const& sentence : violations) std::printf("  %s\n", sentence.c_str());

  train(rb::ssp{});
  train(rb::con_sgd{});
  train(damped_ssp{});
}
