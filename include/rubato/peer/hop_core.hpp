// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/ids.hpp"
#include "rubato/metrics/peer_report.hpp"
#include "rubato/peer/concepts.hpp"
#include "rubato/peer/mailboxes.hpp"
#include "rubato/peer/message.hpp"
#include "rubato/peer/peer_site.hpp"
#include "rubato/peer/token_queue.hpp"
#include "rubato/peer/update_queue.hpp"

namespace rubato {

/// One update that takes part in a reduce.
template <class Payload>
struct contribution {
  worker_id from{};
  double weight = 0;     ///< all weights of a reduce add up to 1, but for rounding
  bool own = false;      ///< the peer's own parameters, which it has already
  Payload parameters{};  ///< empty where `own`
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
template <class Payload, hop_protocol Protocol>
class hop_core {
  using gather_type = decltype(std::declval<Protocol const&>().gather());
  using reduce_type = decltype(std::declval<Protocol const&>().reduce());
  using gap_type = decltype(std::declval<Protocol const&>().gap());
  using jump_type = decltype(std::declval<Protocol const&>().jump());
  static constexpr bool by_iteration = gather_type::kept == keeping::by_iteration;

 public:
  using message = hop_message<Payload>;
  using outbox_type = outbox<message>;
  /// Whether the size of its queue depends on `peer_site::lead_max`.
  static constexpr bool needs_lead = by_iteration && !gap_type::tokens && !gap_type::acks;
  enum class todo { wait, compute, send, reduce, end, stop };

  /// Beyond every number of an iteration or of tokens; sums of a few of them do not overflow.
  static constexpr std::int64_t number_max = std::numeric_limits<std::int64_t>::max() / 4;

  /// @pre the protocol's options have been checked for this site
  hop_core(Protocol const& p, peer_site site)
      : gather_(p.gather()),
        reduce_(p.reduce()),
        gap_(p.gap()),
        jump_(p.jump()),
        order_(p.order()),
        site_(std::move(site)),
        updates_(make_queue()),
        in_(site_.in.size()) {
    for (std::int64_t const d : site_.behind) out_.push_back(out_neighbor{make_tokens(d)});
    without_token_ = count_without_token();
  }

  // ---- what the peer does

  /// Begins, and enters iteration 0, if there is one. @pre once
  void start(std::int64_t iterations, outbox_type& out) {
    RUBATO_ASSERT(phase_ == phase::idle && iterations >= 0);
    iterations_ = iterations;
    for (auto const& [from, makes] : std::exchange(early_goodbyes_, {})) part_with(from, makes);
    if (iterations == 0) say_goodbye(out);
    else enter(iteration_index{0}, out);
  }

  /// Goes on as far as it can, and says what is next.
  [[nodiscard]] todo poll(outbox_type& out) {
    if (lost_ && !is_over()) return todo::stop;
    switch (phase_) {
      case phase::idle: return todo::wait;
      case phase::sending: return acks_missing_ == 0 ? todo::send : todo::wait;
      case phase::computing: return todo::compute;
      case phase::gathering:
        if (!enough()) return todo::wait;
        phase_ = phase::reducing;
        return todo::reduce;
      case phase::reducing: return todo::reduce;
      case phase::advancing: return advance(out);
      case phase::ended: return todo::end;
    }
    return todo::end;
  }

  /// Whether there is anything to go on with: what `poll` waited for is there.
  [[nodiscard]] bool can_go_on() const noexcept {
    if (lost_) return true;
    switch (phase_) {
      case phase::idle: return false;
      case phase::sending: return acks_missing_ == 0;
      case phase::gathering: return enough();
      case phase::advancing: return is_last() || without_token_ == 0;
      default: return true;
    }
  }

  /// The gradient of this iteration is there.
  void computed() {
    RUBATO_ASSERT(phase_ == phase::computing);
    ++counters_.iterations;
    phase_ = order_ == iteration_order::parallel ? phase::gathering : phase::sending;
  }

