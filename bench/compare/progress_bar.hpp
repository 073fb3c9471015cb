// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <mutex>
#include <string_view>

namespace rubato::bench {

/// A line on stderr that says how far a command is. Only on a terminal: in a pipe it writes
/// nothing. Thread safety: any thread may show and advance.
class progress_bar {
 public:
  explicit progress_bar(std::size_t steps);
  /// Wipes the line.
  ~progress_bar();
  progress_bar(progress_bar const&) = delete;
  progress_bar& operator=(progress_bar const&) = delete;

  /// What is being done now.
  void show(std::string_view activity);
  /// One of the steps is done.
  void advance();

 private:
  bool const visible_;
  std::size_t const steps_;
  std::mutex lock_;
  std::size_t done_ = 0;
};

}  // namespace rubato::bench
