// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include "rubato/net/impl/frame_writer.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "rubato/core/error.hpp"

namespace rubato::net {
namespace {

constexpr std::size_t copied_below =
    8 * 1024;  // copying one this large costs less than its own node
constexpr std::size_t small_piece = 8 * 1024;
constexpr std::size_t gathered_max = 64 * 1024;
constexpr std::size_t spare_max = 256 * 1024;
constexpr std::size_t buffers_max = 64;  // what one system call takes

// A body that was given as one span.
class owned_body final : public body_source {
 public:
  explicit owned_body(std::span<std::byte const> bytes) : bytes_(bytes.begin(), bytes.end()) {}
  std::span<std::byte const> next() override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace

void frame_writer::add(wire::frame_header header, std::span<std::byte const> meta,
                       std::span<std::byte const> body) {
  if (meta.size() + body.size() > copied_below && !body.empty()) {
    add(header, meta, body.size(), std::make_unique<owned_body>(body));
    return;
  }
  auto& to = open_segment();
  to.bytes.reserve(gathered_max + 2 * copied_below);
  header.length = body.size();
  add_head(to, header, meta);
  append(to, body);
  unsent_ += body.size();
}

void frame_writer::add(wire::frame_header header, std::span<std::byte const> meta,
                       std::uint64_t length, std::unique_ptr<body_source> body) {
  auto& to = open_segment();
  header.length = length;
  add_head(to, header, meta);
  to.unread = length;
  if (length > 0) to.source = std::move(body);
  unsent_ += static_cast<std::size_t>(length);
}

void frame_writer::add_newest(wire::frame_header header) {
  header.meta = 0;
  header.length = 0;
  if (!is_newest_last()) {
    segment& to = open_segment();
    std::size_t const at = to.bytes.size();
    add(header, {}, {});
    newest_in_ = &to;
    newest_at_ = at;
    return;
  }
  std::byte* const at = newest_in_->bytes.data() + newest_at_;
  wire::encode(header, std::span<std::byte, wire::frame_header_size>(at, wire::frame_header_size));
}

// Whether nothing follows it, so that none is overtaken, and all of it may still change.
bool frame_writer::is_newest_last() const noexcept {
  return newest_in_ != nullptr && newest_in_ == &segments_.back() && !newest_in_->held &&
         newest_in_->bytes.size() == newest_at_ + wire::frame_header_size;
}

void frame_writer::add_head(segment& to, wire::frame_header header,
                            std::span<std::byte const> meta) {
  if (meta.size() > std::numeric_limits<std::uint32_t>::max())
    throw error(errc::wrong_size, fmt::format("a frame's meta has {} bytes", meta.size()));
  header.meta = static_cast<std::uint32_t>(meta.size());
  std::size_t const before = to.bytes.size(), size = wire::frame_header_size + meta.size();
  to.bytes.resize(before + size);
  std::byte* const at = to.bytes.data() + before;
  wire::encode(header, std::span<std::byte, wire::frame_header_size>(at, wire::frame_header_size));
  if (!meta.empty()) std::memcpy(at + wire::frame_header_size, meta.data(), meta.size());
  unsent_ += size;
}

// One that more bytes may follow: bodies come after a segment's bytes. A full one is left alone, so
// that its memory is free once it has gone, even if the queue is never empty.
frame_writer::segment& frame_writer::open_segment() {
  if (segments_.empty() || segments_.back().source || segments_.back().held ||
      segments_.back().bytes.size() >= gathered_max) {
    segments_.emplace_back();
    segments_.back().bytes = std::exchange(spare_, {});
  }
  return segments_.back();
}

void frame_writer::append(segment& to, std::span<std::byte const> bytes) {
  to.bytes.insert(to.bytes.end(), bytes.begin(), bytes.end());
}

// Asks for pieces until there are as many large ones as may be at a time, or enough small ones. Those before have gone.
void frame_writer::pull(segment& from, std::size_t most, std::size_t bytes) {
  if (from.gone == from.bytes.size()) {
    from.bytes.clear();
    from.gone = 0;
  }
  std::size_t pulled = 0;
  while (from.unread > 0 && from.pieces.size() < most && pulled < bytes &&
         from.bytes.size() - from.gone < gathered_max) {
    auto const piece = from.pieces.empty() ? from.source->next() : from.source->next_beside();
    if (piece.empty() && !from.pieces.empty()) return;
    if (piece.empty() || piece.size() > from.unread)
      throw error(errc::wrong_size,
                  fmt::format("the source of a body gave {} bytes, but {} were left to send",
                              piece.size(), from.unread));
    from.unread -= piece.size();
    if (piece.size() <= small_piece && from.pieces.empty()) {
      append(from, piece);
      continue;
    }
    from.pieces.push_back(piece);
    pulled += piece.size();
  }
}

std::span<boost::asio::const_buffer const> frame_writer::next(std::size_t pieces, std::size_t bytes) {
  next_.clear();
  given_ = 0;
  for (auto& s : segments_) {
    if (next_.size() + 1 + pieces > buffers_max) break;
    ++given_;
    if (s.unread > 0 && s.pieces.empty()) pull(s, pieces, bytes);
    if (s.gone < s.bytes.size())
      next_.emplace_back(s.bytes.data() + s.gone, s.bytes.size() - s.gone);
    for (auto const& piece : std::span(s.pieces).subspan(s.first)) next_.emplace_back(piece.data(), piece.size());
    if (s.unread > 0) break;
  }
  return next_;
}

void frame_writer::hold() noexcept {
  for (std::size_t i = 0; i < given_; ++i) segments_[i].held = true;
}

void frame_writer::written(std::size_t bytes) {
  unsent_ -= bytes;
  while (!segments_.empty()) {
    auto& s = segments_.front();
    std::size_t const of_bytes = std::min(bytes, s.bytes.size() - s.gone);
    s.gone += of_bytes;
    bytes -= of_bytes;
    if (newest_in_ == &s && s.gone > newest_at_) newest_in_ = nullptr;
    while (bytes > 0 && s.first < s.pieces.size()) {
      auto& piece = s.pieces[s.first];
      std::size_t const of_piece = std::min(bytes, piece.size());
      piece = piece.subspan(of_piece);
      bytes -= of_piece;
      if (piece.empty()) ++s.first;
    }
    if (s.first == s.pieces.size()) s.pieces.clear(), s.first = 0;
    if (s.gone < s.bytes.size() || !s.pieces.empty() || s.unread > 0) return;
    if (segments_.size() == 1) return reuse(s);
    pop_front();
  }
}

// The last one stays for what is added next.
void frame_writer::reuse(segment& s) {
  if (s.bytes.capacity() > spare_max) s.bytes = {};
  s.bytes.clear();
  s.gone = 0;
  s.held = false;
  // Last, see `clear`.
  if (s.source) auto const gone = std::move(s.source);
}

void frame_writer::pop_front() {
  auto gone = std::move(segments_.front());
  segments_.pop_front();
  if (gone.bytes.capacity() > spare_max || gone.bytes.capacity() < spare_.capacity()) return;
  gone.bytes.clear();
  spare_ = std::move(gone.bytes);
}

void frame_writer::clear() noexcept {
  // First, since sources are the owner's, and one may ask for `unsent` while it is destroyed.
  unsent_ = 0;
  newest_in_ = nullptr;
  segments_.clear();
}

}  // namespace rubato::net
