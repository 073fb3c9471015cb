// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

namespace rubato {

/// The mutex of shards that only one thread ever touches: under the simulator, behind a socket.
struct null_mutex {
  constexpr void lock() noexcept {}
  constexpr void unlock() noexcept {}
  [[nodiscard]] constexpr bool try_lock() noexcept { return true; }
};

}  // namespace rubato
