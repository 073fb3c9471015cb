// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/micro/tcp_process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace rubato::bench {
namespace {

void require(bool holds, char const* what, int code = errno) {
  if (!holds) throw std::system_error(code, std::generic_category(), what);
}

cpu_set_t allowed_cores() {
  cpu_set_t set;
  require(sched_getaffinity(0, sizeof set, &set) == 0, "sched_getaffinity");
  return set;
}

}  // namespace

std::vector<placement> placements() {
  cpu_set_t const set = allowed_cores();
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE && cores.size() < 2; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  std::vector<placement> all = {{"1 core", cores.front(), cores.front()}};
  if (cores.size() > 1) all.push_back({"2 cores", cores[0], cores[1]});
  return all;
}

pinned::pinned(int core) : before_(allowed_cores()) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  require(sched_setaffinity(0, sizeof one, &one) == 0, "sched_setaffinity");
}

pinned::~pinned() { sched_setaffinity(0, sizeof before_, &before_); }

other_process::other_process(std::vector<std::string> words) {
  words.insert(words.begin(), {"rubato-bench-micro", "--serve"});
  std::vector<char*> arguments;
  for (auto& w : words) arguments.push_back(w.data());
  arguments.push_back(nullptr);
  std::array<int, 2> ends{};
  require(pipe2(ends.data(), O_CLOEXEC) == 0, "pipe2");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  int const failed =
      posix_spawn(&id_, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  output_ = ends[0];
  if (failed != 0) close(output_);
  require(failed == 0, "posix_spawn", failed);
}

other_process::~other_process() {
  if (id_ == 0) return;
  kill(id_, SIGKILL);
  collect();
}

std::string other_process::wait() {
  std::string printed;
  std::array<char, 256> piece;
  ssize_t n = 0;
  while ((n = read(output_, piece.data(), piece.size())) > 0 || (n < 0 && errno == EINTR))
    if (n > 0) printed.append(piece.data(), static_cast<std::size_t>(n));
  collect();
  if (status_ != 0)
    throw std::runtime_error(fmt::format("the other process failed with status {}", status_));
  return printed;
}

void other_process::collect() noexcept {
  while (waitpid(id_, &status_, 0) < 0 && errno == EINTR) continue;
  id_ = 0;
  close(output_);
}

scratch_directory::scratch_directory() {
  std::string name = (std::filesystem::temp_directory_path() / "rubato-bench-XXXXXX").string();
  require(mkdtemp(name.data()) != nullptr, "mkdtemp");
  path_ = name;
}

scratch_directory::~scratch_directory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace rubato::bench
