// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "rubato/core/ids.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/hop_rules.hpp"
#include "rubato/peer/mailboxes.hpp"
#include "rubato/peer/message.hpp"
#include "rubato/peer/peer_site.hpp"
#include "rubato/peer/token_queue.hpp"
#include "rubato/peer/update_queue.hpp"

namespace rubato {

/// What peers of the Hop family send each other: a message's kind, and what its number is.
enum class hop_kind : std::uint8_t {
  update,  ///< the sender's parameters of iteration `number`
  tokens,  ///< `number` tokens put into the queue kept for the receiver
  ack,     ///< the sender has reduced the receiver's update of iteration `number`
  bye,     ///< the sender makes `number` iterations, has ended the last of them, and sends no more
};
[[nodiscard]] constexpr std::uint8_t operator+(hop_kind k) noexcept { return static_cast<std::uint8_t>(k); }

/// One update that takes part in a reduce.
struct contribution {
  worker_id from{};
  double weight = 0;           ///< all weights of a reduce add up to 1, but for rounding
  bool own = false;            ///< the peer's own parameters, which it has already
  shared_update parameters{};  ///< empty where `own`
};

/// The rules by which a peer of the Hop family goes through its iterations: a state machine without
/// I/O, threads or clock. Messages and losses come in; messages, and what to do next, go out.
///
/// Whoever drives it asks `poll` what to do next and does it:
///
/// | `todo`    | the peer                                   | and then calls |
/// |-----------|--------------------------------------------|----------------|
/// | `compute` | computes the gradient of `iteration()`     | `computed()`   |
/// | `send`    | has parameters for its out-neighbors       | `send(them)`   |
/// | `reduce`  | averages what `gather()` gives             | `reduced()`    |
/// | `wait`    | waits until `can_go_on()`                  | `poll` again   |
/// | `end`     | has ended its last iteration               |                |
/// | `stop`    | cannot go on without `lost()`              |                |
///
/// Calls in another order are asserted. What a message may bring is checked, not asserted: `deliver`
/// answers false to one that no correct peer sends, and changes nothing.
///
/// Cost: a message takes O(log neighbors); an iteration O(neighbors · log neighbors).
/// Thread safety: none; a transport guards it.
/// Source: 002 Fig. 4, 7–9, §5; where these rules depart from the figures, rules §6 says why.
class hop_core {
 public:
  enum class todo { wait, compute, send, reduce, end, stop };

  /// Beyond every number of an iteration or of tokens; sums of a few of them do not overflow.
  static constexpr std::int64_t number_max = std::numeric_limits<std::int64_t>::max() / 4;

  /// @pre the protocol's options have been checked for this site
  hop_core(hop_rules protocol, peer_site site);

  // ---- what the peer does

  /// Begins, and enters iteration 0, if there is one. @pre once
  void start(std::int64_t iterations, outbox& out);
  /// Goes on as far as it can, and says what is next.
  [[nodiscard]] todo poll(outbox& out);
  /// Whether there is anything to go on with: what `poll` waited for is there.
  [[nodiscard]] bool can_go_on() const noexcept;
  /// The gradient of this iteration is there.
  void computed();
  /// Sends the parameters of this iteration to the out-neighbors that can still use them.
  void send(shared_update const& parameters, outbox& out);
  /// Takes what is to be averaged, by sender, the peer's own parameters among them.
  [[nodiscard]] std::vector<contribution> gather();
  /// The average is made, and the step applied.
  void reduced(outbox& out);
  /// Gives up before the last iteration: neighbors that need more take it for a loss.
  void leave(outbox& out);

  // ---- what happens to it

  /// Takes a message. False, and nothing changed, for one that cannot be: from a peer that is no
  /// neighbor, beyond the gap, a second time, …
  [[nodiscard]] bool deliver(worker_id from, peer_message m);
  /// A neighbor has died, or left. Its updates and tokens count no more, nor does it; unless it had
  /// ended, and sent all that this peer needs.
  void lose(worker_id w);

  // ---- what is known of it

