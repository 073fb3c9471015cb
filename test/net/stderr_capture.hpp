// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <stdio.h>
#include <unistd.h>

#include <string>

namespace rubato::test {

/// What this process writes to stderr while it lives, in place of the terminal.
class stderr_capture {
 public:
  stderr_capture() {
    fflush(stderr);
    ::dup2(fileno(file_), STDERR_FILENO);
  }
  stderr_capture(stderr_capture const&) = delete;
  stderr_capture& operator=(stderr_capture const&) = delete;
  ~stderr_capture() {
    fflush(stderr);
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    fclose(file_);
  }

  [[nodiscard]] std::string text() const {
    fflush(stderr);
    std::string all(65536, '\0');
    auto const size = ::pread(fileno(file_), all.data(), all.size(), 0);
    all.resize(size < 0 ? 0 : static_cast<std::size_t>(size));
    return all;
  }

 private:
  int before_ = ::dup(STDERR_FILENO);
  FILE* file_ = tmpfile();
};

}  // namespace rubato::test
