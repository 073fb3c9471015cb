// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/types.h>
#include <zlib.h>

#include "rubato/core/error.hpp"
#include "rubato/data/impl/packed.hpp"

namespace rubato::data {

/// The bytes of a file, unpacked when it is gzip. One that is packed otherwise is refused before any of it is read.
class gzip_file {
 public:
  /// @throws data_error with errc::io when the file cannot be opened
  explicit gzip_file(std::string path) : path_(std::move(path)), file_(std::fopen(path_.c_str(), "rb"), &std::fclose) {
    if (file_ == nullptr) fail_io("cannot open", errno);
    std::setvbuf(file_.get(), nullptr, _IONBF, 0);  // input_ is enough
  }
  gzip_file(gzip_file const&) = delete;
  gzip_file& operator=(gzip_file const&) = delete;
  ~gzip_file() {
    if (is_gzip_) inflateEnd(&stream_);
  }

  /// Goes to a byte of what is read; beyond the end nothing is. @throws data_error as `read`
  void go_to(std::uint64_t byte) {
    if (std::array<char, packed_magic_size> begin{}; !begun_) static_cast<void>(read(begin));
    if (::fseeko(file_.get(), is_gzip_ ? 0 : static_cast<off_t>(byte), SEEK_SET) != 0) {
      throw data_error(
          fmt::format("{}: cannot go to byte {}: {}", path_, byte, std::generic_category().message(errno)));
    }
    stream_.avail_in = 0;
    if (!is_gzip_) return;
    inflateReset(&stream_);
    in_member_ = true;
    std::vector<char> skipped(input_.size());
    for (std::size_t got = 1; byte > 0 && got > 0; byte -= got)
      got = unpack(std::span(skipped).first(std::min<std::uint64_t>(byte, skipped.size())));
  }

  /// Fills `into` as far as there are bytes; a short count means the end. `into` is at most 2^30
  /// bytes long; of the first call at least 4.
  /// @throws data_error for a broken stream, one of a format that is not read, or (with errc::io) one that cannot
  /// be read
  std::size_t read(std::span<char> into) {
    if (begun_) return is_gzip_ ? unpack(into) : copy(into);
    begin();
    std::size_t const got = is_gzip_ ? unpack(into) : copy(into);
    refuse_packed(path_, {into.data(), std::min(got, packed_magic_size)});
    return got;
  }

  [[nodiscard]] std::string const& path() const noexcept { return path_; }

 private:
  void begin() {
    begun_ = true;
    constexpr unsigned char magic[] = {0x1f, 0x8b};
    if (!fill_input() || stream_.avail_in < std::size(magic) || !std::equal(magic, std::end(magic), stream_.next_in))
      return;
    constexpr int window_bits_of_gzip = 15 + 16;
    if (inflateInit2(&stream_, window_bits_of_gzip) != Z_OK) throw std::bad_alloc();
    is_gzip_ = in_member_ = true;
  }

  /// Of a file that is not gzip.
  std::size_t copy(std::span<char> into) {
    std::size_t const held = std::min<std::size_t>(stream_.avail_in, into.size());
    std::copy_n(stream_.next_in, held, into.begin());
    stream_.next_in += held;
    stream_.avail_in -= static_cast<uInt>(held);
    return held + read_file(into.subspan(held));
  }

  /// Of one or more members, each a gzip stream, as `cat` makes of several files.
  std::size_t unpack(std::span<char> into) {
    stream_.next_out = reinterpret_cast<Bytef*>(into.data());
    stream_.avail_out = static_cast<uInt>(into.size());
    while (stream_.avail_out > 0) {
      bool const more = stream_.avail_in > 0 || fill_input();
      if (!in_member_ && !(more && next_member())) break;
      if (!more) throw data_error(path_ + ": truncated gzip stream, expected more data");
      int const code = inflate(&stream_, Z_NO_FLUSH);
      if (code == Z_MEM_ERROR) throw std::bad_alloc();
      if (code != Z_OK && code != Z_STREAM_END) fail_broken(stream_.msg == nullptr ? "corrupt data" : stream_.msg);
      in_member_ = code == Z_OK;
    }
    return into.size() - stream_.avail_out;
  }

  /// False at the end, before which there may be zeros: who writes to tape fills blocks with them.
  bool next_member() {
    if (*stream_.next_in == 0) {
      do {
        if (std::any_of(stream_.next_in, stream_.next_in + stream_.avail_in, [](Bytef byte) { return byte != 0; }))
          fail_broken("bytes behind the zeros at its end");
      } while (fill_input());
      return false;
    }
    inflateReset(&stream_);
    return true;
  }

  /// False at the end of the file.
  bool fill_input() {
    stream_.next_in = reinterpret_cast<Bytef*>(input_.data());
    stream_.avail_in = static_cast<uInt>(read_file(input_));
    return stream_.avail_in > 0;
  }

  std::size_t read_file(std::span<char> into) {
    std::size_t const got = std::fread(into.data(), 1, into.size(), file_.get());
    if (got < into.size() && std::ferror(file_.get()) != 0) fail_io("cannot read", errno);
    return got;
  }

  [[noreturn]] void fail_broken(char const* reason) const {
    throw data_error(fmt::format("{0}: broken gzip stream ({0}: {1}), expected intact data", path_, reason));
  }

  [[noreturn]] void fail_io(char const* what, int code) const {
    throw data_error(fmt::format("{}: {}: {}", path_, what, std::generic_category().message(code)),
                     errc::io);
  }

  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  std::vector<char> input_ = std::vector<char>(std::size_t{1} << 17);
  z_stream stream_{};
  bool begun_ = false;
  bool is_gzip_ = false;
  bool in_member_ = false;
};

}  // namespace rubato::data
