// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "rubato/peer/graph.hpp"
#include "rubato/peer/local_parameters.hpp"
#include "rubato/peer/peer_node.hpp"
#include "rubato/peer/push_rules.hpp"

namespace rubato {

/// A peer of a protocol in which weights travel with updates, see `push_rules`.
///
/// An iteration: compute, apply, send to those of the schedule, average with what has come from those of the
/// schedule, in the order of ranks. An update has its weight in the message's number; which exchange it is of follows
/// from the schedule, since links are FIFO and nobody leaves one out.
///
/// Who ends says so to its partners, and averages what still comes then and there, so that no weight is lost with it.
/// Nothing is sent to one that has ended or is lost: that weight is kept. Who has little weight keeps it, and sends
/// none; who hears of a loss takes itself for whole again.
///
/// Cost of a step: one pass over gradient and parameters, and one that reads the parameters of each update and writes
/// the new ones; the parameters themselves are sent, not copies. What the schedule costs comes on top, twice.
class push_node final : public peer_node {
 public:
  push_node(push_rules rules, node_setup const& setup);

  [[nodiscard]] bool deliver(worker_id from, peer_message&& m, outbox& out) override;
  void lose(worker_id w) override;
  void leave(outbox& out) override;
  [[nodiscard]] bool can_go_on() const noexcept override;
  [[nodiscard]] std::vector<worker_id> awaits() const override;
  [[nodiscard]] shared_update share() const override { return current_; }

  void reset() override;
  void begin(peer_endpoint& e, std::int64_t iterations) override;
  void step(peer_endpoint& e, std::span<std::byte const> gradient) override;
  [[nodiscard]] std::span<std::byte const> parameters() const noexcept override { return seen_->values.bytes(); }
  [[nodiscard]] std::int64_t iteration() const noexcept override { return iteration_; }
  [[nodiscard]] bool ended() const noexcept override { return ended_; }
  [[nodiscard]] peer_counters counters() const noexcept override { return counters_; }
  [[nodiscard]] peer_waits waits() const noexcept override { return waits_; }
  [[nodiscard]] std::uint64_t bytes(peer_message const& m) const noexcept override {
    return sizeof m.kind + sizeof m.number + m.parameters->values.size_bytes();
  }
  void use(std::shared_ptr<block_memory> const& memory) override { local_.use(memory); }
  [[nodiscard]] std::string agreement() const override;

  /// w: this peer's part of the weight of all, which is their number, less what is under way. Under the guard.
  [[nodiscard]] double weight() const noexcept { return weight_; }
  /// What has come and waits for its turn: weights with parameters. Under the guard.
  [[nodiscard]] std::vector<std::pair<double, shared_update>> waiting() const;
  /// What a message of another such peer has of the weight; 0 for a goodbye.
  [[nodiscard]] static double weight_of(peer_message const& m) noexcept;

 private:
  enum kind : std::uint8_t {
    update,  ///< parameters, whose weight is in the number
    bye,     ///< no more follow
  };
  /// Another peer.
  struct other {
    std::vector<peer_message> came;  ///< not averaged yet, in order; few, and each has n of these
    bool is_gone = false;           ///< nothing will come any more
    bool is_lost = false;
  };

  void apply(peer_endpoint& e, std::span<std::byte const> gradient);
  void exchange(peer_endpoint& e, bool is_last);
  void take_itself_for_whole() noexcept;
  void send(peer_endpoint& e, std::int64_t number);
  void gather(peer_endpoint& e, std::int64_t number);
  [[nodiscard]] std::vector<worker_id> checked(std::vector<worker_id> those, char const* what,
                                               std::int64_t number) const;
  [[nodiscard]] std::vector<contribution> take(std::vector<worker_id> const& those);
  void absorb(peer_message&& m);
  void absorb_all();
  [[noreturn]] void throw_lost(worker_id w) const;
  [[nodiscard]] bool is_there(worker_id w) const noexcept;

  push_rules rules_;
  graph graph_;
  worker_id self_;
  std::optional<std::vector<worker_id>> partners_;  ///< ascending; nothing where all are
  local_parameters local_;  ///< free, or when the body has ended: under the guard
  std::vector<other> others_;  ///< by rank
  shared_update current_;
  shared_update seen_;  ///< what the gradient is computed at
  double weight_ = 1;
  std::vector<worker_id> awaited_;
  std::size_t held_ = 0;
  bool absorbs_ = false;  ///< updates count as they come
  bool heard_of_loss_ = false;  ///< in this iteration
  std::int64_t iteration_ = 0;
  std::int64_t iterations_ = 0;
  bool ended_ = false;
  peer_counters counters_;
  peer_waits waits_;
};

}  // namespace rubato
