// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "rubato/peer/hop_node.hpp"
#include "rubato/testing/peer_observer.hpp"

namespace rubato::testing {

namespace detail {
constexpr std::uint32_t out_of_reach = std::numeric_limits<std::uint32_t>::max();

inline hop_core const& core_of(peer_node const& node) {
  return dynamic_cast<hop_node const&>(node).core();
}
}  // namespace detail

hop_bounds hop_bounds_of(hop_rules const& p, std::int64_t iterations) {
  hop_bounds r{.acks = p.acks,
               .by_iteration = p.by_iteration(),
               .jumps = p.jumps,
               .outlives_loss = p.outlives_loss};
  if (p.bounds_gap) {
    std::int64_t s = 0;
    for (iteration_index k; k.value() < iterations; k = k.next())
      s = std::max(s, distance(p.oldest(k), k));
    r.past_sender = s + 1;
  }
  r.gap_max = r.past_receiver = p.gap_max;
  if (p.acks) r.past_receiver = std::min(r.past_receiver.value_or(2), std::int64_t{2});
  return r;
}

peer_observer::peer_observer(hop_bounds r, graph g, std::int64_t iterations)
    : rules_(r), graph_(std::move(g)), iterations_(iterations) {
  for (std::uint32_t i = 0; i < graph_.size(); ++i) {
    peers_.emplace_back();
    peers_.back().received.assign(graph_.out(worker_id{i}).size(), 0);
  }
  measure_paths();
  for (std::uint32_t i = 0; i < graph_.size(); ++i) peers_[i].queue_max = most_updates_at(i);
}

void peer_observer::look(peer_runtime const& run) {
  look_for_losses(run);
  for (std::uint32_t i = 0; i < graph_.size(); ++i)
    if (!peers_[i].gone)
      run.look_at(i, [&](peer_node const& node) { read(i, detail::core_of(node)); });
  for (std::uint32_t i = 0; i < graph_.size(); ++i) {
    if (peers_[i].gone) continue;
    if (std::exchange(peers_[i].moved, false)) check_gaps(i);
    if (std::exchange(peers_[i].jumped, false)) check_jump(i);
    if (rules_.gap_max) check_tokens(i);
  }
}

void peer_observer::finish(peer_runtime const& run, peer_report const& report) {
  look(run);
  for (std::uint32_t i = 0; i < graph_.size(); ++i) {
    peer_state const& p = peers_[i];
    peer_metrics const& m = report.peers[i];
    if (p.gone) continue;
    if (!p.ended || m.iterations + m.jumped_over != static_cast<std::uint64_t>(iterations_))
      breach("in the end peer ", i, " has made ", m.iterations, " iterations and jumped over ",
             m.jumped_over, " of ", iterations_, " (HOP-4)");
    if (rules_.gap_max && iterations_ > 0) check_last_tokens(i);
  }
  if (!any_gone()) check_books(report);
}

// ---- who is there

void peer_observer::look_for_losses(peer_runtime const& run) {
  bool lost = false;
  for (std::uint32_t i = 0; i < graph_.size(); ++i) {
    peer_state& p = peers_[i];
    if (p.gone || p.ended) {
      p.lost_later = p.lost_later || (p.ended && run.crashed(i));
      continue;
    }
    p.gone = run.crashed(i);
    if (!p.gone)
      run.look_at(i, [&](peer_node const& node) {
        hop_core const& core = detail::core_of(node);
        if (!core.ended()) return;
        peer_counters const c = core.counters();
        p.gone = c.iterations + c.jumped_over < static_cast<std::uint64_t>(iterations_);
      });
    lost = lost || p.gone;
  }
  if (lost) measure_paths();
}

bool peer_observer::any_gone() const { return std::ranges::any_of(peers_, &peer_state::gone); }

/// Also when all its iterations were over: others need not have heard of that.
bool peer_observer::is_lost(worker_id w) const { return peers_[w.index()].gone || peers_[w.index()].lost_later; }

/// The lengths of the shortest paths from each peer to each, through those who are there.
void peer_observer::measure_paths() {
  distance_.assign(graph_.size(), std::vector<std::uint32_t>(graph_.size(), detail::out_of_reach));
  for (std::uint32_t from = 0; from < graph_.size(); ++from) {
    if (peers_[from].gone) continue;
    std::vector<std::uint32_t>& to = distance_[from];
    std::vector<std::uint32_t> reached{from};
    to[from] = 0;
    for (std::size_t next = 0; next < reached.size(); ++next)
      for (worker_id const w : graph_.out(worker_id{reached[next]}))
        if (to[w.index()] == detail::out_of_reach && !peers_[w.index()].gone) {
          to[w.index()] = to[reached[next]] + 1;
          reached.push_back(w.value());
        }
  }
}

// ---- one peer by itself

/// (1 + max_ig)·|N_in| with token queues; one of each in-neighbor where only the newest or only
/// the acknowledged one can be there; without either as many as Theorem 1 lets them lead.
std::size_t peer_observer::most_updates_at(std::uint32_t i) const {
  std::size_t lead = 0;
  if (rules_.by_iteration && rules_.gap_max) lead = static_cast<std::size_t>(*rules_.gap_max);
  if (rules_.by_iteration && !rules_.gap_max && !rules_.acks)
    for (worker_id const j : graph_.in(worker_id{i}))
      lead = std::max<std::size_t>(lead, distance_[i][j.index()]);
  return (1 + lead) * graph_.in(worker_id{i}).size();
}

void peer_observer::read(std::uint32_t i, hop_core const& core) {
  peer_state& p = peers_[i];
  p.started = p.started || core.started();
  p.ended = core.ended();
  if (std::int64_t const now = core.iteration().value(); now != p.iteration)
    move(i, now, core.counters().jumped_over);
  if (!core.jumping()) p.ahead = 0;
  if (core.held() > p.queue_max)
    breach("the queue of peer ", i, " holds ", core.held(),
           " updates, expected at most ", p.queue_max);
  if (rules_.gap_max)
    for (std::size_t o = 0; o < p.received.size(); ++o) count_tokens(i, o, core.tokens(o));
  if (!p.lost_later) check_live(i, core);  // who is lost itself finds that nobody listens
}

/// A peer has gone on. A jump and the step after it may be one event.
void peer_observer::move(std::uint32_t i, std::int64_t now, std::uint64_t jumped_over) {
  peer_state& p = peers_[i];
  auto const left_out = static_cast<std::int64_t>(jumped_over - p.jumped_over);
  std::int64_t const by = now - p.iteration;
  if (by < left_out || by > left_out + 1 || (left_out != 0 && !rules_.jumps))
    breach("peer ", i, " goes from iteration ", p.iteration, " to ", now, ", having jumped over ",
           left_out);
  if (now >= iterations_)
    breach("peer ", i, " is in iteration ", now, ", but the last one is ", iterations_ - 1);
  p.moved = true;
  p.jumped = left_out != 0;
  if (left_out != 0 && !sends_to_all_it_hears(i)) p.ahead = left_out;
  p.iteration = now;
  p.jumped_over = jumped_over;
}

/// A jump passes nobody that the peer sends to. So where all that send to it are among these, it
/// keeps the bounds at all times; else not until it has reduced, just before it enters the
/// iteration that it jumps to.
bool peer_observer::sends_to_all_it_hears(std::uint32_t i) const {
  return std::ranges::all_of(graph_.in(worker_id{i}),
                             [&](worker_id j) { return graph_.has_edge(worker_id{i}, j); });
}

void peer_observer::check_live(std::uint32_t i, hop_core const& core) {
  auto const in = graph_.in(worker_id{i});
  auto const out = graph_.out(worker_id{i});
  for (std::size_t n = 0; n < in.size(); ++n) {
    if (core.is_live_in(n)) continue;
    if (!is_lost(in[n]))
      breach("peer ", i, " does without peer ", in[n].value(), ", which is not lost");
    if (rules_.outlives_loss && holds_updates_of(core, n, in[n]))
      breach("peer ", i, " keeps updates of peer ", in[n].value(), ", which is lost");
  }
  for (std::size_t n = 0; n < out.size(); ++n)
    if (!core.is_live_out(n) && !is_lost(out[n]))
      breach("peer ", i, " sends no more to peer ", out[n].value(), ", which is not lost");
}

bool peer_observer::holds_updates_of(hop_core const& core, std::size_t box, worker_id from) const {
  return rules_.by_iteration ? core.queue().size({}, from) != 0 : core.boxes().fresh(box);
}

// ---- HOP-1

void peer_observer::count_tokens(std::uint32_t i, std::size_t o, std::int64_t held) {
  peer_state& p = peers_[i];
  std::uint32_t const j = graph_.out(worker_id{i})[o].value();
  if (is_lost(worker_id{j})) return;
  std::int64_t const received = held + p.iteration - (*rules_.gap_max - 1);
  if (held < 0) breach("peer ", i, " holds ", held, " tokens of peer ", j, " (HOP-1)");
  if (received < p.received[o])
    breach("peer ", i, " has lost tokens of peer ", j, ": it is in iteration ", p.iteration,
           " and holds ", held, ", but had received ", p.received[o], " (HOP-1)");
  p.received[o] = received;
}

/// The tokens that have been put in and not received are on their way: none or more.
void peer_observer::check_tokens(std::uint32_t i) {
  auto const out = graph_.out(worker_id{i});
  for (std::size_t o = 0; o < out.size(); ++o) {
    peer_state const& j = peers_[out[o].index()];
    std::int64_t const put = j.started ? j.iteration + 1 : 0;
    if (!is_lost(out[o]) && peers_[i].received[o] > put)
      breach("peer ", i, " in iteration ", peers_[i].iteration, " has received ",
             peers_[i].received[o], " tokens of peer ", out[o].value(), ", which has put in ",
             put, " (HOP-1)");
  }
}

void peer_observer::check_last_tokens(std::uint32_t i) {
  auto const out = graph_.out(worker_id{i});
  for (std::size_t o = 0; o < out.size(); ++o)
    if (!is_lost(out[o]) && peers_[i].received[o] != iterations_)
      breach("in the end peer ", i, " has received ", peers_[i].received[o], " tokens of peer ",
             out[o].value(), ", expected ", iterations_, " (HOP-1)");
}

// ---- HOP-2

/// All that peer i may have come too close to, now that it has gone on.
void peer_observer::check_gaps(std::uint32_t i) {
  std::int64_t const ahead = std::accumulate(
      peers_.begin(), peers_.end(), std::int64_t{0},
      [](std::int64_t sum, peer_state const& p) { return sum + (p.gone ? 0 : p.ahead); });
  for (std::uint32_t j = 0; j < graph_.size(); ++j) {
    if (peers_[j].gone) continue;
    if (rules_.past_sender && distance_[j][i] != detail::out_of_reach)
      check_gap(i, j, *rules_.past_sender * distance_[j][i] + ahead, "those that it waits for");
    if (rules_.past_receiver && distance_[i][j] != detail::out_of_reach)
      check_gap(i, j, *rules_.past_receiver * distance_[i][j], "those that it sends to");
  }
}

void peer_observer::check_gap(std::uint32_t i, std::uint32_t j, std::int64_t most, char const* by) {
  std::int64_t const gap = peers_[i].iteration - peers_[j].iteration;
  if (gap > most)
    breach("peer ", i, " is in iteration ", peers_[i].iteration, ", ", gap, " past peer ", j,
           ", expected at most ", most, ", because of ", by, " (HOP-2)");
}

void peer_observer::check_jump(std::uint32_t i) {
  for (worker_id const j : graph_.out(worker_id{i}))
    if (!peers_[j.index()].gone && peers_[j.index()].iteration < peers_[i].iteration)
      breach("peer ", i, " has jumped to iteration ", peers_[i].iteration, ", past peer ",
             j.value(), " in ", peers_[j.index()].iteration);
}

// ---- what was counted

void peer_observer::check_books(peer_report const& report) {
  std::uint64_t sent = 0;
  std::uint64_t used = 0;
  for (std::uint32_t i = 0; i < graph_.size(); ++i) {
    peer_metrics const& m = report.peers[i];
    sent += m.updates_sent;
    used += m.updates_reduced + m.updates_late;
    if (m.updates_sent + m.updates_spared != m.iterations * graph_.out(worker_id{i}).size())
      breach("peer ", i, " counts ", m.updates_sent, " updates sent and ", m.updates_spared,
             " spared in ", m.iterations, " iterations with ", graph_.out(worker_id{i}).size(),
             " to send to");
    if (m.updates_reduced > (m.iterations + m.jumps) * graph_.in(worker_id{i}).size())
      breach("peer ", i, " counts ", m.updates_reduced, " updates reduced, more than there were");
  }
  if (used > sent) breach("of ", sent, " updates ", used, " were used or too late");
}

}  // namespace rubato::testing
