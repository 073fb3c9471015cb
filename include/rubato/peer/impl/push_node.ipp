// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <iterator>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/core/rare.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/push_node.hpp"

namespace rubato {

namespace detail {
/// A sender that is so many updates ahead of one that it sends to is no correct one: each waits for somebody in
/// almost every iteration.
constexpr std::size_t pushed_ahead_max = 4096;

/// Who has less gives nothing away until it has got some: else who gives by halves, and gets nothing back from one that
/// is slow, has left or is drawn seldom, would come to steps that are no numbers, divided by the rest, or to no weight.
/// Since weights say what each update counts, any peer may give or keep at any time.
inline double least_to_share(push_rules const& rules) noexcept { return rules.step_by_weight ? 0.25 : 0x1p-40; }

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
      partners_(rules_.who.partners(graph_, self_)),
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
  // All have as many as they are together, and at each loss at most as many more.
  bool const could_be = weight >= 0 && weight <= (graph_.size() + 1.0) * graph_.size();
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
  heard_of_loss_ = true;
}

void push_node::leave(outbox& out) {
  absorb_all();
  auto const say = [&](worker_id w) {
    if (w != self_ && !others_[w.index()].is_lost)
      out.push_back({w, {.kind = bye, .number = 0, .parameters = {}}});
  };
  if (partners_) std::ranges::for_each(*partners_, say);
  else for (std::uint32_t i = 0; i < others_.size(); ++i) say(worker_id{i});
}

bool push_node::is_there(worker_id w) const noexcept {
  other const& sender = others_[w.index()];
  return sender.is_gone || !sender.came.empty();
}

bool push_node::can_go_on() const noexcept {
  return std::ranges::all_of(awaited_, [&](worker_id w) { return is_there(w); });
}

std::vector<worker_id> push_node::awaits() const {
  std::vector<worker_id> those;
  std::ranges::copy_if(awaited_, std::back_inserter(those), [&](worker_id w) { return !is_there(w); });
  return those;
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
  heard_of_loss_ = false;
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
  bool const is_last = iteration_ + 1 == iterations_;
  if (rules_.pace == exchange_pace::free) send(e, iteration_);
  else exchange(e, is_last);
  e.guard([&] {
    seen_ = current_;
    ++counters_.iterations;
    ended_ = is_last;
    if (!ended_) ++iteration_;
    if (ended_) absorb_all();
    if (std::exchange(heard_of_loss_, false)) take_itself_for_whole();
  });
}

/// Number by number, one under way at most: with several, peers would have as little weight as there are.
void push_node::exchange(peer_endpoint& e, bool is_last) {
  bool const is_late = rules_.delay > 0;
  std::int64_t const every = std::max<std::int64_t>(1, rules_.delay);
  std::int64_t const number = iteration_ / every;
  if (iteration_ % every == 0) {
    send(e, number);
    gather(e, is_late ? number - 1 : number);
  }
  // What is still under way has been sent, or is about to be: nobody has to wait for another to end.
  if (is_last && is_late) gather(e, number);
}

/// The lost peer had weight, and so has what was sent to it: without that, steps of those who are left would count more
/// than one of each from now on.
void push_node::take_itself_for_whole() noexcept {
  if (rules_.step_by_weight) weight_ = std::max(weight_, 1.0);
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

void push_node::send(peer_endpoint& e, std::int64_t number) {
  std::vector<worker_id> to = checked(rules_.who.out(graph_, self_, iteration_index{number}), "sends to", number);
  if (to.empty()) return;
  auto const [share, what] = e.guard([&] {
    std::size_t const all = to.size();
    bool const keeps = weight_ < detail::least_to_share(rules_);
    if (keeps && rules_.pace == exchange_pace::free) to.clear();
    std::erase_if(to, [&](worker_id w) { return others_[w.index()].is_gone; });
    counters_.updates_sent += to.size();
    counters_.updates_spared += all - to.size();
    if (keeps) return std::pair(0.0, current_);  // who waits for it goes on
    double const part = weight_ / static_cast<double>(all + 1);
    weight_ = part * static_cast<double>(1 + all - to.size());  // not what is left: members of a group count alike
    return std::pair(part, current_);
  });
  for (worker_id const w : to)
    e.post(w, {.kind = update, .number = std::bit_cast<std::int64_t>(share), .parameters = what});
}

/// Averages with what was sent in an exchange, if there was one of that number.
void push_node::gather(peer_endpoint& e, std::int64_t number) {
  if (number < 0) return;
  std::vector<worker_id> const from =
      checked(rules_.who.in(graph_, self_, iteration_index{number}), "hears from", number);
  if (from.empty()) return;
  e.guard([&] { awaited_ = from; });
  detail::wait_counting(e, waits_.for_updates);
  std::vector<contribution> parts = e.guard([&] { return take(from); });
  if (parts.size() == 1) return;
  shared_update next = local_.average(parts, current_);
  e.guard([&] { current_ = std::move(next); });
}

/// What a schedule has answered. @throws option_error where that is no list of other peers, each once and ascending
std::vector<worker_id> push_node::checked(std::vector<worker_id> those, char const* what, std::int64_t number) const {
  bool const ascends = std::ranges::adjacent_find(those, std::greater_equal{}) == those.end();
  bool const are_others = std::ranges::find(those, self_) == those.end() &&
                          (those.empty() || those.back().index() < others_.size());
  if (ascends && are_others && (!partners_ || std::ranges::includes(*partners_, those))) return those;
  std::string named;
  for (worker_id const w : those) named += (named.empty() ? "" : ", ") + std::to_string(w.value());
  throw option_error(rules_.name + ": the schedule (" + rules_.who.text() + ") says that peer " +
                     std::to_string(self_.value()) + " " + what + " " + named + " in iteration " +
                     std::to_string(number) + ", expected others of " + std::to_string(others_.size()) +
                     " peers, each once and ascending" + (partners_ ? ", and partners of this one" : ""));
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
    sender.came.erase(sender.came.begin());
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
