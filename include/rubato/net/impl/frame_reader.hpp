// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <boost/asio/buffer.hpp>

#include "rubato/net/connection.hpp"

namespace rubato::net {

/// Cuts the bytes of a connection into frames. Knows no socket: says where the next bytes are to
/// go, and is told how many came. Never takes memory by what a header says of its body.
class frame_reader {
 public:
  explicit frame_reader(std::size_t meta_max);

  /// Where the next bytes go: the rest of a large body's own buffers, or else the read buffer.
  [[nodiscard]] std::span<boost::asio::mutable_buffer const> room();
  /// How many bytes are sure to come into that room: those that a large body lacks.
  [[nodiscard]] std::size_t sure() const noexcept;
  /// So many bytes have come: hands over the frames that are complete by now, for as long as
  /// `owner`, which the owner's calls may change, is there. Returns how many those were, heartbeats
  /// left out. @throws wire::frame_error, and what the owner throws
  std::size_t arrived(std::size_t bytes, frame_receiver* const& owner);

 private:
  [[nodiscard]] std::size_t buffered() const noexcept { return end_ - begin_; }
  [[nodiscard]] bool is_large() const noexcept;
  [[nodiscard]] bool begin_frame(frame_receiver& owner);
  void fill_body(frame_receiver& owner);
  void ask_for_more(frame_receiver& owner);
  void fill_body_from(std::span<std::byte const> bytes);
  void advance_body(std::size_t bytes);
  void make_room();

  std::size_t meta_max_;
  std::size_t capacity_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::size_t wanted_ = 0;  // of the header and meta that the buffer must be able to hold

  bool in_body_ = false;
  bool direct_ = false;  // the bytes under way go into the body's own buffers
  bool heads_alone_ = false;  // a body that the read buffer could not have held has come, and little else since
  wire::frame_header header_;
  std::vector<std::span<std::byte>> parts_;  // of the body
  std::size_t part_ = 0;                     // the first that is not full; cut off at its front
  std::uint64_t left_ = 0;                   // of the body
  std::uint64_t room_left_ = 0;              // of it, what there are buffers for
  std::vector<boost::asio::mutable_buffer> room_;
};

}  // namespace rubato::net
