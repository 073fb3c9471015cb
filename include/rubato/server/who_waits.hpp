// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <string>

#include "rubato/server/server_group.hpp"
#include "rubato/server/shard_control.hpp"
#include "rubato/server/stable_cuts.hpp"
#include "rubato/server/waiting_room.hpp"

namespace rubato {

/// Who waits at a shard, for what, and because of whom, for messages: "worker 1 at clock 5 waits at server 0 for c_min
/// 6, which is 4 because of worker 2". O(workers).
[[nodiscard]] std::string describe_wait(waiting_room::ticket const& who, shard_control const& at, server_id here);

/// The same of a worker that waits for a cut, at the coordinator.
[[nodiscard]] std::string describe_wait(worker_id who, stable_cuts const& cuts);

/// The same of all who wait, each after a semicolon. Takes the shards' locks, one after the other.
[[nodiscard]] std::string describe_waits(server_group const& servers);
/// And of those who wait for a cut.
[[nodiscard]] std::string describe_waits(stable_cuts const& cuts);

}  // namespace rubato
