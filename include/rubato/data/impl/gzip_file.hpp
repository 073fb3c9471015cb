// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <zlib.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/packed.hpp"

namespace rubato::data {

/// The bytes of a file, unpacked when it is gzip. One that is packed otherwise is refused before any of it is read.
class gzip_file {
 public:
  /// @throws data_error with errc::io when the file cannot be opened
  explicit gzip_file(std::string path) : path_(std::move(path)) {
    errno = 0;
    file_ = gzopen(path_.c_str(), "rb");
    if (file_ == nullptr) fail_io("cannot open", errno);
    gzbuffer(file_, 1U << 17);
  }
  gzip_file(gzip_file const&) = delete;
  gzip_file& operator=(gzip_file const&) = delete;
  ~gzip_file() { gzclose(file_); }

  /// Goes to a byte of what is read; beyond the end nothing is. @throws data_error as `read`
  void go_to(std::uint64_t byte) {
    if (std::array<char, packed_magic_size> begin{}; !begun_) static_cast<void>(read(begin));
    if (gzseek(file_, static_cast<z_off_t>(byte), SEEK_SET) >= 0) return;
    int code = Z_OK;
    char const* const reason = gzerror(file_, &code);
    if (code == Z_ERRNO) fail_io("cannot read", errno);
    throw data_error(fmt::format("{}: cannot go to byte {}: {}", path_, byte, reason));
  }

  /// Fills `into` as far as there are bytes; a short count means the end. `into` is at most 2^30
  /// bytes long; of the first call at least 4.
  /// @throws data_error for a broken stream, one of a format that is not read, or (with errc::io) one that cannot
  /// be read
  std::size_t read(std::span<char> into) {
    std::size_t const got = unpack(into);
    if (!std::exchange(begun_, true)) refuse_packed(path_, {into.data(), std::min(got, packed_magic_size)});
    return got;
  }

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  std::size_t unpack(std::span<char> into) {
    int const got = gzread(file_, into.data(), static_cast<unsigned>(into.size()));
    if (got == static_cast<int>(into.size())) return into.size();
    int code = Z_OK;
    char const* const reason = gzerror(file_, &code);
    if (code == Z_ERRNO) fail_io("cannot read", errno);
    // zlib hands out what it has before it owns up to a file that stops in mid-stream.
    if (code == Z_BUF_ERROR) {
      throw data_error(path_ + ": truncated gzip stream, expected more data");
    }
    if (got < 0) {
      throw data_error(
          fmt::format("{}: broken gzip stream ({}), expected intact data", path_, reason));
    }
    return static_cast<std::size_t>(got);
  }

  [[noreturn]] void fail_io(char const* what, int code) const {
    throw data_error(fmt::format("{}: {}: {}", path_, what, std::generic_category().message(code)),
                     errc::io);
  }

  std::string path_;
  gzFile file_ = nullptr;
  bool begun_ = false;
};

}  // namespace rubato::data
