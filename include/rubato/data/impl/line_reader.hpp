// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/gzip_file.hpp"
#include "rubato/data/impl/quoted.hpp"

namespace rubato::data {

/// The lines of a file, one at a time, none of them long. Memory is a constant.
class line_reader {
 public:
  static constexpr std::size_t line_size_max = 1024;

  explicit line_reader(gzip_file& file) : file_(file), block_(block_size) {}

  /// The next line without its end, LF or CRLF; valid until the next call. Nothing at the end of the file.
  /// @throws data_error for a line of more than `line_size_max` bytes, and as `gzip_file::read`
  std::optional<std::string_view> next() {
    if (rest_.size() <= line_size_max && !ended_) refill();
    if (rest_.empty()) return std::nullopt;
    ++number_;
    std::size_t const size = std::min(rest_.find('\n'), rest_.size());
    if (size > line_size_max) {
      throw data_error(fmt::format("{}:{}: line {} goes on for more than {} bytes, expected an end earlier",
                                   file_.path(), number_, quoted(rest_.substr(0, line_size_max)), line_size_max));
    }
    std::string_view line = rest_.substr(0, size);
    rest_.remove_prefix(std::min(size + 1, rest_.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  /// Of the line that `next` has given last, from 1.
  [[nodiscard]] std::size_t number() const noexcept { return number_; }

 private:
  static constexpr std::size_t block_size = std::size_t{1} << 18;

  /// Moves what is left to the front and reads on behind it.
  void refill() {
    std::copy(rest_.begin(), rest_.end(), block_.begin());
    std::span<char> const room = std::span(block_).subspan(rest_.size());
    std::size_t const got = file_.read(room);
    ended_ = got < room.size();
    rest_ = {block_.data(), rest_.size() + got};
  }

  gzip_file& file_;
  std::vector<char> block_;
  std::string_view rest_;
  bool ended_ = false;
  std::size_t number_ = 0;
};

}  // namespace rubato::data
