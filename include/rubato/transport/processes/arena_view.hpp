// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "rubato/transport/processes/chunk_arena.hpp"
#include "rubato/wire/messages.hpp"

namespace rubato::detail {

/// Another process's `chunk_arena`, as this one sees it: to be read only.
class arena_view {
 public:
  /// Looks at it by way of the system's list of files, which lets in who may look into that process: the same user. Of
  /// what was told nothing is believed: it must be memory of this user that cannot become shorter, as long as was said
  /// and beginning with the key. Nothing, and `why` as a part of a sentence, where it is not to be had.
  [[nodiscard]] static std::unique_ptr<arena_view> open(wire::memory_meta const& at, std::string& why);
  ~arena_view();
  arena_view(arena_view const&) = delete;
  arena_view& operator=(arena_view const&) = delete;

  [[nodiscard]] wire::memory_meta const& where() const noexcept { return where_; }
  /// @throws wire::frame_error where there are no so many bytes, or no slot
  void check_place(std::uint64_t offset, std::uint64_t bytes) const;
  void check_slot(std::uint32_t slot) const;
  /// @pre it has been checked
  [[nodiscard]] std::byte const* at(std::uint64_t offset) const noexcept { return memory_ + offset; }
  /// Whether the pin still holds, so that all that has been read was what it kept. @pre the slot has been checked
  [[nodiscard]] bool holds(std::uint64_t pin, std::uint32_t slot) const noexcept;

 private:
  arena_view(wire::memory_meta const& at, std::byte const* memory) noexcept : where_(at), memory_(memory) {}
  [[nodiscard]] arena_head const& head() const noexcept { return *reinterpret_cast<arena_head const*>(memory_); }

  wire::memory_meta where_;
  std::byte const* memory_;
};

/// Copies pieces, one after the other, into the room, which they fill.
void copy_pieces(std::span<std::span<std::byte const> const> pieces,
                 std::span<std::span<std::byte> const> room) noexcept;

}  // namespace rubato::detail
