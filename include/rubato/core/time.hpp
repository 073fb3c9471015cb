// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <compare>

namespace rubato {

/// A length of time in whole nanoseconds: exact to add, the same on every machine.
using duration = std::chrono::nanoseconds;

/// A moment of a run, counted from the run's start.
///
/// It has no `now()`, on purpose: a protocol core that holds one was handed it, so the same core
/// runs against a wall clock and in virtual time. Arithmetic saturates, so `time_point::max()`
/// means "never" and stays "never" whatever is added to it. A regular value; 8 bytes; constant
/// time, no exceptions.
class time_point {
 public:
  /// The start of the run.
  constexpr time_point() noexcept = default;

  /// The moment `since_start` after the start of the run; may be negative.
  constexpr explicit time_point(duration since_start) noexcept : since_start_(since_start) {}

  /// what has passed since the run began
  [[nodiscard]] constexpr duration since_start() const noexcept { return since_start_; }

  /// The last moment there is: "never", as a deadline.
  [[nodiscard]] static constexpr time_point max() noexcept { return time_point(duration::max()); }
  /// The first moment there is: "any time", as a deadline.
  [[nodiscard]] static constexpr time_point min() noexcept { return time_point(duration::min()); }

  /// Later by d.
  constexpr time_point& operator+=(duration d) noexcept { return *this = *this + d; }
  /// Earlier by d.
  constexpr time_point& operator-=(duration d) noexcept { return *this = *this - d; }

  /// The time d after t, saturating.
  [[nodiscard]] friend constexpr time_point operator+(time_point t, duration d) noexcept {
    duration::rep sum{};
    if (__builtin_add_overflow(t.since_start_.count(), d.count(), &sum)) {
      return d.count() < 0 ? min() : max();
    }
    return time_point(duration(sum));
  }
  /// The same.
  [[nodiscard]] friend constexpr time_point operator+(duration d, time_point t) noexcept {
    return t + d;
  }
  /// The time d before t, saturating.
  [[nodiscard]] friend constexpr time_point operator-(time_point t, duration d) noexcept {
    duration::rep rest{};
    if (__builtin_sub_overflow(t.since_start_.count(), d.count(), &rest)) {
      return d.count() < 0 ? max() : min();
    }
    return time_point(duration(rest));
  }
  /// How long it is from `earlier` to `later`.
  [[nodiscard]] friend constexpr duration operator-(time_point later, time_point earlier) noexcept {
    duration::rep rest{};
    if (__builtin_sub_overflow(later.since_start_.count(), earlier.since_start_.count(), &rest)) {
      return later < earlier ? duration::min() : duration::max();
    }
    return duration(rest);
  }

  friend constexpr bool operator==(time_point, time_point) noexcept = default;
  friend constexpr auto operator<=>(time_point, time_point) noexcept = default;

 private:
  duration since_start_{0};
};

namespace detail {

[[nodiscard]] constexpr duration round_nanoseconds(double nanoseconds) noexcept {
  constexpr double limit = 9223372036854775808.0;  // 2^63: the first double past the range
  if (nanoseconds >= limit) return duration::max();
  if (nanoseconds < -limit) return duration::min();
  if (nanoseconds != nanoseconds) return duration::zero();
  auto const whole = static_cast<duration::rep>(nanoseconds);
  double const rest = nanoseconds - static_cast<double>(whole);
  return duration(whole + (rest >= 0.5 ? 1 : 0) - (rest <= -0.5 ? 1 : 0));
}

}  // namespace detail

/// `s` seconds, rounded to the nearest nanosecond (halves away from zero).
/// What does not fit becomes the greatest or least duration; NaN becomes zero.
[[nodiscard]] constexpr duration seconds(double s) noexcept {
  return detail::round_nanoseconds(s * 1e9);
}

/// `factor` times `d`, rounded and saturated as `seconds` does.
[[nodiscard]] constexpr duration stretch(duration d, double factor) noexcept {
  return detail::round_nanoseconds(static_cast<double>(d.count()) * factor);
}

/// `d` in seconds; exact to one part in 2^53.
[[nodiscard]] constexpr double to_seconds(duration d) noexcept {
  return static_cast<double>(d.count()) / 1e9;
}

}  // namespace rubato
