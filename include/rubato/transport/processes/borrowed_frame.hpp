// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "rubato/core/block_memory.hpp"
#include "rubato/core/raw_array.hpp"
#include "rubato/transport/processes/arena_view.hpp"

namespace rubato::detail {

/// Frames whose values have been used where they lie, in another process's memory, and are needed no more: commits at a
/// server, messages at a peer. Thread safety: any thread.
class frames_over {
 public:
  struct frame {
    std::uint64_t session;  ///< of the other process; between peers its rank
    std::uint64_t number;
  };

  /// Makes room for one, so that `add` needs none.
  void expect() {
    std::lock_guard const guard(lock_);
    all_.reserve(all_.size() + expected_ + 1);
    ++expected_;
  }
  /// @pre it is expected
  void add(frame const& f) noexcept {
    std::lock_guard const guard(lock_);
    --expected_;
    all_.push_back(f);
  }
  [[nodiscard]] bool any() const noexcept {
    std::lock_guard const guard(lock_);
    return !all_.empty();
  }
  /// Those since the last call.
  [[nodiscard]] std::vector<frame> take() {
    std::lock_guard const guard(lock_);
    std::vector<frame> some(all_);
    all_.clear();
    return some;
  }

 private:
  mutable std::mutex lock_;
  std::vector<frame> all_;
  std::size_t expected_ = 0;
};

/// A frame of which values are used where they lie: for as long as any of them refers to it. Keeps that memory.
class borrowed_frame final : public block_memory {
 public:
  borrowed_frame(std::shared_ptr<frames_over> over, frames_over::frame const& name,
                 std::shared_ptr<arena_view const> memory)
      : over_(std::move(over)), name_(name), memory_(std::move(memory)) {
    over_->expect();
  }
  borrowed_frame(borrowed_frame const&) = delete;
  borrowed_frame& operator=(borrowed_frame const&) = delete;
  ~borrowed_frame() override { over_->add(name_); }

  [[nodiscard]] void* take(std::size_t) noexcept override { return nullptr; }
  void give(void*, std::size_t) noexcept override {}
  [[nodiscard]] bool is_read_only() const noexcept override { return true; }

 private:
  std::shared_ptr<frames_over> over_;
  frames_over::frame name_;
  std::shared_ptr<arena_view const> memory_;
};

}  // namespace rubato::detail
