// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

namespace rubato {

/// Long enough for the answer of a process on another core, and short beside what else a process does between waits.
inline constexpr std::chrono::microseconds usual_busy_poll{50};
inline constexpr std::chrono::microseconds longest_busy_poll{1'000'000};  ///< that settings may ask for

/// For how long who waits looks again before it sleeps.
///
/// To be woken takes longer than the answer of somebody on another core of the same machine: 20 to 30 us each way where
/// cores rest meanwhile. So to look for a while pays as long as waits are short. After a few in a row that were not, it
/// is time to sleep at once, until one is short again; so what looking costs is a small part of long waits.
/// Not synchronized.
class busy_poll {
 public:
  using clock = std::chrono::steady_clock;  ///< that waits are measured by
  using duration = clock::duration;         ///< of a wait

  /// @param most looks for so long; 0: never
  explicit constexpr busy_poll(duration most) noexcept : most_(most) {}

  /// Returns once `done()` has held, for which it looks and gives way to who else wants the processor, or `sleep()` has
  /// returned, which it calls when it has looked for long enough.
  template <class Done, class Sleep>
  void wait(Done done, Sleep sleep, clock::time_point deadline = clock::time_point::max()) {
    if (is_off()) return sleep();
    clock::time_point const began = clock::now();
    if (pays() && look(done, std::min(deadline, began + most_))) return waited({});
    sleep();
    waited(clock::now() - began);
  }

  /// Whether it never looks.
  [[nodiscard]] constexpr bool is_off() const noexcept { return most_ == duration::zero(); }
  /// Whether the next wait begins with looking.
  [[nodiscard]] constexpr bool pays() const noexcept { return !is_off() && long_waits_ < long_waits_max; }
  /// For how long it looks, where it does.
  [[nodiscard]] constexpr duration length() const noexcept { return most_; }
  /// A wait took so long, with the time in which a sleeper is woken.
  constexpr void waited(duration d) noexcept {
    if (d <= 2 * most_) long_waits_ = 0;  // a sleeper's would have been shorter by being woken
    else if (long_waits_ < long_waits_max) ++long_waits_;
  }

 private:
  static constexpr int long_waits_max = 4;

  template <class Done>
  static bool look(Done& done, clock::time_point until) {
    do {
      std::this_thread::yield();
      if (done()) return true;
    } while (clock::now() < until);
    return false;
  }

  duration most_;
  int long_waits_ = 0;  ///< in a row
};

}  // namespace rubato
