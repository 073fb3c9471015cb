// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A gather and a reduce of one's own: a peer goes on when a majority of its neighborhood has sent this
// iteration's update, and its own parameters count twice. They go together with all other parts.
#include <cstddef>
#include <cstdio>
#include <rubato/rubato.hpp>
#include <rubato/testing/peer_conformance.hpp>
#include <string>
#include <vector>

namespace rb = rubato;

struct gather_majority {
  static constexpr rb::keeping kept = rb::keeping::by_iteration;
  static constexpr bool bounds_gap = false;     // nobody waits for a minority: tokens have to bound it
  static constexpr bool outlives_loss = true;

  std::size_t needed(std::size_t n) const noexcept { return n / 2 + 1; }
  rb::iteration_index oldest(rb::iteration_index k) const noexcept { return k; }
};

struct own_counts_twice {
  double weight(rb::update_info const& u) const noexcept {
    return u.from == u.to ? 2 * u.mixing : u.mixing;
  }
};

int main() {
  auto const protocol = rb::hop(gather_majority{}, own_counts_twice{}, rb::token_queues{4});

  // What the concepts ask for, and the bounds of the iteration gap over random schedules.
  for (std::string const& violation : rb::testing::check_hop(protocol)) {
    std::printf("%s\n", violation.c_str());
    return 1;
  }
  rb::peer_group group{rb::in_process{}, rb::ring_based(8), protocol, rb::plain_step{},
                       std::vector<double>{10}};
  group.run([](auto& peer) {
    for ([[maybe_unused]] auto k : peer.iterations(300)) {
      double const to_seven = 0.05 * (7 - peer.parameters()[0]);
      peer.step(std::vector{to_seven});
    }
  });
  std::printf("conforms; the average is %.3f, nobody is further than %.3f from it\n",
              group.parameters()[0], group.spread());
}
