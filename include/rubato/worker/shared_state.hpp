// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "rubato/core/clock.hpp"
#include "rubato/server/messages.hpp"

namespace rubato::detail {

/// What others than the asker may know of a state that came as an answer.
///
/// Which of their commits it holds: what left before the question did, is in; what left after the
/// answer came, is not. Where these are not the same, a worker cannot use it, or it would count some
/// commit twice or not at all. And whether it is older than what they have read before.
class shared_state {
 public:
  /// As the question leaves: by reader, the commits that have left before. `is_live`: the answer is
  /// read off the server's store while it is sent (`live_body`).
  shared_state(std::vector<clock_index> left_before, std::uint64_t now, bool is_whole, bool is_live)
      : first_(std::move(left_before)), asked_at_(now), is_whole_(is_whole), is_live_(is_live) {}
  /// As the answer is there: those that may have left by now.
  void answered(read_stamp const& stamp, std::vector<clock_index> left_by_now, std::uint64_t now) {
    stamp_ = stamp;
    last_ = std::move(left_by_now);
    came_at_ = now;
  }
  [[nodiscard]] read_stamp const& stamp() const noexcept { return stamp_; }

  /// What the stamp is for this reader, if that is known. What a server's clock implies is in, too:
  /// a question may have waited there.
  [[nodiscard]] std::optional<read_stamp> for_reader(std::size_t reader) const {
    if (!knows(reader)) return std::nullopt;  // it came later
    clock_index const least = std::max(first_[reader], stamp_.server_clock);
    clock_index const in = std::min(least, stamp_.folded_below);
    if (in != std::min(last_[reader], stamp_.folded_below)) return std::nullopt;
    read_stamp s = stamp_;
    s.included = in;
    return s;
  }
  /// Whether the reader was there when the question left.
  [[nodiscard]] bool knows(std::size_t reader) const noexcept { return reader < first_.size(); }
  /// @pre `knows(reader)`
  [[nodiscard]] clock_index left_before(std::size_t reader) const noexcept { return first_[reader]; }

  /// What a reader has read last: nothing older may follow. (A row's last answer is all that there is
  /// of it here, so that this is not older than what was read of it by key before.)
  struct floor {
    std::uint64_t whole = 0;
    std::uint64_t live = 0;  ///< the last whole one that was live
    std::uint64_t rows = 0;
  };
  /// Answers come in the order of the states that they hold; but a live one may be newer than those
  /// that were waiting behind it.
  [[nodiscard]] bool is_older_than(floor const& f) const noexcept {
    if (is_whole_ && came_at_ < f.rows) return true;
    return came_at_ < f.whole || (came_at_ != f.whole && will_be_older_than(f));
  }
  /// The same before it is there, as far as it can be known.
  [[nodiscard]] bool will_be_older_than(floor const& f) const noexcept {
    return !is_live_ && asked_at_ < f.live;
  }
  /// Whether a reader has not seen it, nor anything newer.
  [[nodiscard]] bool is_news(floor const& f) const noexcept { return came_at_ > (is_whole_ ? f.whole : f.rows); }
  void raise(floor& f) const noexcept {
    if (!is_whole_) f.rows = std::max(f.rows, came_at_);
    else f.whole = came_at_;
    if (is_live_) f.live = came_at_;
  }

 private:
  std::vector<clock_index> first_;
  std::vector<clock_index> last_;
  std::uint64_t asked_at_;
  std::uint64_t came_at_ = 0;
  bool is_whole_;
  bool is_live_;
  read_stamp stamp_{};
};

}  // namespace rubato::detail
