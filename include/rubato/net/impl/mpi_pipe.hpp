// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/net/connection.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/impl/frame_reader.hpp"
#include "rubato/net/impl/frame_writer.hpp"
#include "rubato/net/impl/mpi_desk.hpp"
#include "rubato/net/impl/mpi_world.hpp"
#include "rubato/net/impl/silence_meter.hpp"

namespace rubato::net::detail {

/// What is behind a connection, and before that behind the attempt to make one. The frames' bytes travel in messages
/// of at most `piece_max`, none of which holds a large body's bytes and others; an empty one is the end. Messages that
/// are under way keep it alive, the owner's handle may go.
class mpi_pipe final : public mpi_world::end, public mpi_traffic, public std::enable_shared_from_this<mpi_pipe> {
 public:
  static constexpr std::size_t piece_max = 512 * 1024;  ///< divides the window through which commits are folded

  /// An end that talks to this rank.
  mpi_pipe(mpi_desk& desk, int peer, std::string name, connection_options const& options,
           std::shared_ptr<void> ticket = {});
  ~mpi_pipe();
  mpi_pipe(mpi_pipe const&) = delete;
  mpi_pipe& operator=(mpi_pipe const&) = delete;

  /// Its own tag.
  [[nodiscard]] int tag() const noexcept { return tag_; }
  /// That of the other end: from now on it can send.
  void connect(int to) { to_ = to; }
  /// Who is told what the other rank says of this end before it is connected.
  void when_answered(std::function<void(mpi_control const&)> f) { answered_ = std::move(f); }

  void attach(frame_receiver& owner);
  template <class... Body>
  void send(wire::frame_header const& header, std::span<std::byte const> meta, Body&&... body) {
    if (!open_ || broken_) return;
    writer_.add(header, meta, std::forward<Body>(body)...);
    note_added();
  }
  void send_newest(wire::frame_header const& header) {
    if (!open_ || broken_) return;
    writer_.add_newest(header);
    note_added();
  }
  void flush();
  [[nodiscard]] std::size_t unsent() const noexcept { return open_ ? writer_.unsent() : 0; }
  [[nodiscard]] bool is_open() const noexcept { return open_; }
  [[nodiscard]] std::string const& peer() const noexcept { return name_; }
  void close() noexcept;

  // ---- called by the desk

  /// Takes the first message that has come, or begins to receive it. With the world's mutex held.
  void take();
  /// Hands it over, if it is there. Without the mutex.
  void taken();
  [[nodiscard]] movement go_on() override;

 private:
  struct leaving {
    mpi_world::sent how;
    std::size_t bytes;
  };
  struct arrival {
    std::vector<std::byte> small = {};
    std::size_t large = 0;  ///< its bytes, where it is a large one
  };

  void come(std::span<std::byte const> bytes, mpi_desk const* by) override;
  void come_large(std::size_t bytes) override;
  [[nodiscard]] bool take_at_once(std::span<std::byte const> bytes);
  arrival& add_arrival();
  void answered(mpi_control const& said) override;

  void note_added();
  void write();
  void start(std::span<boost::asio::const_buffer const> what);
  [[nodiscard]] std::size_t gone();
  bool settle(std::size_t bytes);
  void tell_of_room();

  void take_large(std::size_t bytes);
  void received();
  void hand_over(std::span<std::byte const> spilled);
  void get_ready();

  void check_later();
  void check();
  void be_busy();
  void fail(log_level level, std::string const& reason);
  void fail_soon(std::string const& reason);
  void shut() noexcept;
  void let_go();

  mpi_desk& desk_;
  mpi_world& world_;
  int peer_;
  int tag_ = 0;
  std::optional<int> to_;
  std::string name_;
  connection_options options_;
  std::shared_ptr<void> ticket_;
  std::function<void(mpi_control const&)> answered_;
  frame_receiver* owner_ = nullptr;
  bool open_ = true;
  bool busy_ = false;  ///< the desk looks after it

  frame_writer writer_;
  std::deque<leaving> leaving_;  ///< in order
  bool broken_ = false;          ///< nothing can be sent any more
  bool above_mark_ = false;

  frame_reader reader_;
  // with the world's mutex held
  std::deque<arrival> arrivals_;
  std::vector<std::byte> spare_;  ///< the memory of one that has been dealt with
  bool attached_ = false;
  bool queued_ = false;  ///< the desk will call `take`

  bool taking_ = false;  ///< one that has been taken from these is not dealt with yet
  bool more_ = false;    ///< there may be others
  enum class taking : std::uint8_t { nothing, end, too_long, part, whole } took_ = taking::nothing;
  MPI_Request arriving_ = MPI_REQUEST_NULL;
  std::size_t arriving_bytes_ = 0;
  bool direct_ = false;               ///< into memory of the owner's
  std::vector<std::byte> spill_;      ///< small ones, and those for which the reader has no room in one piece
  bool spilled_ = false;

  silence_meter silence_;
  std::shared_ptr<void> timer_;
  bool heard_ = false;  ///< since the last check
  bool wrote_ = false;  ///< the same
};

}  // namespace rubato::net::detail
