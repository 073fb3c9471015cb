// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/graph.hpp"
#include "rubato/peer/hop_rules.hpp"
#include "rubato/run/peer_runtime.hpp"
#include "rubato/testing/observer.hpp"

namespace rubato {
class hop_core;
}

namespace rubato::testing {

/// What a peer_observer holds a run of Hop to: the row of 002 Table 1 that the protocol is in,
/// given as what it allows on one edge; a path allows that for each of its edges.
struct hop_bounds {
  /// On an edge j → i, how far i may be past j, which it waits for; nothing if that is not bounded.
  std::optional<std::int64_t> past_sender{};
  /// On an edge i → j, how far i may be past j, which has to let it go on; nothing if the same.
  std::optional<std::int64_t> past_receiver{};
  std::optional<std::int64_t> gap_max{};  ///< max_ig, where there are token queues
  bool acks = false;
  bool by_iteration = true;  ///< updates wait in slots, else the newest of each neighbor
  bool jumps = false;
  bool outlives_loss = false;  ///< peers go on without those that are lost
};

/// The bounds of a protocol, in runs of so many iterations.
[[nodiscard]] hop_bounds hop_bounds_of(hop_rules const& p, std::int64_t iterations);

/// Watches a simulated run of a `peer_group` with a Hop protocol from outside of the protocol, and
/// collects what breaks its rules (protocol-rules.md §6), as sentences:
///
/// - HOP-1: tokens held for an edge are 0 or more, never more than put in, and none gets lost;
/// - HOP-2: no peer is further ahead of another one than 002 Table 1 allows;
/// - HOP-4: in the end every peer has made, or jumped over, all its iterations;
/// - a peer's iteration goes up by one, but for jumps, which pass nobody that it sends to;
/// - queues stay within their bounds, and nobody is taken for lost who is there.
///
/// The truth is what can be seen of the peers' iterations, and who has crashed or left too early.
/// These leave the checks: what a path through them allowed holds no more.
///
/// @code
/// peer_observer o(hop_bounds_of(protocol, 20), group.mixing().topology(), 20);
/// group.runtime().on_event([&] { o.look(group); });
/// o.finish(group, group.run(body));  // where each peer goes through `iterations(20)`
/// @endcode
///
/// One observer is for one run. Cost of a look: O(peers + edges + updates that wait); when a peer
/// goes on O(peers) more, when one is lost O(peers·edges). Thread safety: none.
class peer_observer {
 public:
  /// @param iterations what each peer is to make
  peer_observer(hop_bounds r, graph g, std::int64_t iterations);

  /// Looks at all peers. To be called after every event of the run.
  void look(peer_runtime const& run);
  template <class Group>
    requires requires(Group const& g) { g.runtime(); }
  void look(Group const& group) {
    look(static_cast<peer_runtime const&>(group.runtime()));
  }

  /// Looks at what is left when a run has ended by itself, and nothing is under way.
  void finish(peer_runtime const& run, peer_report const& report);
  template <class Group>
    requires requires(Group const& g) { g.runtime(); }
  void finish(Group const& group, peer_report const& report) {
    finish(static_cast<peer_runtime const&>(group.runtime()), report);
  }

  /// Reports a breach that the caller found.
  template <class... Parts>
  void breach(Parts const&... parts) {
    violations_.add(parts...);
  }
  /// One sentence for each kind of breach: the first of it, and how many more there were.
  [[nodiscard]] std::vector<std::string> violations() const { return violations_.take(); }

  /// Whether a peer has crashed, or left before its last iteration.
  [[nodiscard]] bool gone(std::uint32_t rank) const { return peers_[rank].gone; }

 private:
  struct peer_state {
    bool gone = false;
    bool lost_later = false;  ///< when it had ended
    bool started = false;
    bool ended = false;
    bool moved = false;   ///< since the last look
    bool jumped = false;  ///< the same
    std::int64_t iteration = 0;
    std::uint64_t jumped_over = 0;
    std::int64_t ahead = 0;  ///< how far a jump may have brought it past its senders
    std::size_t queue_max = 0;
    std::vector<std::int64_t> received;  ///< by out-neighbor: tokens that it has, or has taken
  };

  // who is there
  void look_for_losses(peer_runtime const& run);
  [[nodiscard]] bool any_gone() const;
  [[nodiscard]] bool is_lost(worker_id w) const;
  void measure_paths();
  // one peer by itself
  [[nodiscard]] std::size_t most_updates_at(std::uint32_t i) const;
  void read(std::uint32_t i, hop_core const& core);
  void move(std::uint32_t i, std::int64_t now, std::uint64_t jumped_over);
  [[nodiscard]] bool sends_to_all_it_hears(std::uint32_t i) const;
  void check_live(std::uint32_t i, hop_core const& core);
  [[nodiscard]] bool holds_updates_of(hop_core const& core, std::size_t box, worker_id from) const;
  // HOP-1
  void count_tokens(std::uint32_t i, std::size_t o, std::int64_t held);
  void check_tokens(std::uint32_t i);
  void check_last_tokens(std::uint32_t i);
  // HOP-2
  void check_gaps(std::uint32_t i);
  void check_gap(std::uint32_t i, std::uint32_t j, std::int64_t most, char const* by);
  void check_jump(std::uint32_t i);
  // what was counted
  void check_books(peer_report const& report);

  hop_bounds rules_;
  graph graph_;
  std::int64_t iterations_;
  std::vector<peer_state> peers_;
  std::vector<std::vector<std::uint32_t>> distance_;  ///< [from][to]
  detail::findings violations_;
};

}  // namespace rubato::testing
