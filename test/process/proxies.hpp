// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/free_port.hpp"
#include "process/runs.hpp"
#include "src/tools/proxy/proxy.hpp"

namespace rubato::test {

/// Proxies in front of the coordinator and the servers of a run that is started by this plan.
class proxies {
 public:
  /// What the processes behind them listen on.
  enum class listening { unix_socket, port };

  /// The plan asks these for addresses as long as it lives.
  proxies(run_plan& plan, tools::meddling const& m, listening on = listening::unix_socket) {
    std::uint32_t const servers = plan.servers;
    for (std::uint32_t i = 0; i <= servers; ++i) {
      behind_.push_back(on == listening::port ? net::address{.host = "127.0.0.1", .port = free_port()} : socket_of(i));
      all_.push_back(std::make_unique<tools::proxy>(behind_.back(), m, i));
    }
    plan.settings["RUBATO_COORDINATOR"] = all_[servers]->address().text();
    plan.own_settings = [this, servers](std::string const& role, std::uint32_t rank) {
      if (role == "coordinator")
        return variables{{"RUBATO_COORDINATOR", behind_[servers].text()}};
      if (role == "worker") return variables{};
      return variables{{"RUBATO_LISTEN", behind_[rank].text()},
                       {"RUBATO_ANNOUNCE", all_[rank]->address().text()}};
    };
  }
  proxies(proxies const&) = delete;
  proxies& operator=(proxies const&) = delete;
  /// Of the servers, by number, and of the coordinator.
  [[nodiscard]] std::vector<net::address> const& behind() const noexcept { return behind_; }
  [[nodiscard]] int cuts() const {
    int sum = 0;
    for (auto const& p : all_) sum += p->cuts();
    return sum;
  }

 private:
  [[nodiscard]] net::address socket_of(std::uint32_t i) const {
    return {.host = {}, .path = (sockets_.path() / ("socket-" + std::to_string(i))).string()};
  }

  scratch sockets_;
  std::vector<net::address> behind_;
  std::vector<std::unique_ptr<tools::proxy>> all_;
};

}  // namespace rubato::test
