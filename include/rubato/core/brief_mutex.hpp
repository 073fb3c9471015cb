// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/core/optional_mutex.hpp"

namespace rubato {

/// An optional mutex that is held for microseconds, most times: who finds it taken looks again for about as long before
/// it sleeps. To sleep and be woken costs more than most have to wait.
class brief_mutex {
 public:
  brief_mutex() noexcept = default;
  explicit brief_mutex(threading t) noexcept : mutex_(t) {}
  /// Before its first use.
  void set(threading t) noexcept { mutex_.set(t); }

  void lock() {
    for (int looks = 0; looks < most_looks; ++looks) {
      if (mutex_.try_lock()) return;
      pause();
    }
    mutex_.lock();
  }
  void unlock() { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() { return mutex_.try_lock(); }

 private:
  static constexpr int most_looks = 100;

  /// Tells the processor that this waits: a hyperthread beside it gets more of the core.
  static void pause() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  optional_mutex mutex_;
};

}  // namespace rubato
