// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "rubato/data/impl/gzip_file.hpp"

namespace rubato::data {

[[nodiscard]] constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t' || c == '\r'; }

/// Text in fields between blanks, line by line; `#` starts a comment.
/// A window that slides over the input, wide enough that a field always lies in it in one piece.
/// Lines may be of any length, fields may not.
class scanner {
 public:
  static constexpr std::size_t field_size_max = 256;

  explicit scanner(std::string_view text) : at_(text.data()), end_(at_ + text.size()), read_(text.size()) {}
  explicit scanner(gzip_file& file) : file_(&file), block_(block_size) {
    at_ = end_ = block_.data();
  }
  scanner(scanner&&) = default;  // no copies: they would point into the block of the original

  /// Bytes that lie behind.
  [[nodiscard]] std::uint64_t position() const noexcept { return read_ - static_cast<std::uint64_t>(end_ - at_); }
  bool at_end() { return at_ == end_ && !refill(); }
  bool at_line_end() { return at_end() || *at_ == '\n' || *at_ == '#'; }

  void skip_blanks() {
    while (!at_end() && is_blank(*at_)) ++at_;
  }

  /// Goes on to the next line, over whatever is left of this one.
  void skip_line() {
    while (!at_end()) {
      at_ = std::find(at_, end_, '\n');
      if (at_ == end_) continue;
      ++at_;
      return;
    }
  }

  void skip_byte_order_mark() {
    look_ahead();
    std::string_view const mark = "\xef\xbb\xbf";
    if (std::string_view(at_, static_cast<std::size_t>(end_ - at_)).starts_with(mark)) {
      at_ += mark.size();
    }
  }

  /// The bytes up to a blank, a comment or the end of the line; valid until the next call. Cut off
  /// after `field_size_max` + 1 bytes.
  std::string_view field() {
    look_ahead();
    char const* const begin = at_;
    char const* const stop =
        begin + std::min(static_cast<std::size_t>(end_ - begin), field_size_max + 1);
    while (at_ != stop && !is_blank(*at_) && *at_ != '\n' && *at_ != '#') ++at_;
    return {begin, static_cast<std::size_t>(at_ - begin)};
  }

 private:
  static constexpr std::size_t block_size = std::size_t{1} << 18;

  void look_ahead() {
    if (static_cast<std::size_t>(end_ - at_) <= field_size_max) refill();
  }

  /// Moves what is left to the front and reads on behind it; false when nothing was added.
  bool refill() {
    if (file_ == nullptr) return false;
    std::size_t const left = static_cast<std::size_t>(end_ - at_);
    std::copy(at_, end_, block_.begin());
    std::span<char> const room = std::span(block_).subspan(left);
    std::size_t const got = file_->read(room);
    if (got < room.size()) file_ = nullptr;
    at_ = block_.data();
    end_ = at_ + left + got;
    read_ += got;
    return got != 0;
  }

  gzip_file* file_ = nullptr;
  std::vector<char> block_;
  char const* at_;
  char const* end_;
  std::uint64_t read_ = 0;
};

}  // namespace rubato::data
