// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

// The other process of a measurement, and which core runs what.
namespace rubato::bench {

/// Where the two processes of a measurement run.
struct placement {
  std::string name;  ///< "1 core"
  int here = 0;      ///< the core of this process
  int there = 0;     ///< of the other one
};

/// Both on one core; and on two, if this process may use two.
[[nodiscard]] std::vector<placement> placements();

/// This thread, and those that it starts meanwhile, run on one core.
class pinned {
 public:
  /// @throws std::system_error
  explicit pinned(int core);
  pinned(pinned const&) = delete;
  pinned& operator=(pinned const&) = delete;
  ~pinned();

 private:
  cpu_set_t before_;
};

/// This program once more, in another role. It is executed anew: a fork alone would inherit what
/// other threads have locked.
class other_process {
 public:
  /// Its command line is `micro --serve` and these words. @throws std::system_error
  explicit other_process(std::vector<std::string> words);
  other_process(other_process const&) = delete;
  other_process& operator=(other_process const&) = delete;
  /// Kills it, unless it has been waited for.
  ~other_process();

  /// Waits until it ends, and returns what it has printed. @throws std::runtime_error if it failed
  std::string wait();

 private:
  void collect() noexcept;

  pid_t id_ = 0;
  int output_ = -1;
  int status_ = 0;
};

/// A directory that is gone afterwards.
class scratch_directory {
 public:
  scratch_directory();
  scratch_directory(scratch_directory const&) = delete;
  scratch_directory& operator=(scratch_directory const&) = delete;
  ~scratch_directory();
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace rubato::bench
