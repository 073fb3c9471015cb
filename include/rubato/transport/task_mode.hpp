// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

namespace rubato {

/// How an engine runs several tasks over a transport.
enum class task_mode : std::uint8_t {
  side_by_side,   ///< runs of several runtimes may be under way at a time, each called by a thread of its own
  virtual_time,   ///< a run takes no time but virtual one, so that tasks share that
  one_at_a_time,  ///< processes that take part in one task
};

}  // namespace rubato
