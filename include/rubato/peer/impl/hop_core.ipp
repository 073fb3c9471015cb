// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>

#include "rubato/core/assert.hpp"
#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/peer/hop_core.hpp"

namespace rubato {

hop_core::hop_core(hop_rules protocol, peer_site site)
    : protocol_(std::move(protocol)),
      by_iteration_(protocol_.by_iteration()),
      site_(std::move(site)),
      queue_(slots(), site_.in.size()),
      boxes_(by_iteration_ ? 0 : site_.in.size()),
      in_(site_.in.size()) {
  for (std::int64_t const d : site_.behind) out_.push_back(out_neighbor{make_tokens(d)});
  without_token_ = count_without_token();
}

std::size_t hop_core::slots() const noexcept {
  if (!by_iteration_) return 1;
  std::int64_t const lead = protocol_.acks ? 0 : site_.lead_max;
  return static_cast<std::size_t>(protocol_.gap_max.value_or(lead)) + 1;
}

/// The length of a path says how far another peer can lead as long as all on it live; along an edge both
/// ways nobody else can die.
token_queue hop_core::make_tokens(std::int64_t behind) const {
  if (!protocol_.gap_max) return {0, 0};
  std::int64_t const gap = *protocol_.gap_max;
  bool const bounded = behind == 1 || !protocol_.outlives_loss;
  return {gap - 1, bounded ? gap * (behind + 1) : number_max};
}

// ---- what the peer does

void hop_core::start(std::int64_t iterations, outbox& out) {
  RUBATO_ASSERT(phase_ == phase::idle && iterations >= 0);
  iterations_ = iterations;
  if (!early_goodbyes_.empty()) RUBATO_RARE("peers: a goodbye came before one's own first iteration");
  for (auto const& [from, makes] : std::exchange(early_goodbyes_, {})) part_with(from, makes);
  if (iterations == 0) say_goodbye(out);
  else enter(iteration_index{0}, out);
}

hop_core::todo hop_core::poll(outbox& out) {
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

bool hop_core::can_go_on() const noexcept {
  if (lost_) return true;
  switch (phase_) {
    case phase::idle: return false;
    case phase::sending: return acks_missing_ == 0;
    case phase::gathering: return enough();
    case phase::advancing: return is_last() || without_token_ == 0;
    default: return true;
  }
}

std::vector<worker_id> hop_core::awaits() const {
  std::vector<worker_id> those;
  if (can_go_on()) return those;
  for (std::size_t i = 0; i < in_.size() && phase_ == phase::gathering; ++i) {
    bool const is_there = by_iteration_ ? queue_.contains(iteration_, site_.in[i]) : in_[i].satisfies;
    if (in_[i].live && !is_there) those.push_back(site_.in[i]);
  }
  for (std::size_t i = 0; i < out_.size() && phase_ != phase::gathering; ++i) {
    bool const is_there = phase_ == phase::sending ? !out_[i].unacked : out_[i].tokens.size() != 0;
    if (out_[i].live && !is_there) those.push_back(site_.out[i]);
  }
  return those;
}

void hop_core::computed() {
  RUBATO_ASSERT(phase_ == phase::computing);
  ++counters_.iterations;
  phase_ = protocol_.order == iteration_order::parallel ? phase::gathering : phase::sending;
}

void hop_core::send(shared_update const& parameters, outbox& out) {
  RUBATO_ASSERT(phase_ == phase::sending && acks_missing_ == 0);
  for (std::size_t i = 0; i < out_.size(); ++i) {
    if (!out_[i].live) continue;
    if (has_left(out_[i])) {
      ++counters_.updates_spared;
      continue;
    }
    out.push_back({site_.out[i], {+hop_kind::update, iteration_.value(), parameters}});
    ++counters_.updates_sent;
    if (protocol_.acks) {
      out_[i].unacked = iteration_;
      ++acks_missing_;
    }
  }
  phase_ = protocol_.order == iteration_order::parallel ? phase::computing : phase::gathering;
}

std::vector<contribution> hop_core::gather() {
  RUBATO_ASSERT(phase_ == phase::reducing);
  std::vector<contribution> all;
  all.push_back({site_.self, weight_of(site_.self, iteration_, site_.self_weight), true, {}});
  for (queued_update<shared_update>& u : take_updates()) {
    double const mixing = site_.weights[*detail::place_among(site_.in, u.from)];
    all.push_back({u.from, weight_of(u.from, u.made, mixing), false, std::move(u.parameters)});
  }
  counters_.updates_reduced += all.size() - 1;
  std::ranges::sort(all, {}, &contribution::from);
  normalise(all);
  return all;
}

void hop_core::reduced(outbox& out) {
  RUBATO_ASSERT(phase_ == phase::reducing);
  if (by_iteration_) queue_.drop_before(iteration_.next());
  if (protocol_.acks) tell_in_neighbors(hop_kind::ack, iteration_.value(), out);
  phase_ = phase::advancing;
}

void hop_core::leave(outbox& out) {
  if (phase_ == phase::ended) return;
  iterations_ = phase_ == phase::idle ? 0 : iteration_.value();
  say_goodbye(out);
}

// ---- what happens to it

bool hop_core::deliver(worker_id from, peer_message m) {
  auto const in = detail::place_among(site_.in, from);
  auto const out = detail::place_among(site_.out, from);
  switch (static_cast<hop_kind>(m.kind)) {
    case hop_kind::update: return in && take_update(*in, std::move(m));
    case hop_kind::tokens: return out && take_tokens(out_[*out], m.number);
    case hop_kind::ack: return out && take_ack(out_[*out], m.number);
    case hop_kind::bye: return (in || out) && take_goodbye(from, m.number);
  }
  return false;
}

void hop_core::lose(worker_id w) {
  if (is_early_goodbye(w)) return;  // it had ended; whether too early, `start` will tell
  if (auto const i = detail::place_among(site_.in, w); i && in_[*i].live && !has_sent_all(in_[*i]))
    lose_sender(*i);
  if (auto const i = detail::place_among(site_.out, w); i && out_[*i].live) {
    out_[*i].live = false;
    if (std::exchange(out_[*i].unacked, std::nullopt)) {
      RUBATO_RARE("peers: one was lost that had not acknowledged an update");
      --acks_missing_;
    }
    without_token_ = count_without_token();
  }
}

peer_counters hop_core::counters() const noexcept {
  peer_counters c = counters_;
  c.queue_peak = by_iteration_ ? queue_.peak() : boxes_.peak();
  return c;
}

// ---- going on

/// Nothing is left that a loss could hold up.
bool hop_core::is_over() const noexcept {
  return phase_ == phase::ended || (phase_ == phase::advancing && is_last());
}

void hop_core::enter(iteration_index k, outbox& out) {
  iteration_ = k;
  recount();
  if (protocol_.gap_max) tell_in_neighbors(hop_kind::tokens, 1, out);
  phase_ = protocol_.order == iteration_order::parallel ? phase::sending : phase::computing;
}

hop_core::todo hop_core::advance(outbox& out) {
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

/// The order of the steps is that of rules §6: another one can deadlock, or make two iterations share a
/// slot.
bool hop_core::begin_jump(outbox& out) {
  if (!protocol_.jumps) return false;
  std::int64_t const lag = lag_behind_slowest();
  if (lag < 2) return false;
  std::int64_t const left = iterations_ - 1 - iteration_.value();
  std::int64_t const forward = std::min({protocol_.jump(lag), lag, left});
  if (forward < 2) return false;
  RUBATO_RARE("peers: one jumps");
  take_from_each(forward - 1);
  iteration_ = iteration_index{iteration_.value() + forward - 1};
  if (by_iteration_) queue_.drop_before(iteration_);
  else boxes_.drop_before(protocol_.oldest(iteration_));
  recount();
  tell_in_neighbors(hop_kind::tokens, forward - 1, out);
  jumping_ = true;
  phase_ = phase::gathering;
  ++counters_.jumps;
  counters_.jumped_over += static_cast<std::uint64_t>(forward - 1);
  return true;
}

/// By how much the slowest out-neighbor is ahead, as far as its tokens tell; 0 without any.
std::int64_t hop_core::lag_behind_slowest() const noexcept {
  std::optional<std::int64_t> least;
  for (out_neighbor const& o : out_)
    if (o.live) least = std::min(least.value_or(o.tokens.size()), o.tokens.size());
  return least ? *least - *protocol_.gap_max : 0;
}

void hop_core::say_goodbye(outbox& out) {
  phase_ = phase::ended;
  tell_in_neighbors(hop_kind::bye, iterations_, out);
  for (std::size_t i = 0; i < out_.size(); ++i)
    if (out_[i].live && !detail::place_among(site_.in, site_.out[i]))
      out.push_back({site_.out[i], {+hop_kind::bye, iterations_, {}}});
}

void hop_core::tell_in_neighbors(hop_kind what, std::int64_t number, outbox& out) const {
  for (std::size_t i = 0; i < in_.size(); ++i)
    if (in_[i].live) out.push_back({site_.in[i], {+what, number, {}}});
}

void hop_core::take_from_each(std::int64_t tokens) {
  if (!protocol_.gap_max) return;
  for (out_neighbor& o : out_)
    if (o.live) o.tokens.take(tokens);
  without_token_ = count_without_token();
}

/// Whether an out-neighbor has certainly left the iterations that this one's update is good for.
bool hop_core::has_left(out_neighbor const& o) const noexcept {
  if (!protocol_.gap_max) return false;
  std::int64_t const at_least = o.tokens.size() + iteration_.value() - *protocol_.gap_max;
  return protocol_.oldest(iteration_index{at_least}) > iteration_;
}

// ---- updates

/// Of those that are there, the peer's own included.
bool hop_core::enough() const noexcept {
  std::size_t const needed = std::max<std::size_t>(protocol_.needed(live_in_ + 1), 1);
  return (by_iteration_ ? queue_.size(iteration_) : satisfying_) + 1 >= needed;
}

std::vector<queued_update<shared_update>> hop_core::take_updates() {
  if (by_iteration_) return queue_.dequeue(queue_.size(iteration_), iteration_);
  return boxes_.take(protocol_.oldest(iteration_));
}

double hop_core::weight_of(worker_id from, iteration_index made, double mixing) const noexcept {
  return protocol_.weight({.from = from,
                           .to = site_.self,
                           .made = made,
                           .now = iteration_,
                           .oldest = protocol_.oldest(iteration_),
                           .mixing = mixing});
}

/// A whole neighborhood keeps the weights of the mixing matrix to the last bit (HOP-3).
void hop_core::normalise(std::vector<contribution>& all) const {
  constexpr double rounding = 1e-9;
  double sum = 0;
  for (auto const& c : all) sum += c.weight;
  bool const counts = std::ranges::none_of(all, [](auto const& c) { return c.weight < 0; });
  if (!counts || !(sum > 0) || !std::isfinite(sum))
    throw error(errc::bad_option, "hop: the weights of a reduce of peer " +
                                      std::to_string(site_.self.value()) + " in iteration " +
                                      std::to_string(iteration_.value()) +
                                      " must be 0 or more, and have a finite sum above 0");
  if (std::abs(sum - 1) <= rounding) return;
  for (auto& c : all) c.weight /= sum;
}

bool hop_core::take_update(std::size_t i, peer_message m) {
  iteration_index const k{m.number};
  if (!in_[i].live || phase_ == phase::ended) return true;
  if (k.value() < 0 || is_too_new(k)) return false;
  return by_iteration_ ? put_into_queue(i, k, std::move(m.parameters))
                       : put_into_box(i, k, std::move(m.parameters));
}

bool hop_core::put_into_queue(std::size_t i, iteration_index k, shared_update parameters) {
  if (k < queue_.first()) {
    RUBATO_RARE("peers: an update came too late");
    ++counters_.updates_late;
    return true;
  }
  if (!queue_.in_range(k)) return false;
  if (k <= in_[i].newest && queue_.contains(k, site_.in[i])) return false;
  queue_.enqueue(k, site_.in[i], std::move(parameters));
  in_[i].newest = std::max(in_[i].newest, k);
  return true;
}

bool hop_core::put_into_box(std::size_t i, iteration_index k, shared_update parameters) {
  if (k <= in_[i].newest) return false;
  iteration_index const oldest = protocol_.oldest(iteration_);
  if (k < oldest) ++counters_.updates_late;
  boxes_.put(i, k, site_.in[i], std::move(parameters));
  if (!in_[i].satisfies && k >= oldest) {
    in_[i].satisfies = true;
    ++satisfying_;
  }
  in_[i].newest = k;
  return true;
}

/// Beyond what the tokens put in for its sender allow.
bool hop_core::is_too_new(iteration_index k) const noexcept {
  if (protocol_.gap_max && !by_iteration_) return distance(iteration_, k) > *protocol_.gap_max;
  return k.value() >= number_max;
}

bool hop_core::has_sent_all(in_neighbor const& from) const noexcept {
  return from.done && from.newest.value() + 1 >= iterations_;
}

void hop_core::lose_sender(std::size_t i) {
  in_[i].live = false;
  if (!protocol_.outlives_loss) {
    if (!lost_) lost_ = site_.in[i];  // a reduce under way is still of all
  } else if (by_iteration_) {
    if (queue_.size({}, site_.in[i]) != 0) RUBATO_RARE("peers: updates wait of one that is lost");
    queue_.drop_from(site_.in[i]);
  } else {
    boxes_.drop(i);
  }
  recount();
}

/// What depends on this iteration, and on who lives.
void hop_core::recount() {
  live_in_ = static_cast<std::size_t>(std::ranges::count_if(in_, &in_neighbor::live));
  if (by_iteration_) return;
  iteration_index const oldest = protocol_.oldest(iteration_);
  for (in_neighbor& n : in_) n.satisfies = n.live && n.newest >= oldest;
  satisfying_ = static_cast<std::size_t>(std::ranges::count_if(in_, &in_neighbor::satisfies));
}

// ---- tokens, acknowledgements, goodbyes

std::size_t hop_core::count_without_token() const noexcept {
  if (!protocol_.gap_max) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(
      out_, [](out_neighbor const& o) { return o.live && o.tokens.size() == 0; }));
}

bool hop_core::take_tokens(out_neighbor& o, std::int64_t tokens) {
  if (!protocol_.gap_max || tokens < 1) return false;
  if (!o.live) return true;
  if (tokens > o.tokens.capacity() - o.tokens.size()) return false;
  if (o.tokens.size() == 0) --without_token_;
  o.tokens.put(tokens);
  return true;
}

bool hop_core::take_ack(out_neighbor& o, std::int64_t iteration) {
  if (!o.live) return protocol_.acks;
  if (o.unacked != iteration_index{iteration}) return false;
  o.unacked.reset();
  --acks_missing_;
  return true;
}

bool hop_core::take_goodbye(worker_id from, std::int64_t makes) {
  if (makes < 0 || has_said_goodbye(from)) return false;
  if (phase_ == phase::idle) early_goodbyes_.push_back({from, makes});
  else part_with(from, makes);
  return true;
}

bool hop_core::has_said_goodbye(worker_id w) const {
  auto const in = detail::place_among(site_.in, w);
  auto const out = detail::place_among(site_.out, w);
  return (in && in_[*in].done) || (out && out_[*out].done) || is_early_goodbye(w);
}

bool hop_core::is_early_goodbye(worker_id w) const {
  return std::ranges::count(early_goodbyes_, w, &std::pair<worker_id, std::int64_t>::first) != 0;
}

/// A neighbor that has made all the iterations that this peer makes is no loss.
void hop_core::part_with(worker_id w, std::int64_t makes) {
  if (makes < iterations_) {
    RUBATO_RARE("peers: a neighbor leaves early");
    return lose(w);
  }
  if (auto const i = detail::place_among(site_.in, w)) in_[*i].done = true;
  if (auto const i = detail::place_among(site_.out, w)) out_[*i].done = true;
}

}  // namespace rubato
