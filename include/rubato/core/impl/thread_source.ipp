// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <condition_variable>
#include <thread>
#include <utility>

#include "rubato/core/start_thread.hpp"
#include "rubato/core/thread_source.hpp"

namespace rubato {

namespace {

class system_condition final : public condition {
 public:
  void wait(std::unique_lock<std::mutex>& guard) override { changed_.wait(guard); }
  void wait_until(std::unique_lock<std::mutex>& guard, clock::time_point deadline) override {
    changed_.wait_until(guard, deadline);
  }
  void wait_for(std::unique_lock<std::mutex>& guard, clock::duration time) override { changed_.wait_for(guard, time); }
  void notify_one() noexcept override { changed_.notify_one(); }
  void notify_all() noexcept override { changed_.notify_all(); }

 private:
  std::condition_variable changed_;
};

class system_thread final : public running_thread {
 public:
  explicit system_thread(std::function<void()> body) : thread_(std::move(body)) {}
  void join() override { thread_.join(); }

 private:
  std::thread thread_;
};

class source_of_system_threads final : public thread_source {
 public:
  std::unique_ptr<condition> make_condition() override { return std::make_unique<system_condition>(); }
  std::unique_ptr<running_thread> start(std::function<void()> body) override {
    return detail::start_thread_of([] { return "a process of a run"; },
                                   [&] { return std::make_unique<system_thread>(std::move(body)); });
  }
};

}  // namespace

thread_source& system_threads() noexcept {
  static auto* const one = new source_of_system_threads;
  return *one;
}

}  // namespace rubato
