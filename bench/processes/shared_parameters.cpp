// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/processes/shared_parameters.hpp"

#include <sys/mman.h>

#include <memory>
#include <new>

namespace rubato::bench {

shared_parameters::shared_parameters(std::uint32_t peers, std::span<float const> start)
    : peers_(peers), size_(start.size()) {
  void* const memory = ::mmap(nullptr, peers * size_ * sizeof(std::atomic<float>), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  all_ = static_cast<std::atomic<float>*>(memory);
  std::uninitialized_default_construct_n(all_, peers * size_);
  for (std::uint32_t i = 0; i < peers; ++i) note(i, start);
}

shared_parameters::~shared_parameters() { ::munmap(all_, peers_ * size_ * sizeof(std::atomic<float>)); }

void shared_parameters::note(std::uint32_t rank, std::span<float const> x) noexcept {
  std::atomic<float>* const mine = all_ + rank * size_;
  for (std::size_t i = 0; i < size_; ++i) mine[i].store(x[i], std::memory_order_relaxed);
}

std::vector<float> shared_parameters::average() const {
  std::vector<float> average(size_);
  for (std::size_t i = 0; i < size_; ++i) {
    double sum = 0;
    for (std::uint32_t p = 0; p < peers_; ++p)
      sum += static_cast<double>(all_[p * size_ + i].load(std::memory_order_relaxed));
    average[i] = static_cast<float>(sum / peers_);
  }
  return average;
}

}  // namespace rubato::bench