  /// Iter(i): the iteration that it is in, or the last one.
  [[nodiscard]] iteration_index iteration() const noexcept { return iteration_; }
  [[nodiscard]] bool started() const noexcept { return phase_ != phase::idle; }
  [[nodiscard]] bool ended() const noexcept { return phase_ == phase::ended; }
  /// What it waits for, if it does, are updates.
  [[nodiscard]] bool gathering() const noexcept { return phase_ == phase::gathering; }
  /// Whose updates, tokens or acknowledgements are not there, where it waits: any of them may be who lets it go on.
  [[nodiscard]] std::vector<worker_id> awaits() const;
  /// In the middle of a jump, which reduces without a step of its own.
  [[nodiscard]] bool jumping() const noexcept { return jumping_; }
  [[nodiscard]] hop_rules const& protocol() const noexcept { return protocol_; }
  [[nodiscard]] peer_site const& site() const noexcept { return site_; }
  /// Whom it cannot do without.
  [[nodiscard]] std::optional<worker_id> lost() const noexcept { return lost_; }
  [[nodiscard]] bool is_live_in(std::size_t i) const noexcept { return in_[i].live; }
  [[nodiscard]] bool is_live_out(std::size_t i) const noexcept { return out_[i].live; }
  /// The tokens that are here of out-neighbor number i. @pre there are token queues
  [[nodiscard]] std::int64_t tokens(std::size_t i) const noexcept { return out_[i].tokens.size(); }
  /// What has been received: in the queue where updates are kept by iteration, else in the mailboxes.
  [[nodiscard]] update_queue<shared_update> const& queue() const noexcept { return queue_; }
  [[nodiscard]] mailboxes<shared_update> const& boxes() const noexcept { return boxes_; }
  /// How many updates that is.
  [[nodiscard]] std::size_t held() const noexcept {
    return by_iteration_ ? queue_.size() : boxes_.size();
  }
  [[nodiscard]] peer_counters counters() const noexcept;

 private:
  enum class phase { idle, sending, computing, gathering, reducing, advancing, ended };

  struct in_neighbor {
    bool live = true;
    bool done = false;       ///< has ended all iterations that this peer will make
    bool satisfies = false;  ///< newest: what it has sent will do for this iteration
    iteration_index newest{-1};  ///< of its updates that were taken
  };
  struct out_neighbor {
    token_queue tokens;
    bool live = true;
    bool done = false;
    std::optional<iteration_index> unacked{};  ///< the update that it has not reduced yet
  };

  [[nodiscard]] std::size_t slots() const noexcept;
  [[nodiscard]] token_queue make_tokens(std::int64_t behind) const;

  // going on
  [[nodiscard]] bool is_last() const noexcept { return iteration_.value() + 1 >= iterations_; }
  [[nodiscard]] bool is_over() const noexcept;
  void enter(iteration_index k, outbox& out);
  todo advance(outbox& out);
  bool begin_jump(outbox& out);
  [[nodiscard]] std::int64_t lag_behind_slowest() const noexcept;
  void say_goodbye(outbox& out);
  void tell_in_neighbors(hop_kind what, std::int64_t number, outbox& out) const;
  void take_from_each(std::int64_t tokens);
  [[nodiscard]] bool has_left(out_neighbor const& o) const noexcept;

  // updates
  [[nodiscard]] bool enough() const noexcept;
  [[nodiscard]] std::vector<queued_update<shared_update>> take_updates();
  [[nodiscard]] double weight_of(worker_id from, iteration_index made, double mixing) const noexcept;
  void normalise(std::vector<contribution>& all) const;
  bool take_update(std::size_t i, peer_message m);
  bool put_into_queue(std::size_t i, iteration_index k, shared_update parameters);
  bool put_into_box(std::size_t i, iteration_index k, shared_update parameters);
  [[nodiscard]] bool is_too_new(iteration_index k) const noexcept;
  [[nodiscard]] bool has_sent_all(in_neighbor const& from) const noexcept;
  void lose_sender(std::size_t i);
  void recount();

  // tokens, acknowledgements, goodbyes
  [[nodiscard]] std::size_t count_without_token() const noexcept;
  bool take_tokens(out_neighbor& o, std::int64_t tokens);
  bool take_ack(out_neighbor& o, std::int64_t iteration);
  bool take_goodbye(worker_id from, std::int64_t makes);
  [[nodiscard]] bool has_said_goodbye(worker_id w) const;
  [[nodiscard]] bool is_early_goodbye(worker_id w) const;
  void part_with(worker_id w, std::int64_t makes);

  hop_rules protocol_;
  bool by_iteration_;
  peer_site site_;
  update_queue<shared_update> queue_;
  mailboxes<shared_update> boxes_;
  std::vector<in_neighbor> in_;
  std::vector<out_neighbor> out_;
  phase phase_ = phase::idle;
  iteration_index iteration_{};
  std::int64_t iterations_ = 0;
  std::size_t live_in_ = 0;
  std::size_t satisfying_ = 0;     ///< newest: in-neighbors whose updates will do
  std::size_t without_token_ = 0;  ///< out-neighbors that a token is missing of
  std::size_t acks_missing_ = 0;
  bool jumping_ = false;
  std::optional<worker_id> lost_;
  std::vector<std::pair<worker_id, std::int64_t>> early_goodbyes_;  ///< before it knew its own number
  peer_counters counters_;
};

}  // namespace rubato