  /// Sends the parameters of this iteration to the out-neighbors that can still use them.
  void send(Payload const& parameters, outbox_type& out) {
    RUBATO_ASSERT(phase_ == phase::sending && acks_missing_ == 0);
    for (std::size_t i = 0; i < out_.size(); ++i) {
      if (!out_[i].live) continue;
      if (has_left(out_[i])) {
        ++counters_.updates_spared;
        continue;
      }
      out.push_back({site_.out[i], {message::kind::update, iteration_.value(), parameters}});
      ++counters_.updates_sent;
      if constexpr (gap_type::acks) {
        out_[i].unacked = iteration_;
        ++acks_missing_;
      }
    }
    phase_ = order_ == iteration_order::parallel ? phase::computing : phase::gathering;
  }

  /// Takes what is to be averaged, by sender, the peer's own parameters among them.
  [[nodiscard]] std::vector<contribution<Payload>> gather() {
    RUBATO_ASSERT(phase_ == phase::reducing);
    std::vector<contribution<Payload>> all;
    all.push_back({site_.self, weight_of(site_.self, iteration_, site_.self_weight), true, {}});
    for (queued_update<Payload>& u : take_updates()) {
      double const mixing = site_.weights[*detail::place_among(site_.in, u.from)];
      all.push_back({u.from, weight_of(u.from, u.made, mixing), false, std::move(u.parameters)});
    }
    counters_.updates_reduced += all.size() - 1;
    std::ranges::sort(all, {}, &contribution<Payload>::from);
    normalise(all);
    return all;
  }

  /// The average is made, and the step applied.
  void reduced(outbox_type& out) {
    RUBATO_ASSERT(phase_ == phase::reducing);
    if constexpr (by_iteration) updates_.drop_before(iteration_.next());
    if constexpr (gap_type::acks)
      tell_in_neighbors({message::kind::ack, iteration_.value(), {}}, out);
    phase_ = phase::advancing;
  }

  /// Gives up before the last iteration: neighbors that need more take it for a loss.
  void leave(outbox_type& out) {
    if (phase_ == phase::ended) return;
    iterations_ = phase_ == phase::idle ? 0 : iteration_.value();
    say_goodbye(out);
  }

  // ---- what happens to it

  /// Takes a message. False, and nothing changed, for one that cannot be: from a peer that is no
  /// neighbor, beyond the gap, a second time, …
  [[nodiscard]] bool deliver(worker_id from, message m) {
    auto const in = detail::place_among(site_.in, from);
    auto const out = detail::place_among(site_.out, from);
    switch (m.what) {
      case message::kind::update: return in && take_update(*in, std::move(m));
      case message::kind::tokens: return out && take_tokens(out_[*out], m.number);
      case message::kind::ack: return out && take_ack(out_[*out], m.number);
      case message::kind::bye: return (in || out) && take_goodbye(from, m.number);
    }
    return false;
  }

  /// A neighbor has died, or left. Its updates and tokens count no more, nor does it; unless it had
  /// ended, and sent all that this peer needs.
  void lose(worker_id w) {
    if (is_early_goodbye(w)) return;  // it had ended; whether too early, `start` will tell
    if (auto const i = detail::place_among(site_.in, w); i && in_[*i].live && !has_sent_all(in_[*i]))
      lose_sender(*i);
    if (auto const i = detail::place_among(site_.out, w); i && out_[*i].live) {
      out_[*i].live = false;
      if (std::exchange(out_[*i].unacked, std::nullopt)) --acks_missing_;
      without_token_ = count_without_token();
    }
  }

  // ---- what is known of it

