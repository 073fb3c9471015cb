// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>

namespace rubato::net {

/// Judges how long nothing was heard, from checks at regular times. Time in which the network was
/// not run does not count: what came meanwhile has not been read yet.
class silence_meter {
 public:
  using clock = std::chrono::steady_clock;

  explicit silence_meter(std::chrono::milliseconds limit) noexcept : limit_(limit) {}

  /// How often to check; also how long this end may write nothing.
  [[nodiscard]] clock::duration interval() const noexcept {
    return std::max<clock::duration>(limit_ / 8, std::chrono::milliseconds(1));
  }
  void start(clock::time_point now) noexcept { checked_ = now; }
  /// When the next check is due.
  [[nodiscard]] clock::time_point due() const noexcept { return checked_ + interval(); }
  /// Whether the silence has lasted too long; `heard`: something came since the last check.
  [[nodiscard]] bool too_long(clock::time_point now, bool heard) noexcept {
    bool const late = now - due() > limit_ / 4;
    quiet_ = heard || late ? clock::duration::zero() : quiet_ + (now - checked_);
    checked_ = now;
    return quiet_ >= limit_;
  }

 private:
  std::chrono::milliseconds limit_;
  clock::time_point checked_ = {};
  clock::duration quiet_ = {};
};

}  // namespace rubato::net
