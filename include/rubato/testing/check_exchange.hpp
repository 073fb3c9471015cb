// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "rubato/peer/concepts.hpp"
#include "rubato/peer/graph.hpp"
#include "rubato/peer/topologies.hpp"
#include "rubato/testing/findings.hpp"

namespace rubato::testing {

/// Checks a schedule of exchanges of your own on a graph, over so many iterations: receivers are other peers; they, and
/// senders, are each named once and in order; both ends agree on who sends; where it names partners, they are; and
/// asked again it answers the same. Returns what is wrong. O(iterations · peers · what the schedule costs).
template <exchange_schedule S>
[[nodiscard]] sentences check_exchange(S const& s, graph const& g = complete(8), std::int64_t iterations = 20) {
  detail::findings found;
  for (std::int64_t n = 0; n < iterations; ++n) {
    iteration_index const k{n};
    std::vector<std::vector<worker_id>> wanted(g.size());
    for (std::uint32_t i = 0; i < g.size(); ++i) {
      auto const those = s.out(g, worker_id{i}, k);
      auto const what = detail::text("exchange: in iteration ", n, " peer ", i, " sends to ");
      found.expect(those == S(s).out(g, worker_id{i}, k), what, "others when asked again");
      found.expect(std::ranges::is_sorted(those) && std::ranges::adjacent_find(those) == those.end(), what,
                   "peers that are not named once and ascending");
      for (worker_id const j : those) {
        found.expect(j != worker_id{i}, what, "itself");
        found.expect(j.value() < g.size(), what, j.value(), ", but there is no such peer");
        if (j.value() < g.size()) wanted[j.index()].push_back(worker_id{i});
      }
    }
    for (std::uint32_t j = 0; j < g.size(); ++j) {
      auto const those = s.in(g, worker_id{j}, k);
      for (worker_id const i : wanted[j])
        found.expect(std::ranges::find(those, i) != those.end(), "exchange: in iteration ", n, " peer ", i.value(),
                     " sends to ", j, ", but is not in its `in`: nobody would take that update");
      if constexpr (requires { s.partners(g, worker_id{j}); }) {
        auto const partners = s.partners(g, worker_id{j});
        found.expect(std::ranges::adjacent_find(partners, std::greater_equal{}) == partners.end(),
                     "exchange: the partners of peer ", j, " are not named once and ascending");
        auto const all_are = [&](std::vector<worker_id> const& some) {
          return std::ranges::all_of(some, [&](worker_id w) { return std::ranges::binary_search(partners, w); });
        };
        found.expect(all_are(s.out(g, worker_id{j}, k)) && all_are(those), "exchange: in iteration ", n, " peer ", j,
                     " sends to, or hears from, peers that are not its partners");
      }
      for (worker_id const i : those)
        found.expect(std::ranges::find(wanted[j], i) != wanted[j].end(), "exchange: in iteration ", n, " peer ", j,
                     " waits for ", i.value(), ", which does not send to it");
      found.expect(std::ranges::is_sorted(those) && std::ranges::adjacent_find(those) == those.end(),
                   "exchange: in iteration ", n, " the senders to ", j, " are not named once and ascending");
    }
  }
  return found.take();
}

}  // namespace rubato::testing
