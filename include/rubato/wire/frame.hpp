// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include "rubato/core/error.hpp"

namespace rubato::wire {

// Arrays of parameters travel as they lie in memory.
static_assert(std::endian::native == std::endian::little,
              "Rubato's network transport needs a little-endian machine");

/// What travels between processes: a fixed header, little-endian without gaps, then `meta` bytes
/// that say what the body holds, then the body, `length` bytes of raw arrays.
///
///     0 magic 4 | version 1 | kind 1 | table 2 | sender 4 | incarnation 4 |
///     16 sequence 8 | meta 4 | zero 4 | length 8
struct frame_header {
  std::uint8_t kind = 0;
  std::uint16_t table = 0;
  std::uint32_t sender = 0;       ///< a worker, or a process: what the kind says
  std::uint32_t incarnation = 0;  ///< of the sender
  std::uint64_t sequence = 0;     ///< of a reliable frame, from 1; of a request and its reply, the ticket
  std::uint32_t meta = 0;
  std::uint64_t length = 0;       ///< of the body

  friend bool operator==(frame_header const&, frame_header const&) = default;
};

inline constexpr std::uint32_t frame_magic = 0x4F544252;  // "RBTO"
inline constexpr std::uint8_t frame_version = 12;
inline constexpr std::size_t frame_header_size = 40;

/// Frames with this bit in their kind are kept until the other end has acknowledged them, and sent
/// again after a break: each arrives exactly once, in the order sent. Others are lost with their
/// connection.
inline constexpr std::uint8_t reliable_bit = 0x80;
/// Kinds below it are those of the connection and the link themselves.
inline constexpr std::uint8_t first_user_kind = 16;

/// A peer sent what it must not. The connection is closed, and nothing else is touched.
class frame_error : public error {
 public:
  explicit frame_error(std::string const& sentence) : error(errc::bad_frame, sentence) {}
};

namespace detail {
template <class T>
void put(std::byte*& to, T value) noexcept {
  std::memcpy(to, &value, sizeof value);
  to += sizeof value;
}
template <class T>
[[nodiscard]] T get(std::byte const*& from) noexcept {
  T value;
  std::memcpy(&value, from, sizeof value);
  from += sizeof value;
  return value;
}
}  // namespace detail

inline void encode(frame_header const& h, std::span<std::byte, frame_header_size> out) noexcept {
  std::byte* to = out.data();
  detail::put(to, frame_magic);
  detail::put(to, frame_version);
  detail::put(to, h.kind);
  detail::put(to, h.table);
  detail::put(to, h.sender);
  detail::put(to, h.incarnation);
  detail::put(to, h.sequence);
  detail::put(to, h.meta);
  detail::put(to, std::uint32_t{0});
  detail::put(to, h.length);
}

/// @throws frame_error when these are no header's bytes, or of another version
[[nodiscard]] inline frame_header decode(std::span<std::byte const, frame_header_size> in) {
  std::byte const* from = in.data();
  if (auto const magic = detail::get<std::uint32_t>(from); magic != frame_magic)
    throw frame_error("a frame begins with " + std::to_string(magic) + ", expected the magic " +
                      std::to_string(frame_magic));
  if (auto const version = detail::get<std::uint8_t>(from); version != frame_version)
    throw frame_error("a frame of version " + std::to_string(version) + ", expected " +
                      std::to_string(frame_version));
  frame_header h;
  h.kind = detail::get<std::uint8_t>(from);
  h.table = detail::get<std::uint16_t>(from);
  h.sender = detail::get<std::uint32_t>(from);
  h.incarnation = detail::get<std::uint32_t>(from);
  h.sequence = detail::get<std::uint64_t>(from);
  h.meta = detail::get<std::uint32_t>(from);
  if (auto const zero = detail::get<std::uint32_t>(from); zero != 0)
    throw frame_error("a frame's reserved field holds " + std::to_string(zero) + ", expected 0");
  h.length = detail::get<std::uint64_t>(from);
  return h;
}

}  // namespace rubato::wire
