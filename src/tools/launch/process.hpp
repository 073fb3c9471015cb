// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sys/types.h>

#include <csignal>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace rubato::launch {

/// Owns a file descriptor.
class file_handle {
 public:
  file_handle() = default;
  explicit file_handle(int number) noexcept : number_(number) {}
  file_handle(file_handle&& other) noexcept : number_(other.release()) {}
  file_handle& operator=(file_handle&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~file_handle();

  [[nodiscard]] int get() const noexcept { return number_; }
  [[nodiscard]] int release() noexcept { return std::exchange(number_, -1); }

 private:
  int number_ = -1;
};

/// Blocks all signals to the calling thread for as long as it lives, unless ended before.
class signals_blocked {
 public:
  signals_blocked();
  signals_blocked(signals_blocked const&) = delete;
  signals_blocked& operator=(signals_blocked const&) = delete;
  ~signals_blocked() { end(); }

  void end() noexcept;

 private:
  sigset_t before_{};
};

/// How a process ended.
struct ending {
  bool by_signal = false;
  int number = 0;     ///< of the signal, else the exit code
  bool known = true;  ///< false where somebody else has waited for it

  [[nodiscard]] bool well() const noexcept { return known && !by_signal && number == 0; }
  /// As shells have it; 1 where it is not known.
  [[nodiscard]] int exit_code() const noexcept {
    if (!known) return 1;
    return by_signal ? 128 + number : number;
  }
  /// What a sentence about the process goes on with.
  [[nodiscard]] std::string text() const;
};

/// A process could not be started; the sentence says why.
class start_error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A child in a process group of its own, which dies with this process; where that is killed, what the child has
/// started lives on.
struct process {
  pid_t id = 0;
  file_handle output;  ///< what it writes to its standard output is read here
  file_handle errors;  ///< the same of its standard error

  /// With nothing to read on its standard input; `environment` has lines such as `RANK=0`.
  /// @throws start_error
  [[nodiscard]] static process start(std::vector<std::string> const& command,
                                     std::vector<std::string> const& environment);
  /// The same for a copy of this process, which has one thread only: the child calls `body` and ends
  /// with what it returns as exit code, without destroying anything. `body` must not throw.
  /// @throws start_error
  [[nodiscard]] static process start(std::function<int()> const& body);
};

/// To the child and all that it has started, unless they left its group.
void send(pid_t child, int signal) noexcept;

/// Whether the child stands still after a signal such as SIGSTOP.
[[nodiscard]] bool is_stopped(pid_t child) noexcept;

/// Takes note of a child's end, if it has come, and kills what is left of its group.
[[nodiscard]] std::optional<ending> end_of(pid_t child);

}  // namespace rubato::launch
