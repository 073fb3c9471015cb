// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

namespace rubato {

/// Long enough for the answer of a process on another core, and short beside what else a process does between waits.
inline constexpr std::chrono::microseconds usual_busy_poll{50};
inline constexpr std::chrono::microseconds longest_busy_poll{10'000};  ///< that settings may ask for

namespace detail {

/// What `busy_poll` goes by.
struct this_machine {
  [[nodiscard]] static std::chrono::steady_clock::time_point now() { return std::chrono::steady_clock::now(); }
  static void yield() noexcept { std::this_thread::yield(); }
};

}  // namespace detail

/// For how long who waits looks again before it sleeps.
///
/// To be woken takes longer than the answer of somebody on another core of the same machine: 20 to 30 us each way where
/// cores rest meanwhile. So to look for a while pays as long as waits are short. After a few in a row that were not, it
/// is time to sleep at once, until one is short again; so what looking costs is a small part of long waits.
///
/// Who looks gives way to who else wants the processor, and gets it back when these have waited or used their share: a
/// thread that only computes keeps it for milliseconds, while a sleeper would have been woken at once. After such a loss
/// 32 waits sleep at once, after the next one twice as many, and so on up to 4096; half as many after 64 looks without.
/// Not synchronized. @tparam Machine gives the time, and gives way
template <class Machine>
class basic_busy_poll {
 public:
  using clock = std::chrono::steady_clock;  ///< that waits are measured by
  using duration = clock::duration;         ///< of a wait

  /// @param most looks for so long; 0: never
  explicit constexpr basic_busy_poll(duration most) noexcept : most_(most) {}

  /// Returns once `done()` has held, for which it looks, or `sleep()` has returned, which it calls when it has looked
  /// for long enough.
  template <class Done, class Sleep>
  void wait(Done done, Sleep sleep, clock::time_point deadline = clock::time_point::max()) {
    if (is_off()) return sleep();
    clock::time_point const began = Machine::now();
    if (rests_ != 0) --rests_;
    else if (pays())
      if (auto const took = look(done, began, std::min(deadline, began + most_))) return waited(*took);
    sleep();
    waited(Machine::now() - began);
  }

  /// Whether it never looks.
  [[nodiscard]] constexpr bool is_off() const noexcept { return most_ == duration::zero(); }
  /// Whether waits are short enough to look.
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
  /// Whoever gives way for so long has lost the processor to somebody who computes.
  static constexpr duration lost = std::chrono::microseconds(500);
  static constexpr int least_rest = 32;
  static constexpr int longest_rest = 4096;
  static constexpr int good_looks = 64;

  void note_loss() noexcept {
    rests_ = next_rest_;
    next_rest_ = std::min(2 * next_rest_, longest_rest);
    good_ = 0;
  }
  void note_good_look() noexcept {
    if (++good_ < good_looks) return;
    next_rest_ = std::max(next_rest_ / 2, least_rest);
    good_ = 0;
  }

  /// How long it took until it was done; nothing where it was not.
  template <class Done>
  std::optional<duration> look(Done& done, clock::time_point began, clock::time_point until) {
    for (clock::time_point before = began;; before = Machine::now()) {
      Machine::yield();
      clock::time_point const now = Machine::now();
      bool const has_lost = now - before >= lost;
      if (has_lost) note_loss();
      if (done()) {
        if (!has_lost) note_good_look();
        return now - began;
      }
      if (has_lost || now >= until) return std::nullopt;
    }
  }

  duration most_;
  int rests_ = 0;       ///< waits that sleep at once
  int long_waits_ = 0;  ///< in a row
  int next_rest_ = least_rest;
  int good_ = 0;  ///< looks in a row, of those that count
};

/// The one of this machine.
using busy_poll = basic_busy_poll<detail::this_machine>;

}  // namespace rubato
