// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/mpi_pipe.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "rubato/wire/frame.hpp"

namespace rubato::net::detail {
namespace {

constexpr std::size_t flushed_from = 64 * 1024;  // written without being asked to
constexpr std::size_t room_mark = 256 * 1024;    // `writable` is told below it
constexpr std::size_t pieces_max = 16;           // of a body that are under way

}  // namespace

mpi_pipe::mpi_pipe(mpi_desk& desk, int peer, std::string name, connection_options const& options,
                   std::shared_ptr<void> ticket)
    : desk_(desk),
      world_(desk.world()),
      peer_(peer),
      name_(std::move(name)),
      options_(options),
      ticket_(std::move(ticket)),
      reader_(options.meta_max),
      silence_(options.silence) {
  std::lock_guard const guard(world_.mutex());
  tag_ = world_.add(*this, peer);
}

mpi_pipe::~mpi_pipe() { shut(); }

void mpi_pipe::attach(frame_receiver& owner) {
  if (!open_) return;
  bool const first = owner_ == nullptr;
  owner_ = &owner;
  if (!first) return;
  silence_.start(silence_meter::clock::now());
  check_later();
  get_ready();
}

// ---- sending

void mpi_pipe::note_added() {
  if (writer_.unsent() < flushed_from) return;
  above_mark_ = above_mark_ || writer_.unsent() > room_mark;
  flush();
}

void mpi_pipe::flush() {
  if (!open_ || broken_ || !to_ || !leaving_.empty()) return;
  try {
    write();
  } catch (std::exception const& e) {
    fail_soon(e.what());
  }
}

// Never calls the owner, who may be the caller.
void mpi_pipe::write() {
  while (leaving_.empty() && writer_.unsent() > 0) {
    auto const next = writer_.next(pieces_max);
    writer_.hold();
    start(next);
    desk_.expect_answer();
  }
  if (!leaving_.empty()) be_busy();
  if (above_mark_ && writer_.unsent() < room_mark) tell_of_room();
}

void mpi_pipe::start(std::span<boost::asio::const_buffer const> what) {
  std::size_t bytes = 0;
  {
    std::lock_guard const guard(world_.mutex());
    for (auto const& buffer : what) {
      std::span rest(static_cast<std::byte const*>(buffer.data()), buffer.size());
      while (!rest.empty()) {
        auto const piece = rest.first(std::min(rest.size(), piece_max));
        rest = rest.subspan(piece.size());
        leaving_.push_back({{}, piece.size()});
        world_.send(peer_, *to_, piece, leaving_.back().how);
      }
    }
    bytes = gone();
  }
  (void)settle(bytes);
}

/// The bytes that have left since it was asked last. With the world's mutex held.
std::size_t mpi_pipe::gone() {
  std::size_t bytes = 0;
  while (!leaving_.empty() && world_.test(leaving_.front().how)) {
    bytes += leaving_.front().bytes;
    leaving_.pop_front();
  }
  return bytes;
}

/// Whether something has left.
bool mpi_pipe::settle(std::size_t bytes) {
  if (bytes == 0) return false;
  writer_.written(bytes);
  return wrote_ = true;
}

void mpi_pipe::tell_of_room() {
  above_mark_ = false;
  desk_.post([self = shared_from_this()] {
    if (self->owner_ == nullptr) return;
    try {
      self->owner_->writable();
    } catch (std::exception const& e) {
      self->fail(log_level::warning, e.what());
    }
  });
}

// ---- receiving

mpi_pipe::arrival& mpi_pipe::add_arrival() {
  if (attached_ && !std::exchange(queued_, true)) desk_.ready(shared_from_this());
  return arrivals_.emplace_back();
}

void mpi_pipe::come(std::span<std::byte const> bytes, mpi_desk const* by) {
  if (by == &desk_ && take_at_once(bytes)) return desk_.take_from(shared_from_this());
  auto& to = add_arrival().small;
  to = std::exchange(spare_, {});
  to.assign(bytes.begin(), bytes.end());
}

/// Where nothing that came before is waiting, it goes where it will be read. By the desk's thread.
bool mpi_pipe::take_at_once(std::span<std::byte const> bytes) {
  if (!open_ || !attached_ || taking_ || !arrivals_.empty() || bytes.empty()) return false;
  auto const room = reader_.room().front();
  if (room.size() < bytes.size()) return false;
  std::memcpy(room.data(), bytes.data(), bytes.size());
  arriving_bytes_ = bytes.size();
  taking_ = true;
  more_ = spilled_ = false;
  took_ = taking::whole;
  return true;
}

void mpi_pipe::come_large(std::size_t bytes) { add_arrival().large = bytes; }

/// For the next message, if it is there.
void mpi_pipe::get_ready() {
  std::lock_guard const guard(world_.mutex());
  attached_ = true;
  if (!arrivals_.empty() && !std::exchange(queued_, true)) desk_.ready(shared_from_this());
}

void mpi_pipe::take() {
  queued_ = false;
  took_ = taking::nothing;
  if (taking_) more_ = true;
  if (!open_ || taking_ || arrivals_.empty()) return;
  taking_ = true;
  arrival what = std::move(arrivals_.front());
  arrivals_.pop_front();
  more_ = !arrivals_.empty();
  if (what.large != 0) return take_large(what.large);
  arriving_bytes_ = what.small.size();
  spilled_ = true;
  std::swap(spill_, what.small);
  if (what.small.capacity() <= mpi_world::small_max) spare_ = std::move(what.small);
  took_ = arriving_bytes_ == 0 ? taking::end : taking::whole;
}

void mpi_pipe::take_large(std::size_t bytes) {
  arriving_bytes_ = bytes;
  if (bytes > mpi_world::message_max) {
    took_ = taking::too_long;
    return;
  }
  auto const room = reader_.room();
  std::span<std::byte> into(static_cast<std::byte*>(room.front().data()), room.front().size());
  spilled_ = into.size() < bytes;
  direct_ = reader_.sure() > 0 && !spilled_;
  if (spilled_) {
    if (spill_.size() < bytes) spill_.resize(bytes);
    into = spill_;
  }
  arriving_ = world_.receive(peer_, tag_, into.first(bytes));
  took_ = world_.test(arriving_) ? taking::whole : taking::part;
}

void mpi_pipe::taken() {
  switch (took_) {
    case taking::nothing: return;
    case taking::end: return fail(log_level::info, "the connection was closed by the peer");
    case taking::too_long:
      return fail(log_level::warning,
                  fmt::format("a message of {} bytes came, expected at most {}", arriving_bytes_,
                              mpi_world::message_max));
    case taking::part: return be_busy();
    case taking::whole: return received();
  }
}

/// What was under way is there.
void mpi_pipe::received() {
  heard_ = true;
  direct_ = false;
  try {
    hand_over(spilled_ ? std::span<std::byte const>(spill_).first(arriving_bytes_) : std::span<std::byte const>());
  } catch (std::exception const& e) {
    if (owner_ != nullptr) owner_->garbled(e.what());
    return fail(log_level::warning, e.what());
  }
  flush();
  taking_ = false;
  if (open_ && more_) get_ready();
}

void mpi_pipe::hand_over(std::span<std::byte const> spilled) {
  std::size_t frames = 0;
  if (spilled.empty()) frames = reader_.arrived(arriving_bytes_, owner_);
  while (!spilled.empty() && owner_ != nullptr) {
    auto const room = reader_.room().front();
    std::size_t const some = std::min(room.size(), spilled.size());
    std::memcpy(room.data(), spilled.data(), some);
    spilled = spilled.subspan(some);
    frames += reader_.arrived(some, owner_);
  }
  if (frames > 0 && owner_ != nullptr) owner_->drained();
}

// ---- what is under way

void mpi_pipe::be_busy() {
  if (!std::exchange(busy_, true)) desk_.busy(shared_from_this());
}

mpi_pipe::movement mpi_pipe::go_on() {
  movement m;
  if (!open_) return m;
  try {
    std::size_t bytes = 0;
    bool there = false;
    {
      std::lock_guard const guard(world_.mutex());
      bytes = gone();
      there = arriving_ != MPI_REQUEST_NULL && world_.test(arriving_);
    }
    m.any = settle(bytes) || there;
    if (leaving_.empty()) write();
    if (there)
      desk_.post([self = shared_from_this()] {
        if (self->open_) self->received();
      });
  } catch (std::exception const& e) {
    fail_soon(e.what());
  }
  m.still = busy_ = !leaving_.empty() || arriving_ != MPI_REQUEST_NULL;
  return m;
}

// ---- silence

void mpi_pipe::check_later() {
  timer_ = desk_.at(silence_.due(), [weak = weak_from_this()] {
    if (auto const self = weak.lock()) self->check();
  });
}

void mpi_pipe::check() {
  if (!open_) return;
  if (silence_.too_long(silence_meter::clock::now(), std::exchange(heard_, false)))
    return fail(log_level::warning,
                fmt::format("nothing was heard for {:.1f} s", std::chrono::duration<double>(options_.silence).count()));
  if (!std::exchange(wrote_, false)) {
    if (writer_.unsent() == 0) send(wire::frame_header{}, {}, std::span<std::byte const>{});
    flush();
  }
  if (open_) check_later();
}

// ---- the end

void mpi_pipe::answered(mpi_control const& said) {
  desk_.bring([self = shared_from_this(), said] {
    if (auto const f = std::exchange(self->answered_, nullptr)) return f(said);
    if (said.what != mpi_control::kind::accepted) return;
    std::lock_guard const guard(self->world_.mutex());  // nobody waits for it any more
    self->world_.send_end(self->peer_, said.from);
  });
}

void mpi_pipe::fail(log_level level, std::string const& reason) {
  if (!open_) return;
  auto* const owner = owner_;
  shut();
  std::string const sentence = fmt::format("{}: {}", name_, reason);
  if (level == log_level::warning && owner != nullptr) owner->warn(sentence);
  else log(level, sentence);
  if (owner != nullptr) owner->closed(sentence);
}

void mpi_pipe::fail_soon(std::string const& reason) {
  broken_ = true;
  desk_.post([self = shared_from_this(), reason] { self->fail(log_level::warning, reason); });
}

void mpi_pipe::close() noexcept {
  if (!open_) return;
  try {
    if (!broken_ && to_ && leaving_.empty()) write();
  } catch (...) {  // a body's source failed: its frame cannot be completed
  }
  shut();
}

void mpi_pipe::shut() noexcept {
  if (!std::exchange(open_, false)) return;
  owner_ = nullptr;
  timer_.reset();
  ticket_.reset();
  answered_ = nullptr;
  try {
    let_go();
  } catch (...) {  // MPI has failed, and the job with it
  }
  if (leaving_.empty()) writer_.clear();
}

void mpi_pipe::let_go() {
  std::unique_lock guard(world_.mutex());
  world_.remove(tag_);
  if (to_) world_.send_end(peer_, *to_);
  for (arrival const& what : arrivals_)
    if (what.large != 0) world_.drop(peer_, tag_, what.large);
  arrivals_.clear();
  // The owner may free the memory into which it comes, and nothing takes a message back.
  while (direct_ && !world_.test(arriving_)) {
    guard.unlock();
    std::this_thread::sleep_for(std::chrono::microseconds(20));
    guard.lock();
  }
  std::vector<MPI_Request> rest;
  for (leaving const& l : leaving_) {
    rest.push_back(l.how.message);
    rest.push_back(l.how.announcement);
  }
  if (arriving_ != MPI_REQUEST_NULL) rest.push_back(arriving_);
  if (!rest.empty()) world_.linger(std::move(rest), shared_from_this());
}

}  // namespace rubato::net::detail
