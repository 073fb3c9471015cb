// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "process/children.hpp"

namespace rubato::test {

/// A run of a program from programs/ as it is to be started.
struct run_plan {
  std::uint32_t workers = 3;
  std::uint32_t servers = 2;
  words options = {};
  variables settings = {};  ///< beside those that say a process's place
  std::string program = "train";
  bool unix_sockets = false;
  bool leaves_sockets = false;  ///< to the servers, where they listen
  std::optional<std::int64_t> held_at = {};  ///< workers begin with `hold_at` of so many steps
  /// What servers and workers have beside `settings`.
  std::function<variables(std::string const& role, std::uint32_t rank)> own_settings = {};
};

/// A coordinator, servers and workers in processes of their own.
class process_run {
 public:
  explicit process_run(run_plan plan);

  [[nodiscard]] child& coordinator() { return *coordinator_; }
  [[nodiscard]] child& server(std::size_t i) { return *servers_.at(i); }
  [[nodiscard]] child& worker(std::size_t i) { return *workers_.at(i); }
  [[nodiscard]] std::filesystem::path const& folder() const noexcept { return scratch_.path(); }

  /// Starts a worker again, after the one before has ended; replaces it.
  child& start_again(std::uint32_t rank);
  /// Starts one worker more than the run began with; without a rank the coordinator gives it one.
  child& start_another(std::optional<std::uint32_t> rank = {});

  /// No worker goes on after so many steps of its own, however fast it is: a test that does something to a run under
  /// way needs no luck for the run to be under way still. Later calls take the place of earlier ones.
  void hold_at(std::int64_t steps);
  void let_go();

  /// Waits for all to end. How each has ended, by name: the exit codes that are not 0.
  [[nodiscard]] std::string failures();
  /// What became of each, and all that it printed to stderr, for messages of tests.
  [[nodiscard]] std::string errors() const;

 private:
  [[nodiscard]] std::filesystem::path hold_file() const { return folder() / "hold"; }
  std::unique_ptr<child> start(std::string const& role, std::optional<std::uint32_t> rank);

  run_plan plan_;
  scratch scratch_;
  std::string coordinator_address_;
  int started_ = 0;
  std::unique_ptr<child> coordinator_;
  std::vector<std::unique_ptr<child>> servers_;
  std::vector<std::unique_ptr<child>> workers_;
};

/// Which of programs/ knows this protocol.
[[nodiscard]] std::string program_of(std::string const& protocol);

}  // namespace rubato::test
