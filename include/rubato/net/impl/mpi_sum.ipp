// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/mpi_sum.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"

namespace rubato::net::detail {

mpi_sum::mpi_sum(mpi_desk& desk, element_type element, std::size_t size)
    : desk_(desk), world_(desk.world()), element_(element), size_(size), marks_(world_.others(), takes_part) {
  // Once and for all: what goes on when its owner has gone has nobody to tell that there is no more.
  try {
    std::size_t const all = (size_ + marks_.size()) * size_of(element_);
    mine_.reserve_bytes(all);
    total_.reserve_bytes(all);
  } catch (std::bad_alloc const&) {
    throw error(errc::io, fmt::format("MPI: there is no memory for sums of {} numbers", size_));
  }
  std::lock_guard const guard(world_.mutex());
  place_ = world_.queue_up();
}

// ---- by the owner

void mpi_sum::begin() {
  RUBATO_ASSERT(is_at_rest());
  at_rest_ = session_over_ = over_for_good_;
  mark_ = takes_part;
  std::ranges::fill(marks_, takes_part);
}

void mpi_sum::sum(std::span<std::byte const> mine, std::function<void()> done) {
  RUBATO_ASSERT(!waits_ && !is_under_way() && mine.size() == bytes());
  if (session_over_) return desk_.post(std::move(done));
  mine_.clear();
  mine_.append(mine);
  done_ = std::move(done);
  waits_ = true;
  gave_ = false;
  be_busy();
}

collective::outcome mpi_sum::result() const {
  if (failure_) throw error(errc::io, *failure_);
  if (!session_over_) return {total_.bytes().first(bytes()), {}};
  collective::outcome o;
  for (std::uint32_t i = 0; i < marks_.size(); ++i)
    if (marks_[i] != takes_part && marks_[i] != static_cast<std::uint8_t>(collective::leaving::stopped))
      o.left.push_back(i);
  return o;
}

void mpi_sum::leave(collective::leaving why) {
  done_ = nullptr;
  waits_ = false;
  if (session_over_ || mark_ != takes_part) return;
  mark_ = static_cast<std::uint8_t>(why);
  be_busy();
}

void mpi_sum::be_busy() {
  {
    std::lock_guard const guard(world_.mutex());
    (void)advance();
  }
  if (!std::exchange(busy_, true)) desk_.busy(shared_from_this());
}

void mpi_sum::part() noexcept {
  done_ = nullptr;
  waits_ = false;
  parted_ = true;
  mark_ = static_cast<std::uint8_t>(collective::leaving::for_good);
  std::lock_guard const guard(world_.mutex());
  world_.linger(shared_from_this());
}

// ---- what is under way

mpi_sum::movement mpi_sum::go_on() {
  if (parted_) return {};
  movement m;
  try {
    std::lock_guard const guard(world_.mutex());
    m.any = advance();
  } catch (std::exception const& e) {
    failure_ = e.what();
    session_over_ = over_for_good_ = true;
    joined_ = true;
    parts_.clear();
    m.any = true;
  }
  if (waits_ && ((gave_ && !is_under_way()) || session_over_)) {
    waits_ = false;
    desk_.post(std::exchange(done_, nullptr));
  }
  m.still = busy_ = !joined_ || is_under_way() || wants_to_give();
  if (!m.still && session_over_ && !at_rest_.exchange(true, std::memory_order_acq_rel)) desk_.post([] {});
  m.is_sum = waits_;
  return m;
}

bool mpi_sum::ends() {
  (void)advance();
  if (is_under_way() || !over_for_good_) return false;
  world_.leave_others(comm_);
  return true;
}

/// With the world's mutex held.
bool mpi_sum::has_joined() {
  if (joined_) return true;
  if (joining_ == MPI_REQUEST_NULL) {
    if (!world_.is_next(place_)) return false;
    joining_ = world_.join_others(comm_);
  }
  if (!world_.test(joining_)) return false;
  world_.joined();
  return joined_ = true;
}

/// Whether something has changed. With the world's mutex held.
bool mpi_sum::advance() {
  if (!has_joined()) return false;
  bool moved = false;
  if (is_under_way()) {
    std::erase_if(parts_, [this](MPI_Request& r) { return world_.test(r); });
    if (is_under_way()) return false;
    read_marks();
    moved = true;
  }
  if (wants_to_give() && !(waits_ && gave_)) give();
  return moved;
}

void mpi_sum::give() {
  std::size_t const members = marks_.size();
  mine_.resize_bytes((size_ + members) * size_of(element_));
  total_.resize_bytes(mine_.size_bytes());
  with_element(element_, [&]<class T>() {
    auto const marks = mine_.as<T>().last(members);
    std::ranges::fill(marks, T{0});
    marks[world_.number_among_others()] = static_cast<T>(mark_);
  });
  gave_ = true;
  world_.sum_among_others(comm_, element_, mine_.bytes(), total_.bytes(), parts_);
}

void mpi_sum::read_marks() {
  with_element(element_, [&]<class T>() {
    auto const marks = std::as_const(total_).as<T>().last(marks_.size());
    std::ranges::transform(marks, marks_.begin(), [](T m) { return static_cast<std::uint8_t>(m); });
  });
  session_over_ = std::ranges::any_of(marks_, [](std::uint8_t m) { return m != takes_part; });
  over_for_good_ = std::ranges::any_of(
      marks_, [](std::uint8_t m) { return m == static_cast<std::uint8_t>(collective::leaving::for_good); });
}

}  // namespace rubato::net::detail
