// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <exception>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "src/tools/server/host.hpp"

namespace rubato::server_tool {

/// The coordinator in a thread of a server's process.
class companion {
 public:
  /// Returns once it listens. @throws what `coordinate` throws before
  explicit companion(std::function<void(coordinator_started const&)> coordinate) {
    std::promise<void> listening;
    auto started = listening.get_future();
    thread_ = std::thread([this, coordinate = std::move(coordinate),
                           listening = std::move(listening)]() mutable {
      bool told = false;
      try {
        coordinate([&](std::function<void()> stop) {
          set_stop(std::move(stop));
          told = true;
          listening.set_value();
          return std::shared_ptr<void>(nullptr, [this](void*) { set_stop(nullptr); });
        });
      } catch (...) {
        if (told) failure_ = std::current_exception();
        else listening.set_exception(std::current_exception());
      }
    });
    try {
      started.get();
    } catch (...) {
      thread_.join();
      throw;
    }
  }
  ~companion() {
    if (!thread_.joinable()) return;
    stop();
    thread_.join();
  }
  companion(companion const&) = delete;
  companion& operator=(companion const&) = delete;

  void stop() {
    std::lock_guard const guard(lock_);
    if (stop_) stop_();
  }
  /// Waits for its end. @throws what ended it
  void finish() {
    thread_.join();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void set_stop(std::function<void()> stop) {
    std::lock_guard const guard(lock_);
    stop_ = std::move(stop);
  }

  std::thread thread_;
  std::mutex lock_;
  std::function<void()> stop_;  ///< while it runs
  std::exception_ptr failure_;
};

/// Ends a server and the coordinator in its process, if there is one.
template <class Server>
void stop_both(companion* coordinator, Server& server) {
  server.expect_stop();
  if (coordinator != nullptr) coordinator->stop();  // first, or it would miss the server
  server.stop();
}

}  // namespace rubato::server_tool
