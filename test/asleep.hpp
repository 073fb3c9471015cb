// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace rubato::test {

/// What the system says of a thread: the lines of its /proc/…/status, by name; none once it is gone.
class thread_status {
 public:
  explicit thread_status(std::filesystem::path const& thread) {
    std::ifstream file(thread / "status");
    read(file);
  }
  /// Of that file, read anew: for who cannot open it each time.
  explicit thread_status(std::ifstream& file) {
    file.clear();
    file.seekg(0);
    read(file);
  }
  [[nodiscard]] std::string operator[](std::string const& name) const {
    auto const at = lines_.find(name);
    return at == lines_.end() ? "" : at->second;
  }
  /// It waits for something, or has ended and waits for its parent to look.
  [[nodiscard]] bool sleeps() const {
    auto const state = (*this)["State"];
    return state.starts_with("S") || state.starts_with("Z");
  }
  /// How often it has gone to sleep, and been put aside.
  [[nodiscard]] std::pair<std::string, std::string> switches() const {
    return {(*this)["voluntary_ctxt_switches"], (*this)["nonvoluntary_ctxt_switches"]};
  }

 private:
  void read(std::ifstream& file) {
    for (std::string line; std::getline(file, line);)
      if (auto const colon = line.find(':'); colon != std::string::npos)
        lines_.emplace(line.substr(0, colon), line.substr(std::min(line.size(), colon + 2)));
  }

  std::map<std::string, std::string> lines_;
};

/// The folders of /proc in there that are named by a number: processes, or threads.
[[nodiscard]] inline std::map<pid_t, std::filesystem::path> numbered_in(std::filesystem::path const& folder) {
  std::map<pid_t, std::filesystem::path> all;
  std::error_code gone;
  std::filesystem::directory_iterator at(folder, gone), end;
  for (; !gone && at != end; at.increment(gone)) {
    std::string const name = at->path().filename();
    pid_t number = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), number).ptr == name.data() + name.size())
      all.emplace(number, at->path());
  }
  return all;
}

[[nodiscard]] inline std::map<pid_t, std::filesystem::path> threads_of(pid_t process) {
  return numbered_in("/proc/" + std::to_string(process) + "/task");
}

/// A process, its children, theirs, and so on.
[[nodiscard]] inline std::vector<pid_t> family_of(pid_t process) {
  std::multimap<std::string, pid_t> by_parent;
  for (auto const& [id, folder] : numbered_in("/proc")) by_parent.emplace(thread_status(folder)["PPid"], id);
  std::vector<pid_t> all{process};
  for (std::size_t i = 0; i < all.size(); ++i) {
    auto const [first, last] = by_parent.equal_range(std::to_string(all[i]));
    for (auto at = first; at != last; ++at) all.push_back(at->second);
  }
  return all;
}

/// Whether there was a moment at which all threads of these processes slept, but for one that asks: from
/// then on nothing happens among them unless somebody else, or a time, wakes one. `processes()` is asked
/// twice: whoever has run in between, to start another for instance, does not look the same.
template <class Processes>
[[nodiscard]] bool all_slept(Processes processes, pid_t but = 0) {
  auto const look = [&](auto& counts) {
    for (pid_t const p : processes())
      for (auto const& [id, folder] : threads_of(p)) {
        if (id == but) continue;
        thread_status const now(folder);
        if (!now.sleeps()) return false;
        counts.emplace(id, now.switches());
      }
    return true;
  };
  std::map<pid_t, std::pair<std::string, std::string>> before, after;
  return look(before) && look(after) && before == after;
}

/// The same for all other threads of this process.
[[nodiscard]] inline bool all_others_slept() {
  return all_slept([] { return std::vector{::getpid()}; }, ::gettid());
}

}  // namespace rubato::test
