// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "process/children.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <thread>
#include <utility>

namespace rubato::test {

namespace {

constexpr std::chrono::milliseconds glance{2};

void open_as(int descriptor, char const* file) {
  ::dup2(::open(file, O_WRONLY | O_CREAT | O_APPEND, 0600), descriptor);
}

// The child may not take memory: threads that it lacks may have held the locks.
[[noreturn]] void become(char const* out, char const* err, char** command, char** settings) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  open_as(STDOUT_FILENO, out);
  open_as(STDERR_FILENO, err);
  // Whatever runs the tests may ignore some.
  for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(number, SIG_DFL);
  ::execve(command[0], command, settings);
  ::_exit(99);
}

std::vector<char*> pointers(words& texts) {
  std::vector<char*> all;
  for (auto& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

// A launcher's variables in the test's own environment mean nothing to its children.
bool is_about_runs(std::string const& setting) {
  for (char const* name : {"RUBATO_", "RANK=", "WORLD_SIZE=", "MASTER_", "OMPI_", "SLURM_"})
    if (setting.starts_with(name)) return true;
  return false;
}

words environment_with(variables const& settings) {
  words all;
  for (char** at = environ; *at != nullptr; ++at)
    if (!is_about_runs(*at)) all.emplace_back(*at);
  for (auto const& [name, value] : settings) all.push_back(name + "=" + value);
  return all;
}

}  // namespace

bool comes_true(std::function<bool()> const& what) {
  auto const deadline = std::chrono::steady_clock::now() + patience;
  while (!what()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(glance);
  }
  return true;
}

std::string content_of(std::filesystem::path const& file) {
  std::ostringstream all;
  all << std::ifstream(file, std::ios::binary).rdbuf();
  return all.str();
}

scratch::scratch() {
  std::string name = (std::filesystem::temp_directory_path() / "rubato-process-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("no temporary directory");
  path_ = name;
}
scratch::~scratch() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

child::child(std::filesystem::path name, words const& command, variables const& settings)
    : name_(std::move(name)) {
  words texts = command;
  words environment = environment_with(settings);
  std::vector<char*> arguments = pointers(texts);
  std::vector<char*> variable_texts = pointers(environment);
  std::string const out = name_.string() + ".out";
  std::string const err = name_.string() + ".err";
  id_ = ::fork();
  if (id_ == 0) become(out.c_str(), err.c_str(), arguments.data(), variable_texts.data());
  if (id_ < 0) throw std::runtime_error("no new process");
}

child::~child() {
  if (ended_) return;
  ::kill(id_, SIGKILL);
  reap(0);
}

void child::send(int signal) const {
  if (!ended_) ::kill(id_, signal);
}

void child::stop() {
  send(SIGSTOP);
  reap(WUNTRACED);
}

void child::reap(int options) {
  int status = 0;
  if (ended_ || ::waitpid(id_, &status, options) != id_ || WIFSTOPPED(status)) return;
  ended_ = true;
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

bool child::has_ended() {
  reap(WNOHANG);
  return ended_;
}

std::string child::state() {
  if (has_ended()) return "ended with " + std::to_string(code_);
  std::filesystem::path const about = "/proc/" + std::to_string(id_);
  std::error_code ignored;
  std::string const what = std::filesystem::read_symlink(about / "exe", ignored).filename().string();
  std::string const how = content_of(about / "stat");  // "PID (NAME) STATE ..."
  auto const name_end = how.rfind(") ");
  std::string const letter = name_end == std::string::npos ? "none" : how.substr(name_end + 2, 1);
  return what + " is in state " + letter + ", in " + content_of(about / "wchan");
}

int child::wait() {
  if (!comes_true([this] { return has_ended(); })) {
    send(SIGKILL);
    reap(0);
    throw std::runtime_error(name_.filename().string() + " did not end; errors: " + errors());
  }
  return code_;
}

std::string child::output() const { return content_of(name_.string() + ".out"); }
std::string child::errors() const { return content_of(name_.string() + ".err"); }

bool child::prints(std::string const& text) {
  auto const has = [&] { return output().find(text) != std::string::npos; };
  return comes_true([&] { return has() || has_ended(); }) && has();
}

std::string child::value(std::string const& name) const {
  std::istringstream lines(output());
  std::string found;
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name + " ")) found = line.substr(name.size() + 1);
  return found;
}

}  // namespace rubato::test
