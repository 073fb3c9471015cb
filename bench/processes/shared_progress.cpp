// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/processes/shared_progress.hpp"

#include <sys/mman.h>

#include <memory>

namespace rubato::bench {

shared_progress::shared_progress(std::uint32_t workers) : workers_(workers) {
  void* const memory = ::mmap(nullptr, workers * sizeof(entry), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  entries_ = static_cast<entry*>(memory);
  std::uninitialized_default_construct_n(entries_, workers_);
}

shared_progress::~shared_progress() { ::munmap(entries_, workers_ * sizeof(entry)); }

void shared_progress::note(std::uint32_t rank, std::uint64_t steps,
                           time_split const& spent) noexcept {
  entry& e = entries_[rank];
  e.steps = steps;
  e.compute = spent.compute;
  e.send = spent.send;
  e.wait = spent.wait;
  ++e.commits;
}

std::uint64_t shared_progress::commits() const noexcept {
  std::uint64_t all = 0;
  for (std::uint32_t i = 0; i < workers_; ++i) all += entries_[i].commits;
  return all;
}

bool shared_progress::all_done() const noexcept {
  for (std::uint32_t i = 0; i < workers_; ++i)
    if (!entries_[i].done) return false;
  return true;
}

}  // namespace rubato::bench
