// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rubato/core/copy_past_cache.hpp"
#include "rubato/transport/processes/arena_view.hpp"

namespace rubato::detail {

namespace {

/// Of the system, as long as it lives.
struct open_file {
  explicit open_file(int f) noexcept : number(f) {}
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  ~open_file() {
    if (number >= 0) ::close(number);
  }
  int number;
};

/// Why this cannot be memory that others share with this process; null if it can. The file is a reference only, as to
/// open what is no such memory may have effects.
char const* objection(int file) {
  struct stat is {};
  if (::fstat(file, &is) != 0 || !S_ISREG(is.st_mode)) return "it is no memory";
  return is.st_uid == ::geteuid() ? nullptr : "it is another user's";
}

/// Why looking at it could end this process; null if it cannot. Of pages of the usual size, which are there as they are
/// looked at; and its size is asked once nobody can change it.
char const* objection_to_looking(int file, wire::memory_meta const& at) {
  constexpr int tmpfs = 0x01021994;
  constexpr int stays = F_SEAL_SHRINK | F_SEAL_GROW;
  struct statfs in {};
  int const seals = ::fcntl(file, F_GET_SEALS);
  if (::fstatfs(file, &in) != 0 || in.f_type != tmpfs || seals < 0 || (seals & stays) != stays)
    return "it is no memory that stays";
  struct stat is {};
  bool const has_size = ::fstat(file, &is) == 0 && static_cast<std::uint64_t>(is.st_size) == at.bytes;
  return has_size && at.bytes >= arena_head_size ? nullptr : "it is of another size";
}

}  // namespace

std::unique_ptr<arena_view> arena_view::open(wire::memory_meta const& at, std::string& why) {
  if (addresses_are_scarce()) return why = "the addresses of this process are limited", nullptr;
  std::string const name = "/proc/" + std::to_string(at.process) + "/fd/" + std::to_string(at.file);
  open_file const found(::open(name.c_str(), O_PATH | O_CLOEXEC));
  if (found.number < 0) return why = std::strerror(errno), nullptr;
  if (char const* const no = objection(found.number)) return why = no, nullptr;
  std::string const again = "/proc/self/fd/" + std::to_string(found.number);
  open_file const file(::open(again.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.number < 0) return why = std::strerror(errno), nullptr;
  if (char const* const no = objection_to_looking(file.number, at)) return why = no, nullptr;
  auto const size = static_cast<std::size_t>(at.bytes);
  void* const memory = ::mmap(nullptr, size, PROT_READ, MAP_SHARED | MAP_NORESERVE, file.number, 0);
  if (memory == MAP_FAILED) return why = std::strerror(errno), nullptr;
  std::unique_ptr<arena_view> view(new arena_view(at, static_cast<std::byte const*>(memory)));
  if (view->head().key != at.key) return why = "it is not what has been told of", nullptr;
  return view;
}

arena_view::~arena_view() {
  ::munmap(const_cast<std::byte*>(memory_), static_cast<std::size_t>(where_.bytes));
}

void arena_view::check_place(std::uint64_t offset, std::uint64_t bytes) const {
  if (offset >= arena_head_size && offset <= where_.bytes && bytes <= where_.bytes - offset) return;
  throw wire::frame_error("values whose " + std::to_string(bytes) + " bytes lie at " + std::to_string(offset) +
                          " of a memory of " + std::to_string(where_.bytes));
}

void arena_view::check_slot(std::uint32_t slot) const {
  if (slot >= arena_head::pins_max)
    throw wire::frame_error("an answer with a pin in slot " + std::to_string(slot) + ", expected one below " +
                            std::to_string(arena_head::pins_max));
}

bool arena_view::holds(std::uint64_t pin, std::uint32_t slot) const noexcept {
  std::atomic_thread_fence(std::memory_order_seq_cst);  // what has been read was read before it
  return head().pins[slot].load(std::memory_order_relaxed) == pin;
}

void copy_pieces(std::span<std::span<std::byte const> const> pieces,
                 std::span<std::span<std::byte> const> room) noexcept {
  constexpr std::size_t cached_max = 4 * 1024 * 1024;
  std::size_t all = 0;
  for (auto const piece : pieces) all += piece.size();
  auto to = room.begin();
  std::size_t filled = 0;  // of where it goes now
  for (auto piece : pieces)
    while (!piece.empty()) {
      while (filled == to->size()) ++to, filled = 0;
      std::size_t const n = std::min(piece.size(), to->size() - filled);
      if (all > cached_max) copy_past_cache(to->data() + filled, piece.data(), n);
      else std::memcpy(to->data() + filled, piece.data(), n);
      filled += n;
      piece = piece.subspan(n);
    }
}

}  // namespace rubato::detail
