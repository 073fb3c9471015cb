// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "rubato/cluster/peer_group.hpp"
#include "rubato/core/mix.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/testing/peer_observer.hpp"
#include "rubato/testing/peer_schedule.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::testing {

/// What an observed run of peers came to.
struct peer_outcome {
  std::vector<std::string> violations;  ///< empty: all rules held
  peer_report report;
  std::uint64_t events = 0;        ///< a hash of what happened when; no floats in it
  std::vector<double> parameters;  ///< in the end, of all peers one after the other

  friend bool same_run(peer_outcome const& a, peer_outcome const& b) {
    return a.events == b.events && a.report.events == b.report.events &&
           a.report.elapsed == b.report.elapsed && a.violations == b.violations &&
           std::ranges::equal(a.parameters, b.parameters, [](double x, double y) {
             return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
           });
  }
};

namespace detail {

inline constexpr std::size_t peer_parameters = 3;

/// The training body of an observed run: steps between 0 and 1, drawn at random.
template <class Peer>
void train_at_random(Peer& peer, peer_schedule const& s, peer_observer& o) {
  std::vector<double> step(peer_parameters);
  std::int64_t const asked = s.asks_for(peer.rank());
  std::int64_t last = -1;
  for (std::int64_t const k : peer.iterations(asked)) {
    if (k <= last || k >= asked || k != peer.iteration())
      o.breach("peer ", peer.rank(), " is given iteration ", k, " of ", asked, " after ", last);
    last = k;
    if (k >= s.makes(peer.rank())) return;
    for (double& x : step) x = peer.random().uniform();
    peer.step(step);
  }
}

/// Averages of what is between two bounds are, too: so none exceeds all steps together.
inline void check_parameters(std::vector<double> const& all, peer_schedule const& s,
                             peer_observer& o) {
  double const most = static_cast<double>(s.iterations) * s.peers();
  for (double const x : all)
    if (!std::isfinite(x) || x < 0 || x > most)
      return o.breach("a parameter is ", x, ", expected 0 to ", most,
                      ": the weights of the reduce are no averages");
}

}  // namespace detail

/// Runs protocol `p` on a schedule in virtual time, watched by a peer_observer after every event. A
/// deadlock or any other error of the run is one of the violations.
template <hop_protocol P>
[[nodiscard]] peer_outcome observed_peers(P const& p, peer_schedule const& s) {
  peer_observer o(hop_bounds_of(p, s.iterations), s.mixing.topology(), s.iterations);
  peer_outcome result;
  try {
    peer_group group{simulated{.scenario = s.scenario, .stack_bytes = 64 * 1024}, s.mixing, p,
                     plain_step{}, std::vector<double>(detail::peer_parameters)};
    group.runtime().on_event([&] {
      o.look(group);
      auto const now = static_cast<std::uint64_t>(group.now().since_start().count());
      result.events = rubato::detail::mix64(result.events ^ now);
    });
    result.report = group.run([&](auto& peer) { detail::train_at_random(peer, s, o); });
    o.finish(group, result.report);
    for (std::uint32_t i = 0; i < group.size(); ++i) {
      auto const x = group.parameters(i);
      result.parameters.insert(result.parameters.end(), x.begin(), x.end());
    }
    detail::check_parameters(result.parameters, s, o);
  } catch (std::exception const& e) {
    o.breach(e.what());
  }
  result.violations = o.violations();
  return result;
}

}  // namespace rubato::testing
