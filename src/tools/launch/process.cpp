// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "src/tools/launch/process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>

namespace rubato::launch {
namespace {

struct pipe_ends {
  file_handle read;
  file_handle write;
};

// Of what only one child is to have; others must not hold an end open.
pipe_ends make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    throw start_error(fmt::format("cannot make a pipe: {}", std::strerror(errno)));
  }
  return {file_handle(ends[0]), file_handle(ends[1])};
}

std::vector<char*> pointers_to(std::vector<std::string> const& texts) {
  std::vector<char*> result;
  result.reserve(texts.size() + 1);
  // exec takes pointers to non-const by tradition, and writes through none.
  for (auto const& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

// What the child needs between fork and exec, where it may neither allocate nor throw.
struct plan {
  char* const* command = nullptr;
  char* const* environment = nullptr;
  std::function<int()> const* body = nullptr;  // instead of a command
  int output = -1;
  int errors = -1;
  int failure = -1;
  pid_t parent = 0;
};

void handle_signals_as_usual() noexcept {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction now {};
    if (::sigaction(number, nullptr, &now) != 0) continue;
    // Ignored ones stay so, as with nohup; but this process ignores SIGPIPE for itself alone.
    if (now.sa_handler == SIG_IGN && number != SIGPIPE) continue;
    struct sigaction usual {};
    usual.sa_handler = SIG_DFL;
    ::sigaction(number, &usual, nullptr);
  }
}

[[noreturn]] void become(plan const& p, signals_blocked& blocked) noexcept {
  constexpr int cannot_run = 127;
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent may have died before the line above, and then no signal comes.
  if (::getppid() != p.parent) ::_exit(cannot_run);
  handle_signals_as_usual();
  int const nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  bool const wired = nothing >= 0 && ::dup2(nothing, STDIN_FILENO) >= 0 &&
                     ::dup2(p.output, STDOUT_FILENO) >= 0 && ::dup2(p.errors, STDERR_FILENO) >= 0;
  if (wired) {
    blocked.end();
    if (p.body != nullptr) {
      ::close(p.failure);  // as exec would
      ::_exit((*p.body)());
    }
    ::execvpe(p.command[0], p.command, p.environment);
  }
  int const reason = errno;
  // There is nobody left to tell if this fails.
  static_cast<void>(!::write(p.failure, &reason, sizeof reason));
  ::_exit(cannot_run);
}

// Why a child could not become its command: 0 if it could, for then its end of the pipe is closed.
int reason_of_failure(int pipe) {
  int reason = 0;
  ssize_t got = 0;
  do {
    got = ::read(pipe, &reason, sizeof reason);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof reason) ? reason : 0;
}

// File descriptors 0 to 2 of this process must be taken, or a pipe would be where the child's
// standard streams are to go.
void take_standard_streams() {
  int taken = 0;
  do {
    taken = ::open("/dev/null", O_RDWR);
  } while (taken >= 0 && taken <= STDERR_FILENO);
  if (taken >= 0) ::close(taken);
}

// Where it is ignored, as who started this process may have left it, the system keeps no child's end for this process.
void hear_of_ends() {
  struct sigaction now {};
  if (::sigaction(SIGCHLD, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) ::signal(SIGCHLD, SIG_DFL);
}

process start_as(plan p, std::string const& what) {
  take_standard_streams();
  hear_of_ends();
  pipe_ends output = make_pipe();
  pipe_ends errors = make_pipe();
  pipe_ends failure = make_pipe();
  p.output = output.write.get();
  p.errors = errors.write.get();
  p.failure = failure.write.get();
  p.parent = ::getpid();
  // Until the child has set its own, it has this process's handlers, and with them would write into
  // pipes that it shares with this process.
  signals_blocked blocked;
  pid_t const id = ::fork();
  if (id < 0) throw start_error(fmt::format("cannot start a process: {}", std::strerror(errno)));
  if (id == 0) become(p, blocked);
  blocked.end();
  failure.write = file_handle();
  if (int const reason = reason_of_failure(failure.read.get())) {
    ::waitpid(id, nullptr, 0);
    throw start_error(fmt::format("cannot execute '{}': {}", what, std::strerror(reason)));
  }
  return {.id = id, .output = std::move(output.read), .errors = std::move(errors.read)};
}

}  // namespace

signals_blocked::signals_blocked() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before_);
}

void signals_blocked::end() noexcept { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

file_handle::~file_handle() {
  if (number_ >= 0) ::close(number_);
}

std::string ending::text() const {
  if (!known) return "ended, and nobody knows how";
  if (!by_signal) return fmt::format("ended with exit code {}", number);
  return fmt::format("was killed by signal {} ({})", number, ::strsignal(number));
}

process process::start(std::vector<std::string> const& command,
                       std::vector<std::string> const& environment) {
  auto const arguments = pointers_to(command);
  auto const variables = pointers_to(environment);
  return start_as({.command = arguments.data(), .environment = variables.data()}, command.front());
}

process process::start(std::function<int()> const& body) {
  return start_as({.body = &body}, "a copy of this process");
}

void send(pid_t child, int signal) noexcept { ::kill(-child, signal); }

bool is_stopped(pid_t child) noexcept {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(child), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 && info.si_pid == child;
}

std::optional<ending> end_of(pid_t child) {
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    // Somebody else has waited for it, and its number may be another's by now.
    if (errno == ECHILD) return ending{.known = false};
    return std::nullopt;
  }
  if (info.si_pid != child) return std::nullopt;
  // While the child is not waited for, no other group can have its number.
  send(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return ending{.by_signal = info.si_code != CLD_EXITED, .number = info.si_status};
}

}  // namespace rubato::launch
