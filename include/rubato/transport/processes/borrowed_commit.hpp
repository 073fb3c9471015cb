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

/// Commits of which a server has used values where they lie, in a worker process's memory, and needs them no more.
/// Thread safety: any thread.
class commits_over {
 public:
  struct commit {
    std::uint64_t session;  ///< of the worker process
    std::uint64_t number;   ///< of the frame
  };

  /// Makes room for one, so that `add` needs none.
  void expect() {
    std::lock_guard const guard(lock_);
    all_.reserve(all_.size() + expected_ + 1);
    ++expected_;
  }
  /// @pre it is expected
  void add(commit const& c) noexcept {
    std::lock_guard const guard(lock_);
    --expected_;
    all_.push_back(c);
  }
  /// Those since the last call.
  [[nodiscard]] std::vector<commit> take() {
    std::lock_guard const guard(lock_);
    std::vector<commit> some(all_);
    all_.clear();
    return some;
  }

 private:
  std::mutex lock_;
  std::vector<commit> all_;
  std::size_t expected_ = 0;
};

/// A commit of which values are used where they lie: for as long as any of them refers to it. Keeps that memory.
class borrowed_commit final : public block_memory {
 public:
  borrowed_commit(std::shared_ptr<commits_over> over, commits_over::commit const& name,
                  std::shared_ptr<arena_view const> memory)
      : over_(std::move(over)), name_(name), memory_(std::move(memory)) {
    over_->expect();
  }
  borrowed_commit(borrowed_commit const&) = delete;
  borrowed_commit& operator=(borrowed_commit const&) = delete;
  ~borrowed_commit() override { over_->add(name_); }

  [[nodiscard]] void* take(std::size_t) noexcept override { return nullptr; }
  void give(void*, std::size_t) noexcept override {}

 private:
  std::shared_ptr<commits_over> over_;
  commits_over::commit name_;
  std::shared_ptr<arena_view const> memory_;
};

}  // namespace rubato::detail
