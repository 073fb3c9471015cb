// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace rubato_test {

/// A file that goes away with the test.
class scratch_file {
 public:
  explicit scratch_file(std::string_view bytes = {}) {
    static int made = 0;
    path_ = std::filesystem::temp_directory_path() / fmt::format("rubato-data-{}-{}", ::getpid(), made++);
    write(bytes);
  }
  scratch_file(scratch_file const&) = delete;
  scratch_file& operator=(scratch_file const&) = delete;
  ~scratch_file() { std::filesystem::remove(path_); }

  void write(std::string_view bytes) const {
    std::ofstream(path_, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  }
  [[nodiscard]] std::string const& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace rubato_test
