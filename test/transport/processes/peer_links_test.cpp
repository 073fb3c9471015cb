// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// A peer whose neighbor sends what no peer sends: it is cut off with a sentence, and lost to this one.
#include <rubato/transport/processes/peer_links.hpp>

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <rubato/peer/ad_psgd.hpp>
#include <rubato/peer/hop.hpp>
#include <rubato/peer/hop_core.hpp>
#include <rubato/peer/local_step.hpp>
#include <rubato/peer/peer_rules.hpp>
#include <rubato/peer/topologies.hpp>

#include "transport/processes/peers_apart.hpp"
#include "transport/processes/played_peer.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

namespace {

constexpr std::size_t size_bytes = 5 * sizeof(float);

struct ends {
  std::string real;    ///< what the real peer's run ended with
  std::string played;  ///< what the played one was told
};

/// A real peer of this rank among two, and a played one.
ends beside_played(peer_rules const& protocol, played_peer::script script, floats const& w0 = floats(5, 1),
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

}  // namespace

TEST_CASE("peer links: a message that no peer sends closes the link, with a sentence for both", "[tcp][peers]") {
  auto const [frame, says] = GENERATE_COPY(Catch::Generators::table<std::shared_ptr<any_frame const>, std::string>({
      {message_frame(+hop_kind::update, 0, size_bytes + 4), "24 bytes of parameters, expected at most 20"},
      {message_frame(+hop_kind::update, 0, 6), "whole ones of float"},
      {message_frame(+hop_kind::update, 0, 4), "breaks the protocol"},
      {message_frame(+hop_kind::update, 50, size_bytes), "breaks the protocol"},
      {message_frame(+hop_kind::update, -1, size_bytes), "breaks the protocol"},
      {message_frame(+hop_kind::tokens, 1, 0), "breaks the protocol"},
      {message_frame(99, 0, 0), "breaks the protocol"},
      {message_frame(+hop_kind::update, 0, size_bytes, 2), "run 2, which has not begun"},
      {std::make_shared<any_frame const>(+wire::kind::commit, std::vector<std::byte>(), std::vector<std::byte>()),
       "which is not for a peer"},
      {std::make_shared<any_frame const>(+wire::kind::peer_message, std::vector<std::byte>(3),
                                         std::vector<std::byte>()),
       "a message ends too early"},
  }));
  auto const of = frame;
  ends const e = beside_played(hop(), [of](played_peer& self) { self.send(of); });
  INFO(e.real);
  CHECK_THAT(e.played, Contains(says));
  CHECK_THAT(e.real, Contains("lost: peer 1 is lost, and peer 0 cannot end iteration 0 without it") &&
                         Contains("peer 1 was lost: ") && Contains(says));
}

TEST_CASE("peer links: an update that comes twice breaks the protocol", "[tcp][peers]") {
  ends const e = beside_played(hop(), [](played_peer& self) {
    self.send(message_frame(+hop_kind::update, 1, size_bytes));
    self.send(message_frame(+hop_kind::update, 1, size_bytes));
  });
  CHECK_THAT(e.played, Contains("breaks the protocol"));
}

TEST_CASE("peer links: who was dialed answers over a link of its own", "[tcp][peers]") {
  ends const e = beside_played(hop(), [](played_peer& self) {
    self.when_dialed = [](net::link& over) {
      played_peer::send(over, message_frame(+hop_kind::update, 0, size_bytes));
    };
  });
  CHECK_THAT(e.played, Contains("sends something over that link"));
  CHECK_THAT(e.real, Contains("peer 1 is lost"));
}

TEST_CASE("peer links: nobody passes for a peer without the secret that it shares", "[tcp][peers]") {
  ends const e = beside_played(hop(), [](played_peer& self) { (void)self.dial(wire::secret{1, 2, 3}); });
  CHECK_THAT(e.played, Contains("this is not the peer 1 that the coordinator has enrolled"));
  CHECK_THAT(e.real, Contains("peer 1 is lost"));  // since the played one left then
}

TEST_CASE("peer links: a peer has one link, and a second one is sent away", "[tcp][peers]") {
  ends const e = beside_played(hop(), [](played_peer& self) {
    self.send(message_frame(+hop_kind::update, 1, size_bytes));
    (void)self.dial();
  });
  CHECK_THAT(e.played, Contains("peer 1 is here already"));
}

TEST_CASE("peer links: who asks on and on and takes no answers is cut off", "[tcp][peers]") {
  floats const w0(1'000'000, 1);
  ends const e = beside_played(
      ad_psgd{},
      [&](played_peer& self) {
        self.takes_connections = false;
        auto const ask = message_frame(0, 0, w0.size() * sizeof(float));
        for (int i = 0; i < 40; ++i) self.send(ask);
      },
      w0, 1, 2s);  // so long may the first connection take while 160 MB are read
  CHECK_THAT(e.played, Contains("peer 0 does not take the answers to what it asks"));
}
