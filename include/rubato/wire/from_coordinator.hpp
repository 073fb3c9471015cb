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

/// What the coordinator tells servers and workers.
namespace rubato::wire {

struct begin_stage {
  stage_id stage{};
  std::uint32_t protocol = 0;          ///< which of those that all agreed on
  bool changes_tables = false;         ///< it begins with what all agreed on for that
  recovery recover = recovery::none;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & protocol & changes_tables & recover;
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
  std::vector<std::uint32_t> lost_nodes;
  completion completed = completion::whole;
  bool stopped = false;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & elapsed & updates & workers & servers & versions_peak & crashes & change_times &
        change_values & change_reasons & lost_nodes & completed & stopped;
  }
};
/// To worker processes: whoever has the tables is to send them there.
struct send_tables {
  stage_id stage{};
  std::string address;
  std::uint64_t session = 0;
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & stage & address & session;
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
/// To servers: this life of a worker process has begun, and its sessions know the secret.
struct admission {
  std::uint32_t process = 0;
  std::uint32_t incarnation = 0;
  wire::secret secret{};
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & process & incarnation & secret;
  }
};
/// To servers: nothing of this process's earlier lives counts any more.
struct expel {
  std::uint32_t process = 0;
  std::uint32_t incarnation = 0;  ///< the last life that is over
  bool forgets_values = false;    ///< another process is to give the tables' initial values, from the first one on
  template <class Archive>
  void serialize(Archive& ar, unsigned) {
    ar & process & incarnation & forgets_values;
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
/// To who was in the run and registers anew, for the next cluster of its program: this coordinator has not ended yet.
struct come_again {
  template <class Archive>
  void serialize(Archive&, unsigned) {}
};

}  // namespace rubato::wire
