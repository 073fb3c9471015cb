// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "rubato/protocol/conductor.hpp"

namespace rubato::detail {

/// The conductor's orders that have arrived for a worker. Any thread gives; the worker takes, and as a rule finds none,
/// for which it takes no lock.
class order_box {
 public:
  void give(conductor::order order) {
    std::lock_guard const guard(lock_);
    orders_.push_back(std::move(order));
    has_some_.store(true, std::memory_order_release);
  }
  /// The first to come; nothing where none has.
  [[nodiscard]] std::optional<conductor::order> take() {
    if (!has_some_.load(std::memory_order_acquire)) return std::nullopt;
    std::lock_guard const guard(lock_);
    std::optional first = std::move(orders_.front());
    orders_.pop_front();
    has_some_.store(!orders_.empty(), std::memory_order_relaxed);
    return first;
  }

 private:
  std::atomic<bool> has_some_ = false;
  std::mutex lock_;
  std::deque<conductor::order> orders_;
};

}  // namespace rubato::detail
