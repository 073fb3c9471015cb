// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>

namespace rubato {

/// Memory for arrays from elsewhere than the heap, which outlives them.
class block_memory {
 public:
  virtual ~block_memory() = default;
  /// So many bytes, at a multiple of 64; nullptr where there are no more. Any thread.
  [[nodiscard]] virtual void* take(std::size_t bytes) noexcept = 0;
  /// They are free again. Any thread.
  virtual void give(void* at, std::size_t bytes) noexcept = 0;
  /// Whether what comes from there may only be read.
  [[nodiscard]] virtual bool is_read_only() const noexcept { return false; }
};

}  // namespace rubato
