// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "bench/result/curve.hpp"

namespace rubato::bench {

/// How far the workers are, as worker process 0 knows it.
class run_progress {
 public:
  virtual ~run_progress() = default;

  /// A worker has committed: so many local steps has it made, and its time so far went there.
  virtual void note(std::uint32_t rank, std::uint64_t steps, time_split const& spent) = 0;
  /// A worker has done its part.
  virtual void note_done(std::uint32_t rank) = 0;
  /// Takes what others have said. By the observer's thread.
  virtual void refresh() {}

  [[nodiscard]] virtual std::uint64_t commits() const noexcept = 0;
  [[nodiscard]] virtual bool all_done() const noexcept = 0;
  [[nodiscard]] virtual std::uint64_t steps(std::uint32_t rank) const noexcept = 0;
  [[nodiscard]] virtual time_split spent(std::uint32_t rank) const noexcept = 0;
};

/// In memory that a process shares with the copies made of it afterwards.
/// Thread safety: each worker writes its own entry; any process reads all.
class shared_progress : public run_progress {
 public:
  explicit shared_progress(std::uint32_t workers);
  shared_progress(shared_progress const&) = delete;
  shared_progress& operator=(shared_progress const&) = delete;
  ~shared_progress() override;

  void note(std::uint32_t rank, std::uint64_t steps, time_split const& spent) noexcept override;
  void note_done(std::uint32_t rank) noexcept override { entries_[rank].done = true; }

  [[nodiscard]] std::uint64_t commits() const noexcept override;
  [[nodiscard]] bool all_done() const noexcept override;
  [[nodiscard]] std::uint64_t steps(std::uint32_t rank) const noexcept override {
    return entries_[rank].steps;
  }
  [[nodiscard]] time_split spent(std::uint32_t rank) const noexcept override {
    entry const& e = entries_[rank];
    return {.compute = e.compute, .send = e.send, .wait = e.wait};
  }

 private:
  struct alignas(64) entry {
    std::atomic<std::uint64_t> commits = 0;
    std::atomic<std::uint64_t> steps = 0;
    std::atomic<double> compute = 0, send = 0, wait = 0;
    std::atomic<bool> done = false;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free &&
                    std::atomic<double>::is_always_lock_free,
                "atomics with a lock would be shared without it");

  std::uint32_t workers_;
  entry* entries_;
};

}  // namespace rubato::bench
