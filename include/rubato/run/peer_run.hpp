// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rubato/run/life.hpp"
#include "rubato/run/peer_runtime.hpp"

namespace rubato {

class peer_run;

/// A peer that takes part in a run, in this process.
class peer_participant : public participant {
 public:
  explicit peer_participant(peer_run& run) noexcept : run_(run) {}

  [[nodiscard]] peer_core& handle() noexcept { return *handle_; }
  [[nodiscard]] peer_core const& handle() const noexcept { return *handle_; }

  void live() override;
  void end() override { handle_->end(); }
  void leave() override;

 protected:
  /// Makes the handle. @param link outlives it
  void attach(peer_endpoint& link, std::uint32_t rank, std::uint64_t seed);

 private:
  peer_run& run_;
  std::unique_ptr<peer_core> handle_;
};

/// What a runtime runs whose peers live in this process, and their lives. Runtimes derive from it.
class peer_run : protected life {
 protected:
  /// Of all peers.
  explicit peer_run(peer_setup setup);
  struct made_later {};
  /// Of those that `make` makes.
  peer_run(peer_setup setup, made_later) : life("group"), setup_(std::move(setup)), nodes_(setup_.count) {}
  void make(std::uint32_t rank) { nodes_[rank] = setup_.make_node(rank); }

  /// One has ended by itself: on its thread or fiber.
  virtual void left(peer_participant& p) = 0;

  /// All peers of the run, wherever they live.
  [[nodiscard]] std::uint32_t count() const noexcept { return setup_.count; }
  [[nodiscard]] peer_node& node(std::uint32_t rank) const noexcept { return *nodes_[rank]; }
  /// For messages: "peer 3 waits in iteration 7 for peer 1, 2". Under the guard.
  [[nodiscard]] std::string describe_wait(std::uint32_t rank) const;

  peer_setup setup_;
  peer_runtime::body_type body_;

 private:
  friend class peer_participant;
  std::vector<std::unique_ptr<peer_node>> nodes_;  ///< by rank
};

}  // namespace rubato
