// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

namespace rubato::wire {

/// What a process does in a run. Also known as `net::role`.
enum class role : std::uint8_t { worker, server, coordinator };

[[nodiscard]] constexpr char const* to_string(role r) noexcept {
  switch (r) {
    case role::worker: return "worker";
    case role::server: return "server";
    case role::coordinator: return "coordinator";
  }
  return "unknown";
}

}  // namespace rubato::wire
