// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>

#include "rubato/core/assert.hpp"

namespace rubato {

/// `TokenQ(j→i)`: how many more iterations i may enter before its out-neighbor j enters one.
///
/// The paper keeps it at j, where i has to ask for each token. Here j sends its tokens and i keeps
/// them, which saves the round trip; what is on its way counts as not yet put in. So
/// `size() + tokens on their way = Iter(j) − Iter(i) + max_ig` once both have entered iteration 0
/// (HOP-1), and what i sees is never more than the truth.
///
/// Tokens are all alike, so the queue is a number. Taking more than is there, or putting in more than
/// the capacity, is asserted. Source: 002 §4.2, Theorem 2.
class token_queue {
 public:
  /// @param initial  max_ig − 1: the one that j puts in on entering iteration 0 makes max_ig
  /// @param capacity max_ig·(d(j→i) + 1), with the length of the shortest path
  token_queue(std::int64_t initial, std::int64_t capacity) noexcept
      : size_(initial), capacity_(capacity) {}

  [[nodiscard]] std::int64_t size() const noexcept { return size_; }
  [[nodiscard]] std::int64_t capacity() const noexcept { return capacity_; }

  void put(std::int64_t tokens) noexcept {
    RUBATO_ASSERT(tokens >= 0 && tokens <= capacity_ - size_);
    size_ += tokens;
  }
  void take(std::int64_t tokens) noexcept {
    RUBATO_ASSERT(tokens >= 0 && tokens <= size_);
    size_ -= tokens;
  }

 private:
  std::int64_t size_;
  std::int64_t capacity_;
};

}  // namespace rubato
