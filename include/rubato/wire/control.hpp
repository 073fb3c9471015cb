// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "rubato/core/error.hpp"
#include "rubato/metrics/run_report.hpp"
#include "rubato/server/messages.hpp"
#include "rubato/wire/archive.hpp"
#include "rubato/wire/role.hpp"

namespace rubato {

template <class Archive>
void serialize(Archive& ar, sender& s, unsigned) {
  ar & s.worker & s.incarnation & s.stage;
}
template <class Archive>
void serialize(Archive& ar, membership_order& o, unsigned) {
  ar & o.what & o.worker & o.incarnation & o.clock & o.epoch & o.stage & o.version;
}
template <class Archive>
void serialize(Archive& ar, membership_report& r, unsigned) {
  ar & r.clock & r.version;
}
template <class Archive>
void serialize(Archive& ar, starting_point& p, unsigned) {
  ar & p.clock & p.version;
}
template <class Archive>
void serialize(Archive& ar, pace_report& r, unsigned) {
  ar & r.from & r.clock & r.loss;
}
template <class Archive>
void serialize(Archive& ar, shard_counters& c, unsigned) {
  ar & c.commits & c.refused & c.dropped & c.partly_folded;
}
template <class Archive>
void serialize(Archive& ar, worker_metrics& m, unsigned) {
  ar & m.compute & m.send & m.wait & m.steps & m.commits & m.pulls & m.fetches & m.pushes &
      m.bytes_sent & m.bytes_received & m.staleness;
}

/// What coordinator, servers and workers say to each other beside updates and parameters. Classes
/// are written by Boost.Serialization; the alternative's number goes first.
namespace wire {

// ---- to the coordinator, from a process that is new

/// The first thing that a process says.
struct registration {
  role as{};
  std::optional<std::uint32_t> rank;  ///< the number that it asks for
  std::string listens;                ///< a server's address
  std::string agreed;                 ///< what all must agree on, in words: protocol and tables
  std::uint32_t pid = 0;

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & as & rank & listens & agreed & pid;
  }
};
/// The answer, once all servers are there.
struct welcome {
  std::uint32_t process = 0;  ///< the number it has got, among those of its role
  std::uint32_t incarnation = 0;
  std::uint32_t workers = 0;  ///< processes that a run begins with
  bool sends_initial_values = false;
  std::vector<std::string> servers;

  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & process & incarnation & workers & sends_initial_values & servers;
  }
};

// ---- to the coordinator, from workers

/// Ready for the next run, or to join the one under way, with so many workers.
struct ready {
  std::uint32_t threads = 1;
  bool has_loss = false;  ///< can evaluate the loss, if the pace asks
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & threads & has_loss;
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

// ---- from the coordinator

struct begin_stage {
  stage_id stage{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage;
  }
};
/// To a worker process: it has these workers in the run.
struct run_begins {
  stage_id stage{};
  std::uint32_t count = 0;  ///< workers that the run began with
  std::uint32_t incarnation = 0;
  std::vector<worker_id> workers;
  time_point now{};         ///< the run's time at the coordinator
  bool evaluates_loss = false;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & count & incarnation & workers & now & evaluates_loss;
  }
};
struct worker_starts {
  stage_id stage{};
  worker_id worker{};
  starting_point at{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & worker & at;
  }
};
struct server_order {
  membership_order order{};
  std::uint32_t process = 0;  ///< that the worker lives in
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & order & process;
  }
};
/// To servers: say when all of the stage is in.
struct end_stage {
  stage_id stage{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage;
  }
};
/// To worker processes: the run is over, and this is what it measured.
struct run_over {
  stage_id stage{};
  duration elapsed{};
  std::uint64_t updates = 0;
  std::vector<worker_metrics> workers;
  shard_counters servers{};
  std::uint64_t versions_peak = 0;
  std::uint64_t crashes = 0;
  std::vector<time_point> change_times;
  std::vector<std::int64_t> change_values;
  std::vector<std::string> change_reasons;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & elapsed & updates & workers & servers & versions_peak & crashes & change_times &
        change_values & change_reasons;
  }
};
/// Something cannot go on: the run, or (`fatal`) all of it.
struct stop_run {
  stage_id stage{};
  bool fatal = false;
  bool failed = false;  ///< else somebody wanted it
  errc code{};
  std::string sentence;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & fatal & failed & code & sentence;
  }
};
/// To servers: nothing of this process's earlier lives counts any more.
struct expel {
  std::uint32_t process = 0;
  std::uint32_t incarnation = 0;  ///< the last life that is over
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & process & incarnation;
  }
};
struct pace_command {
  stage_id stage{};
  worker_id to{};
  std::vector<std::byte> order;  ///< as in memory: both ends run the same protocol
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & to & order;
  }
};
struct sample_loss {
  stage_id stage{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage;
  }
};
struct cut_grant {
  sender to{};
  duration held{};
  clock_index c_min{};
  std::vector<clock_index> below;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & to & held & c_min & below;
  }
};
struct cut_mark {
  stage_id stage{};
  clock_index c_min{};
  std::vector<clock_index> below;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & c_min & below;
  }
};
/// To servers: all workers have said farewell, or something was lost that nobody can go on without.
struct shut_down {
  std::string failure = {};  ///< what was lost; empty when all is well
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & failure;
  }
};

using control_message =
    std::variant<registration, welcome, ready, add_worker, worker_ended, end_run, pace_note,
                 loss_sample, cut_request, cut_release, farewell, order_done, stage_over,
                 progress_note, begin_stage, run_begins, worker_starts, server_order, end_stage,
                 run_over, stop_run, expel, pace_command, sample_loss, cut_grant, cut_mark,
                 shut_down>;

[[nodiscard]] std::vector<std::byte> encode(control_message const& message);
/// @throws frame_error when these are no message's bytes
[[nodiscard]] control_message decode_control(std::span<std::byte const> bytes);

}  // namespace wire
}  // namespace rubato
