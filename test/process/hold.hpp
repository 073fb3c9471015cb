// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <thread>
#include <utility>

namespace rubato::test {

/// Holds the workers of a run at a number of steps, which a test writes to a file, until it lets them go on.
class hold {
 public:
  /// An empty name holds nobody.
  explicit hold(std::filesystem::path file) : file_(std::move(file)) {}

  static void set(std::filesystem::path const& file, std::int64_t steps) {
    auto const fresh = file.string() + ".new";
    std::ofstream(fresh) << steps;
    std::filesystem::rename(fresh, file);  // whoever reads finds one number or the other
  }
  static void lift(std::filesystem::path const& file) { std::filesystem::remove(file); }

  /// Waits as long as whoever has made so many steps is held.
  void wait(std::int64_t steps) const {
    if (file_.empty()) return;
    while (steps >= limit()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  [[nodiscard]] std::int64_t limit() const {
    std::int64_t steps = 0;
    return std::ifstream(file_) >> steps ? steps : std::numeric_limits<std::int64_t>::max();
  }

  std::filesystem::path file_;
};

}  // namespace rubato::test
