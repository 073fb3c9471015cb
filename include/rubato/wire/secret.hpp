// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstdint>

namespace rubato::wire {

/// What the coordinator draws for each life of a worker process, and tells it and the servers: its sessions
/// show them that they are its own.
using secret = std::array<std::uint8_t, 32>;

}  // namespace rubato::wire
