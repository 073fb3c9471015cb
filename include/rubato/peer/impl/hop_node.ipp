// Copyright (c) the Rubato authors. Distributed under the Boost Software License, Version 1.0.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "rubato/core/error.hpp"
#include "rubato/peer/hop.hpp"
#include "rubato/peer/hop_node.hpp"
#include "rubato/peer/local_step.hpp"
#include "rubato/peer/mixing.hpp"
#include "rubato/peer/peer_agreement.hpp"

namespace rubato {

namespace detail {

/// The peer's own update may be all that there is to reduce.
inline void check_own_weight(hop_rules const& p, peer_site const& site) {
  if (p.bounds_gap && p.by_iteration()) return;
  iteration_index const k{};
  double const own = p.weight({.from = site.self,
                               .to = site.self,
                               .made = k,
                               .now = k,
                               .oldest = p.oldest(k),
                               .mixing = site.self_weight});
  if (!(own > 0) || !std::isfinite(own))
    throw option_error("hop: the own update of node " + std::to_string(site.self.value()) +
                       " counts " + text_of(own) + " in a reduce, expected a finite weight above 0");
}

inline peer_site checked_site(hop_rules const& p, peer_site site) {
  std::string const node = "node " + std::to_string(site.self.value());
  std::size_t const n = site.in.size() + 1;
  std::size_t const needed = p.needed(n);
  if (needed < 1 || needed > n)
    throw option_error("hop: " + node + " has " + std::to_string(n) +
                       " updates to wait for, its own included; the gather asks for " +
                       std::to_string(needed) + ", expected 1 to " + std::to_string(n) +
                       " (fewer backup workers)");
  if (p.oldest(iteration_index{0}).value() <= -hop_core::number_max)
    throw option_error("hop: the staleness must be finite");
  constexpr std::int64_t gap_limit = 1 << 16;
  if (p.gap_max && (*p.gap_max < 1 || *p.gap_max > gap_limit))
    throw option_error("hop: token_queues must allow 1 to " + std::to_string(gap_limit) +
                       " iterations, but is given " + std::to_string(*p.gap_max));
  if (p.jumps && p.by_iteration() && needed == n && n > 1)
    throw option_error("hop: a jump needs backup workers or bounded staleness, but " + node +
                       " waits for this iteration's update of everybody");
  p.check_jump();
  check_own_weight(p, site);
  return site;
}

}  // namespace detail

std::unique_ptr<peer_node> make_hop_node(hop_rules protocol, node_setup const& setup) {
  return std::make_unique<hop_node>(std::move(protocol), setup);
}

hop_node::hop_node(hop_rules protocol, node_setup const& setup)
    : core_(protocol, detail::checked_site(protocol, site_of(setup.mixing, setup.self, protocol.needs_lead()))),
      local_(setup),
      current_(local_.initial(setup.initial)),
      peers_(setup.mixing.topology().size()) {
  if (!setup.mixing.is_doubly_stochastic())
    throw option_error("hop: the weights of graph " + setup.mixing.topology().name() +
                       " are not doubly stochastic, and a reduce does without what receivers' weights lack: take "
                       "push_sum or gossip, in which weights travel with updates");
}

bool hop_node::deliver(worker_id from, peer_message&& m, outbox&) {
  if (m.kind == +hop_kind::update && !local_.fits(m.parameters)) return false;
  return core_.deliver(from, std::move(m));
}

void hop_node::reset() {
  core_ = hop_core(core_.protocol(), core_.site());
  local_.restart();
  gradient_ = {};
  waits_ = {};
}

void hop_node::begin(peer_endpoint& e, std::int64_t iterations) {
  outbox out;
  e.guard([&] { core_.start(iterations, out); });
  flush(e, out);
  run(e);
}

void hop_node::step(peer_endpoint& e, std::span<std::byte const> gradient) {
  if (core_.protocol().order == iteration_order::serial) {
    shared_update next = local_.stepped(current_, current_, gradient);
    e.guard([&] { current_ = std::move(next); });
  } else {
    gradient_ = gradient;
  }
  e.guard([&] { core_.computed(); });
  run(e);
}

/// Does what is to be done until the body has to compute, or all is over.
void hop_node::run(peer_endpoint& e) {
  for (;;) {
    switch (next(e)) {
      case todo::send: send(e); break;
      case todo::reduce: reduce(e); break;
      case todo::stop: throw e.guard([&] { return lost(); });
      default: return;
    }
  }
}

/// What is next, having waited for it if need be.
hop_node::todo hop_node::next(peer_endpoint& e) {
  for (;;) {
    outbox out;
    bool updates_missing = false;
    todo const what = e.guard([&] {
      todo const t = core_.poll(out);
      updates_missing = core_.gathering();
      return t;
    });
    flush(e, out);
    if (what != todo::wait) return what;
    detail::wait_counting(e, updates_missing ? waits_.for_updates : waits_.for_tokens);
  }
}

void hop_node::send(peer_endpoint& e) {
  outbox out;
  e.guard([&] { core_.send(current_, out); });
  flush(e, out);
}

/// In parallel order the step goes on top, computed at what the average replaces.
void hop_node::reduce(peer_endpoint& e) {
  auto parts = e.guard([&] { return core_.gather(); });
  shared_update next = local_.average(parts, current_, std::exchange(gradient_, {}));
  outbox out;
  e.guard([&] {
    current_ = std::move(next);
    core_.reduced(out);
  });
  flush(e, out);
}

void hop_node::flush(peer_endpoint& e, outbox& out) {
  for (auto& [to, m] : out) e.post(to, std::move(m));
  out.clear();
}

std::string hop_node::agreement() const { return agreement_of(core_.protocol(), peers_); }

lost_error hop_node::lost() const {
  return lost_error("peer " + std::to_string(core_.lost()->value()) + " is lost, and peer " +
                    std::to_string(core_.site().self.value()) + " cannot end iteration " +
                    std::to_string(iteration()) +
                    " without it: its gather waits for every in-neighbor (gather_all_but goes on)");
}

}  // namespace rubato
