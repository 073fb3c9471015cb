// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace rubato::bench {

enum class activity : std::uint8_t { compute, send, wait };

/// "compute", "send" or "wait"
[[nodiscard]] constexpr char const* name_of(activity a) noexcept {
  return a == activity::compute ? "compute" : a == activity::send ? "send" : "wait";
}

/// What a worker did without a break.
struct spell {
  std::uint32_t worker = 0;
  std::int64_t clock = 0;  ///< of the worker, or the iteration of a peer
  activity what = activity::compute;
  double from = 0;  ///< seconds since the run began
  double to = 0;
  std::optional<std::uint32_t> waits_for{};  ///< the worker that let it go on; empty where nobody did
};

/// When a worker came to a clock.
struct clock_begin {
  std::uint32_t worker = 0;
  double seconds = 0;
};

/// What workers did when.
struct timeline {
  std::string label{};  ///< of the protocol
  std::uint32_t workers = 0;
  std::vector<spell> spells{};  ///< of each worker in the order of time
  std::vector<clock_begin> clocks{};

  [[nodiscard]] double seconds() const noexcept {
    double last = 0;
    for (spell const& s : spells) last = s.to > last ? s.to : last;
    return last;
  }
};

}  // namespace rubato::bench
