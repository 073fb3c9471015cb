// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace rubato {

/// A file without a name, for what has no room in memory. It appears with the first write, takes disk space for what
/// has been written, and is gone when it is closed, also by a crash.
/// Thread safety: distinct ranges may be read and written concurrently, once one write has returned.
class swap_file {
 public:
  /// @param directory empty: where temporary files go @throws option_error when it is no directory
  explicit swap_file(std::string directory);
  swap_file(swap_file const&) = delete;
  swap_file& operator=(swap_file const&) = delete;
  ~swap_file();

  /// @throws error with errc::io, naming the directory and why
  void write(std::uint64_t at, std::span<std::byte const> bytes);
  /// @pre they have been written @throws as `write`
  void read(std::uint64_t at, std::span<std::byte> bytes) const;

 private:
  void open();
  [[noreturn]] void fail(char const* what, int why) const;

  std::string directory_;
  int file_ = -1;
};

}  // namespace rubato
