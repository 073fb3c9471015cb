// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "rubato/peer/hop_core.hpp"
#include "rubato/peer/local_parameters.hpp"
#include "rubato/peer/peer_node.hpp"

namespace rubato {

class lost_error;

/// A peer of the Hop family: the machine, its parameters, and the arithmetic on them.
///
/// Neighbors are sent the parameters themselves, not copies: they never change once they are sent,
/// and what comes out of a reduce goes into a block that nobody uses any more.
///
/// Cost of a step: one pass that reads the gradient and the parameters of each update, and writes the
/// new ones; in serial order one more over gradient and parameters.
class hop_node final : public peer_node {
 public:
  /// @throws option_error for what cannot be meant at this place in the graph; it names the node
  hop_node(hop_rules protocol, node_setup const& setup);

  [[nodiscard]] bool deliver(worker_id from, peer_message&& m, outbox& out) override;
  void lose(worker_id w) override { core_.lose(w); }
  void leave(outbox& out) override { core_.leave(out); }
  [[nodiscard]] bool can_go_on() const noexcept override { return core_.can_go_on(); }
  [[nodiscard]] std::vector<worker_id> awaits() const override { return core_.awaits(); }
  [[nodiscard]] shared_update share() const override { return current_; }

  void reset() override;
  void begin(peer_endpoint& e, std::int64_t iterations) override;
  void step(peer_endpoint& e, std::span<std::byte const> gradient) override;
  [[nodiscard]] std::span<std::byte const> parameters() const noexcept override {
    return current_->values.bytes();
  }
  [[nodiscard]] std::int64_t iteration() const noexcept override { return core_.iteration().value(); }
  [[nodiscard]] bool ended() const noexcept override { return core_.ended(); }
  [[nodiscard]] peer_counters counters() const noexcept override { return core_.counters(); }
  [[nodiscard]] peer_waits waits() const noexcept override { return waits_; }
  [[nodiscard]] std::uint64_t bytes(peer_message const& m) const noexcept override {
    return sizeof m.kind + sizeof m.number + m.parameters->values.size_bytes();
  }
  void use(std::shared_ptr<block_memory> const& memory) override { local_.use(memory); }
  [[nodiscard]] std::string agreement() const override;

  [[nodiscard]] hop_core const& core() const noexcept { return core_; }

 private:
  using todo = hop_core::todo;

  void run(peer_endpoint& e);
  todo next(peer_endpoint& e);
  void send(peer_endpoint& e);
  void reduce(peer_endpoint& e);
  static void flush(peer_endpoint& e, outbox& out);
  [[nodiscard]] lost_error lost() const;

  hop_core core_;
  local_parameters local_;
  shared_update current_;
  std::span<std::byte const> gradient_;  ///< not applied yet
  peer_waits waits_;
  std::uint32_t peers_;
};

}  // namespace rubato