  /// Iter(i): the iteration that it is in, or the last one.
  [[nodiscard]] iteration_index iteration() const noexcept { return iteration_; }
  [[nodiscard]] bool started() const noexcept { return phase_ != phase::idle; }
  [[nodiscard]] bool ended() const noexcept { return phase_ == phase::ended; }
  /// What it waits for, if it does, are updates.
  [[nodiscard]] bool gathering() const noexcept { return phase_ == phase::gathering; }
  /// In the middle of a jump, which reduces without a step of its own.
  [[nodiscard]] bool jumping() const noexcept { return jumping_; }
  [[nodiscard]] peer_site const& site() const noexcept { return site_; }
  /// Whom it cannot do without.
  [[nodiscard]] std::optional<worker_id> lost() const noexcept { return lost_; }
  [[nodiscard]] bool is_live_in(std::size_t i) const noexcept { return in_[i].live; }
  [[nodiscard]] bool is_live_out(std::size_t i) const noexcept { return out_[i].live; }
  /// The tokens that are here of out-neighbor number i. @pre there are token queues
  [[nodiscard]] std::int64_t tokens(std::size_t i) const noexcept { return out_[i].tokens.size(); }
  [[nodiscard]] auto const& updates() const noexcept { return updates_; }
  [[nodiscard]] peer_counters counters() const noexcept {
    peer_counters c = counters_;
    c.queue_peak = updates_.peak();
    return c;
  }

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

  [[nodiscard]] auto make_queue() const {
    if constexpr (!by_iteration) {
      return mailboxes<Payload>(site_.in.size());
    } else {
      std::int64_t lead = gap_type::acks ? 0 : site_.lead_max;
      if constexpr (gap_type::tokens) lead = gap_.gap_max();
      return update_queue<Payload>(static_cast<std::size_t>(lead) + 1, site_.in.size());
    }
  }

  /// The length of a path says how far another peer can lead as long as all on it live; along an edge
  /// both ways nobody else can die.
  [[nodiscard]] token_queue make_tokens(std::int64_t behind) const {
    if constexpr (gap_type::tokens) {
      bool const bounded = behind == 1 || !gather_type::outlives_loss;
      return {gap_.gap_max() - 1, bounded ? gap_.gap_max() * (behind + 1) : number_max};
    } else {
      return {0, 0};
    }
  }

  // ---- going on

  [[nodiscard]] bool is_last() const noexcept { return iteration_.value() + 1 >= iterations_; }
  /// Nothing is left that a loss could hold up.
  [[nodiscard]] bool is_over() const noexcept {
    return phase_ == phase::ended || (phase_ == phase::advancing && is_last());
  }

  void enter(iteration_index k, outbox_type& out) {
    iteration_ = k;
    recount();
    if constexpr (gap_type::tokens) tell_in_neighbors({message::kind::tokens, 1, {}}, out);
    phase_ = order_ == iteration_order::parallel ? phase::sending : phase::computing;
  }

  todo advance(outbox_type& out) {
    if (is_over()) {
      say_goodbye(out);
      return todo::end;
    }
    if (!jumping_ && begin_jump(out)) return poll(out);
    if (without_token_ != 0) return todo::wait;
    take_from_each(1);
    jumping_ = false;
    enter(iteration_.next(), out);
    return poll(out);
  }

  /// The order of the steps is that of rules §6: another one can deadlock, or make two iterations
  /// share a slot.
  bool begin_jump([[maybe_unused]] outbox_type& out) {
    if constexpr (jump_type::jumps) {
      std::int64_t const lag = lag_behind_slowest();
      if (lag < 2) return false;
      std::int64_t const left = iterations_ - 1 - iteration_.value();
      std::int64_t const forward = std::min({jump_.jump(lag), lag, left});
      if (forward < 2) return false;
      take_from_each(forward - 1);
      iteration_ = iteration_index{iteration_.value() + forward - 1};
      updates_.drop_before(gather_.oldest(iteration_));
      recount();
      tell_in_neighbors({message::kind::tokens, forward - 1, {}}, out);
      jumping_ = true;
      phase_ = phase::gathering;
      ++counters_.jumps;
      counters_.jumped_over += static_cast<std::uint64_t>(forward - 1);
      return true;
    } else {
      return false;
    }
  }

