// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <optional>

namespace rubato::detail {

/// When it is to be said that somebody waits for long: once they have waited for a while, and again each time that it
/// has become twice as long. Of many that wait the first to come counts; when that one goes on the next begins anew.
class long_wait {
 public:
  using clock = std::chrono::steady_clock;

  /// @param after so long; 0: never
  explicit long_wait(std::chrono::milliseconds after) noexcept : after_(after) {}

  [[nodiscard]] bool is_off() const noexcept { return after_ == after_.zero(); }
  /// When to look at a wait that began then.
  [[nodiscard]] clock::time_point next_look(clock::time_point since) const noexcept {
    return since + (since == since_ ? said_ * 2 : after_);
  }
  /// For how long it has lasted, if that is to be said now; then `next_look` is later.
  [[nodiscard]] std::optional<clock::duration> due(clock::time_point since, clock::time_point now) noexcept {
    if (now < next_look(since)) return std::nullopt;
    since_ = since;
    said_ = now - since;
    return said_;
  }

 private:
  clock::duration after_;
  clock::time_point since_ = clock::time_point::min();  ///< of the wait that was spoken of last
  clock::duration said_{};                              ///< and how long it was then
};

}  // namespace rubato::detail
