// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "patience.hpp"

namespace rubato::test {

using words = std::vector<std::string>;
using variables = std::map<std::string, std::string>;

/// Whether `what` holds before the patience is over.
[[nodiscard]] bool comes_true(std::function<bool()> const& what);

/// A directory of a test's own, gone after it.
class scratch {
 public:
  scratch();
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;
  ~scratch();
  [[nodiscard]] std::filesystem::path const& path() const noexcept { return path_; }

 private:
  std::filesystem::path path_;
};

/// A process that a test has started. It does not outlive this object, nor the test's own process.
class child {
 public:
  /// What it prints goes to the files `name`.out and `name`.err.
  child(std::filesystem::path name, words const& command, variables const& settings);
  child(child const&) = delete;
  child& operator=(child const&) = delete;
  ~child();

  [[nodiscard]] pid_t id() const noexcept { return id_; }
  void send(int signal) const;
  /// Stops it, and waits until none of its threads runs any more.
  void stop();
  /// How it ended: its exit code, or 128 and the signal. Killed when the patience is over.
  int wait();
  [[nodiscard]] bool has_ended();
  /// In words, for messages of tests: how it ended, or what it is and where in the system it waits.
  [[nodiscard]] std::string state();

  [[nodiscard]] std::string output() const;
  [[nodiscard]] std::string errors() const;
  /// Waits until it has printed this, or has ended.
  [[nodiscard]] bool prints(std::string const& text);
  /// What follows `name` and a blank in the last line of the output that begins so; nothing if none
  /// does.
  [[nodiscard]] std::string value(std::string const& name) const;

 private:
  void reap(int options);

  std::filesystem::path name_;
  pid_t id_ = 0;
  bool ended_ = false;
  int code_ = -1;
};

[[nodiscard]] std::string content_of(std::filesystem::path const& file);

}  // namespace rubato::test
