// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstring>
#include <limits>
#include <new>

#include "rubato/core/large_pages.hpp"
#include "rubato/storage/chunk_region.hpp"

namespace rubato::detail {

chunk_region::owner chunk_region::make(std::size_t chunks, std::size_t chunk_bytes) {
  constexpr std::size_t line = 64;
  std::size_t const slot = (block_ref::bytes_elsewhere(chunk_bytes) + line - 1) / line * line;
  if (chunks > std::numeric_limits<std::size_t>::max() / slot) throw std::bad_alloc();
  if (!worth_large_pages(chunks * slot)) return nullptr;
  return owner(new chunk_region(chunks, slot));
}

chunk_region::chunk_region(std::size_t chunks, std::size_t slot)
    : slot_(slot), size_(chunks * slot), memory_(static_cast<std::byte*>(allocate_array(size_))) {}

chunk_region::~chunk_region() { deallocate_array(memory_, size_); }

void* chunk_region::take(std::size_t bytes) noexcept {
  std::lock_guard const guard(lock_);
  if (bytes > slot_ || (free_ == nullptr && size_ - end_ < slot_)) return nullptr;
  ++away_;
  if (free_ == nullptr) {
    std::byte* const at = memory_ + end_;
    end_ += slot_;
    return at;
  }
  std::byte* const at = free_;
  std::memcpy(&free_, at, sizeof free_);
  return at;
}

void chunk_region::give(void* at, std::size_t) noexcept {
  bool last;
  {
    std::lock_guard const guard(lock_);
    std::memcpy(at, &free_, sizeof free_);
    free_ = static_cast<std::byte*>(at);
    last = --away_ == 0 && closed_;
  }
  if (last) delete this;
}

void chunk_region::close() noexcept {
  bool last;
  {
    std::lock_guard const guard(lock_);
    closed_ = true;
    last = away_ == 0;
  }
  if (last) delete this;
}

}  // namespace rubato::detail
