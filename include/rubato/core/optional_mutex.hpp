// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <mutex>

namespace rubato {

/// Whether what belongs to a run is used by one thread only, as in the simulator and in the nodes of a
/// distributed run, or by many.
enum class threading : std::uint8_t { single, multiple };

/// A mutex where several threads meet, and nothing where there is only one.
class optional_mutex {
 public:
  optional_mutex() noexcept = default;
  explicit optional_mutex(threading t) noexcept : locks_(t == threading::multiple) {}
  /// Before its first use.
  void set(threading t) noexcept { locks_ = t == threading::multiple; }

  void lock() {
    if (locks_) mutex_.lock();
  }
  void unlock() {
    if (locks_) mutex_.unlock();
  }
  [[nodiscard]] bool try_lock() { return !locks_ || mutex_.try_lock(); }

 private:
  std::mutex mutex_;
  bool locks_ = false;
};

}  // namespace rubato
