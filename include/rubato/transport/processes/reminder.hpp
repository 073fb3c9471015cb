// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>

namespace rubato::detail {

/// When who waits is to say so: after three seconds, and again in intervals that double up to a minute.
class reminder {
 public:
  using time = std::chrono::steady_clock::time_point;

  explicit reminder(time since) : next_(since + interval_) {}

  [[nodiscard]] time next() const noexcept { return next_; }
  /// Whether it is time; then `next` is later.
  [[nodiscard]] bool is_due(time now) noexcept {
    if (now < next_) return false;
    interval_ = std::min<std::chrono::seconds>(2 * interval_, std::chrono::minutes(1));
    next_ = now + interval_;
    return true;
  }

 private:
  std::chrono::seconds interval_{3};
  time next_;
};

}  // namespace rubato::detail
