// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A run of two peers of which a test plays one.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include <rubato/peer/local_step.hpp>
#include <rubato/peer/peer_agreement.hpp>
#include <rubato/peer/peer_rules.hpp>
#include <rubato/peer/topologies.hpp>

#include "transport/processes/peers_apart.hpp"
#include "transport/processes/played_peer.hpp"

namespace rubato::test {

struct ends {
  std::string real;    ///< what the real peer's run ended with
  std::string played;  ///< what the played one was told
};

/// A real peer of this rank among two, and a played one.
inline ends beside_played(peer_rules const& protocol, played_peer::script script, floats const& w0 = floats(5, 1),
                   std::uint32_t real_rank = 0, std::chrono::milliseconds reconnect = 200ms) {
  silence_in_peers_log const quiet;
  peers_apart run(2);
  run.shape.reconnect = reconnect;
  auto const mixing = mixing_matrix::automatic(ring(2));
  sgd const step{};
  detail::peer_step_of<float, sgd> copy(step);
  std::string const agreed =
      agreement_of_peers(mixing, element_type::float32, std::as_bytes(std::span(w0)), copy) + "; protocol: " +
      protocol.make_node({.mixing = mixing,
                          .self = worker_id{0},
                          .element = element_type::float32,
                          .initial = std::as_bytes(std::span(w0)),
                          .make_step = [&]() -> std::unique_ptr<peer_step> {
                            return std::make_unique<detail::peer_step_of<float, sgd>>(step);
                          }})
          ->agreement();
  ends e;
  auto const all = in_peers(
      run, [&](tcp const& t) { make_group(t, mixing, protocol, w0, step).run([](auto&) {}); },
      [&](tcp const& t, std::uint32_t rank) {
        if (rank == real_rank) {
          auto group = make_group(t, mixing, protocol, w0, step);
          group.run([&](auto& peer) {
            for (std::int64_t const k : peer.iterations(1'000'000)) {
              if (real_rank == 1 && group.runtime().crashed(0)) break;  // it could go on without
              peer.step(test::gradient_at(peer.parameters(), rank, k));
            }
          });
        } else {
          played_peer other(t.place, agreed, script);
          other.play();
          e.played = other.refused();
        }
      });
  e.real = all[real_rank].text();
  return e;
}

}  // namespace rubato::test
