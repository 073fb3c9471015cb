// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace rubato::detail {

/// A commit's body on its way in, of which large parts are used window by window, so that they take no
/// memory of their own. If its connection breaks it comes again from the start; what has been used of
/// it is not used again.
class windowed_body {
 public:
  static constexpr std::size_t window_size = 1024 * 1024;  ///< stays in a core's cache

  /// A stretch of the body: has room of its own, or goes through the window.
  struct stretch {
    std::span<std::byte> room;
    std::size_t table = 0;
    std::size_t bytes = 0;  ///< through the window, in whole elements
    std::size_t unit = 1;   ///< windows end between units of so many bytes
    std::size_t window = window_size;  ///< at most that, and at least a unit
    double weight = 0;      ///< what they count; 0: they are not used
  };

  /// The frame of this number begins, for the first time or again.
  void begin(std::uint64_t sequence) noexcept {
    if (sequence != sequence_) end();
    sequence_ = sequence;
    if (used_ == 0) weights_.clear();
    stretches_.clear();
    at_ = within_ = full_ = position_ = 0;
  }
  /// What has been used counts as it did then, and so does the rest.
  void add(stretch const& s) {
    stretches_.push_back(s);
    if (weights_.size() < stretches_.size()) weights_.push_back(s.weight);
    else if (s.weight != 0) stretches_.back().weight = weights_[stretches_.size() - 1];
  }

  /// Says where the next bytes go, up to the end of a window.
  void give(std::vector<std::span<std::byte>>& body) {
    for (; at_ < stretches_.size(); ++at_, within_ = 0) {
      stretch const& s = stretches_[at_];
      if (!s.room.empty()) body.push_back(s.room);
      if (within_ == s.bytes) continue;
      if (!window_) window_ = std::make_unique_for_overwrite<std::byte[]>(window_size);
      full_ = std::min(s.window - s.window % s.unit, s.bytes - within_);
      body.emplace_back(window_.get(), full_);
      return;
    }
  }

  /// The window that was given last is full: `use(table, first, bytes, weight)` gets it, `first` being
  /// its place within its stretch, unless that has been done before.
  template <class F>
  void take(F use) {
    if (full_ == 0) return;
    stretch const& s = stretches_[at_];
    if (position_ >= used_) {
      if (s.weight != 0) {
        use(s.table, within_, std::span(window_.get(), full_), s.weight);
        any_used_ = true;
      }
      used_ = position_ + full_;
    }
    position_ += full_;
    within_ += full_;
    full_ = 0;
  }

  /// It is over.
  void end() noexcept {
    used_ = sequence_ = 0;
    any_used_ = false;
  }
  /// Whether anything of a commit that is not over has been used.
  [[nodiscard]] bool any_used() const noexcept { return any_used_; }

 private:
  std::uint64_t sequence_ = 0;
  std::vector<stretch> stretches_;
  std::size_t at_ = 0;        // the stretch that is arriving
  std::size_t within_ = 0;    // bytes of it that have been taken
  std::size_t full_ = 0;      // bytes of the window that has been given
  std::size_t position_ = 0;  // bytes taken of all stretches
  std::size_t used_ = 0;      // the same, in the farthest attempt
  bool any_used_ = false;
  std::vector<double> weights_;  // of the stretches, in the first attempt
  std::unique_ptr<std::byte[]> window_;
};

}  // namespace rubato::detail