  /// By how much the slowest out-neighbor is ahead, as far as its tokens tell; 0 without any.
  [[nodiscard]] std::int64_t lag_behind_slowest() const noexcept {
    std::optional<std::int64_t> least;
    for (out_neighbor const& o : out_)
      if (o.live) least = std::min(least.value_or(o.tokens.size()), o.tokens.size());
    return least ? *least - gap_.gap_max() : 0;
  }

  void say_goodbye(outbox_type& out) {
    phase_ = phase::ended;
    message const m{message::kind::bye, iterations_, {}};
    tell_in_neighbors(m, out);
    for (std::size_t i = 0; i < out_.size(); ++i)
      if (out_[i].live && !detail::place_among(site_.in, site_.out[i]))
        out.push_back({site_.out[i], m});
  }

  void tell_in_neighbors(message const& m, outbox_type& out) const {
    for (std::size_t i = 0; i < in_.size(); ++i)
      if (in_[i].live) out.push_back({site_.in[i], m});
  }

  void take_from_each(std::int64_t tokens) {
    if constexpr (gap_type::tokens) {
      for (out_neighbor& o : out_)
        if (o.live) o.tokens.take(tokens);
      without_token_ = count_without_token();
    }
  }

  /// Whether an out-neighbor has certainly left the iterations that this one's update is good for.
  [[nodiscard]] bool has_left([[maybe_unused]] out_neighbor const& o) const noexcept {
    if constexpr (gap_type::tokens) {
      std::int64_t const at_least = o.tokens.size() + iteration_.value() - gap_.gap_max();
      return gather_.oldest(iteration_index{at_least}) > iteration_;
    } else {
      return false;
    }
  }

  // ---- updates

  /// Of those that are there, the peer's own included.
  [[nodiscard]] bool enough() const noexcept {
    std::size_t const needed = std::max<std::size_t>(gather_.needed(live_in_ + 1), 1);
    if constexpr (by_iteration) return updates_.size(iteration_) + 1 >= needed;
    else return satisfying_ + 1 >= needed;
  }

  [[nodiscard]] auto take_updates() {
    if constexpr (by_iteration) return updates_.dequeue(updates_.size(iteration_), iteration_);
    else return updates_.take(gather_.oldest(iteration_));
  }

  [[nodiscard]] double weight_of(worker_id from, iteration_index made, double mixing) const noexcept {
    return reduce_.weight({.from = from,
                           .to = site_.self,
                           .made = made,
                           .now = iteration_,
                           .oldest = gather_.oldest(iteration_),
                           .mixing = mixing});
  }

  /// A whole neighborhood keeps the weights of the mixing matrix to the last bit (HOP-3).
  void normalise(std::vector<contribution<Payload>>& all) const {
    constexpr double rounding = 1e-9;
    double sum = 0;
    for (auto const& c : all) sum += c.weight;
    if (std::abs(sum - 1) <= rounding) return;
    if (!(sum > 0) || !std::isfinite(sum))
      throw error(errc::bad_option, "hop: the weights of a reduce of peer " +
                                        std::to_string(site_.self.value()) + " in iteration " +
                                        std::to_string(iteration_.value()) +
                                        " must have a finite sum above 0");
    for (auto& c : all) c.weight /= sum;
  }

  bool take_update(std::size_t i, message m) {
    iteration_index const k{m.number};
    if (!in_[i].live || phase_ == phase::ended) return true;
    if (k.value() < 0 || is_too_new(k)) return false;
    if constexpr (by_iteration) {
      if (k < updates_.first()) {
        ++counters_.updates_late;
        return true;
      }
      if (!updates_.in_range(k)) return false;
      if (k <= in_[i].newest && updates_.contains(k, site_.in[i])) return false;
      updates_.enqueue(k, site_.in[i], std::move(m.parameters));
    } else {
      if (k <= in_[i].newest) return false;
      if (k < gather_.oldest(iteration_)) ++counters_.updates_late;
      updates_.put(i, k, site_.in[i], std::move(m.parameters));
      if (!in_[i].satisfies && k >= gather_.oldest(iteration_)) {
        in_[i].satisfies = true;
        ++satisfying_;
      }
    }
    in_[i].newest = std::max(in_[i].newest, k);
    return true;
  }

