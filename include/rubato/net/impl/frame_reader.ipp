// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/frame_reader.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "rubato/core/error.hpp"

namespace rubato::net {
namespace {

constexpr std::size_t usual_capacity = 256 * 1024;
// A rest below this comes by way of the read buffer, together with the frames after it.
constexpr std::uint64_t direct_min = 32 * 1024;
constexpr std::size_t direct_buffers_max = 64;  // what one system call takes
// After a body that the read buffer could not have held another one is likely: its head is read alone, so that nothing
// of it is copied, until more comes at a time than heads and short frames between. Of a shorter body the copy costs
// less than to read twice.
constexpr std::size_t head_usual = 512;

std::uint64_t sum_of(std::span<std::span<std::byte> const> parts) {
  std::uint64_t sum = 0;
  for (auto const& part : parts) sum += part.size();
  return sum;
}

[[noreturn]] void wrong_room(wire::frame_header const& header, std::uint64_t given) {
  throw error(errc::wrong_size,
              fmt::format("a frame of kind {} has a body of {} bytes, but was given room for {}",
                          header.kind, header.length, given));
}

}  // namespace

frame_reader::frame_reader(std::size_t meta_max)
    : meta_max_(meta_max),
      capacity_(usual_capacity),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(capacity_)),
      room_(1) {}

std::span<boost::asio::mutable_buffer const> frame_reader::room() {
  room_.clear();
  direct_ = in_body_ && buffered() == 0 && room_left_ >= direct_min;
  if (!direct_) {
    make_room();
    std::size_t const most = capacity_ - end_;
    std::uint64_t const alone = head_usual + (in_body_ ? room_left_ : 0);  // of a body its end, which is short
    room_.emplace_back(buffer_.get() + end_, heads_alone_ ? std::min<std::uint64_t>(most, alone) : most);
    return room_;
  }
  for (std::size_t i = part_; i < parts_.size() && room_.size() < direct_buffers_max; ++i)
    if (!parts_[i].empty()) room_.emplace_back(parts_[i].data(), parts_[i].size());
  return room_;
}

std::size_t frame_reader::sure() const noexcept {
  if (!direct_) return 0;
  std::size_t sum = 0;
  for (auto const& buffer : room_) sum += buffer.size();
  return sum;
}

void frame_reader::make_room() {
  std::size_t const rest = buffered();
  if (wanted_ > capacity_) {
    auto larger = std::make_unique_for_overwrite<std::byte[]>(wanted_);
    std::memcpy(larger.get(), buffer_.get() + begin_, rest);
    buffer_ = std::move(larger);
    capacity_ = wanted_;
  } else if (begin_ > 0 && rest > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, rest);
  }
  begin_ = 0;
  end_ = rest;
}

bool frame_reader::is_large() const noexcept { return header_.length > usual_capacity; }

std::size_t frame_reader::arrived(std::size_t bytes, frame_receiver* const& owner) {
  bool const was_more = !in_body_ && bytes >= head_usual;
  if (direct_)
    advance_body(bytes);
  else
    end_ += bytes;
  std::size_t frames = 0;
  while (owner != nullptr) {
    if (!in_body_ && !begin_frame(*owner)) break;
    fill_body(*owner);
    if (left_ > 0) break;
    in_body_ = false;
    if (is_large()) heads_alone_ = true;
    if (header_.kind == 0) continue;  // a heartbeat
    ++frames;
    owner->end(header_);
  }
  if (was_more && !(in_body_ && is_large())) heads_alone_ = false;
  return frames;
}

// Whether a header and its meta were there.
bool frame_reader::begin_frame(frame_receiver& owner) {
  wanted_ = wire::frame_header_size;
  if (buffered() < wanted_) return false;
  std::byte const* const at = buffer_.get() + begin_;
  header_ = wire::decode(std::span<std::byte const, wire::frame_header_size>(at, wanted_));
  if (header_.meta > meta_max_)
    throw wire::frame_error(
        fmt::format("a frame of kind {} has {} bytes of meta, at most {} may be", header_.kind,
                    header_.meta, meta_max_));
  if (header_.kind == 0 && (header_.meta != 0 || header_.length != 0))
    throw wire::frame_error("a heartbeat has content, but must be empty");
  wanted_ += header_.meta;
  if (buffered() < wanted_) return false;
  parts_.clear();
  if (header_.kind != 0)
    owner.begin(header_, std::span(at + wire::frame_header_size, header_.meta), parts_);
  room_left_ = sum_of(parts_);
  if (room_left_ > header_.length) wrong_room(header_, room_left_);
  begin_ += wanted_;
  part_ = 0;
  left_ = header_.length;
  in_body_ = true;
  return true;
}

void frame_reader::fill_body(frame_receiver& owner) {
  while (left_ > 0) {
    if (room_left_ == 0) ask_for_more(owner);
    std::size_t const bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(room_left_, buffered()));
    if (bytes == 0) return;
    fill_body_from(std::span(buffer_.get() + begin_, bytes));
    begin_ += bytes;
  }
}

void frame_reader::ask_for_more(frame_receiver& owner) {
  parts_.clear();
  part_ = 0;
  owner.more(header_, parts_);
  room_left_ = sum_of(parts_);
  if (room_left_ == 0) wrong_room(header_, header_.length - left_);
  if (room_left_ > left_) wrong_room(header_, header_.length - left_ + room_left_);
}

void frame_reader::fill_body_from(std::span<std::byte const> bytes) {
  while (!bytes.empty()) {
    auto const part = parts_[part_];
    std::size_t const some = std::min(bytes.size(), part.size());
    if (some > 0) std::memcpy(part.data(), bytes.data(), some);
    bytes = bytes.subspan(some);
    advance_body(some);
  }
}

// So many bytes of the body's own buffers have been filled.
void frame_reader::advance_body(std::size_t bytes) {
  left_ -= bytes;
  room_left_ -= bytes;
  while (part_ < parts_.size() && bytes >= parts_[part_].size()) bytes -= parts_[part_++].size();
  if (bytes > 0) parts_[part_] = parts_[part_].subspan(bytes);
}

}  // namespace rubato::net
