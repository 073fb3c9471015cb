// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>

#include "rubato/net/connection.hpp"

namespace rubato::net {

/// Frames that wait to be written, in order. Knows no socket: says what comes next, and is told how
/// much of that has gone.
class frame_writer {
 public:
  void add(wire::frame_header header, std::span<std::byte const> meta,
           std::span<std::byte const> body);
  void add(wire::frame_header header, std::span<std::byte const> meta, std::uint64_t length,
           std::unique_ptr<body_source> body);
  /// A frame of nothing but its header, in the place of the last frame if that was added so, and none of it has gone or
  /// is held.
  void add_newest(wire::frame_header header);

  /// What is to be written next; holds until the next call of any other function. Of each body at most so many
  /// pieces at a time, and none beside the first once they have so many bytes. @throws error when a body's source does
  /// not do what it must
  [[nodiscard]] std::span<boost::asio::const_buffer const> next(
      std::size_t pieces = 1, std::size_t bytes = std::numeric_limits<std::size_t>::max());
  /// What `next` has just given stays where it is until it has been `written`, whatever is added meanwhile: for who
  /// sends it without waiting. `next` is not called before all of it has been.
  void hold() noexcept;
  void written(std::size_t bytes);
  void clear() noexcept;
  [[nodiscard]] std::size_t unsent() const noexcept { return unsent_; }

 private:
  // Bytes in one piece; then a body, if there is one, of which `unread` bytes are still to be asked
  // for. Its small pieces are gathered behind the bytes, large ones follow in `pieces`.
  struct segment {
    std::vector<std::byte> bytes = {};
    std::size_t gone = 0;  // of the bytes
    std::unique_ptr<body_source> source = {};
    std::uint64_t unread = 0;
    std::vector<std::span<std::byte const>> pieces = {};
    std::size_t first = 0;  // of the pieces, that has not gone
    bool held = false;
  };

  segment& open_segment();
  static void append(segment& to, std::span<std::byte const> bytes);
  [[nodiscard]] bool is_newest_last() const noexcept;
  void add_head(segment& to, wire::frame_header header, std::span<std::byte const> meta);
  static void pull(segment& from, std::size_t most, std::size_t bytes);
  static void reuse(segment& s);
  void pop_front();

  std::deque<segment> segments_;
  std::size_t given_ = 0;  // of these, by the last `next`
  // Where the last frame lies that a newer one may take the place of; none once it has begun to go.
  segment* newest_in_ = nullptr;
  std::size_t newest_at_ = 0;
  std::vector<std::byte> spare_;  // the memory of a segment that has gone
  std::size_t unsent_ = 0;
  std::vector<boost::asio::const_buffer> next_;
};

}  // namespace rubato::net
