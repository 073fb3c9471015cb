// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
// The program that RUBATO_LAUNCH_PROGRAM names, with shell scripts for workers and servers. They say by
// files in $S, a directory of the test's own, how far they are.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "asleep.hpp"
#include "process/children.hpp"
#include "seeds.hpp"

namespace rubato::test::launching {

using test::comes_true;
using test::words;

inline words lines_of(std::string const& text) {
  words result;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) result.push_back(line);
  return result;
}

inline words sorted(words lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

inline bool matches(std::string const& text, std::string const& pattern) {
  return std::regex_match(text, std::regex(pattern));
}

/// A process that nobody waits for, as in some containers, has ended all the same.
inline bool gone(std::string const& id) {
  auto const stat = content_of("/proc/" + id + "/stat");
  auto const name_end = stat.rfind(')');
  return name_end == std::string::npos || stat.compare(name_end, 3, ") Z") == 0;
}

struct outcome {
  int exit_code;  ///< 128 and more: killed by a signal
  std::string output;
  std::string errors;
  bool by_signal = false;  ///< and not by itself
};

/// One call of rubato-launch.
class launched {
 public:
  explicit launched(words const& arguments, int output = -1, int errors = -1) {
    std::string name = (std::filesystem::temp_directory_path() / "launch-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    scratch_ = name;
    words all{RUBATO_LAUNCH_PROGRAM};
    all.insert(all.end(), arguments.begin(), arguments.end());
    words variables = environment();
    std::vector<char*> const command = pointers_to(all), environment = pointers_to(variables);
    std::string const output_file = scratch_ / "output", errors_file = scratch_ / "errors";
    id_ = ::fork();
    // From here to exec the child may not allocate: threads that it lacks may have held the locks.
    if (id_ == 0) {
      become(command.data(), environment.data(), output >= 0 ? output : opened(output_file.c_str()),
             errors >= 0 ? errors : opened(errors_file.c_str()));
    }
    REQUIRE(id_ > 0);
  }
  launched(launched const&) = delete;
  launched& operator=(launched const&) = delete;
  ~launched() {
    if (id_ > 0) {
      ::kill(id_, SIGKILL);
      ::waitpid(id_, nullptr, 0);
    }
    std::error_code ignored;
    std::filesystem::remove_all(scratch_, ignored);
  }

  template <class F>
  [[nodiscard]] outcome wait(F meanwhile) {
    int status = 0;
    bool const ended = comes_true([&] {
      meanwhile();
      send_again();
      return ::waitpid(id_, &status, WNOHANG) == id_;
    });
    if (!ended) FAIL("still there: " << family());
    id_ = 0;
    int const code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    return {code, content_of(scratch_ / "output"), content_of(scratch_ / "errors"),
            WIFSIGNALED(status)};
  }
  [[nodiscard]] outcome wait() {
    return wait([] {});
  }

  void make_file(std::string const& name) const { std::ofstream(scratch_ / name) << "\n"; }
  void send(int signal) {
    REQUIRE(::kill(id_, signal) == 0);
    sent_ = {signal, std::chrono::steady_clock::now()};
  }

  [[nodiscard]] std::string file(std::string const& name) const {
    return content_of(scratch_ / name);
  }
  void await_file(std::string const& name) {
    CAPTURE(name, file("errors"));
    REQUIRE(comes_true([&] {
      send_again();
      return file(name).find('\n') != std::string::npos;
    }));
  }
  void await_error(std::string const& text) {
    CAPTURE(text, file("errors"));
    REQUIRE(comes_true([&] {
      send_again();
      return file("errors").find(text) != std::string::npos;
    }));
  }
  /// It and all that it has started wait for somebody else.
  void await_standstill() const {
    REQUIRE(comes_true([&] { return all_slept([&] { return family_of(id_); }); }));
  }

 private:
  /// Under the thread sanitizer a signal is missing once in a while: what has had no effect for so long is sent again.
  void send_again() {
    using namespace std::chrono_literals;
    if (sanitized() && id_ > 0 && sent_ && std::chrono::steady_clock::now() - sent_->at > 10s) send(sent_->signal);
  }

  static std::vector<char*> pointers_to(words& lines) {
    std::vector<char*> pointers;
    for (auto& line : lines) pointers.push_back(line.data());
    pointers.push_back(nullptr);
    return pointers;
  }
  static int opened(char const* file) { return ::open(file, O_WRONLY | O_CREAT | O_APPEND, 0600); }
  [[noreturn]] static void become(char* const* command, char* const* environment, int output,
                                  int errors) {
    ::dup2(output, STDOUT_FILENO);
    ::dup2(errors, STDERR_FILENO);
    // Whatever runs the tests may ignore some.
    for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGPIPE}) {
      ::signal(number, SIG_DFL);
    }
    ::execve(command[0], command, environment);
    ::_exit(99);
  }

  // That of the tests, but for its own.
  [[nodiscard]] words environment() const {
    words lines{
        "S=" + scratch_.string(),
        "TMPDIR=" + scratch_.string()};  // a launcher that is killed leaves a directory behind
    for (char** line = ::environ; *line != nullptr; ++line) {
      std::string const text = *line;
      if (!text.starts_with("S=") && !text.starts_with("TMPDIR=") &&
          !text.starts_with("RUBATO_ON_LOSS="))
        lines.push_back(text);
    }
    return lines;
  }

  // What each process of it does, in the system's words.
  [[nodiscard]] std::string family() const {
    std::string all;
    for (pid_t const id : family_of(id_)) {
      auto const of = "/proc/" + std::to_string(id);
      all += "\n" + std::to_string(id) + " " + content_of(of + "/cmdline");
      for (auto const& [thread, folder] : threads_of(id))
        all += "\n  " + thread_status(folder)["State"] + " in " + content_of(folder / "syscall");
    }
    std::replace(all.begin(), all.end(), '\0', ' ');
    return all;
  }

  std::filesystem::path scratch_;
  pid_t id_ = 0;
  struct sent_signal {
    int signal;
    std::chrono::steady_clock::time_point at;
  };
  std::optional<sent_signal> sent_;
};

inline constexpr auto* idle = "sleep 1000";
/// As a coordinator does, which listens there.
inline constexpr auto* takes_part = ": > ${RUBATO_COORDINATOR#unix:}; ";

/// Workers that run `script` beside servers that wait to be ended.
inline words shell(std::string const& script, words const& options = {}) {
  words all{"-n", "2", "--grace", "0.1", "--server-command", idle};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), {"--", "sh", "-c", script});
  return all;
}

inline outcome run(words const& arguments) { return launched(arguments).wait(); }
inline outcome run_shell(std::string const& script, words const& options = {}) {
  return run(shell(script, options));
}

}  // namespace rubato::test::launching
