// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace rubato::bench {

/// The parameters of each peer, in memory that a process shares with the copies made of it afterwards: for loss
/// curves, since peers in other processes cannot be looked at during a run.
/// Thread safety: each peer writes its own; any process reads all, one number at a time.
class shared_parameters {
 public:
  shared_parameters(std::uint32_t peers, std::span<float const> start);
  shared_parameters(shared_parameters const&) = delete;
  shared_parameters& operator=(shared_parameters const&) = delete;
  ~shared_parameters();

  void note(std::uint32_t rank, std::span<float const> x) noexcept;
  [[nodiscard]] std::vector<float> average() const;

 private:
  static_assert(std::atomic<float>::is_always_lock_free, "atomics with a lock would be shared without it");

  std::uint32_t peers_;
  std::size_t size_;
  std::atomic<float>* all_;
};

}  // namespace rubato::bench
