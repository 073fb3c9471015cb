// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "rubato/run/peer_run.hpp"
#include "rubato/transport/in_process.hpp"
#include "rubato/transport/threads/slow_motion.hpp"

namespace rubato::detail {

/// What stands between a node and the others.
struct peer_mailbox {
  std::mutex lock;
  std::condition_variable awake;
  bool waiting = false;
  bool asleep = false;               ///< and until somebody sends it what it can go on with
  std::atomic<bool> called = false;  ///< who waits can go on
  std::uint64_t bytes_answered = 0;  ///< by the node, in the threads of those that asked
};

/// Runs peers as threads of this process: a message is put where its receiver finds it, parameters are
/// not copied. See `in_process`.
///
/// Each node has one lock, held while a message is taken or the peer asks what is next, not while it
/// computes or averages. Nobody holds two.
class peer_threads final : public peer_runtime, peer_run {
 public:
  peer_threads(in_process const& options, peer_setup setup);

  peer_report run(body_type body) override;
  void stop() noexcept override { life::stop(); }
  [[nodiscard]] time_point now() const override {
    return time_point(std::chrono::steady_clock::now() - began_.load(std::memory_order_relaxed));
  }
  /// Threads do not die.
  [[nodiscard]] bool crashed(std::uint32_t) const noexcept override { return false; }
  void look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const override;

 private:
  class own_endpoint;
  struct peer_thread;

  [[nodiscard]] time_point time() const override { return now(); }
  void wake_all() noexcept override;
  [[nodiscard]] std::string who_waits() const override;
  void left(peer_participant& p) override;

  void begin(body_type body);
  void send(worker_id from, worker_id to, peer_message&& m);
  void deliver(worker_id from, worker_id to, peer_message&& m, outbox& answers);
  [[nodiscard]] peer_report report() const;

  mutable std::deque<peer_mailbox> boxes_;  // by node
  std::uint64_t seed_;
  std::chrono::microseconds poll_for_;
  std::vector<slow_motion> slowed_;  // by rank
  std::vector<std::unique_ptr<peer_thread>> participants_;
  std::atomic<std::chrono::steady_clock::time_point> began_{};
};

}  // namespace rubato::detail