  /// Beyond what the tokens put in for its sender allow.
  [[nodiscard]] bool is_too_new(iteration_index k) const noexcept {
    if constexpr (gap_type::tokens && !by_iteration)
      return distance(iteration_, k) > gap_.gap_max();
    else
      return k.value() >= number_max;
  }

  [[nodiscard]] bool has_sent_all(in_neighbor const& from) const noexcept {
    return from.done && from.newest.value() + 1 >= iterations_;
  }

  void lose_sender(std::size_t i) {
    in_[i].live = false;
    if constexpr (!gather_type::outlives_loss) {
      if (!lost_) lost_ = site_.in[i];  // a reduce under way is still of all
    } else if constexpr (by_iteration) {
      updates_.drop_from(site_.in[i]);
    } else {
      updates_.drop(i);
    }
    recount();
  }

  /// What depends on this iteration, and on who lives.
  void recount() {
    live_in_ = static_cast<std::size_t>(std::ranges::count_if(in_, &in_neighbor::live));
    if constexpr (!by_iteration) {
      for (std::size_t i = 0; i < in_.size(); ++i)
        in_[i].satisfies = in_[i].live && in_[i].newest >= gather_.oldest(iteration_);
      satisfying_ = static_cast<std::size_t>(std::ranges::count_if(in_, &in_neighbor::satisfies));
    }
  }

  // ---- tokens and acknowledgements

  [[nodiscard]] std::size_t count_without_token() const noexcept {
    if constexpr (!gap_type::tokens) return 0;
    return static_cast<std::size_t>(std::ranges::count_if(
        out_, [](out_neighbor const& o) { return o.live && o.tokens.size() == 0; }));
  }

  bool take_tokens(out_neighbor& o, std::int64_t tokens) {
    if (!gap_type::tokens || tokens < 1) return false;
    if (!o.live) return true;
    if (tokens > o.tokens.capacity() - o.tokens.size()) return false;
    if (o.tokens.size() == 0) --without_token_;
    o.tokens.put(tokens);
    return true;
  }

  bool take_ack(out_neighbor& o, std::int64_t iteration) {
    if (!o.live) return gap_type::acks;
    if (o.unacked != iteration_index{iteration}) return false;
    o.unacked.reset();
    --acks_missing_;
    return true;
  }

  bool take_goodbye(worker_id from, std::int64_t makes) {
    if (makes < 0 || has_said_goodbye(from)) return false;
    if (phase_ == phase::idle) early_goodbyes_.push_back({from, makes});
    else part_with(from, makes);
    return true;
  }

  [[nodiscard]] bool has_said_goodbye(worker_id w) const {
    auto const in = detail::place_among(site_.in, w);
    auto const out = detail::place_among(site_.out, w);
    return (in && in_[*in].done) || (out && out_[*out].done) || is_early_goodbye(w);
  }
  [[nodiscard]] bool is_early_goodbye(worker_id w) const {
    return std::ranges::count(early_goodbyes_, w, &std::pair<worker_id, std::int64_t>::first) != 0;
  }

  /// A neighbor that has made all the iterations that this peer makes is no loss.
  void part_with(worker_id w, std::int64_t makes) {
    if (makes < iterations_) return lose(w);
    if (auto const i = detail::place_among(site_.in, w)) in_[*i].done = true;
    if (auto const i = detail::place_among(site_.out, w)) out_[*i].done = true;
  }

  [[no_unique_address]] gather_type gather_;
  [[no_unique_address]] reduce_type reduce_;
  [[no_unique_address]] gap_type gap_;
  [[no_unique_address]] jump_type jump_;
  iteration_order order_;
  peer_site site_;
  std::conditional_t<by_iteration, update_queue<Payload>, mailboxes<Payload>> updates_;
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
