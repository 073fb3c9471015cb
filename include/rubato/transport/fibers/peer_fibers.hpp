// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "rubato/core/slab.hpp"
#include "rubato/run/peer_run.hpp"
#include "rubato/sim/event_queue.hpp"
#include "rubato/sim/fibers.hpp"
#include "rubato/sim/network.hpp"
#include "rubato/sim/scenario.hpp"
#include "rubato/sim/speed.hpp"
#include "rubato/transport/simulated.hpp"

namespace rubato::detail {

/// Runs peers in virtual time: each body is a fiber of one thread. See `simulated`.
///
/// A message between peers is one event; so is the end of a computation. Sending holds nobody up: the
/// sender's network card does it while the peer goes on. O(log events) each, besides what nodes and
/// body do.
class peer_fibers final : public simulated_peer_runtime, peer_run {
 public:
  peer_fibers(simulated const& options, peer_setup setup);
  ~peer_fibers() override;

  peer_report run(body_type body) override;
  void stop() noexcept override { life::stop(); }
  [[nodiscard]] time_point now() const override { return queue_.now(); }
  [[nodiscard]] bool crashed(std::uint32_t rank) const noexcept override;
  void look_at(std::uint32_t rank, std::function<void(peer_node const&)> const& f) const override {
    f(node(rank));
  }
  void on_event(std::function<void()> observer) override { on_event_ = std::move(observer); }

 private:
  class own_endpoint;
  struct peer_fiber;

  struct event {
    enum kind : std::uint32_t {
      resume,   ///< a peer's fiber goes on, or starts
      message,  ///< a message is at its peer
      crash,    ///< a peer dies
      detect,   ///< the others notice
    };
    kind what;
    std::uint32_t peer;
    std::uint32_t from;
    std::uint32_t detail;  ///< a place in the slab
  };
  struct under_way {
    peer_message content{};
    time_point sent{};  ///< when its last byte has left; lost if the sender dies before
  };

  // life
  [[nodiscard]] time_point time() const override { return now(); }
  void wake_all() noexcept override {}
  void left(peer_participant& p) override;

  void begin(body_type body);
  void handle(event const& e);
  void send(worker_id from, worker_id to, peer_message&& m);
  void arrive(event const& e);
  void wake(std::uint32_t rank);
  void go_on(std::uint32_t rank);
  void crash(std::uint32_t rank);
  void end_all();
  [[nodiscard]] sim::network new_network() const;
  [[nodiscard]] peer_report report() const;

  sim::scenario scenario_;
  std::size_t stack_bytes_;
  sim::speed_model speed_;
  sim::network network_;
  sim::event_queue<event> queue_;
  slab<under_way> messages_;
  std::vector<std::unique_ptr<peer_fiber>> participants_;
  std::unique_ptr<sim::fiber_pool> fibers_;  // after the participants: unwound before them
  std::function<void()> on_event_;
  std::uint64_t crashes_ = 0;
  std::uint64_t events_ = 0;
};

}  // namespace rubato::detail
