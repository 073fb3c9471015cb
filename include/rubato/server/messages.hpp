// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "rubato/core/clock.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/core/short_list.hpp"
#include "rubato/core/time.hpp"
#include "rubato/server/commit_cut.hpp"
#include "rubato/storage/shared_update.hpp"

namespace rubato {

/// Who sends, and in which life: a shard applies nothing of an earlier stage or incarnation.
struct sender {
  worker_id worker;
  incarnation_id incarnation;
  stage_id stage;

  friend bool operator==(sender const&, sender const&) = default;
};

/// One worker's commit for one server: the updates that it pushed since its last commit, one part for
/// each table. Every commit goes to every server, with empty parts where it has nothing for it.
struct commit_message {
  sender from{};
  clock_index stamp{};      ///< the worker's clock before the commit
  version_index version{};  ///< V(m): the version that the updates belong to
  short_list<shared_update, 2> parts{};
  time_point arrived{};     ///< at the server, by whoever drives it; only where the admission extends

  /// What it takes on a wire, without framing.
  [[nodiscard]] std::size_t bytes() const noexcept {
    std::size_t total = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) total += parts[i]->bytes();
    return total;
  }
  /// What it takes in memory.
  [[nodiscard]] std::size_t held_bytes() const noexcept {
    std::size_t total = 0;
    for (std::size_t i = 0; i < parts.size(); ++i) total += parts[i]->held_bytes();
    return total;
  }
};

/// A read's request for admission.
struct read_header {
  sender from;
  clock_index clock;   ///< the reader's clock
  staleness bound;     ///< the staleness that the read asks for
  shared_cut cut{};    ///< what a synchronized read is to reflect; the coordinator has let it in
  bool renews = false;  ///< for the clocks after this one: the next commit is of what the reader had before

  /// Whether a server that lets in the one may answer the other with it.
  [[nodiscard]] bool goes_with(read_header const& other) const noexcept {
    return from == other.from && clock == other.clock && bound == other.bound;
  }
};

/// What a server says of the state that it answered from.
struct read_stamp {
  clock_index server_clock;  ///< `c_min` there: all stamps below it are in
  clock_index included;      ///< of the reader's own commits, all stamps below it are in
  version_index version{};   ///< the version that the reader's next commit belongs to
  /// Of everybody's commits that it has received, those with stamps below it are in. Under eager
  /// visibility that is all.
  clock_index folded_below = clock_index::highest();
};

/// Why a shard does not take a message.
enum class refusal {
  none,
  stage,        ///< of a stage that is over, or not begun
  stranger,     ///< of a worker that is not in the run, or has been given up
  incarnation,  ///< of an earlier life of the worker
  order,        ///< a commit whose stamp is not the worker's clock, an order carried out before
  old_version,  ///< a commit of a version that its worker has left behind
  cut,          ///< a read of a cut that is not there: not yet received, or folded already
  size,         ///< an answer that its asker has no room for; nobody else says this
};

[[nodiscard]] constexpr char const* to_string(refusal r) noexcept {
  switch (r) {
    case refusal::none: return "none";
    case refusal::stage: return "it belongs to another stage";
    case refusal::stranger: return "its worker is not in the run";
    case refusal::incarnation: return "it belongs to an earlier incarnation of its worker";
    case refusal::order: return "it does not come next";
    case refusal::old_version: return "its version is older than its worker's last one";
    case refusal::cut: return "the server does not hold the cut that it asks for";
    case refusal::size: return "the answer is too large";
  }
  return "unknown";
}

/// What a shard reports on `enlist` and `freeze`.
struct membership_report {
  clock_index clock{};
  version_index version{};  ///< of a joiner's first commit, as far as this shard knows

  friend bool operator==(membership_report const&, membership_report const&) = default;
};

/// An order of the coordinator to a shard.
struct membership_order {
  enum class kind : std::uint8_t {
    enlist,  ///< register a joiner at your own c_min, and report that clock
    start,   ///< the joiner's clock is `clock`, and its first commit has `version`
    freeze,  ///< take no more commits of this worker, and report how far you received them
    drop,    ///< the worker leaves; its commits with stamps below `clock` count
  };
  kind what;
  worker_id worker;
  incarnation_id incarnation;
  clock_index clock{};
  epoch_id epoch{};  ///< orders are numbered; a shard carries each out once, in that order
  stage_id stage{};
  version_index version{};
};

/// What a run does about the tables as they are when it begins, after its changes: so that it can run again when a node
/// is lost (004 §6.1).
enum class recovery : std::uint8_t {
  none,
  keep,     ///< servers keep what they are
  restore,  ///< they become what was kept, and it stays
};

/// A worker's report to the conductor of its pace.
struct pace_report {
  worker_id from{};
  clock_index clock{};           ///< it has committed, and is at this clock now
  std::optional<double> loss{};  ///< or: what its training came to
};

/// Where a worker starts: in a run that begins, or as the orders of its join have settled.
struct starting_point {
  clock_index clock{};
  version_index version{};
};

}  // namespace rubato
