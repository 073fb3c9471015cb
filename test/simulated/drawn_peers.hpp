// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <rubato/core/random.hpp>
#include <rubato/peer/ad_psgd.hpp>
#include <rubato/peer/all_reduce.hpp>
#include <rubato/peer/gossip.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/local_step.hpp>
#include <rubato/peer/peer_rules.hpp>
#include <rubato/peer/prague.hpp>
#include <rubato/peer/push_sum.hpp>
#include <rubato/peer/topologies.hpp>
#include <rubato/testing/peer_schedule.hpp>

#include "simulated/peers_in_one_place.hpp"

namespace rubato::test {

/// A few peers of any protocol on any graph, as a seed draws them.
class drawn_peers {
 protected:
  explicit drawn_peers(std::uint64_t seed) : random_(seed, 0x9fa17) { draw_protocol(seed); }

  /// What is run.
  [[nodiscard]] std::string describe() const {
    std::vector<double> const first = first_states()[0];
    auto const all = rules_->make_node({.mixing = schedule_.mixing,
                                        .self = worker_id{0},
                                        .element = element_type::float64,
                                        .initial = std::as_bytes(std::span(first)),
                                        .make_step = [this]() -> std::unique_ptr<peer_step> {
                                          return std::make_unique<detail::peer_step_of<double, sgd>>(step_);
                                        }});
    std::string text = "(" + schedule_.mixing.topology().name() + ", " + std::to_string(schedule_.iterations) +
                       " iterations, " + all->agreement() + "; they make";
    for (std::uint32_t i = 0; i < schedule_.peers(); ++i) text += " " + std::to_string(schedule_.makes(i));
    return text + (schedule_.announced ? ", as announced" : "") + ")";
  }

  [[nodiscard]] peer_states<double> first_states() const {
    return peer_states<double>(schedule_.peers(), std::vector<double>{1, -2, 0.5, 4, 0.1});
  }

  random_stream random_;
  std::optional<peer_rules> rules_;
  std::optional<hop_rules> hop_;
  sgd step_;
  testing::peer_schedule schedule_{.mixing = mixing_matrix::automatic(ring(1))};
  bool outlives_loss_ = false;  ///< the others go on when somebody is lost
  bool is_exact_ = false;       ///< nobody does without anybody
  bool steps_by_weight_ = true;  ///< a step counts in the sum of all, whatever its peer's weight

 private:
  template <class P>
  void take(P const& p, testing::peer_schedule_limits limits) {
    rules_.emplace(p);
    if constexpr (hop_protocol<P>) hop_.emplace(p);
    outlives_loss_ = limits.leaves;
    limits.crashes = false;
    limits.peers_max = 5;
    limits.iterations_min = 2;
    limits.iterations_max = 12;
    if (schedule_.iterations == 0) schedule_ = testing::random_peers(random_.below(1'000'000), limits);
    is_exact_ = !hop_ || (hop_->bounds_gap && hop_->by_iteration());
  }

  /// Steps are to be added up, so that none has a memory.
  template <class P>
  void take_push(P const& p, testing::peer_schedule_limits limits) {
    step_ = {.rate = 0.1};
    take(p, limits);
    is_exact_ = false;
  }

  void draw_protocol(std::uint64_t seed) {
    iteration_order const order = random_.chance(0.5) ? iteration_order::parallel : iteration_order::serial;
    token_queues const tokens{1 + static_cast<std::int64_t>(random_.below(6))};
    auto const back = static_cast<std::uint32_t>(1 + random_.below(2));
    gather_all_but const backups{back};
    bounded_jump const jump{.trigger = 2, .iterations_max = 2 + static_cast<std::int64_t>(random_.below(5))};
    staleness const s = static_cast<std::int64_t>(random_.below(4));
    testing::peer_schedule_limits const all{.leaves = false};
    step_ = {.rate = 0.1, .momentum = random_.chance(0.5) ? 0.9 : 0.0, .decay = random_.chance(0.5) ? 0.01 : 0.0};
    schedule_.iterations = 0;
    switch (random_.below(14)) {
      case 0: take(hop(order), all); break;
      case 1: take(hop(notify_ack{}, order), all); break;
      case 2: take(hop(tokens, order), all); break;
      case 3: take(hop(backups, tokens, order), {.in_min = back}); break;
      case 4:
      case 5: take(hop(backups, tokens, jump, order), {.in_min = back}); break;
      case 6: take(hop(gather_newest{s}, order), {}); break;
      case 7: take(hop(gather_newest{s}, tokens, jump, order), {}); break;
      case 8: take(hop(gather_hybrid{s, back}, tokens, jump, order), {.in_min = back}); break;
      case 9:
        step_ = {.rate = 0.1};
        schedule_ = testing::peer_schedule{
            .mixing = mixing_matrix::automatic(
                std::array{ring(2), ring(4), star(3), star(5), parse_graph("grid", 4)}[random_.below(5)]),
            .iterations = 2 + static_cast<std::int64_t>(random_.below(9))};
        if (random_.chance(0.3)) schedule_.leaves = {static_cast<std::int64_t>(random_.below(3))};
        take(ad_psgd{seed}, {});
        is_exact_ = false;
        break;
      case 10: take_push(push_sum{.delay = static_cast<std::int64_t>(random_.below(3))}, {}); break;
      case 11: take_push(prague{.group = 2 + static_cast<std::uint32_t>(random_.below(3)), .seed = seed}, all); break;
      case 12:
        take_push(gossip{.probability = random_.chance(0.5) ? 1.0 : 0.4, .seed = seed}, {});
        steps_by_weight_ = false;
        break;
      default: take(all_reduce{}, all); break;
    }
    schedule_.seed = seed;
  }
};

}  // namespace rubato::test
