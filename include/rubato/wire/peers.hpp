// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/core/time.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/wire/secret.hpp"
#include "rubato/wire/serialize.hpp"

/// What the processes of peers and their coordinator say to each other, beside what those of workers say, too.
namespace rubato::wire {

// ---- to the coordinator

/// A peer's body is over, and all it sent has arrived, unless the run is being stopped.
struct peer_ended {
  stage_id stage{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage;
  }
};
/// The answer to `settle`: all that this peer answered has arrived, and this is what it counted.
struct peer_settled {
  stage_id stage{};
  peer_metrics metrics{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & metrics;
  }
};
/// The answer to the average: how far this peer's parameters are from it.
struct peer_measured {
  stage_id stage{};
  double distance = 0;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & distance;
  }
};

// ---- from the coordinator

/// Another peer, for the one that is told.
struct peer_place {
  std::uint32_t rank = 0;
  std::uint32_t incarnation = 0;
  std::string listens;   ///< its address
  wire::secret secret{};  ///< that these two share, and the coordinator
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & rank & incarnation & listens & secret;
  }
};
/// A peer that has no part in a run any more, and why.
struct absent_peer {
  std::uint32_t rank = 0;
  std::string sentence;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & rank & sentence;
  }
};
struct peers_begin {
  stage_id stage{};
  std::vector<peer_place> others;   ///< before the first run only: they stay where they are
  std::vector<absent_peer> absent;  ///< since the first run
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & others & absent;
  }
};
struct peer_lost {
  stage_id stage{};
  std::uint32_t rank = 0;
  std::string sentence;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & rank & sentence;
  }
};
/// All bodies are over: say when all answers have arrived.
struct settle {
  stage_id stage{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage;
  }
};
/// Send your parameters.
struct send_share {
  stage_id stage{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage;
  }
};
struct peers_over {
  stage_id stage{};
  duration elapsed{};
  std::uint64_t crashes = 0;
  std::vector<peer_metrics> peers;  ///< by rank; of one that was lost nothing is known
  double spread = 0;                ///< where there is an average
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & elapsed & crashes & peers & spread;
  }
};

}  // namespace rubato::wire
