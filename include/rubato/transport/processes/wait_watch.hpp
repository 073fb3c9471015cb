// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "rubato/net/network.hpp"
#include "rubato/transport/processes/long_wait.hpp"

namespace rubato::detail {

/// Logs who waits for long, of what a process knows. In the turn of who serves its network, where it calls, too.
class wait_watch {
 public:
  using time = net::network::clock::time_point;

  /// @param after see `long_wait`
  /// @param since when who has waited for longest does; nothing where nobody waits
  /// @param who that is, and what it waits for
  wait_watch(net::network& network, std::chrono::milliseconds after, std::function<std::optional<time>()> since,
             std::function<std::string()> who);

 private:
  void look();
  void look_again_at(time when);

  net::network& network_;
  std::chrono::milliseconds after_;
  long_wait when_;
  std::function<std::optional<time>()> since_;
  std::function<std::string()> who_;
  std::shared_ptr<void> next_look_;
};

}  // namespace rubato::detail
