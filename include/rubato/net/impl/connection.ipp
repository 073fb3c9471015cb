// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/connection.hpp"

#include <fmt/core.h>

#include <utility>

#include <boost/asio/error.hpp>

#include "rubato/core/rare.hpp"
#include "rubato/net/log.hpp"
#include "rubato/net/impl/frame_reader.hpp"
#include "rubato/net/impl/frame_writer.hpp"
#include "rubato/net/impl/make_connection.hpp"
#include "rubato/net/impl/silence_meter.hpp"
#include "rubato/net/impl/stream.hpp"
#include "rubato/net/impl/stream_host.hpp"

namespace rubato::net {
namespace {

namespace asio = boost::asio;

constexpr std::size_t flushed_from = 64 * 1024;    // written without being asked to
constexpr std::size_t room_mark = 256 * 1024;      // `writable` is told below it
constexpr std::size_t write_budget = 1024 * 1024;  // then others have their turn
// Of a body, in one system call: a chunk of 64 KiB by itself leaves a packet of a few bytes behind each full one.
constexpr std::size_t pieces_at_once = 16;

// What is behind a connection. Operations under way keep it alive, the owner's handle may go.
class frame_pipe final : public stream::user, public std::enable_shared_from_this<frame_pipe> {
 public:
  frame_pipe(std::shared_ptr<stream_host> host, std::unique_ptr<stream> over, std::string peer,
       connection_options const& options, std::shared_ptr<void> ticket)
      : host_(std::move(host)),
        stream_(std::move(over)),
        peer_(std::move(peer)),
        options_(options),
        ticket_(std::move(ticket)),
        reader_(options.meta_max),
        silence_(options.silence) {}

  void attach(frame_receiver& owner) {
    if (!open_) return;
    bool const first = owner_ == nullptr;
    owner_ = &owner;
    if (!first) return;
    read_on();
    silence_.start(host_->now());
    check_later();
  }

  template <class... Body>
  void send(wire::frame_header const& header, std::span<std::byte const> meta, Body&&... body) {
    if (!open_ || write_broken_) return;
    writer_.add(header, meta, std::forward<Body>(body)...);
    note_added();
  }
  void send_newest(wire::frame_header const& header) {
    if (!open_ || write_broken_) return;
    writer_.add_newest(header);
    note_added();
  }
  void flush() {
    if (!open_ || waiting_ || write_broken_) return;
    try {
      write();
    } catch (std::exception const& e) {
      fail_soon(e.what());
    }
  }
  [[nodiscard]] std::size_t unsent() const noexcept { return writer_.unsent(); }
  [[nodiscard]] bool is_open() const noexcept { return open_; }
  [[nodiscard]] std::optional<std::chrono::microseconds> round_trip() const { return stream_->round_trip(); }
  [[nodiscard]] std::string const& peer() const noexcept { return peer_; }
  void close() noexcept;

  void was_read(error_code const& error, std::size_t bytes) override;
  void may_write(error_code const& error) override;

 private:
  void read_on() {
    auto const room = reader_.room();
    stream_->read(room, reader_.sure(), shared_from_this());
  }
  void hand_over(std::size_t bytes);
  void note_added() {
    if (writer_.unsent() < flushed_from) return;
    above_mark_ = above_mark_ || writer_.unsent() > room_mark;
    flush();
  }
  void write();
  void wait_to_write();
  void write_failed(error_code const& error);
  void tell_of_room();
  void check_later();
  void check();
  void fail(log_level level, std::string const& reason);
  void fail_soon(std::string const& reason);
  void shut() noexcept;

