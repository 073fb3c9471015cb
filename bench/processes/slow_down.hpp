// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <thread>

#include "rubato/transport/threads/slow_motion.hpp"

namespace rubato::bench {

/// Sleeps as long as somebody who was busy since then must.
inline void slow_down(slow_motion& slowed, std::chrono::steady_clock::time_point busy_since) {
  if (!slowed) return;
  auto const ended = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(slowed.pause_after(ended - busy_since));
  slowed.paused_for(std::chrono::steady_clock::now() - ended);
}

}  // namespace rubato::bench
