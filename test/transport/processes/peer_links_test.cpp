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

#include "transport/processes/beside_played.hpp"

using namespace rubato;
using namespace rubato::test;
using Catch::Contains;

namespace {

constexpr std::size_t size_bytes = 5 * sizeof(float);

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
      w0, 1, 10s);  // so long may the first connection take while 160 MB are read
  CHECK_THAT(e.played, Contains("peer 0 does not take the answers to what it asks"));
}