  std::shared_ptr<stream_host> host_;
  std::shared_ptr<void> timer_;
  std::unique_ptr<stream> stream_;
  std::string peer_;
  connection_options options_;
  std::shared_ptr<void> ticket_;
  frame_reader reader_;
  frame_writer writer_;
  silence_meter silence_;
  frame_receiver* owner_ = nullptr;
  bool open_ = true;
  bool heard_ = false;         // since the last check
  std::uint64_t untold_ = 0;   // what the stream said then
  bool wrote_ = false;         // the same
  bool waiting_ = false;       // for the stream to take more
  bool write_broken_ = false;  // the peer takes nothing any more; what it sent before is still read
  bool above_mark_ = false;
};

void frame_pipe::was_read(error_code const& error, std::size_t bytes) {
  if (!open_) return;
  if (error) return fail(log_level::info, stream_->meaning(error));
  heard_ = true;
  try {
    hand_over(bytes);
  } catch (std::exception const& e) {
    if (owner_ != nullptr) owner_->garbled(e.what());
    return fail(log_level::warning, e.what());
  }
  flush();
  if (open_) read_on();
}

void frame_pipe::hand_over(std::size_t bytes) {
  if (reader_.arrived(bytes, owner_) > 0 && owner_ != nullptr) owner_->drained();
}

void frame_pipe::may_write(error_code const& error) {
  waiting_ = false;
  if (!open_) return;
  if (error) return write_failed(error);
  flush();
}

// Never calls the owner, who may be the caller.
void frame_pipe::write() {
  std::size_t sent = 0;
  while (writer_.unsent() > 0) {
    auto const next = writer_.next(pieces_at_once, write_budget);
    error_code error;
    std::size_t const bytes = stream_->write(next, error);
    if (error && error != asio::error::would_block) return write_failed(error);
    writer_.written(bytes);
    wrote_ = true;
    sent += bytes;
    // What the system did not take whole it would not take more of now.
    if (bytes < asio::buffer_size(next) || sent >= write_budget) {
      wait_to_write();
      break;
    }
  }
  if (above_mark_ && writer_.unsent() < room_mark) tell_of_room();
}

void frame_pipe::wait_to_write() {
  if (writer_.unsent() == 0) return;
  waiting_ = true;
  stream_->when_writable(shared_from_this());
}

void frame_pipe::write_failed(error_code const& error) {
  write_broken_ = true;
  writer_.clear();
  // The peer may have said why before it closed, and reading comes to that, and then to the end.
  if (error == asio::error::broken_pipe || error == asio::error::connection_reset) return;
  fail_soon(stream_->meaning(error));
}

void frame_pipe::tell_of_room() {
  above_mark_ = false;
  host_->post([self = shared_from_this()] {
    if (self->owner_ == nullptr) return;
    try {
      self->owner_->writable();
    } catch (std::exception const& e) {
      self->fail(log_level::warning, e.what());
    }
  });
}

void frame_pipe::check_later() {
  timer_ = host_->at(silence_.due(), [weak = weak_from_this()] {
    if (auto const self = weak.lock(); self && self->open_) self->check();
  });
}

void frame_pipe::check() {
  // The stream may sleep until much of a body is there, which takes a slow link its time.
  std::uint64_t const before = std::exchange(untold_, stream_->untold());
  bool const heard = std::exchange(heard_, false) || untold_ != before;
  if (silence_.too_long(host_->now(), heard)) {
    RUBATO_RARE("nothing was heard for too long");
    return fail(log_level::warning,
                fmt::format("nothing was heard for {:.1f} s",
                            std::chrono::duration<double>(options_.silence).count()));
  }
  if (!std::exchange(wrote_, false)) {
    if (writer_.unsent() == 0) send(wire::frame_header{}, {}, std::span<std::byte const>{});
    flush();
  }
  if (open_) check_later();
}

void frame_pipe::fail(log_level level, std::string const& reason) {
  if (!open_) return;
  auto* const owner = owner_;
  shut();
  std::string const sentence = fmt::format("{}: {}", peer_, reason);
  if (level == log_level::warning && owner != nullptr) owner->warn(sentence);
  else log(level, sentence);
  if (owner != nullptr) owner->closed(sentence);
}

void frame_pipe::fail_soon(std::string const& reason) {
  write_broken_ = true;
  host_->post([self = shared_from_this(), reason] { self->fail(log_level::warning, reason); });
}

void frame_pipe::close() noexcept {
  if (!open_) return;
  try {
    while (!write_broken_ && writer_.unsent() > 0) {
      auto const next = writer_.next();
      error_code error;
      std::size_t const bytes = stream_->write(next, error);
      writer_.written(bytes);
      if (error) {
        RUBATO_RARE("what was sent last did not leave before the connection closed");
        break;
      }
    }
  } catch (...) {  // a body's source failed: its frame cannot be completed
  }
  shut();
}

void frame_pipe::shut() noexcept {
  open_ = false;
  owner_ = nullptr;
  stream_->close();
  writer_.clear();
  ticket_.reset();
  timer_.reset();
}

// The owner's end of it.
class handle final : public connection {
 public:
  handle(std::shared_ptr<frame_pipe> to, peer_identity shown, bool local)
      : pipe_(std::move(to)), shown_(std::move(shown)), local_(local) {}
  handle(handle const&) = delete;
  handle& operator=(handle const&) = delete;
  ~handle() override { pipe_->close(); }

  void attach(frame_receiver& owner) override { pipe_->attach(owner); }
  void send(wire::frame_header header, std::span<std::byte const> meta,
            std::span<std::byte const> body) override {
    pipe_->send(header, meta, body);
  }
  void send(wire::frame_header header, std::span<std::byte const> meta, std::uint64_t length,
            std::unique_ptr<body_source> body) override {
    pipe_->send(header, meta, length, std::move(body));
  }
  void send_newest(wire::frame_header header) override { pipe_->send_newest(header); }
  void flush() override { pipe_->flush(); }
  [[nodiscard]] std::size_t unsent() const noexcept override { return pipe_->unsent(); }
  void close() noexcept override { pipe_->close(); }
  [[nodiscard]] bool is_open() const noexcept override { return pipe_->is_open(); }
  [[nodiscard]] std::string peer() const override { return pipe_->peer(); }
  [[nodiscard]] peer_identity shown() const override { return shown_; }
  [[nodiscard]] bool is_local() const override { return local_; }
  [[nodiscard]] std::optional<std::chrono::microseconds> round_trip() const override { return pipe_->round_trip(); }

 private:
  std::shared_ptr<frame_pipe> pipe_;
  peer_identity shown_;
  bool local_;
};

}  // namespace

void frame_receiver::warn(std::string const& sentence) { log(log_level::warning, sentence); }

std::unique_ptr<connection> make_connection(std::shared_ptr<stream_host> host, std::unique_ptr<stream> over,
                                            std::string peer, peer_identity shown,
                                            connection_options const& options,
                                            std::shared_ptr<void> ticket, bool local) {
  auto pipe =
      std::make_shared<frame_pipe>(std::move(host), std::move(over), std::move(peer), options, std::move(ticket));
  return std::make_unique<handle>(std::move(pipe), std::move(shown), local);
}

}  // namespace rubato::net
