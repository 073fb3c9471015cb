// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// Tokens: how far a peer of Hop may run ahead.
#include <catch2/catch.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "peer/hop_hand.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/topologies.hpp"

using namespace rubato;
using namespace rubato::test;

TEST_CASE("hop_core: tokens of out-neighbors, one per iteration entered", "[peer][hop_core]") {
  hand p(hop(token_queues{2}), site(0, {1, 2}, {1, 3}));
  CHECK(p.core.tokens(0) == 1);  // max_ig − 1, until the neighbor enters iteration 0
  p.start(4);
  CHECK(p.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(p.core.tokens(0) == 1);
  CHECK(p.tokens(1, 1));
  CHECK(p.core.tokens(0) == 2);
  CHECK(p.core.tokens(1) == 1);

  auto const make_iteration = [&](std::int64_t k) {
    CHECK(p.update(1, k));
    CHECK(p.update(2, k));
    p.iterate();
    p.said();
  };
  make_iteration(0);
  CHECK(p.poll() == "send");
  CHECK(p.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(p.iteration() == 1);
  CHECK(p.core.tokens(0) == 1);
  CHECK(p.core.tokens(1) == 0);

  make_iteration(1);
  CHECK(p.poll() == "wait");  // none from 3, and none is taken from 1 meanwhile
  CHECK_FALSE(p.core.can_go_on());
  CHECK_FALSE(p.core.gathering());
  CHECK(p.iteration() == 1);
  CHECK(p.core.tokens(0) == 1);
  CHECK(p.said().empty());
  CHECK(p.tokens(3, 2));  // it has entered iterations 0 and 1
  CHECK(p.core.can_go_on());
  CHECK(p.poll() == "send");
  CHECK(p.said() == lines{"tokens 1 to 1", "tokens 1 to 2"});
  CHECK(p.core.tokens(0) == 0);
  CHECK(p.core.tokens(1) == 1);

  make_iteration(2);
  CHECK(p.poll() == "wait");
  CHECK(p.tokens(3, 1));
  CHECK(p.poll() == "wait");
  CHECK(p.tokens(1, 1));
  CHECK(p.poll() == "send");
  CHECK(p.core.tokens(0) == 0);
  CHECK(p.core.tokens(1) == 1);
  p.said();

  make_iteration(3);
  CHECK(p.poll() == "end");  // the last iteration takes no token: 1 has none for it
  CHECK(p.core.tokens(1) == 1);
  CHECK(p.said() == lines{"bye 4 to 1", "bye 4 to 2", "bye 4 to 3"});
}

TEST_CASE("hop_core: max_ig = 1 begins without a token", "[peer][hop_core]") {
  hand p(hop(token_queues{1}), among({1}));
  CHECK(p.core.tokens(0) == 0);
  p.start(2);
  CHECK(p.update(1, 0));
  p.iterate();
  CHECK(p.poll() == "wait");
  CHECK(p.tokens(1, 1));
  CHECK(p.core.tokens(0) == 1);
  CHECK(p.poll() == "send");
  CHECK(p.core.tokens(0) == 0);
  CHECK(p.iteration() == 1);
}

TEST_CASE("hop_core: HOP-1 after every event of two peers", "[peer][hop_core]") {
  // Each of the two orders in which channels are emptied, and moves preferred to deliveries or not.
  for (int const order : {0, 1, 2, 3}) {
    for (std::int64_t const max_ig : {1, 2, 3}) {
      INFO("order " << order << ", max_ig " << max_ig);
      auto const protocol = hop(gather_newest{.staleness = 2}, token_queues{max_ig});
      std::vector<hand> peers;
      for (std::uint32_t i = 0; i < 2; ++i)
        peers.emplace_back(protocol, site_of(mixing_matrix::uniform(complete(2)), id(i)));
      std::map<std::pair<std::uint32_t, std::uint32_t>, std::deque<peer_message>> channels;
      int events = 0;
      auto const happened = [&](std::uint32_t who) {
        ++events;
        for (auto& [to, m] : std::exchange(peers[who].out, {}))
          channels[{who, to.value()}].push_back(m);
        for (std::uint32_t i = 0; i < 2; ++i) {
          std::uint32_t const j = 1 - i;
          std::int64_t tokens = peers[i].core.tokens(0);
          for (auto const& m : channels[{j, i}])
            if (m.kind == +kind::tokens) tokens += m.number;
          if (!peers[i].core.started() || !peers[j].core.started()) continue;
          REQUIRE(tokens == peers[j].iteration() - peers[i].iteration() + max_ig);
          REQUIRE(tokens >= 0);
        }
      };
      auto const move = [&](std::uint32_t i) {
        auto& p = peers[i];
        if (!p.core.started()) {
          p.start(6);
        } else if (std::string const what = p.poll(); what == "send") {
          p.core.send(p.own(), p.out);
        } else if (what == "compute") {
          p.core.computed();
        } else if (what == "reduce") {
          (void)p.gather();
          p.core.reduced(p.out);
        } else {
          return false;
        }
        happened(i);
        return true;
      };
      auto const deliver = [&](std::uint32_t j, std::uint32_t i) {
        auto& channel = channels[{j, i}];
        if (channel.empty()) return false;
        REQUIRE(peers[i].core.deliver(id(j), channel.front()));
        channel.pop_front();
        happened(i);
        return true;
      };
      std::uint32_t const first = order % 2 == 0 ? 0 : 1;
      for (bool goes_on = true; goes_on;) {
        if (order < 2)
          goes_on = move(first) || move(1 - first) || deliver(first, 1 - first) ||
                    deliver(1 - first, first);
        else
          goes_on = deliver(first, 1 - first) || move(first) || deliver(1 - first, first) ||
                    move(1 - first);
      }
      CHECK(peers[0].core.ended());
      CHECK(peers[1].core.ended());
      CHECK(events > 50);
    }
  }
}
