// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/peer/mixing.hpp"

namespace rubato {

/// What a peer knows of its place in the graph.
struct peer_site {
  worker_id self{};
  std::vector<worker_id> in;         ///< who sends to it, ascending, itself left out
  std::vector<worker_id> out;        ///< whom it sends to, the same
  double self_weight = 1;            ///< W of its own update
  std::vector<double> weights;       ///< W of the updates of `in`, in that order
  std::vector<std::int64_t> behind;  ///< for each of `out`, d(j→self): by how many edges news of j come
  std::int64_t lead_max = 0;         ///< the greatest d(self→j) over `in`: what Theorem 1 lets them lead
};

/// The place of `self`. O(neighbors), and O(nodes + edges) for each out-neighbor that does not send
/// back.
/// @param lead whether `lead_max` is of interest, which takes O(nodes + edges); else it is 0
[[nodiscard]] inline peer_site site_of(mixing_matrix const& mixing, worker_id self,
                                       bool lead = true) {
  graph const& g = mixing.topology();
  peer_site s{.self = self, .in = {}, .out = {}, .self_weight = mixing.self(self), .weights = {},
              .behind = {}, .lead_max = 0};
  s.in.assign(g.in(self).begin(), g.in(self).end());
  s.out.assign(g.out(self).begin(), g.out(self).end());
  s.weights.assign(mixing.of(self).begin(), mixing.of(self).end());
  for (worker_id const j : s.out) s.behind.push_back(g.has_edge(j, self) ? 1 : g.distance(j, self));
  if (!lead) return s;
  std::vector<std::uint32_t> const distances = g.distances_from(self);
  for (worker_id const j : s.in)
    s.lead_max = std::max(s.lead_max, static_cast<std::int64_t>(distances[j.index()]));
  return s;
}

namespace detail {
/// Where `w` stands among ascending neighbors; nothing if it is none.
[[nodiscard]] inline std::optional<std::size_t> place_among(std::span<worker_id const> neighbors,
                                                            worker_id w) {
  auto const at = std::ranges::lower_bound(neighbors, w);
  if (at == neighbors.end() || *at != w) return std::nullopt;
  return static_cast<std::size_t>(at - neighbors.begin());
}
}  // namespace detail

}  // namespace rubato
