// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/wire/role.hpp"
#include "rubato/wire/secret.hpp"
#include "rubato/wire/serialize.hpp"

/// What servers and workers tell the coordinator.
namespace rubato::wire {

// ---- to the coordinator, from a process that is new

/// The first thing that a process says.
struct registration {
  role as{};
  std::optional<std::uint32_t> rank;  ///< the number that it asks for
  std::string listens;                ///< a server's address
  std::string agreed;                 ///< what all must agree on, in words: protocol and tables
  std::uint32_t pid = 0;
  secret place_key{};  ///< a digest of `net::deployment::place_key`; zeros: it has none
  std::uint64_t life = 0;  ///< that of `net::process_identity`
  std::int64_t silence = 0;  ///< that of `net::deployment`, in milliseconds

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & as & rank & listens & agreed & pid & place_key & life & silence;
  }
};
/// The answer, once all servers are there.
struct welcome {
  std::uint32_t process = 0;  ///< the number it has got, among those of its role
  std::uint32_t incarnation = 0;
  std::uint32_t workers = 0;  ///< processes that a run begins with
  bool sends_initial_values = false;
  std::vector<std::string> servers;
  wire::secret secret{};      ///< a worker process's

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & process & incarnation & workers & sends_initial_values & servers & secret;
  }
};

// ---- to the coordinator, from workers

/// Ready for the next run, or to join the one under way, with so many workers.
struct ready {
  std::uint32_t threads = 1;
  bool has_loss = false;  ///< can evaluate the loss, if the pace asks
  std::uint32_t protocol = 0;          ///< which of those that all agreed on
  bool changes_tables = false;         ///< it begins with what all agreed on for that
  std::uint32_t step = 0;     ///< of a task: which of its runs it is
  std::uint32_t workers = 0;  ///< that the run is to have in all processes; 0: as many as there are
  recovery recover = recovery::none;
  std::optional<std::uint32_t> keeper{};  ///< the process that has the tables when it is over
  std::uint32_t run = 0;  ///< of a cluster: which of its runs it is, from 1
  std::int64_t iterations = 0;  ///< of a task: how many all workers of the run make together
  bool stops = false;  ///< the run is to be over before it begins, for all
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & threads & has_loss & protocol & changes_tables & step & workers & recover & keeper & run & iterations &
        stops;
  }
};
/// Tables that another process has, in single-machine mode, are to be sent to this one.
struct tables_wanted {
  stage_id stage{};
  std::string address;        ///< where it listens for them
  std::uint64_t session = 0;  ///< what who sends them is to say
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & address & session;
  }
};
/// One more worker for this process, in the run under way.
struct add_worker {
  stage_id stage{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage;
  }
};
/// A worker's body is over, and all it sent is on its way.
struct worker_ended {
  stage_id stage{};
  worker_id worker{};
  clock_index clock{};
  worker_metrics metrics{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & worker & clock & metrics;
  }
};
/// A body threw, which ends the run for all or for its process, as the user chose; or wants the end.
struct end_run {
  stage_id stage{};
  bool failed = false;
  errc code{};
  std::string sentence;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & failed & code & sentence;
  }
};
struct pace_note {
  stage_id stage{};
  pace_report report{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & report;
  }
};
/// The loss, as evaluated for the coordinator.
struct loss_sample {
  stage_id stage{};
  time_point at{};
  double loss = 0;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & at & loss;
  }
};
struct cut_request {
  sender from{};
  clock_index clock{};
  staleness bound{};
  bool pull = false;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & from & clock & bound & pull;
  }
};
struct cut_release {
  sender from{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & from;
  }
};
/// The process has no more to do with the others.
struct farewell {
  std::string failure = {};  ///< why it cannot go on; empty when it is done
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & failure;
  }
};

// ---- to the coordinator, from servers

/// An order has been carried out.
struct order_done {
  membership_order order{};
  std::optional<membership_report> report;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & order & report;
  }
};
/// All of a stage's workers have left, and all that they sent is in.
struct stage_over {
  stage_id stage{};
  shard_counters counters{};
  std::uint64_t versions_peak = 0;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & counters & versions_peak;
  }
};
struct progress_note {
  stage_id stage{};
  worker_id worker{};
  clock_index received{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & worker & received;
  }
};

}  // namespace rubato::wire
