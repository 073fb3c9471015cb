// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>

#include "rubato/transport/processes/chunk_arena.hpp"

namespace rubato::detail {

namespace {

/// Chunks that are read are copied when they have to change: so many states may there be of each.
constexpr std::uint64_t states_of_a_chunk = 4;
constexpr std::size_t rounding_room = 4 * 1024 * 1024;  // for what sizes are rounded up by
constexpr std::size_t growth_step = 1024 * 1024;
constexpr std::uint64_t arena_size_max = std::uint64_t{1} << 46;  // what a process can address
constexpr std::size_t slot_alignment = 64;

/// With room for what is written into one that is free.
constexpr std::size_t slot_size(std::size_t bytes) noexcept {
  return (std::max(bytes, sizeof(std::byte*)) + slot_alignment - 1) / slot_alignment * slot_alignment;
}

/// A file beyond this limit would end the process with a signal.
bool may_be_as_long(std::uint64_t size) {
  rlimit most{};
  return ::getrlimit(RLIMIT_FSIZE, &most) == 0 && (most.rlim_cur == RLIM_INFINITY || size <= most.rlim_cur);
}

}  // namespace

bool addresses_are_scarce() noexcept {
  rlimit most{};
  return ::getrlimit(RLIMIT_AS, &most) != 0 || most.rlim_cur != RLIM_INFINITY;
}

std::unique_ptr<chunk_arena> chunk_arena::make(std::uint64_t bytes, wire::secret const& key, char const* name) {
  if (bytes > arena_size_max / (2 * states_of_a_chunk) - rounding_room) return nullptr;
  // Beside each chunk there is a line of its own, of a thousandth of it.
  std::uint64_t const size = arena_head_size + states_of_a_chunk * (bytes + bytes / 256) + rounding_room;
  if (!may_be_as_long(size) || addresses_are_scarce()) return nullptr;
  int const file = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(size)) == 0 && ::fallocate(file, 0, 0, arena_head_size) == 0)
    memory = ::mmap(nullptr, static_cast<std::size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file,
                    0);
  bool sealed = false;
  if (memory != MAP_FAILED) {
#if defined(F_SEAL_FUTURE_WRITE)
    ::fcntl(file, F_ADD_SEALS, F_SEAL_FUTURE_WRITE);  // where there is that: nobody but this mapping writes
#endif
    sealed = ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
    if (!sealed) ::munmap(memory, static_cast<std::size_t>(size));
  }
  if (!sealed) {
    ::close(file);
    return nullptr;
  }
  return std::unique_ptr<chunk_arena>(
      new chunk_arena(file, static_cast<std::byte*>(memory), static_cast<std::size_t>(size), key));
}

chunk_arena::chunk_arena(int file, std::byte* memory, std::size_t size, wire::secret const& key)
    : file_(file), memory_(memory), size_(size), end_(arena_head_size), there_(arena_head_size) {
  ::new (memory_) arena_head{.key = key, .pins = {}};
  std::memcpy(&number_, key.data(), sizeof number_);
}

chunk_arena::~chunk_arena() {
  ::munmap(memory_, size_);
  ::close(file_);
}

/// Asks for memory before it is touched: where there is none, that would end the process.
bool chunk_arena::grow_to(std::size_t end) noexcept {
  if (end <= there_) return true;
  std::size_t const wanted = std::min(size_, std::max(end, there_ + growth_step));
  while (::fallocate(file_, 0, static_cast<off_t>(there_), static_cast<off_t>(wanted - there_)) != 0)
    if (errno != EINTR) return false;
  there_ = wanted;
  return true;
}

void* chunk_arena::take(std::size_t bytes) noexcept try {
  std::size_t const size = slot_size(bytes);
  std::lock_guard const guard(lock_);
  pool& p = pools_[size];
  std::byte* at = p.free;
  if (at != nullptr) {
    std::memcpy(&p.free, at, sizeof p.free);
  } else {
    if (settled_ && p.ever + size > states_of_a_chunk * p.of_tables) return nullptr;
    if (size > size_ - end_ || !grow_to(end_ + size)) return nullptr;
    at = memory_ + end_;
    end_ += size;
    p.ever += size;
  }
  p.used += size;
  return at;
} catch (...) {  // no memory for another size's pool
  return nullptr;
}

void chunk_arena::give(void* at, std::size_t bytes) noexcept {
  std::size_t const size = slot_size(bytes);
  std::lock_guard const guard(lock_);
  pool& p = pools_.find(size)->second;
  std::memcpy(at, &p.free, sizeof p.free);
  p.free = static_cast<std::byte*>(at);
  p.used -= size;
}

void chunk_arena::settle() noexcept {
  std::lock_guard const guard(lock_);
  for (auto& [size, p] : pools_) p.of_tables = p.used;
  settled_ = true;
}

/// Those of a state that is no longer the last one are among what is used, so each is counted once, however often it is
/// pinned.
bool chunk_arena::has_room_for_copies(std::size_t array_bytes) const noexcept {
  std::lock_guard const guard(lock_);
  auto const at = pools_.find(slot_size(block_ref::bytes_elsewhere(array_bytes)));
  if (at == pools_.end()) return false;
  pool const& p = at->second;
  return !settled_ || p.used + p.of_tables <= states_of_a_chunk * p.of_tables;
}

std::uint64_t chunk_arena::used() const {
  std::lock_guard const guard(lock_);
  std::uint64_t all = 0;
  for (auto const& [size, p] : pools_) all += p.used;
  return all;
}

std::size_t chunk_arena::pinned() const noexcept {
  return static_cast<std::size_t>(
      std::ranges::count_if(head().pins, [](auto const& p) { return p.load(std::memory_order_relaxed) != 0; }));
}

wire::memory_meta chunk_arena::where() const {
  return {.number = number_,
          .process = static_cast<std::uint32_t>(::getpid()),
          .file = static_cast<std::uint32_t>(file_),
          .bytes = size_,
          .key = head().key};
}

std::optional<std::uint64_t> chunk_arena::offset_of(std::byte const* at, std::size_t bytes) const noexcept {
  auto const begin = reinterpret_cast<std::uintptr_t>(memory_);
  auto const where = reinterpret_cast<std::uintptr_t>(at);
  if (where < begin || where - begin > size_ || bytes > size_ - (where - begin)) return std::nullopt;
  return where - begin;
}

std::optional<chunk_arena::pin> chunk_arena::add_pin() noexcept {
  auto& pins = head().pins;
  auto const free = std::ranges::find_if(pins, [](auto const& p) { return p.load(std::memory_order_relaxed) == 0; });
  if (free == pins.end()) return std::nullopt;
  free->store(++pins_, std::memory_order_release);
  return pin{pins_, static_cast<std::uint32_t>(free - pins.begin())};
}

void chunk_arena::remove_pin(pin const& p) noexcept {
  head().pins[p.slot].store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // what is written from here on is written after it
}

}  // namespace rubato::detail
