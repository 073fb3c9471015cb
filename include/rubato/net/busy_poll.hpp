// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>

namespace rubato::net {

/// Long enough for the answer of a process on another core, and short beside what else a process does between waits.
inline constexpr std::chrono::microseconds usual_busy_poll{50};
inline constexpr std::chrono::microseconds longest_busy_poll{1'000'000};

/// For how long who waits looks again before it sleeps.
///
/// To be woken takes longer than the answer of a process on another core of the same machine: 20 to 30 us each way
/// where cores rest meanwhile. So to look for a while pays as long as waits are short. After a few in a row that were
/// not, it is time to sleep at once, until one is short again; so what looking costs is a small part of long waits.
/// Not synchronized.
class busy_poll {
 public:
  using duration = std::chrono::steady_clock::duration;

  /// @param most looks for so long; 0: never
  explicit constexpr busy_poll(duration most) noexcept : most_(most) {}

  [[nodiscard]] constexpr bool is_off() const noexcept { return most_ == duration::zero(); }
  /// Whether to look now, and for how long.
  [[nodiscard]] constexpr bool pays() const noexcept { return !is_off() && long_waits_ < long_waits_max; }
  [[nodiscard]] constexpr duration length() const noexcept { return most_; }
  /// A wait took so long, with the time in which a sleeper is woken.
  constexpr void waited(duration d) noexcept {
    if (d <= 2 * most_) long_waits_ = 0;  // a sleeper's would have been shorter by being woken
    else if (long_waits_ < long_waits_max) ++long_waits_;
  }

 private:
  static constexpr int long_waits_max = 4;

  duration most_;
  int long_waits_ = 0;  ///< in a row
};

}  // namespace rubato::net
