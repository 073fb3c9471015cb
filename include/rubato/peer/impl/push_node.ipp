// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <bit>

#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/push_node.hpp"

namespace rubato {

namespace detail {
/// A sender that is so many updates ahead of one that it sends to is no correct one: each waits for somebody in
/// almost every iteration.
constexpr std::size_t pushed_ahead_max = 4096;

inline push_rules checked(push_rules rules) {
  rules.who.check();
  constexpr std::int64_t delay_max = 1024;
  if (rules.delay < 0 || rules.delay > delay_max)
    throw option_error(rules.name + ": the delay must be 0 to " + std::to_string(delay_max) + " iterations, but is " +
                       std::to_string(rules.delay));
  return rules;
}
}  // namespace detail

std::unique_ptr<peer_node> make_push_node(push_rules rules, node_setup const& setup) {
  return std::make_unique<push_node>(std::move(rules), setup);
}

push_node::push_node(push_rules rules, node_setup const& setup)
    : rules_(detail::checked(std::move(rules))),
      graph_(setup.mixing.topology()),
      self_(setup.self),
      local_(setup),
      others_(graph_.size()),
      current_(local_.initial(setup.initial)) {
  push_node::reset();
}

std::string push_node::agreement() const {
  return rules_.name + ", " + rules_.who.text() +
         (rules_.pace == exchange_pace::free ? ", waits for nobody" : ", delay " + std::to_string(rules_.delay)) +
         (rules_.step_by_weight ? ", steps by weight" : "") + (rules_.outlives_loss ? "" : ", ends with a loss");
}

// ---- under the transport's guard

double push_node::weight_of(peer_message const& m) noexcept {
  return m.kind == update ? std::bit_cast<double>(m.number) : 0;
}

bool push_node::deliver(worker_id from, peer_message&& m, outbox&) {
  if (from == self_ || from.index() >= others_.size() || m.kind > bye) return false;
  other& sender = others_[from.index()];
  if (sender.is_lost) return true;
  if (sender.is_gone) return false;
  if (m.kind == bye) {
    sender.is_gone = true;
    return true;
  }
  double const weight = weight_of(m);
  bool const could_be = weight > 0 && weight <= 2.0 * graph_.size();  // all have as many as they are together
  if (!could_be || !local_.fits(m.parameters)) return false;
  if (absorbs_) {
    absorb(std::move(m));
    return true;
  }
  if (sender.came.size() == detail::pushed_ahead_max) return false;
  sender.came.push_back(std::move(m));
  counters_.queue_peak = std::max(counters_.queue_peak, ++held_);
  return true;
}

void push_node::lose(worker_id w) {
  other& lost = others_[w.index()];
  lost.is_gone = lost.is_lost = true;
}

void push_node::leave(outbox& out) {
  absorb_all();
  for (std::uint32_t i = 0; i < others_.size(); ++i)
    if (worker_id{i} != self_ && !others_[i].is_lost)
      out.push_back({worker_id{i}, {.kind = bye, .number = 0, .parameters = {}}});
}

bool push_node::can_go_on() const noexcept {
  return std::ranges::all_of(awaited_, [&](worker_id w) {
    other const& sender = others_[w.index()];
    return sender.is_gone || !sender.came.empty();
  });
}

std::vector<std::pair<double, shared_update>> push_node::waiting() const {
  std::vector<std::pair<double, shared_update>> all;
  for (other const& sender : others_)
    for (peer_message const& m : sender.came) all.emplace_back(weight_of(m), m.parameters);
  return all;
}

/// Averages with an update as soon as it is there.
void push_node::absorb(peer_message&& m) {
  double const theirs = weight_of(m);
  double const all = weight_ + theirs;
  std::array<contribution, 2> parts{
      {{.from = self_, .weight = weight_ / all, .own = true, .parameters = {}},
       {.from = {}, .weight = theirs / all, .own = false, .parameters = std::move(m.parameters)}}};
  current_ = local_.average(parts, current_);
  weight_ = all;
  ++counters_.updates_reduced;
}

/// From now on nobody waits for a turn.
void push_node::absorb_all() {
  absorbs_ = true;
  for (other& sender : others_) {
    for (peer_message& m : sender.came) {
      RUBATO_RARE("peers: an update was averaged after the body");
      absorb(std::move(m));
    }
    sender.came.clear();
  }
  held_ = 0;
}

// ---- by the peer itself

void push_node::reset() {
  local_.restart();
  std::ranges::fill(others_, other{});
  seen_ = current_;
  weight_ = 1;
  awaited_.clear();
  held_ = 0;
  absorbs_ = rules_.pace == exchange_pace::free;
  iteration_ = 0;
  ended_ = false;
  counters_ = {};
  waits_ = {};
}

void push_node::begin(peer_endpoint& e, std::int64_t iterations) {
  iterations_ = iterations;
  ended_ = iterations == 0;
  e.guard([&] { seen_ = current_; });
}

void push_node::step(peer_endpoint& e, std::span<std::byte const> gradient) {
  apply(e, gradient);
  send(e);
  bool const is_last = iteration_ + 1 == iterations_;
  if (rules_.pace == exchange_pace::in_step) {
    gather(e, iteration_ - rules_.delay);
    // What is still under way has been sent, or is about to be: nobody has to wait for another to end.
    if (is_last)
      for (std::int64_t late = std::max<std::int64_t>(0, iteration_ - rules_.delay + 1); late <= iteration_; ++late)
        gather(e, late);
  }
  e.guard([&] {
    seen_ = current_;
    ++counters_.iterations;
    ended_ = is_last;
    if (!ended_) ++iteration_;
    if (ended_) absorb_all();
  });
}

/// To what the parameters have become since the gradient was begun, where they may have.
void push_node::apply(peer_endpoint& e, std::span<std::byte const> gradient) {
  auto const stepped = [&] {
    return local_.stepped(current_, seen_, gradient, rules_.step_by_weight ? 1 / weight_ : 1);
  };
  if (rules_.pace == exchange_pace::free) {
    e.guard([&] { current_ = stepped(); });
    return;
  }
  shared_update next = stepped();
  e.guard([&] { current_ = std::move(next); });
}

void push_node::send(peer_endpoint& e) {
  std::vector<worker_id> to = rules_.who.out(graph_, self_, iteration_index{iteration_});
  if (to.empty()) return;
  auto const [share, what] = e.guard([&] {
    double const part = weight_ / static_cast<double>(to.size() + 1);
    std::size_t const all = to.size();
    std::erase_if(to, [&](worker_id w) { return others_[w.index()].is_gone; });
    weight_ = part * static_cast<double>(1 + all - to.size());  // not what is left: members of a group count alike
    counters_.updates_sent += to.size();
    counters_.updates_spared += all - to.size();
    return std::pair(part, current_);
  });
  for (worker_id const w : to)
    e.post(w, {.kind = update, .number = std::bit_cast<std::int64_t>(share), .parameters = what});
}

/// Averages with what was sent in an iteration, if there was one of that number.
void push_node::gather(peer_endpoint& e, std::int64_t of) {
  if (of < 0) return;
  std::vector<worker_id> const from = rules_.who.in(graph_, self_, iteration_index{of});
  if (from.empty()) return;
  e.guard([&] { awaited_ = from; });
  detail::wait_counting(e, waits_.for_updates);
  std::vector<contribution> parts = e.guard([&] { return take(from); });
  if (parts.size() == 1) return;
  shared_update next = local_.average(parts, current_);
  e.guard([&] { current_ = std::move(next); });
}

/// In the order of ranks, so that all who average the same come to the same.
std::vector<contribution> push_node::take(std::vector<worker_id> const& those) {
  awaited_.clear();
  std::vector<contribution> parts{{.from = self_, .weight = weight_, .own = true, .parameters = {}}};
  for (worker_id const w : those) {
    other& sender = others_[w.index()];
    if (sender.came.empty()) {
      if (!rules_.outlives_loss) throw_lost(w);
      RUBATO_RARE("peers: an iteration goes on without an update of one that is gone");
      continue;
    }
    peer_message& m = sender.came.front();
    parts.push_back({.from = w, .weight = weight_of(m), .own = false, .parameters = std::move(m.parameters)});
    sender.came.pop_front();
    --held_;
    ++counters_.updates_reduced;
  }
  std::ranges::sort(parts, {}, &contribution::from);
  double all = 0;
  for (contribution const& part : parts) all += part.weight;
  for (contribution& part : parts) part.weight /= all;
  weight_ = all;
  return parts;
}

void push_node::throw_lost(worker_id w) const {
  throw lost_error(rules_.name + ": peer " + std::to_string(w.value()) + " is lost, and peer " +
                   std::to_string(self_.value()) + " cannot end iteration " + std::to_string(iteration_) +
                   " without it");
}

}  // namespace rubato
