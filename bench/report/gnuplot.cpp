// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "bench/report/gnuplot.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "rubato/core/error.hpp"

extern char** environ;

namespace rubato::bench {
namespace {

namespace fs = std::filesystem;

/// A directory that lives as long as this object.
class temporary_directory {
 public:
  temporary_directory() {
    std::string name = (fs::temp_directory_path() / "rubato-plot-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr)
      throw error(errc::io, "--report: cannot make a temporary directory in " +
                                fs::temp_directory_path().string());
    path_ = name;
  }
  ~temporary_directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  temporary_directory(temporary_directory const&) = delete;
  temporary_directory& operator=(temporary_directory const&) = delete;

  [[nodiscard]] std::string file(char const* name) const { return (path_ / name).string(); }

 private:
  fs::path path_;
};

/// The exit status of `gnuplot argument`, or nothing where it could not be started.
std::optional<int> spawn(std::string argument, std::string const& out, std::string const& err) {
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  int const flags = O_WRONLY | O_CREAT | O_TRUNC;
  ::posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, out.c_str(), flags, 0600);
  ::posix_spawn_file_actions_addopen(&files, STDERR_FILENO, err.c_str(), flags, 0600);
  std::string program = "gnuplot";
  char* const arguments[] = {program.data(), argument.data(), nullptr};
  pid_t child = 0;
  int const failure = ::posix_spawnp(&child, "gnuplot", &files, nullptr, arguments, environ);
  ::posix_spawn_file_actions_destroy(&files);
  int status = 0;
  if (failure != 0 || ::waitpid(child, &status, 0) != child) return std::nullopt;
  // 127 is what a spawn that fails after its fork gives.
  if (!WIFEXITED(status) || WEXITSTATUS(status) == 127) return std::nullopt;
  return WEXITSTATUS(status);
}

std::string contents(std::string const& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

bool gnuplot_is_installed() { return spawn("--version", "/dev/null", "/dev/null") == 0; }

std::string run_gnuplot(std::string const& script) {
  temporary_directory const dir;
  std::ofstream(dir.file("plot.gp")) << script;
  auto const status = spawn(dir.file("plot.gp"), dir.file("out"), dir.file("err"));
  if (!status) throw error(errc::io, "--report: gnuplot is not installed, or cannot be started");
  if (*status != 0) throw error(errc::io, "--report: gnuplot failed: " + contents(dir.file("err")));
  return contents(dir.file("out"));
}

}  // namespace rubato::bench
