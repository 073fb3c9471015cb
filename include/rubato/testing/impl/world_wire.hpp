// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "rubato/net/impl/stream.hpp"
#include "rubato/testing/impl/world_state.hpp"

namespace rubato::testing::world_parts {

/// A connection below the handshake: two directions with room, and an end in each of two processes.
struct wire : std::enable_shared_from_this<wire> {
  using buffers_in = std::span<boost::asio::mutable_buffer const>;
  using buffers_out = std::span<boost::asio::const_buffer const>;
  static constexpr std::uint64_t never = std::numeric_limits<std::uint64_t>::max();

  struct end {
    std::shared_ptr<node> in;
    bool closed = false;    ///< by its owner: nothing is read or written here any more
    bool is_reset = false;  ///< the connection has failed, as this end sees it
    bool ended = false;     ///< the other end has closed, and all that it sent is here
    std::vector<boost::asio::mutable_buffer> into = {};
    std::shared_ptr<net::stream::user> reader = {};
    std::shared_ptr<net::stream::user> writer = {};  ///< waits for room
    bool read_is_due = false;
    std::vector<std::byte> arrived = {};
    std::size_t taken = 0;       ///< of those
    std::uint64_t total = 0;     ///< ever arrived
  };
  struct piece {
    time_point at;
    std::vector<std::byte> bytes;
    bool last;
  };
  /// From an end to the other one.
  struct way {
    path_options how;
    std::deque<piece> under_way = {};
    std::size_t held = 0;    ///< bytes under way, or arrived and not read
    time_point free{};       ///< when the line has sent what it has taken
    time_point latest{};     ///< when the last piece arrives
    std::uint64_t cut_after = never;
    bool pumping = false;
    bool vanishes = false;   ///< what is sent gets nowhere
  };

  wire(world_state& w, std::shared_ptr<node> from, std::shared_ptr<node> to);

  void read(std::size_t i, buffers_in into, std::shared_ptr<net::stream::user> told);
  [[nodiscard]] std::size_t write(std::size_t i, buffers_out from, net::error_code& error);
  void when_writable(std::size_t i, std::shared_ptr<net::stream::user> told);
  void close(std::size_t i) noexcept;
  void fail();
  /// Only the end that has dialed notices.
  void fail_half();
  [[nodiscard]] process_number process(std::size_t i) const noexcept { return ends[i].in->of().at.number; }

  world_state& world;
  std::array<end, 2> ends;
  std::array<way, 2> ways;  ///< from that end

  void send(std::size_t i, std::vector<std::byte> bytes, bool last);
  void leave(way& w, std::vector<std::byte> bytes, duration travel, bool last);
  void pump_at(std::size_t i, time_point t);
  void pump(std::size_t i);
  void arrive(std::size_t i, piece p);
  void read_soon(std::size_t i);
  void complete_read(std::size_t i);
  void write_soon(std::size_t i);
};

/// One end of it, as connections and handshakes use it.
[[nodiscard]] std::unique_ptr<net::stream> stream_over(std::shared_ptr<wire> w, std::size_t end);

}  // namespace rubato::testing::world_parts
