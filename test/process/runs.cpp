// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#include "process/runs.hpp"

#include <stdexcept>
#include <utility>

#include "net/free_port.hpp"
#include "process/hold.hpp"

namespace rubato::test {

std::string program_of(std::string const& protocol) {
  for (char const* name : {"dyn_sgd", "ssp_strict", "adsp"})
    if (protocol.starts_with(name)) return "train_more";
  return "train";
}

process_run::process_run(run_plan plan) : plan_(std::move(plan)) {
  if (plan_.held_at) hold_at(*plan_.held_at);
  coordinator_address_ = plan_.unix_sockets ? "unix:" + (folder() / "coordinator").string()
                                            : "127.0.0.1:" + std::to_string(free_port());
  coordinator_ = start("coordinator", 0);
  for (std::uint32_t i = 0; i < plan_.servers; ++i) servers_.push_back(start("server", i));
  for (std::uint32_t i = 0; i < plan_.workers; ++i) workers_.push_back(start("worker", i));
}

std::unique_ptr<child> process_run::start(std::string const& role,
                                          std::optional<std::uint32_t> given) {
  auto const rank = given.value_or(static_cast<std::uint32_t>(workers_.size()));
  variables all{{"RUBATO_ROLE", role},
                {"WORLD_SIZE", std::to_string(plan_.workers)},
                {"RUBATO_SERVERS", std::to_string(plan_.servers)},
                {"RUBATO_COORDINATOR", coordinator_address_},
                {"RUBATO_SILENCE", "30"},
                {"RUBATO_RECONNECT", "10"}};
  if (given) all["RANK"] = std::to_string(rank);
  std::string const name = role + "-" + std::to_string(rank);
  if (given) all["RUBATO_PLACE_KEY"] = name;  // as rubato-launch does
  if (plan_.unix_sockets && !plan_.leaves_sockets && role == "server")
    all["RUBATO_LISTEN"] = "unix:" + (folder() / name).string();
  for (auto const& [key, value] : plan_.settings) all[key] = value;
  if (plan_.own_settings)
    for (auto const& [key, value] : plan_.own_settings(role, rank)) all[key] = value;
  words command{std::string(RUBATO_TEST_PROGRAMS) + "/" + plan_.program};
  command.insert(command.end(), plan_.options.begin(), plan_.options.end());
  if (plan_.held_at) command.insert(command.end(), {"--hold", hold_file().string()});
  for (auto& word : command)
    if (word == "FOLDER") word = folder().string();
  // The number tells the lives of one rank apart.
  return std::make_unique<child>(folder() / (name + "." + std::to_string(started_++)), command, all);
}

child& process_run::start_again(std::uint32_t rank) {
  (void)workers_.at(rank)->wait();
  workers_[rank] = start("worker", rank);
  return *workers_[rank];
}

child& process_run::start_another(std::optional<std::uint32_t> rank) {
  workers_.push_back(start("worker", rank));
  return *workers_.back();
}

void process_run::hold_at(std::int64_t steps) {
  if (!plan_.held_at) throw std::logic_error("a run is held that was not begun so: its workers do not look");
  hold::set(hold_file(), steps);
}

void process_run::let_go() { hold::lift(hold_file()); }

std::string process_run::failures() {
  std::string all;
  auto const note = [&all](std::string const& name, child& c) {
    if (int const code = c.wait(); code != 0) all += name + ": " + std::to_string(code) + "\n";
  };
  for (std::size_t i = 0; i < workers_.size(); ++i) note("worker " + std::to_string(i), *workers_[i]);
  for (std::size_t i = 0; i < servers_.size(); ++i) note("server " + std::to_string(i), *servers_[i]);
  note("coordinator", *coordinator_);
  return all;
}

std::string process_run::errors() const {
  std::string all;
  auto const tell = [&all](std::string const& name, child& c) {
    all += name + " (" + c.state() + "):\n" + c.errors();
  };
  tell("coordinator", *coordinator_);
  for (std::size_t i = 0; i < servers_.size(); ++i) tell("server " + std::to_string(i), *servers_[i]);
  for (std::size_t i = 0; i < workers_.size(); ++i) tell("worker " + std::to_string(i), *workers_[i]);
  constexpr std::size_t enough = 8000;
  return all.size() < enough ? all : all.substr(0, enough) + "…";
}

}  // namespace rubato::test
