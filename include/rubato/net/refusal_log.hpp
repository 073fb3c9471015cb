// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <string>
#include <utility>

#include "rubato/net/log.hpp"

namespace rubato::net {

/// Tells the log of what was refused, one by one, but of a flood as one: strangers are not to fill it. Not
/// synchronized.
class refusal_log {
 public:
  /// A moment, of the network's clock.
  using time = std::chrono::steady_clock::time_point;
  /// Lines in a second, of which the next is the last.
  static constexpr int told_singly = 32;

  /// `who` refuses, in words.
  explicit refusal_log(std::string who) : who_(std::move(who)) {}

  /// A warning, or nothing.
  void tell(std::string const& sentence, time now) {
    if (now - counted_from_ > std::chrono::seconds(1)) {
      counted_from_ = now;
      refusals_ = 0;
    }
    if (refusals_ > told_singly) return;
    if (++refusals_ <= told_singly) return log(log_level::warning, sentence);
    log(log_level::warning, who_ + ": refuses more than " + std::to_string(told_singly) +
                                " a second; the rest are not told of singly");
  }

 private:
  std::string who_;
  time counted_from_{};
  int refusals_ = 0;  ///< since then, up to one more than are told of singly
};

}  // namespace rubato::net
