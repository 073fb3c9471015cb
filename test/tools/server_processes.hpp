// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <catch2/catch.hpp>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "process/children.hpp"
#include "rubato/transport/tcp.hpp"

namespace rubato::test {

struct server_plan {
  std::uint32_t workers = 2;  ///< processes
  std::uint32_t servers = 2;
  bool own_coordinator = false;  ///< a process of its own; else the first server coordinates
  words protocol;                ///< options of all
  words tables;                  ///< options of servers only
};

/// Processes of `rubato-server`.
class server_processes {
 public:
  explicit server_processes(server_plan plan) : plan_(std::move(plan)) {
    if (plan_.own_coordinator) start("coordinator", {"--role", "coordinator"});
    for (std::uint32_t rank = 0; rank < plan_.servers; ++rank) start_server(rank);
  }

  [[nodiscard]] tcp worker(std::uint32_t rank) const {
    return {.place = {.rank = rank,
                      .workers = plan_.workers,
                      .servers = plan_.servers,
                      .coordinator = place(),
                      .silence = std::chrono::seconds(30)}};
  }
  [[nodiscard]] std::uint32_t workers() const noexcept { return plan_.workers; }
  [[nodiscard]] child& server(std::uint32_t rank) {
    return *children_[rank + (plan_.own_coordinator ? 1 : 0)];
  }

  /// That they end with the run, and well.
  void check_end() {
    for (auto const& c : children_) {
      int const code = c->wait();
      INFO(c->errors());
      CHECK(code == 0);
    }
  }

 private:
  child& start(std::string const& name, words const& role) {
    words all{RUBATO_SERVER_PROGRAM};
    all.insert(all.end(), role.begin(), role.end());
    all.insert(all.end(),
               {"--workers", std::to_string(plan_.workers), "--servers",
                std::to_string(plan_.servers), "--silence", "30", "--coordinator", place().text()});
    all.insert(all.end(), plan_.protocol.begin(), plan_.protocol.end());
    children_.push_back(std::make_unique<child>(scratch_.path() / name, all, variables{}));
    return *children_.back();
  }

  void start_server(std::uint32_t rank) {
    words role{"--rank", std::to_string(rank)};
    if (rank == 0 && !plan_.own_coordinator) role.emplace_back("--with-coordinator");
    role.insert(role.end(), plan_.tables.begin(), plan_.tables.end());
    child& fresh = start("server-" + std::to_string(rank), role);
    bool const listens = fresh.prints("listening on ");
    INFO(fresh.errors());
    REQUIRE(listens);
  }

  [[nodiscard]] net::address place() const {
    net::address at;
    at.path = (scratch_.path() / "place").string();
    return at;
  }

  server_plan plan_;
  scratch scratch_;
  std::vector<std::unique_ptr<child>> children_;
};

}  // namespace rubato::test
